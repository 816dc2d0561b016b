"""Seeded bugs: each is one documented branch in the code it concerns, off unless named at start.

A checker that has never caught a bug is not known to work. Each mutant breaks one rule; a run with it must be judged
invalid while its healthy twin stays valid (HX-08). A node started with mutants states so in its log and its trace. Only
the explicit `--mutant` option switches one on (HX-15).
"""

from __future__ import annotations

from dataclasses import dataclass

MUTANTS: dict[str, str] = {
    "hw-before-isr-ack": "N03: the leader's high watermark is its own log end offset (breaks DP-06, DP-14)",
    "ack-before-replication": "N04: acks=all is answered after the local append (breaks DP-08)",
    "alter-partition-unfenced": "N02: the controller takes an ISR from whoever sends it, in any epoch (breaks IS-07)",
    "broker-epoch-unchecked": "N14: the controller lets a restarted replica into an ISR (breaks IS-08)",
    "unclean-restart-stays-eligible": "an unclean restart costs no place in ISR and ELR (breaks EL-05, rule 28)",
    "truncate-to-hw": "N06: on a new leader epoch a replica cuts its log to its local high watermark (breaks DP-13)",
    "dedup-lost-on-failover": "followers build no producer state from what they fetch (breaks rule 7)",
    "dedup-wrong-offset": "a duplicate is answered with the log's end, not the offset it has (breaks rule 5)",
    "producer-state-survives-truncation": "truncation leaves the state of producers as it was (breaks rule 7)",
    "torn-tail-accepted": "recovery keeps a torn or damaged tail (breaks rule 17)",
    "log-start-past-hw": "DeleteRecords and retention may pass the high watermark (breaks DP-07)",
    "epoch-cache-not-truncated": "truncation leaves epochs in the cache whose records it cuts (breaks rule 14)",
    "fetch-epoch-unfenced": "N01: a leader ignores current and last-fetched epoch in a follower's Fetch (breaks EP-03)",
    "isr-shrink-uncommitted": "N07: a leader counts without the members it asks to drop at once (breaks IS-04)",
    "isr-expand-ignored": "N08: the high watermark does not wait for a member about to join the ISR (breaks IS-05)",
    "hw-restored-too-high": "after a restart the high watermark is the log's end (breaks DP-14, rule 11)",
    "hw-advances-under-min-isr": "the high watermark moves while the ISR is below min ISR (breaks EL-03, rule 10)",
    "divergent-suffix-kept": "a follower sends no last fetched epoch and keeps what diverges (breaks DP-13, rule 13)",
    "stale-fetch-appended": "an answer to a fetch of an older leader epoch is appended (breaks EP-04, rule 9)",
    "vote-not-persisted": "N05: a voter that restarts has forgotten whom it voted for (breaks QC-08, rule 32)",
    "vote-ignores-log": "N12: a vote is given to a candidate that lacks what this voter has (breaks QC-07, QC-09)",
    "hw-counts-old-epoch": "N10: records of older epochs are committed by being on a majority (breaks QC-16)",
    "metadata-not-fsynced": "N11: a voter acknowledges metadata that it has not made durable (breaks QC-20)",
    "uncommitted-metadata-applied": "N13: a broker applies metadata above the high watermark (breaks MD-03, rule 30)",
    "observer-counted": "what brokers have fetched counts for the majority of the quorum (breaks QC-16, QC-20)",
    "removed-voter-counted": "what a removed voter has fetched still counts for the majority (breaks QC-16, rule 40)",
    "timers-on-wall-clock": "sessions and the quorum's timers go by the wall clock (breaks FD-05)",
    "snapshot-above-hw": "the active controller's snapshots hold what is not committed yet (breaks SN-02, rule 39)",
    "reassignment-shrinks-early": "N15: replicas leave before those that come have caught up (breaks RA-02, RA-05)",
    "removed-replica-stays-eligible": "a replica that a move takes away stays eligible (breaks EL-01, RA-05)",
    "shutdown-granted-early": "a broker may stop before all know that it leads nothing (breaks CS-04, rule 26)",
    "follower-ends-kept": "a new leader counts by what followers had in an earlier epoch (breaks DP-06, rule 10)",
    "duplicate-acked-early": "a batch sent again is acknowledged before it is committed (breaks DP-08, rule 7)",
    "older-metadata-applied": "metadata of an older partition epoch replaces a newer ISR (breaks rules 9 and 23)",
    "session-additions-ignored": "a fetch session never reads a topic-partition that is added to it (breaks DP-04)",
    "clean-mark-before-flush": "the mark of a clean stop is written before the logs are flushed (breaks FD-03, EL-05)",
    "parked-writes-repeated": "a deposed controller calls what it wrote undone, and brokers ask again (breaks MD-09)",
    "switch-raises-no-epoch": "eligible leaders are switched on, and no leader has to know (breaks EL-03, EP-03)",
    "stale-controller-epoch-accepted": "a broker takes metadata from a controller that has a successor (breaks ZK-14)",
    "deposed-leader-and-isr-applied": "a broker takes leaders from a controller that has a successor (breaks ZK-14)",
    "controller-epoch-not-checked": "a deposed controller goes on to write to ZooKeeper (breaks ZK-14)",
    "isr-version-unchecked": "a leader writes its ISR whatever the controller has decided since (breaks ZK-07)",
    "watch-not-set-again": "the controller sets each watch on children once only (breaks ZK-04)",
    "shutdown-answered-early": "a broker may stop before its leaderships have moved (breaks ZK-08)",
    "control-queue-shared": "the control plane's listener feeds the queue of clients' requests (breaks CL-16)",
    "stop-replica-late": "StopReplica is carried out after the next LeaderAndIsr of the same topic (breaks ZK-06)",
    "end-offset-unguarded": "a new leader tells an end offset before it can know it (breaks rule 11, KIP-207)",
}


@dataclass(frozen=True, slots=True)
class Mutants:
    """The mutants a node was started with, passed by constructor to each component that has a branch for one."""

    names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = sorted(self.names - MUTANTS.keys())
        if unknown:
            raise ValueError(f"unknown mutant {unknown[0]!r}; known are {', '.join(sorted(MUTANTS))}")

    def has(self, name: str) -> bool:
        """Whether this node carries the named bug. Raises KeyError for a name that is not registered."""
        if name not in MUTANTS:
            raise KeyError(f"no mutant named {name!r} is registered")
        return name in self.names


HEALTHY = Mutants()

"""The names of the anomalies of replicas and the control plane (docs/requirements.md, "Invariants")."""

from __future__ import annotations

from typing import Final

from squall.results.checkers.common.anomaly import Anomaly

LACKS: Final = "replica_lacks_committed"
DIVERGENCE: Final = "replica_divergence"
LOG_MATCHING: Final = "log_matching"
DAMAGED: Final = "damaged_batch"
WRONG_FILE: Final = "wrong_log_file"
EPOCH_REGRESS: Final = "epoch_regress"
TWO_LEADERS: Final = "two_leaders"
TWO_VOTES: Final = "two_votes"
METADATA_REPLACED: Final = "metadata_replaced"
METADATA_MISMATCH: Final = "metadata_mismatch"
LEADER_OUTSIDE_ISR: Final = "leader_outside_isr"
ILLEGAL_DECISION: Final = "illegal_decision"

REPLICA_ANOMALIES: Final = (
    Anomaly(
        LACKS,
        "a live in-sync replica lacks a record that was acknowledged, or that lies below the high watermark (ACK, ISR)",
        "a committed record is missing from an in-sync replica",
        "committed records are missing from in-sync replicas",
        "a leader that counts a follower by what it no longer has, an ISR that kept a replica which had lost records, "
        "or acknowledging before all in-sync replicas have the record",
    ),
    Anomaly(
        DIVERGENCE,
        "two live in-sync replicas hold different batches at an offset that is committed (UNIQ)",
        "in-sync replicas differ in a committed batch",
        "committed batches differ between in-sync replicas",
        "a follower that did not truncate, two leaders at once, or undetected damage on one disk",
    ),
    Anomaly(
        LOG_MATCHING,
        "two replicas hold different batches at one offset and leader epoch, or agree there and differ before it (LM)",
        "replicas contradict each other at one offset and epoch",
        "places where replicas contradict each other at one offset and epoch",
        "an epoch that was used twice, a follower that appended where its log had diverged, or damage on one disk",
    ),
    Anomaly(
        DAMAGED,
        "a live in-sync replica holds a committed batch whose checksum does not fit its content",
        "a committed batch of an in-sync replica does not fit its checksum",
        "committed batches of in-sync replicas do not fit their checksums",
        "damage on a disk that recovery accepted, or a batch that was changed after it was sealed",
    ),
    Anomaly(
        WRONG_FILE,
        "a file beside the log of a live in-sync replica contradicts its batches: an index, the leader epochs, or a "
        "snapshot of producers (DP-05, DP-13)",
        "a file beside the log of an in-sync replica contradicts its batches",
        "files beside the logs of in-sync replicas contradict their batches",
        "a truncation or a recovery that forgot the file, or a file that was not written before its segment was sealed",
    ),
    Anomaly(
        EPOCH_REGRESS,
        "an epoch went back: in a log, at a node while it ran, or in what a broker followed (EPOCH)",
        "an epoch went back",
        "times an epoch went back",
        "an epoch that is not persisted, stale metadata that was applied, or a fetch answer of an older epoch",
    ),
    Anomaly(
        TWO_LEADERS,
        "two nodes led one log in the same epoch (ELECT)",
        "two nodes led in one epoch",
        "epochs in which two nodes led",
        "votes that are not durable, a voter that votes twice, or a broker that leads without being elected",
    ),
    Anomaly(
        TWO_VOTES,
        "a voter voted for two candidates in one epoch of the quorum (ELECT)",
        "a voter voted twice in one epoch",
        "epochs in which a voter voted twice",
        "a vote that is not durable when it is sent, or a voter that forgets its vote as it restarts",
    ),
    Anomaly(
        METADATA_REPLACED,
        "committed metadata is missing, was replaced or taken back at a node, or its high watermark fell (HWM)",
        "committed metadata was replaced or taken back",
        "times committed metadata was replaced or taken back",
        "a leader that lacks committed records, records of older epochs committed by counting, or voters that do not "
        "fsync",
    ),
    Anomaly(
        METADATA_MISMATCH,
        "a broker acted on a leader or an ISR that committed metadata does not name for that epoch (EPOCH, IMAGE)",
        "a broker acted on metadata that was never committed",
        "times a broker acted on metadata that was never committed",
        "metadata applied above the high watermark, or a registration that is not what its records say",
    ),
    Anomaly(
        LEADER_OUTSIDE_ISR,
        "committed metadata names a leader of a topic-partition that is not a member of its ISR (ELECT, IS-02)",
        "committed metadata names a leader outside the ISR",
        "times committed metadata names a leader outside the ISR",
        "an election that chooses among all replicas, or a member that is dropped while it leads",
    ),
    Anomaly(
        ILLEGAL_DECISION,
        "committed metadata changes a topic-partition, or the cluster, as no controller may (IS-02, EL-04, RA-05, …)",
        "a controller decided what it may not",
        "decisions of controllers that they may not make",
        "a controller that decides by what is not committed or no longer true, or forgets a part of what must follow",
    ),
)

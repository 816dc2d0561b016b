"""IS-03, IS-06: a leader proposes members to leave the ISR that lag too long, and to join it those that have caught up.

DP-06: who lags too long holds nothing back.

A member that stays in the ISR although it no longer follows holds the high watermark, so nothing is committed any more.
A leader looks every half `replica.lag.time.max.ms` for members that lack a record for longer than that time. So one and
a half times after the leader appended the first record that a member lacks, a change of the ISR is under way, or the
leader has begun its epoch, changed the ISR or ended such a change meanwhile.

Whoever is proposed to join has everything below the high watermark, and has reached the offset at which the leader's
epoch begins: what was committed under leaders before may lie between the two.

A leader's high watermark is the least log end, as the last fetches say, of all in the ISR before or after a change that
is under way. Only followers that are about to join may hold it lower: those that had all that the leader had within the
time for which a member may lack a record.

What a member has is what its log ever had in this leader epoch, which is at least what the leader knows of it: after a
restart or truncation it may have less, and the leader learns that from the next fetch. Asserted when a leader's replica
is examined. Legal: a member that lacks records for a shorter time; a proposal that no controller answers; one that
ended within the turn that made it (seed 914911); an ISR below min ISR, which commits nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, TopicPartitionId
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.replication.replica import TopicPartitionReplica

SLACK = MICROSECONDS // 100
"""Half a time is rounded, and a turn takes a while."""

LeaderEpoch = tuple[str, int, int]
"""Host, incarnation, leader epoch."""


@dataclass(slots=True)
class _Led:
    """What is known of a topic-partition in one leader epoch. Times are in microseconds.

    `ends` are the leader's log ends, each with the time at which it was first seen; `had` is the highest log end of
    each member, by node id. `settled_at` is when the ISR or a change under way was last another one. `high_watermark`
    is that of the leader after its last turn.
    """

    epoch: LeaderEpoch
    settled_at: int
    isr: tuple[int, ...]
    changing: bool
    ends: deque[tuple[int, int]] = field(default_factory=deque)
    had: dict[int, int] = field(default_factory=dict)
    high_watermark: int = 0


class LaggingMembers(Rule):
    """See the module."""

    events = ("isr_proposed", "leader")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._proposed: dict[tuple[int, TopicPartitionId], tuple[int, ...]] = {}
        """By node id, what was proposed in a turn that is not examined yet."""
        self._epoch_starts: dict[tuple[int, TopicPartitionId], tuple[int, int]] = {}
        """By node id, the newest epoch in which the node leads, and where it begins."""
        self._led: dict[TopicPartitionId, dict[str, _Led]] = {}
        """By topic-partition and host: two brokers may lead at once, in different epochs."""
        self._ends: dict[tuple[int, TopicPartitionId], int] = {}
        """By node id, the log end at its last turn."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        place = int(fields["broker"]), (bytes(fields["topic_id"]), int(fields["partition"]))
        if name == "leader":
            self._epoch_starts[place] = (int(fields["epoch"]), int(fields["end"]))
        else:
            self._proposed[place] = tuple(fields["isr"])

    def died(self, process: SimProcess) -> None:
        self._proposed.clear()

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        replica = turn.replica
        key = (replica.topic_id, replica.partition)
        self._ends[replica.broker, key] = replica.end_offset
        for led in self._led.get(key, {}).values():
            if replica.end_offset > led.had.get(replica.broker, -1):
                led.had[replica.broker] = replica.end_offset
        if replica.is_leader:
            led = self._brought_up_to_date(turn, key)
            if not led.changing:
                self._check(turn, led)
            self._check_held_back(turn, led)
            led.high_watermark = replica.high_watermark

    def _brought_up_to_date(self, turn: ReplicaTurn, key: TopicPartitionId) -> _Led:
        replica, now = turn.replica, turn.process.now
        epoch = (turn.process.name, turn.process.incarnation, replica.leader_epoch)
        of_host = self._led.setdefault(key, {})
        led = of_host.get(turn.process.name)
        if led is None or led.epoch != epoch:
            had = {node: self._ends.get((node, key), -1) for node in self.cluster.names}
            led = of_host[turn.process.name] = _Led(epoch, now, replica.isr, replica.is_changing_isr, had=had)
        proposed = self._proposed.pop((replica.broker, key), None)
        if proposed is not None:
            self._check_joining(turn, led, proposed)
        if proposed is not None or (led.isr, led.changing) != (replica.isr, replica.is_changing_isr):
            led.isr, led.changing, led.settled_at = replica.isr, replica.is_changing_isr, now
        if not led.ends or replica.end_offset > led.ends[-1][0]:
            led.ends.append((replica.end_offset, now))
        least = min(led.had.get(member, -1) for member in (*led.isr, *replica.follower_ends()))
        while len(led.ends) > 1 and led.ends[0][0] <= least:
            led.ends.popleft()
        return led

    def _check(self, turn: ReplicaTurn, led: _Led) -> None:
        replica, now = turn.replica, turn.process.now
        assert turn.process.node is not None
        bound = turn.process.node.config.replica_lag_time_max_ms * 1500 + SLACK
        if now - led.settled_at <= bound:
            return
        for member in led.isr:
            lacks_since = self._lacks_since(replica, led, member)
            if member != replica.broker and lacks_since is not None and now - lacks_since > bound:
                raise InvariantBroken(
                    "IS-03",
                    f"{turn.watched.log.name}: {self.cluster.names[member]} has lacked offset {led.had.get(member, 0)} "
                    f"for {(now - lacks_since) / MICROSECONDS:.3f} s, and leader {turn.process.name} of epoch "
                    f"{replica.leader_epoch} keeps it in the ISR {list(led.isr)}",
                )

    def _check_held_back(self, turn: ReplicaTurn, led: _Led) -> None:
        replica, now = turn.replica, turn.process.now
        assert turn.process.node is not None
        bound = turn.process.node.config.replica_lag_time_max_ms * 1500 + SLACK
        ends = {**replica.follower_ends(), replica.broker: replica.end_offset}
        least = min(ends.get(member, -1) for member in replica.maximal_isr)
        if replica.high_watermark >= least or len(replica.isr) < replica.min_isr:
            return
        for follower in ends.keys() - set(replica.maximal_isr):
            lacks_since = self._lacks_since(replica, led, follower)
            if ends[follower] < least and (lacks_since is None or now - lacks_since <= bound):
                return
        raise InvariantBroken(
            "DP-06",
            f"{turn.watched.log.name}: leader {turn.process.name} of epoch {replica.leader_epoch} has high watermark "
            f"{replica.high_watermark}, and all of {sorted(replica.maximal_isr)} have fetched up to {least}",
        )

    def _check_joining(self, turn: ReplicaTurn, led: _Led, proposed: tuple[int, ...]) -> None:
        replica = turn.replica
        key = replica.topic_id, replica.partition
        epoch, start = self._epoch_starts.get((replica.broker, key), (-1, 0))
        needed = max(led.high_watermark, start if epoch == replica.leader_epoch else 0)
        for member in set(proposed) - {replica.broker, *led.isr}:
            had = led.had.get(member, -1)
            if had < needed:
                raise InvariantBroken(
                    "IS-06",
                    f"{turn.watched.log.name}: leader {turn.process.name} of epoch {replica.leader_epoch}, which "
                    f"begins at {start}, proposes that {self.cluster.names[member]} joins the ISR {list(led.isr)}, and "
                    f"it has had records up to {max(had, 0)} of {needed}",
                )

    @staticmethod
    def _lacks_since(replica: TopicPartitionReplica, led: _Led, member: int) -> int | None:
        """Return since when the leader has had a record that a member lacks, None if it lacks none."""
        had = led.had.get(member, -1)
        if had >= replica.end_offset:
            return None
        return next((at for end, at in led.ends if end > had), None)

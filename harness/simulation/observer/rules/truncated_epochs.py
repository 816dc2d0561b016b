"""DP-13: a follower truncates what differs from its leader's log, and claims no epoch beyond its end (rule 14).

* A follower reports its last known epoch as fetched. If that epoch has no records, every fetch returns the same
  truncation, forever: no log differs, and the follower makes no progress. Asserted on a replica that was truncated in
  this turn. Legal: a replica that has become a leader since, whose epoch begins at its log's end.
* Two logs that have records of the same epoch have the same ones up to the lesser end. So a follower that is told where
  its log diverges never removes a batch that its leader has. To remove more costs no committed record by itself: the
  follower fetches it again. But until then one replica less has it. Asserted where the leader runs and leads the epoch
  that the follower follows. Legal: a follower that begins again at its leader's start; what it removes in the turn in
  which it hears of an epoch, before it has asked the leader, and what its high watermark covered, since what is lost
  by that is judged by other rules.
* A leader that tells a follower where its log diverges names the last epoch that they may share. So the follower keeps
  no batch of a later epoch: each of its next fetches would be answered the same. Asserted where the follower truncates
  in the leader epoch in which it was told.

Source: KIP-101, KIP-279, KIP-595.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule, is_of_follower, replica_named
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import READ_BYTES, Batch, InvariantBroken, batches_of
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import TopicPartitionReplica


class TruncatedEpochs(Rule):
    """See the module."""

    events = ("follower",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._began: set[tuple[int, bytes, int]] = set()
        """By node id, topic id and partition, the replicas that begin to follow in a turn that is not examined yet."""
        self._told: dict[tuple[int, bytes, int], tuple[int, int]] = {}
        """By node id, topic id and partition: leader epoch, and the epoch after which that leader has other records."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        self._began.add((int(fields["broker"]), bytes(fields["topic_id"]), int(fields["partition"])))

    def died(self, process: SimProcess) -> None:
        self._began.clear()

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.FETCH or request.answer is None or node.broker is None:
            return
        asked, told = request.body, request.answer.response
        if not isinstance(asked, FetchRequest) or not isinstance(told, FetchResponse) or not is_of_follower(asked):
            return
        follower = max(asked.replica_id, asked.replica_state.replica_id)
        for topic in told.responses:
            for one in topic.partitions:
                replica = replica_named(node.broker.replicas, topic.topic, bytes(topic.topic_id), one.partition_index)
                if one.diverging_epoch.epoch >= 0 and not one.error_code and replica is not None:
                    place = (follower, replica.topic_id, replica.partition)
                    self._told[place] = replica.leader_epoch, one.diverging_epoch.epoch

    def replica_touched(self, turn: ReplicaTurn) -> None:
        replica, place = turn.replica, (turn.replica.broker, turn.replica.topic_id, turn.replica.partition)
        if place in self._began:
            self._began.discard(place)
            return
        if turn.removed is not None and not replica.is_leader:
            self._check_removed(turn, turn.removed)
        if turn.cut is not None and not replica.is_leader:
            self._check_kept(turn)

    def _check_kept(self, turn: ReplicaTurn) -> None:
        replica = turn.replica
        led, last = self._told.pop((replica.broker, replica.topic_id, replica.partition), (-1, -1))
        if led != replica.leader_epoch:
            return
        kept = next((one for one in _batches(replica, replica.log.start_offset) if one.epoch > last), None)
        if kept is not None:
            raise InvariantBroken(
                "DP-13",
                f"{turn.watched.log.name}: {turn.process.name} has cut its log to {turn.cut}, since its leader of "
                f"epoch {led} has other records after epoch {last}, and keeps batch {kept}",
            )

    def _check_removed(self, turn: ReplicaTurn, removed: Batch) -> None:
        replica, log = turn.replica, turn.watched.log
        name = log.leaders.get(replica.leader_epoch)
        leader = None if name is None else self.cluster.replica_of(name, (replica.topic_id, replica.partition))
        if leader is None or not leader.is_leader or leader.leader_epoch != replica.leader_epoch:
            return
        if _has(leader, removed):
            raise InvariantBroken(
                "DP-13",
                f"{log.name}: {turn.process.name} has cut its log to {turn.cut}, and removes batch {removed}, which "
                f"its leader {name} of epoch {leader.leader_epoch} has as well",
            )

    def truncated(self, process: SimProcess, where: str, replica: TopicPartitionReplica) -> None:
        check_truncation(where, process.name, replica)


def _has(leader: TopicPartitionReplica, batch: Batch) -> bool:
    return batch in _batches(leader, max(batch.base, leader.log.start_offset))


def _batches(replica: TopicPartitionReplica, start: int) -> Iterator[Batch]:
    """Yield the batches of a log from an offset on."""
    end = replica.end_offset
    reads = batches_of(lambda offset, upper: replica.read(offset, READ_BYTES, upper, at_least_one=True), start, end)
    return (found for found, _ in reads)


def check_truncation(log: str, name: str, replica: TopicPartitionReplica) -> None:
    """Check `replica`, which was truncated in this turn and has not become a leader since."""
    entries = replica.log.epochs.entries
    if not entries or entries[-1][1] < max(replica.end_offset, replica.log.start_offset + 1):
        return
    epoch, start = entries[-1]
    raise InvariantBroken(
        "DP-13",
        f"{log}: {name} has cut its log to {replica.end_offset} and still claims epoch {epoch}, which began at {start}",
    )

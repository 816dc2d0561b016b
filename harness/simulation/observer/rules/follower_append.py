"""EP-04: a follower appends what the leader of its epoch has, and a leader nothing of another epoch (rule 9).

Most errors between a follower and its leader show sooner or later as two logs that differ. This one does not, because
the next fetch corrects it: a response to a fetch of an older epoch may fit the log's end and hold records that this
leader never had. Asserted when a replica appends. Legal: a record of an older epoch that the leader has too; a replica
seen for the first time, a change of epochs in between, no leader now.

With the records comes the leader's high watermark, and the follower takes it as far as its log now reaches (rule 12).
One that takes it before it appends lags behind by a fetch, and consumers that read from it wait for nothing. Legal: a
follower that has come to another end than that of the records it was sent, or was restarted; records that were sent
twice, with the lesser of the two high watermarks (seed 983509 of worlds).
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule, is_of_follower
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken, SeenReplica
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages.fetch import FetchResponse
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import TopicPartitionReplica


class FollowerAppend(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._told: dict[tuple[int, bytes, int], tuple[int, int, int]] = {}
        """By follower, topic id and partition, what the last fetch with records brought: where these end, the high
        watermark beside them, and the leader's epoch."""

    def died(self, process: SimProcess) -> None:
        self._told = {key: told for key, told in self._told.items() if self.cluster.names.get(key[0]) != process.name}

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        response = None if request.answer is None else request.answer.response
        if not isinstance(response, FetchResponse) or not is_of_follower(request.body) or node.broker is None:
            return
        follower = max(request.body.replica_id, request.body.replica_state.replica_id)  # type: ignore[attr-defined]
        for topic in response.responses:
            for one in topic.partitions:
                key, records = (follower, bytes(topic.topic_id), one.partition_index), one.records
                hosted = node.broker.replicas.by_id(topic.topic_id, one.partition_index)
                if not records or one.error_code or hosted is None:
                    self._told.pop(key, None)
                    continue
                end = max((header.next_offset for header, _ in iterate_batches(records, torn_tail=True)), default=-1)
                epoch, (before, known, known_epoch) = hosted.replica.leader_epoch, self._told.get(key, (-1, 0, -1))
                is_again = (before, known_epoch) == (end, epoch)
                self._told[key] = (end, min(known, one.high_watermark) if is_again else one.high_watermark, epoch)

    def appended(self, turn: ReplicaTurn) -> None:
        self._check_high_watermark(turn)
        log, replica = turn.watched.log, turn.replica
        name = log.leaders.get(replica.leader_epoch)
        leader = None if name is None else self.cluster.replica_of(name, (replica.topic_id, replica.partition))
        check_append(log.name, turn.process.name, replica, turn.seen, leader)

    def _check_high_watermark(self, turn: ReplicaTurn) -> None:
        replica = turn.replica
        told = self._told.get((replica.broker, replica.topic_id, replica.partition))
        if told is None or replica.is_leader or told[0] != replica.end_offset or told[2] != replica.leader_epoch:
            return
        if turn.seen.leader_epoch != replica.leader_epoch:  # seen for the first time in this life (seed 983165)
            return
        if replica.high_watermark < min(told[1], replica.end_offset):
            raise InvariantBroken(
                "DP-06",
                f"{turn.watched.log.name}: {turn.process.name} has appended up to {told[0]}, was told the high "
                f"watermark {told[1]} with that, and has {replica.high_watermark}",
            )


def check_append(
    log: str, name: str, replica: TopicPartitionReplica, seen: SeenReplica, leader: TopicPartitionReplica | None
) -> None:
    """Check the batch by which `seen` has just grown.

    Skips a replica seen for the first time, a change of epochs in between, and the absence of a leader.
    """
    epoch, newest = replica.leader_epoch, seen.previous
    if newest is None or seen.leader_epoch != epoch or newest[1] >= epoch:
        return
    base, batch_epoch = newest
    if not replica.is_leader and not _lacks(leader, epoch, base, batch_epoch):
        return
    whose = "though it leads" if replica.is_leader else "which its leader does not have"
    raise InvariantBroken(
        "EP-04",
        f"{log}: {name} is in leader epoch {epoch} and has appended a batch at offset {base} of epoch {batch_epoch}, "
        f"{whose}",
    )


def _lacks(leader: TopicPartitionReplica | None, epoch: int, base: int, batch_epoch: int) -> bool:
    """Return whether a leader of `epoch`, if there is one now, has no batch of `batch_epoch` at `base`."""
    if leader is None or not leader.is_leader or leader.leader_epoch != epoch or base < leader.log.start_offset:
        return False
    return base >= leader.end_offset or leader.log.epochs.epoch_of(base) != batch_epoch

"""DP-06: a leader whose ISR is smaller than min ISR appends nothing for acks=all.

Such a record waits in the log until the ISR has grown: the producer hears REQUEST_TIMED_OUT, or
NOT_ENOUGH_REPLICAS_AFTER_APPEND, and does not know what became of it. So the leader looks before it appends. Asserted
when a broker gives one of these answers: the ISR has not been too small since before the request arrived. Legal: an ISR
that shrank after the append.

Source: rule 2; `Partition.appendRecordsToLeader` of Kafka.
"""

from __future__ import annotations

from typing import Final

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.produce import ProduceResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import TopicPartitionReplica

AFTER_APPEND: Final = (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT)
"""The answers that only acks=all has, after an append. What it asked for is forgotten by the time of its answer."""
Place = tuple[str, bytes, int]
"""Process, topic id and partition."""


class ShortIsr(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._short: dict[Place, tuple[int, int, int]] = {}
        """Since when the ISR of a leader is too small, in microseconds, and its epochs since then.

        A change of min ISR raises the partition epoch (EL-03).
        """

    def died(self, process: SimProcess) -> None:
        for place in [one for one in self._short if one[0] == process.name]:
            del self._short[place]

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        replica = turn.replica
        place = turn.process.name, bytes(replica.topic_id), replica.partition
        known, epochs = self._short.get(place), (replica.leader_epoch, replica.partition_epoch)
        if not _is_short(replica):
            self._short.pop(place, None)
        elif known is None or known[1:] != epochs:
            self._short[place] = (turn.process.now, *epochs)

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.PRODUCE or not self._short or node.broker is None or request.answer is None:
            return
        told = request.answer.response
        if not isinstance(told, ProduceResponse):
            return
        for topic in told.responses:
            for one in topic.partition_responses:
                hosted = node.broker.replicas.by_name(topic.name, one.index)
                if one.error_code in AFTER_APPEND and hosted is not None:
                    self._check(process.name, request, hosted.replica, one.error_code)

    def _check(self, name: str, request: ServerRequest, replica: TopicPartitionReplica, error: int) -> None:
        since, *epochs = self._short.get(
            (name, bytes(replica.topic_id), replica.partition), (request.received_at, 0, 0)
        )
        if since >= request.received_at or not _is_short(replica):
            return
        if epochs == [replica.leader_epoch, replica.partition_epoch]:
            raise InvariantBroken(
                "DP-06",
                f"{name} answers a produce to {replica.topic}-{replica.partition} with acks=all by "
                f"{ErrorCode(error).name}; since before it arrived the ISR is {replica.isr}, and min ISR "
                f"{replica.min_isr}",
            )


def _is_short(replica: TopicPartitionReplica) -> bool:
    return replica.is_leader and len(replica.isr) < replica.min_isr

"""DP-05: a request that waits is answered when its time is over.

A Fetch waits for records, a DeleteRecords for all replicas, neither for longer than it says. A node that loses sight of
such a deadline answers only when something else happens. On a busy broker that is soon, and nobody notices. So each
answer is compared with the turns that the node has taken: once the time is over, the next turn, and no later one, has
the answer. Asserted when a broker answers. Legal: a node that was paused or busy, and
took no turn meanwhile; a request that waited to be served, behind others or because the broker did not serve yet: its
time begins with that (seeds 976285 and 976457 of worlds).

A Produce waits for the high watermark, and is answered in the turn in which that has passed its records, whatever has
moved it; so it had not passed them when the turn before was over.

A Produce or DeleteRecords waits at a leader only. When its leadership ends, the client is told at once where to go, and
not after the timeout, by which it must take the write for lost. So a broker that answers REQUEST_TIMED_OUT leads.

What only the active controller can do, a broker asks of it, for as long as the request allows. Clients do not know of
controllers: so a broker passes NOT_CONTROLLER on only when no time is left to ask again (MD-09). Legal: a node that is
a controller as well, which may be asked as one.

Source: rule 16; the timeouts of Fetch and DeleteRecords in Kafka's protocol; KIP-590.
"""

from __future__ import annotations

from typing import Final

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule, is_of_quorum, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from squall.nodes.protocol.messages.fetch import FetchRequest
from squall.nodes.protocol.messages.produce import ProduceResponse
from squall.nodes.protocol.records import BatchHeader
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.replication.replica import TopicPartitionReplica

GRACE: Final = 50_000
"""Microseconds."""
NEVER: Final = 2**63 - 1
LEAST_MS: Final = 1_000
"""How long a broker asks for the active controller at least, whatever the request allows."""
_PARTS: Final = ("topics", "responses", "results")
"""Where responses to an administrator's writes have the parts of their answers."""
_JUDGED = (ApiKey.FETCH, ApiKey.DELETE_RECORDS)
_OF_LEADERS = (ApiKey.PRODUCE, ApiKey.DELETE_RECORDS)


class RequestDeadlines(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._turns: dict[str, int] = {}
        """By process, the time of its last turn that is over."""
        self._serving: dict[str, int] = {}
        """By process, the time of its first turn as a broker that serves requests."""
        self._committed: dict[tuple[str, str, int], int] = {}
        """By process, topic and partition, the high watermark after the last turn that touched the replica."""

    def died(self, process: SimProcess) -> None:
        self._turns.pop(process.name, None)
        self._serving.pop(process.name, None)
        self._committed = {place: one for place, one in self._committed.items() if place[0] != process.name}

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        replica = turn.replica
        self._committed[turn.process.name, replica.topic, replica.partition] = replica.high_watermark

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        self._turns[process.name] = process.now
        if process.name not in self._serving and node.broker is not None and node.broker.is_serving:
            self._serving[process.name] = process.now

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key in _OF_LEADERS and node.broker is not None and request.answer is not None:
            _refuse_late_refusals(process.name, node.broker.replicas, request.answer.response)
            self._refuse_late_acknowledgement(process, node, node.broker.replicas, request)
        with_quorum = node_of_quorum(node)
        if with_quorum is not None and with_quorum.controller is None:
            _refuse_early_refusal(process, with_quorum, request)
        if request.api_key not in _JUDGED or with_quorum is None:
            return
        wait_ms = _wait_ms(request)
        before = self._turns.get(process.name)
        if wait_ms is None or before is None:
            return
        begun = request.received_at
        if not is_of_quorum(request.body):
            begun = max(begun, self._serving.get(process.name, process.now))
        over = begun + wait_ms * 1_000
        if before > over + GRACE and before > over + GRACE + _waited(node, request):
            raise InvariantBroken(
                "DP-05",
                f"{process.name} answers {ApiKey(request.api_key).name} of {request.client_id} "
                f"{(process.now - over) / MICROSECONDS:.3f} s after its time of {wait_ms} ms was over, and has taken a "
                f"turn in between",
            )

    def _refuse_late_acknowledgement(
        self, process: SimProcess, node: BaseNode, replicas: Replicas, request: ServerRequest
    ) -> None:
        """Check that what acknowledges these records was not known since an earlier turn."""
        response = None if request.answer is None else request.answer.response
        before, began = self._turns.get(process.name), _began(node, request)
        if not isinstance(response, ProduceResponse) or before is None or not 0 < began < before:
            return
        parts = [(topic.name, one) for topic in response.responses for one in topic.partition_responses]
        if len(parts) != 1 or parts[0][1].error_code:
            return
        topic, one = parts[0]
        hosted = replicas.by_name(topic, one.index)
        committed = self._committed.get((process.name, topic, one.index), 0)
        if hosted is not None and one.base_offset < committed and _end_at(hosted.replica, one.base_offset) <= committed:
            raise InvariantBroken(
                "DP-05",
                f"{process.name} acknowledges records at offset {one.base_offset} of {topic}-{one.index}, and its high "
                f"watermark was {committed} already when its last turn was over",
            )


def _refuse_early_refusal(process: SimProcess, node: Node, request: ServerRequest) -> None:
    """Check that a broker has asked for the active controller for as long as a request allows."""
    response = None if request.answer is None else request.answer.response
    if response is None or not _names_not_controller(response):
        return
    allowed = max(getattr(request.body, "timeout_ms", 0), LEAST_MS) * 1_000
    allowed = min(allowed, node.config.request_timeout_ms * 1_000) - GRACE
    if process.now - request.received_at < allowed:
        raise InvariantBroken(
            "DP-05",
            f"{process.name} answers {ApiKey(request.api_key).name} of {request.client_id} with NOT_CONTROLLER "
            f"{(process.now - request.received_at) / MICROSECONDS:.3f} s after it has come, and could have asked for "
            f"{allowed / MICROSECONDS:.3f} s",
        )


def _names_not_controller(response: Message) -> bool:
    parts = [part for name in _PARTS for part in getattr(response, name, ())]
    return any(getattr(one, "error_code", 0) == ErrorCode.NOT_CONTROLLER for one in (response, *parts))


def _refuse_late_refusals(name: str, replicas: Replicas, response: Message | None) -> None:
    """Check that a write that has timed out here waited for a leader."""
    for topic, partition, error in _parts(response):
        if error != ErrorCode.REQUEST_TIMED_OUT:
            continue
        hosted = replicas.by_name(topic, partition)
        if hosted is None or not hosted.replica.is_leader:
            raise InvariantBroken(
                "DP-05",
                f"{name} answers that a write of {topic}-{partition} has timed out, and does not lead it any more",
            )


def _parts(response: Message | None) -> list[tuple[str, int, int]]:
    """Return topic, partition and error of each part of an answer to a write."""
    if isinstance(response, ProduceResponse):
        produced = [(topic.name, topic.partition_responses) for topic in response.responses]
        return [(name, one.index, one.error_code) for name, parts in produced for one in parts]
    if isinstance(response, DeleteRecordsResponse):
        deleted = [(topic.name, topic.partitions) for topic in response.topics]
        return [(name, one.partition_index, one.error_code) for name, parts in deleted for one in parts]
    return []


def _end_at(replica: TopicPartitionReplica, offset: int) -> int:
    """Return the offset after the batch that holds an offset."""
    content = replica.read(offset, 1, replica.end_offset, at_least_one=True)
    return BatchHeader.read(content).next_offset if len(content) else offset


def _began(node: BaseNode, request: ServerRequest) -> int:
    """Return when a request began to be served; 0 if that is just now."""
    return next((one.began_at for one in node.connections.in_flight(request.connection) if one.request is request), 0)


def _waited(node: BaseNode, request: ServerRequest) -> int:
    """Return how long a request had waited to be served, in microseconds, if it is not being served just now."""
    begun = _began(node, request)
    return begun - request.received_at if begun else NEVER


def _wait_ms(request: ServerRequest) -> int | None:
    body = request.body
    if isinstance(body, FetchRequest):
        return max(0, body.max_wait_ms)
    return max(0, body.timeout_ms) if isinstance(body, DeleteRecordsRequest) else None

"""EP-03, BL-05, IS-07: no node takes a request of an older epoch for a current one.

Whoever has been replaced may not know it yet: a broker that was registered again, a leader that was deposed, a follower
of another leader epoch. All its requests name the epoch by which it works, and who serves them compares. A node that
does not lets a dead incarnation live on, or a deposed leader decide. Asserted when a request is answered, of those that
are not refused:

* by a controller, of a broker: the broker epoch is not older than the one that was registered when the request arrived;
* AlterPartition: leader epoch and partition epoch are those that the answer names, which may be one partition epoch
  further, and the sender is the leader;
* by a broker, of a follower or a client that names a leader epoch: it is the replica's, and a follower's Fetch is
  answered by the leader;
* by a replica of the metadata log: the quorum's epoch is not older than its own.

Legal: no epoch (-1), where the protocol lets it be left out; errors of any kind. A controller's answer may come when a
newer registration is known, since it waits until its records are committed.

Source: EP-03, BL-05, IS-07; rules 22, 24 and 36.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from squall.harness.simulation.observer.rules.rule import (
    Rule,
    is_of_follower,
    is_of_quorum,
    node_of_quorum,
    replica_named,
)
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from squall.nodes.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from squall.nodes.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse
from squall.nodes.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from squall.nodes.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from squall.nodes.protocol.messages.vote import VoteRequest, VoteResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message

NO_EPOCH = -1
OF_BROKERS = (BrokerHeartbeatRequest, AlterPartitionRequest, AllocateProducerIdsRequest)
TO_BROKERS = (BrokerHeartbeatResponse, AlterPartitionResponse, AllocateProducerIdsResponse)
OF_QUORUM = (VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest)
_JUDGED = frozenset(
    (
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
    )
)


@dataclass(slots=True)
class _Registered:
    """The broker epochs that an active controller knew after its turns, since it has been active."""

    identity: tuple[int, int]
    """The process's incarnation and the quorum's epoch."""
    seen_to: int = -1
    epochs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By broker, since when, in microseconds, and the epoch; in order."""

    def note(self, image: MetadataImage, now: int) -> None:
        if image.last_offset == self.seen_to:
            return
        self.seen_to = image.last_offset
        for broker in image.brokers.values():
            known = self.epochs.setdefault(broker.id, [])
            if not known or known[-1][1] != broker.epoch:
                known.append((now, broker.epoch))

    def before(self, broker: int, time: int) -> int:
        """Return the broker's epoch as it was known before this time."""
        return max((epoch for since, epoch in self.epochs.get(broker, ()) if since < time), default=NO_EPOCH)


class FencedRequests(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._registered: dict[str, _Registered] = {}

    def died(self, process: SimProcess) -> None:
        self._registered.pop(process.name, None)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        with_quorum = node_of_quorum(node)
        if with_quorum is None or with_quorum.controller is None:
            return
        image, identity = with_quorum.controller.image, (process.incarnation, with_quorum.raft.epoch)
        if image is None:
            self._registered.pop(process.name, None)
            return
        kept = self._registered.get(process.name)
        if kept is None or kept.identity != identity:
            kept = self._registered[process.name] = _Registered(identity)
        kept.note(image, process.now)

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key not in _JUDGED or request.answer is None or request.answer.response is None:
            return
        with_quorum = node_of_quorum(node)
        if with_quorum is None:
            return
        body, response = request.body, request.answer.response
        if isinstance(body, OF_BROKERS):
            self._check_broker(process.name, with_quorum, request, body)
            if isinstance(body, AlterPartitionRequest):
                assert isinstance(response, AlterPartitionResponse)
                _check_proposals(process.name, body, response)
        elif isinstance(body, OF_QUORUM) or is_of_quorum(body):
            _check_quorum(process.name, with_quorum, body, response)
        elif node.broker is not None:
            _check_leader_epochs(process.name, node.broker.replicas, body, response)

    def _check_broker(
        self,
        name: str,
        node: Node,
        request: ServerRequest,
        body: BrokerHeartbeatRequest | AlterPartitionRequest | AllocateProducerIdsRequest,
    ) -> None:
        """Compare a broker's epoch with its registration. A combined node forwards what it gets as a broker."""
        kept = self._registered.get(name)
        answer = None if request.answer is None else request.answer.response
        if kept is None or not isinstance(answer, TO_BROKERS) or answer.error_code or node.controller is None:
            return
        if request.listener not in {one.listener for one in node.config.control_listeners}:
            return
        registered = kept.before(body.broker_id, request.received_at)
        if body.broker_epoch < registered:
            raise InvariantBroken(
                "BL-05",
                f"controller {name} accepts {ApiKey(request.api_key).name} of broker {body.broker_id} with the epoch "
                f"{body.broker_epoch}; when it arrived the broker was registered with {registered}",
            )


def _check_proposals(name: str, asked: AlterPartitionRequest, told: AlterPartitionResponse) -> None:
    proposals = {
        (bytes(topic.topic_id), one.partition_index): one for topic in asked.topics for one in topic.partitions
    }
    for topic in told.topics:
        for one in topic.partitions:
            proposal = proposals.get((bytes(topic.topic_id), one.partition_index))
            if one.error_code or proposal is None:
                continue
            before = (asked.broker_id, proposal.leader_epoch, proposal.partition_epoch)
            if one.partition_epoch - before[2] not in (0, 1) or (one.leader_id, one.leader_epoch) != before[:2]:
                raise InvariantBroken(
                    "IS-07",
                    f"controller {name} accepts an ISR that broker {before[0]} proposes for leader epoch {before[1]} "
                    f"and partition epoch {before[2]}, and answers with leader {one.leader_id}, leader epoch "
                    f"{one.leader_epoch} and partition epoch {one.partition_epoch}",
                )


def _check_quorum(name: str, node: Node, asked: Message, told: Message) -> None:
    for epoch, error in zip(_quorum_epochs(asked), _quorum_errors(told), strict=False):
        if not error and NO_EPOCH < epoch < node.raft.epoch:
            raise InvariantBroken(
                "EP-03",
                f"{name} is in epoch {node.raft.epoch} of the quorum, and does not refuse {type(asked).__name__} of "
                f"epoch {epoch}",
            )


def _quorum_epochs(asked: Message) -> list[int]:
    """Return the epochs of the quorum that a request names, one for each topic-partition."""
    if isinstance(asked, VoteRequest):
        return [vote.replica_epoch for voted in asked.topics for vote in voted.partitions]
    if isinstance(asked, FetchRequest):
        return [one.current_leader_epoch for fetched in asked.topics for one in fetched.partitions]
    assert isinstance(asked, BeginQuorumEpochRequest | EndQuorumEpochRequest)
    return [news.leader_epoch for told in asked.topics for news in told.partitions]


def _quorum_errors(told: Message) -> list[int]:
    """Return the errors for the topic-partitions of a request, none if the whole of it is refused."""
    if isinstance(told, FetchResponse):
        parts = [(told.error_code, one.error_code) for fetched in told.responses for one in fetched.partitions]
    else:
        assert isinstance(told, VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse)
        parts = [(told.error_code, one.error_code) for topic in told.topics for one in topic.partitions]
    return [error for whole, error in parts if not whole]


class _Named(NamedTuple):
    """A topic-partition as a request names it, with the leader epoch that it names."""

    topic: str
    topic_id: bytes
    partition: int
    epoch: int


def _check_leader_epochs(name: str, replicas: Replicas, asked: Message, told: Message) -> None:
    errors = dict(_errors(told))
    for one in _named(asked):
        replica = replica_named(replicas, one.topic, one.topic_id, one.partition)
        error = errors.get((one.topic, one.topic_id, one.partition))
        if replica is None or error is None or error:
            continue
        if one.epoch not in (NO_EPOCH, replica.leader_epoch):
            raise InvariantBroken(
                "EP-03",
                f"{name} answers {type(asked).__name__} about {replica.topic}-{replica.partition} that names "
                f"leader epoch {one.epoch}; its own is {replica.leader_epoch}",
            )
        if is_of_follower(asked) and not replica.is_leader:
            raise InvariantBroken(
                "EP-03",
                f"{name} serves a follower of {replica.topic}-{replica.partition}, which it does not lead",
            )


def _named(asked: Message) -> Iterator[_Named]:
    if isinstance(asked, FetchRequest):
        for fetched in asked.topics:
            for one in fetched.partitions:
                yield _Named(fetched.topic, bytes(fetched.topic_id), one.partition, one.current_leader_epoch)
    elif isinstance(asked, ListOffsetsRequest):
        for listed in asked.topics:
            for wanted in listed.partitions:
                yield _Named(listed.name, b"", wanted.partition_index, wanted.current_leader_epoch)
    elif isinstance(asked, OffsetForLeaderEpochRequest):
        for ended in asked.topics:
            for end in ended.partitions:
                yield _Named(ended.topic, b"", end.partition, end.current_leader_epoch)


def _errors(told: Message) -> Iterator[tuple[tuple[str, bytes, int], int]]:
    if isinstance(told, FetchResponse):
        for fetched in told.responses:
            for one in fetched.partitions:
                yield (fetched.topic, bytes(fetched.topic_id), one.partition_index), one.error_code
    elif isinstance(told, ListOffsetsResponse):
        for listed in told.topics:
            for found in listed.partitions:
                yield (listed.name, b"", found.partition_index), found.error_code
    elif isinstance(told, OffsetForLeaderEpochResponse):
        for ended in told.topics:
            for end in ended.partitions:
                yield (ended.topic, b"", end.partition), end.error_code

"""REASON: a broker that refuses a topic-partition's request has a reason to.

Clients and followers take most errors for a passing state: they look for another leader, or wait, and ask again. So a
broker that refuses what it should serve costs time only, and nobody sees why. The observer knows the state by which the
broker has decided, and compares each error of Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords with
it:

* NOT_LEADER_OR_FOLLOWER: the broker does not lead; or the follower's broker epoch is not that of its registration
* FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH: the request names an earlier leader epoch, or a later one, in a version
  that can (`EPOCHS_SINCE`); the second also if the broker that fetches is no replica
* UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID: the metadata that the broker has applied have no such topic-partition
* OFFSET_OUT_OF_RANGE: the offset is outside of the log, or the log has no record of the last epoch that is named, nor
  of one before; in DeleteRecords, the offset is above the high watermark
* OFFSET_NOT_AVAILABLE, and LEADER_NOT_AVAILABLE for clients that do not know it: the high watermark is below the start
  of the leader's epoch (KIP-207)
* NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND: the ISR is smaller than min ISR
* OUT_OF_ORDER_SEQUENCE_NUMBER: the batch is neither the next one of its producer nor one of those that are remembered
* INVALID_PRODUCER_EPOCH: the producer is known with a later epoch

Asserted when a broker answers. An error that is neither here nor in `UNJUDGED` is a breach as well: clients of that API
do not expect it. Legal: a request that has waited, whose leadership ended and began again meanwhile.

Source: rules 2, 5, 11, 13 and 36; EP-03, DP-05, DP-07.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from squall.harness.simulation.observer.rules.rule import Rule, is_of_follower, node_of_quorum, replica_named
from squall.harness.simulation.observer.state.fetch_positions import place_of, positions_asked
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.broker import Broker
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse
from squall.nodes.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from squall.nodes.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from squall.nodes.protocol.messages.produce import ProduceRequest, ProduceResponse
from squall.nodes.protocol.records import BatchHeader
from squall.nodes.protocol.requests.headers import decode_request
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import TopicPartitionReplica

ANY_EPOCH: Final = -1
TO_HIGH_WATERMARK: Final = -1
OFFSET_NOT_AVAILABLE_SINCE: Final = 5
"""The version of ListOffsets whose clients know that error."""
EPOCHS_SINCE: Final[Mapping[ApiKey, int]] = {ApiKey.FETCH: 9, ApiKey.LIST_OFFSETS: 4, ApiKey.OFFSET_FOR_LEADER_EPOCH: 2}
"""By API, the version since which a request names the leader epoch that its sender knows (KIP-320)."""
SEQUENCES: Final = 1 << 31

UNJUDGED: Final[Mapping[ApiKey, frozenset[ErrorCode]]] = {
    ApiKey.PRODUCE: frozenset(
        (
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.INVALID_REQUIRED_ACKS,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )
    ),
    ApiKey.FETCH: frozenset((ErrorCode.CORRUPT_MESSAGE,)),
    ApiKey.LIST_OFFSETS: frozenset((ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: frozenset(),
    ApiKey.DELETE_RECORDS: frozenset((ErrorCode.REQUEST_TIMED_OUT,)),
}
"""By API, the errors that its clients expect and that say something of the request, or that other rules judge."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One topic-partition of a request that is answered with an error, and what the request says of it."""

    api: ApiKey
    version: int
    error: ErrorCode
    topic: str
    topic_id: bytes
    partition: int
    asked_epoch: int = ANY_EPOCH
    """The leader epoch that the request has after it was read."""
    offset: int = -1
    last_epoch: int = -1
    replica_id: int = -1
    broker_epoch: int = -1
    waited: bool = False
    batch: BatchHeader | None = None
    """Of a Produce whose producer is refused."""

    @property
    def leader_epoch(self) -> int:
        """The leader epoch that the request names."""
        return self.asked_epoch if self.version >= EPOCHS_SINCE.get(self.api, 0) else ANY_EPOCH


class ReasonsToRefuse(Rule):
    """See the module."""

    events = ("leader",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._epoch_starts: dict[tuple[int, bytes, int], int] = {}
        """By broker, topic id and partition, where the newest epoch begins that the broker has led."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        key = (int(fields["broker"]), bytes(fields["topic_id"]), int(fields["partition"]))
        self._epoch_starts[key] = int(fields["end"])

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key not in UNJUDGED or request.answer is None or request.answer.response is None:
            return
        if node.broker is None or node_of_quorum(node) is None:
            return
        for refusal in _refusals(process, node, request):
            replica = replica_named(node.broker.replicas, refusal.topic, refusal.topic_id, refusal.partition)
            why = self._lacks_reason(node.broker, replica, refusal)
            if why:
                raise InvariantBroken(
                    "REASON",
                    f"{process.name} answers {refusal.api.name} v{refusal.version} of "
                    f"{refusal.topic or refusal.topic_id.hex()}-{refusal.partition} with {refusal.error.name}; {why}",
                )

    def _lacks_reason(self, broker: Broker, replica: TopicPartitionReplica | None, refusal: Refusal) -> str:
        """Return what speaks against the error; empty if nothing does."""
        error = refusal.error
        if error in UNJUDGED[refusal.api]:
            return ""
        if error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
            return _exists(broker, refusal)
        if replica is None:
            return "" if error == ErrorCode.NOT_LEADER_OR_FOLLOWER else "it has no replica of it"
        if error in (ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE):
            key = (replica.broker, replica.topic_id, replica.partition)
            return _knows_its_end(refusal, replica, self._epoch_starts.get(key, 0))
        judge = _JUDGES.get(error)
        return "no client of that API expects it" if judge is None else judge(refusal, replica, broker)


# -- what is refused ------------------------------------------------------------------------------------------------


def _refusals(process: SimProcess, node: BaseNode, request: ServerRequest) -> Iterator[Refusal]:
    assert request.answer is not None
    asked, told = request.body, request.answer.response
    if isinstance(told, ProduceResponse):
        yield from _of_produce(process, request, told)
    elif isinstance(asked, FetchRequest) and isinstance(told, FetchResponse):
        yield from _of_fetch(process, node, request, asked, told)
    elif isinstance(asked, ListOffsetsRequest) and isinstance(told, ListOffsetsResponse):
        yield from _of_list_offsets(request, asked, told)
    elif isinstance(asked, OffsetForLeaderEpochRequest) and isinstance(told, OffsetForLeaderEpochResponse):
        yield from _of_epochs(request, asked, told)
    elif isinstance(asked, DeleteRecordsRequest) and isinstance(told, DeleteRecordsResponse):
        yield from _of_deletions(process, request, asked, told)


def _of_produce(process: SimProcess, request: ServerRequest, told: ProduceResponse) -> Iterator[Refusal]:
    waited = request.received_at < process.now
    for topic in told.responses:
        for one in topic.partition_responses:
            if one.error_code:
                error = ErrorCode(one.error_code)
                batch = _batch_of(process, request, topic.name, one.index) if error in _OF_PRODUCERS else None
                key, version = ApiKey.PRODUCE, request.api_version
                yield Refusal(key, version, error, topic.name, b"", one.index, waited=waited, batch=batch)


def _of_fetch(
    process: SimProcess, node: BaseNode, request: ServerRequest, asked: FetchRequest, told: FetchResponse
) -> Iterator[Refusal]:
    failed = [(topic, one) for topic in told.responses for one in topic.partitions if one.error_code]
    if not failed:
        return
    positions, waited = positions_asked(node, asked, told), request.received_at < process.now
    state, is_follower = asked.replica_state, is_of_follower(asked)
    for topic, one in failed:
        place = place_of(topic, one.partition_index)
        part = positions.get(place)
        if part is not None and place[1].strip(b"\0"):
            yield Refusal(
                ApiKey.FETCH, request.api_version, ErrorCode(one.error_code), *place,
                asked_epoch=part.current_leader_epoch, offset=part.fetch_offset, last_epoch=part.last_fetched_epoch,
                replica_id=max(asked.replica_id, state.replica_id) if is_follower else -1,
                broker_epoch=state.replica_epoch if is_follower else -1,
                waited=waited,
            )  # fmt: skip


def _of_list_offsets(request: ServerRequest, asked: ListOffsetsRequest, told: ListOffsetsResponse) -> Iterator[Refusal]:
    epochs = {
        (topic.name, one.partition_index): one.current_leader_epoch
        for topic in asked.topics
        for one in topic.partitions
    }
    for topic in told.topics:
        for one in topic.partitions:
            if one.error_code:
                error, epoch = ErrorCode(one.error_code), epochs.get((topic.name, one.partition_index), ANY_EPOCH)
                key, version = ApiKey.LIST_OFFSETS, request.api_version
                yield Refusal(key, version, error, topic.name, b"", one.partition_index, asked_epoch=epoch)


def _of_epochs(
    request: ServerRequest, asked: OffsetForLeaderEpochRequest, told: OffsetForLeaderEpochResponse
) -> Iterator[Refusal]:
    epochs = {
        (topic.topic, one.partition): one.current_leader_epoch for topic in asked.topics for one in topic.partitions
    }
    for topic in told.topics:
        for one in topic.partitions:
            if one.error_code:
                error, epoch = ErrorCode(one.error_code), epochs.get((topic.topic, one.partition), ANY_EPOCH)
                key, version = ApiKey.OFFSET_FOR_LEADER_EPOCH, request.api_version
                yield Refusal(key, version, error, topic.topic, b"", one.partition, asked_epoch=epoch)


def _of_deletions(
    process: SimProcess, request: ServerRequest, asked: DeleteRecordsRequest, told: DeleteRecordsResponse
) -> Iterator[Refusal]:
    offsets = {(topic.name, one.partition_index): one.offset for topic in asked.topics for one in topic.partitions}
    waited = request.received_at < process.now
    for topic in told.topics:
        for one in topic.partitions:
            if one.error_code:
                error, offset = ErrorCode(one.error_code), offsets.get((topic.name, one.partition_index), -1)
                key, version = ApiKey.DELETE_RECORDS, request.api_version
                yield Refusal(key, version, error, topic.name, b"", one.partition_index, offset=offset, waited=waited)


def _batch_of(process: SimProcess, request: ServerRequest, topic: str, partition: int) -> BatchHeader | None:
    """Read the refused batch from the frame of this turn: the broker drops the body before it answers."""
    for method, arguments in process.last_inputs:
        if method.__name__ != "received" or arguments[0] != request.connection:
            continue
        header, body = decode_request(arguments[1])
        if header.correlation_id == request.correlation_id and isinstance(body, ProduceRequest):
            batches = [
                one.records for named in body.topic_data if named.name == topic
                for one in named.partition_data if one.index == partition
            ]  # fmt: skip
            return BatchHeader.read(batches[0]) if len(batches) == 1 and batches[0] else None
    return None


# -- whether there is a reason --------------------------------------------------------------------------------------


def _exists(broker: Broker, refusal: Refusal) -> str:
    topic_id = refusal.topic_id or broker.image.topic_ids.get(refusal.topic, b"")
    topic = broker.image.topics.get(topic_id)
    missing = topic is None or (
        refusal.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and refusal.partition not in topic.partitions
    )
    return "" if missing else f"its metadata has it, up to offset {broker.image.last_offset}"


def _leads(refusal: Refusal, replica: TopicPartitionReplica, broker: Broker) -> str:
    if not replica.is_leader or refusal.waited:
        return ""
    registered = broker.image.brokers.get(refusal.replica_id)
    known = dict(replica.follower_epochs()).get(refusal.replica_id, -1)
    if -1 < refusal.broker_epoch < max(known, -1 if registered is None else registered.epoch):
        return ""
    return f"it leads in epoch {replica.leader_epoch}"


def _names_no_earlier_epoch(refusal: Refusal, replica: TopicPartitionReplica, broker: Broker) -> str:
    if ANY_EPOCH < refusal.leader_epoch < replica.leader_epoch:
        return ""
    return f"the request names the leader epoch {refusal.leader_epoch}, it is {replica.leader_epoch}"


def _names_no_later_epoch(refusal: Refusal, replica: TopicPartitionReplica, broker: Broker) -> str:
    state = replica.state
    is_replica = state is not None and refusal.replica_id in state.replicas
    if refusal.leader_epoch > replica.leader_epoch or (refusal.replica_id >= 0 and not is_replica):
        return ""
    return f"the request names the leader epoch {refusal.leader_epoch}, it is {replica.leader_epoch}"


def _is_in_range(refusal: Refusal, replica: TopicPartitionReplica, broker: Broker) -> str:
    start, end = replica.log.start_offset, replica.end_offset
    if refusal.api == ApiKey.DELETE_RECORDS:
        committed = replica.high_watermark
        inside = refusal.offset == TO_HIGH_WATERMARK or 0 <= refusal.offset <= committed
        return f"it is asked to delete up to {refusal.offset}, the high watermark is {committed}" if inside else ""
    unknown = refusal.last_epoch >= 0 and replica.log.end_offset_for(refusal.last_epoch)[0] < 0
    if unknown or not start <= refusal.offset <= end:
        return ""
    return f"it is asked for {refusal.offset}, after epoch {refusal.last_epoch}, and has {start} to {end}"


def _has_enough_replicas(refusal: Refusal, replica: TopicPartitionReplica, broker: Broker) -> str:
    enough = len(replica.isr) >= replica.min_isr
    return f"the ISR is {list(replica.isr)}, min ISR is {replica.min_isr}" if enough else ""


def _knows_its_end(refusal: Refusal, replica: TopicPartitionReplica, epoch_start: int) -> str:
    named = ErrorCode.OFFSET_NOT_AVAILABLE
    if refusal.version < OFFSET_NOT_AVAILABLE_SINCE:
        named = ErrorCode.LEADER_NOT_AVAILABLE
    if refusal.api != ApiKey.LIST_OFFSETS or refusal.error != named:
        return "no client of that version expects it"
    if replica.high_watermark < epoch_start:
        return ""
    return f"the high watermark is {replica.high_watermark}, and epoch {replica.leader_epoch} begins at {epoch_start}"


def _is_next(refusal: Refusal, replica: TopicPartitionReplica, broker: Broker) -> str:
    batch = refusal.batch
    if batch is None:
        return ""
    state = replica.log.producers.state_of(batch.producer_id)
    where = f"producer {batch.producer_id} comes with epoch {batch.producer_epoch} and sequence {batch.base_sequence}"
    if state is None:
        return f"{where}, and is not known"
    if batch.producer_epoch > state.epoch:
        return f"{where}, it had epoch {state.epoch}" if batch.base_sequence == 0 else ""
    if batch.producer_epoch < state.epoch:
        return ""
    if any(
        (one.first_sequence, one.last_sequence) == (batch.base_sequence, batch.last_sequence) for one in state.batches
    ):
        return f"{where}, and has that batch already"
    expected = (state.batches[-1].last_sequence + 1) % SEQUENCES if state.batches else batch.base_sequence
    return f"{where}, which is the next one" if batch.base_sequence == expected else ""


def _has_no_later_epoch(refusal: Refusal, replica: TopicPartitionReplica, broker: Broker) -> str:
    batch = refusal.batch
    if batch is None:
        return ""
    state = replica.log.producers.state_of(batch.producer_id)
    if state is not None and batch.producer_epoch < state.epoch:
        return ""
    known = "not known" if state is None else f"known with epoch {state.epoch}"
    return f"producer {batch.producer_id} comes with epoch {batch.producer_epoch}, and is {known}"


_OF_PRODUCERS = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)
_JUDGES: Mapping[ErrorCode, Callable[[Refusal, TopicPartitionReplica, Broker], str]] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _leads,
    ErrorCode.FENCED_LEADER_EPOCH: _names_no_earlier_epoch,
    ErrorCode.UNKNOWN_LEADER_EPOCH: _names_no_later_epoch,
    ErrorCode.OFFSET_OUT_OF_RANGE: _is_in_range,
    ErrorCode.NOT_ENOUGH_REPLICAS: _has_enough_replicas,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _has_enough_replicas,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: _is_next,
    ErrorCode.INVALID_PRODUCER_EPOCH: _has_no_later_epoch,
}

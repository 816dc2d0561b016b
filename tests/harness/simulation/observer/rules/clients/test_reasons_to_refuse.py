"""REASON as the observer asserts it: a broker that refuses a topic-partition's request has a reason to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients.reasons_to_refuse import ReasonsToRefuse
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from squall.nodes.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from squall.nodes.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from squall.nodes.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.requests.headers import encode_request
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.storage.producers import ProducedBatch

ID, OTHER_ID = b"i" * 16, b"o" * 16
EPOCH = 4
LISTS, ASKS_ENDS = 5, 4
NOW = 7_000_000
CONNECTION, CORRELATION = 3, 21


def received() -> None:
    """A name for the input of a frame."""


class Broker:
    """Broker 1 leads t-0 in epoch 4, with brokers 2 and 3. Its log is from 10 to 20, and up to 18 is committed.

    Producer 7 is known with epoch 2 and the sequences 0 to 4. Broker 2 is registered with broker epoch 50. Broker 3 has
    fetched with broker epoch 60, of which broker 1's metadata do not know yet.
    """

    def __init__(self, *, leads: bool = True, isr: tuple[int, ...] = (1, 2)) -> None:
        producer = SimpleNamespace(epoch=2, batches=[ProducedBatch(0, 4, 10, 14, 0)])
        log = SimpleNamespace(
            start_offset=10,
            end_offset_for=lambda epoch: (min(epoch, EPOCH), 20) if epoch >= 2 else (-1, -1),
            producers=SimpleNamespace(state_of=lambda producer_id: producer if producer_id == 7 else None),
        )
        replica = SimpleNamespace(
            broker=1, topic="t", topic_id=ID, partition=0, log=log, end_offset=20, high_watermark=18, isr=isr,
            min_isr=2, leader_epoch=EPOCH, is_leader=leads, state=SimpleNamespace(replicas=(1, 2, 3)),
            follower_epochs=lambda: [(3, 60)],
        )  # fmt: skip
        hosted = SimpleNamespace(replica=replica)
        replicas = SimpleNamespace(
            by_name=lambda topic, number: hosted if (topic, number) == ("t", 0) else None,
            by_id=lambda topic_id, number: hosted if (topic_id, number) == (ID, 0) else None,
        )
        image = SimpleNamespace(
            topics={ID: SimpleNamespace(partitions={0: None})},
            topic_ids={"t": ID},
            brokers={2: SimpleNamespace(epoch=50)},
            last_offset=99,
        )
        self.sessions: dict[int, Any] = {}
        fetching = SimpleNamespace(sessions=SimpleNamespace(find=self.sessions.get))
        self.node: Any = SimpleNamespace(broker=SimpleNamespace(replicas=replicas, image=image, fetching=fetching))
        self.process: Any = SimpleNamespace(name="b1", now=NOW, last_inputs=[])
        self.rule = ReasonsToRefuse(None)  # type: ignore[arg-type]

    def begins_epoch_at(self, offset: int) -> None:
        self.rule.traced("leader", {"broker": 1, "topic_id": ID, "partition": 0, "end": offset})

    def produce(self, error: ErrorCode, batch: bytes = b"", *, partition: int = 0, waited: bool = False) -> None:
        if batch:
            topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData(partition, batch)])]
            frame = encode_request(ApiKey.PRODUCE, 9, CORRELATION, "client", ProduceRequest(topic_data=topics))
            self.process.last_inputs = [(received, (CONNECTION, b"".join(frame)))]
        told = [PartitionProduceResponse(partition, int(error), -1, -1, -1)]
        response = ProduceResponse(responses=[TopicProduceResponse("t", told)])
        self._answers(ApiKey.PRODUCE, 9, ProduceRequest(), response, NOW - 1 if waited else NOW)

    def fetch(
        self, error: ErrorCode, offset: int = 15, *, epoch: int = -1, last: int = -1, topic_id: bytes = ID,
        partition: int = 0, replica: int = -1, broker_epoch: int = -1, session: int = 0, waited: bool = False,
    ) -> None:  # fmt: skip
        topic = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition, epoch, offset, last)])
        asked = FetchRequest(replica_state=ReplicaState(replica, broker_epoch), topics=[] if session else [topic])
        if session:
            self.sessions[session] = SimpleNamespace(
                watches={0: SimpleNamespace(topic=topic, wanted=topic.partitions[0])}
            )
        told = [PartitionData(partition, int(error))]
        response = FetchResponse(
            session_id=session, responses=[FetchableTopicResponse(topic_id=topic_id, partitions=told)]
        )
        self._answers(ApiKey.FETCH, 17, asked, response, NOW - 1 if waited else NOW)

    def list_offsets(self, error: ErrorCode, *, epoch: int = -1, version: int = LISTS) -> None:
        asked = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, epoch, -1)])])
        told = ListOffsetsPartitionResponse(0, int(error))
        self._answers(
            ApiKey.LIST_OFFSETS, version, asked, ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [told])])
        )

    def ask_end(self, error: ErrorCode, epoch: int) -> None:
        asked = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, epoch, 1)])])
        told = OffsetForLeaderTopicResult("t", [EpochEndOffset(int(error), 0)])
        self._answers(ApiKey.OFFSET_FOR_LEADER_EPOCH, ASKS_ENDS, asked, OffsetForLeaderEpochResponse(topics=[told]))

    def delete(self, error: ErrorCode, offset: int) -> None:
        asked = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)])], 1_000)
        told = DeleteRecordsTopicResult("t", [DeleteRecordsPartitionResult(0, -1, int(error))])
        self._answers(ApiKey.DELETE_RECORDS, 2, asked, DeleteRecordsResponse(topics=[told]))

    def _answers(self, key: ApiKey, version: int, asked: Message, response: Message, received_at: int = NOW) -> None:
        request = ServerRequest(int(key), version, asked, "client", "PLAINTEXT", CONNECTION, received_at, CORRELATION)
        request.answer = Answer(response=response)
        self.rule.answered(self.process, self.node, request)


def batch(producer: int, epoch: int, sequence: int) -> bytes:
    return bytes(build_batch([Record(value=b"v")], producer_id=producer, producer_epoch=epoch, base_sequence=sequence))


def breaks(saying: str) -> Any:
    return pytest.raises(InvariantBroken, match=rf"^REASON: b1 answers .*{saying}")


# -- who leads ------------------------------------------------------------------------------------------------------


def test_a_leader_does_not_say_that_it_does_not_lead() -> None:
    not_leader = ErrorCode.NOT_LEADER_OR_FOLLOWER
    with breaks(r"PRODUCE v9 of t-0 with NOT_LEADER_OR_FOLLOWER; it leads in epoch 4"):
        Broker().produce(not_leader)
    with breaks(r"FETCH v17 of (69)+-0 with NOT_LEADER_OR_FOLLOWER"):
        Broker().fetch(not_leader)
    with breaks("DELETE_RECORDS"):
        Broker().delete(not_leader, 12)
    follower = Broker(leads=False)
    follower.produce(not_leader)
    follower.fetch(not_leader)
    follower.list_offsets(not_leader)


def test_an_earlier_incarnation_of_a_follower_is_refused_by_the_leader() -> None:
    Broker().fetch(ErrorCode.NOT_LEADER_OR_FOLLOWER, replica=2, broker_epoch=49)
    with breaks("it leads"):
        Broker().fetch(ErrorCode.NOT_LEADER_OR_FOLLOWER, replica=2, broker_epoch=50)


def test_so_is_one_that_is_earlier_than_a_fetch_of_the_next() -> None:
    """Seed 1031160 of worlds: a frame that came late, before the leader had heard of the next registration."""
    Broker().fetch(ErrorCode.NOT_LEADER_OR_FOLLOWER, replica=3, broker_epoch=59)
    with breaks("it leads"):
        Broker().fetch(ErrorCode.NOT_LEADER_OR_FOLLOWER, replica=3, broker_epoch=60)


def test_a_request_that_has_waited_may_have_lost_its_leader() -> None:
    Broker().produce(ErrorCode.NOT_LEADER_OR_FOLLOWER, waited=True)
    Broker().fetch(ErrorCode.NOT_LEADER_OR_FOLLOWER, waited=True)


# -- epochs, names and offsets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [-1, 4, 5])
def test_only_an_earlier_epoch_is_fenced(epoch: int) -> None:
    Broker().list_offsets(ErrorCode.FENCED_LEADER_EPOCH, epoch=3)
    with breaks(f"names the leader epoch {epoch}, it is 4"):
        Broker().list_offsets(ErrorCode.FENCED_LEADER_EPOCH, epoch=epoch)


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH])
def test_a_client_whose_version_names_no_epoch_is_not_refused_for_one(error: ErrorCode) -> None:
    """KIP-320: before version 4 of ListOffsets, whatever the broker takes for the epoch is not the client's."""
    epoch = 3 if error == ErrorCode.FENCED_LEADER_EPOCH else 99
    Broker().list_offsets(error, epoch=epoch, version=4)
    with breaks("the request names the leader epoch -1"):
        Broker().list_offsets(error, epoch=epoch, version=3)


@pytest.mark.parametrize("epoch", [-1, 3, 4])
def test_only_a_later_epoch_is_unknown(epoch: int) -> None:
    Broker().ask_end(ErrorCode.UNKNOWN_LEADER_EPOCH, 5)
    with breaks(f"names the leader epoch {epoch}, it is 4"):
        Broker().ask_end(ErrorCode.UNKNOWN_LEADER_EPOCH, epoch)


def test_a_broker_that_is_no_replica_gets_an_unknown_epoch() -> None:
    Broker().fetch(ErrorCode.UNKNOWN_LEADER_EPOCH, epoch=4, replica=9)
    with breaks("names the leader epoch 4"):
        Broker().fetch(ErrorCode.UNKNOWN_LEADER_EPOCH, epoch=4, replica=3)


def test_what_a_session_holds_is_not_unknown_for_ever() -> None:
    Broker().fetch(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=OTHER_ID, session=5)
    with breaks("UNKNOWN_TOPIC_ID; its metadata has it"):
        Broker().fetch(ErrorCode.UNKNOWN_TOPIC_ID, session=5)


def test_what_metadata_has_is_not_unknown() -> None:
    Broker().fetch(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=OTHER_ID)
    Broker().fetch(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partition=1)
    Broker().produce(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partition=1)
    with breaks("its metadata has it, up to offset 99"):
        Broker().fetch(ErrorCode.UNKNOWN_TOPIC_ID)
    with breaks("its metadata has it"):
        Broker().produce(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("offset", [10, 15, 20])
def test_an_offset_within_the_log_is_in_range(offset: int) -> None:
    out_of_range = ErrorCode.OFFSET_OUT_OF_RANGE
    Broker().fetch(out_of_range, 9)
    Broker().fetch(out_of_range, 21)
    Broker().fetch(out_of_range, offset, last=1)
    with breaks(f"asked for {offset}, after epoch 2, and has 10 to 20"):
        Broker().fetch(out_of_range, offset, last=2)


def test_what_is_committed_may_be_deleted() -> None:
    Broker().delete(ErrorCode.OFFSET_OUT_OF_RANGE, 19)
    for offset in (-1, 0, 18):
        with breaks(f"delete up to {offset}, the high watermark is 18"):
            Broker().delete(ErrorCode.OFFSET_OUT_OF_RANGE, offset)


def test_a_leader_whose_high_watermark_lags_does_not_know_its_end() -> None:
    leader = Broker()
    leader.begins_epoch_at(19)
    leader.list_offsets(ErrorCode.OFFSET_NOT_AVAILABLE)
    leader.list_offsets(ErrorCode.LEADER_NOT_AVAILABLE, version=4)
    with breaks("no client of that version expects it"):
        leader.list_offsets(ErrorCode.LEADER_NOT_AVAILABLE)
    with breaks("no client of that version expects it"):
        leader.list_offsets(ErrorCode.OFFSET_NOT_AVAILABLE, version=4)
    leader.begins_epoch_at(18)
    with breaks("the high watermark is 18, and epoch 4 begins at 18"):
        leader.list_offsets(ErrorCode.OFFSET_NOT_AVAILABLE)


# -- writes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_replicas_are_not_enough_only_below_min_isr(error: ErrorCode) -> None:
    Broker(isr=(1,)).produce(error)
    with breaks(r"the ISR is \[1, 2\], min ISR is 2"):
        Broker().produce(error)


@pytest.mark.parametrize(("epoch", "sequence"), [(2, 6), (2, 0), (2, 3), (3, 1)])
def test_a_batch_that_leaves_a_gap_or_comes_again_is_out_of_order(epoch: int, sequence: int) -> None:
    Broker().produce(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, batch(7, epoch, sequence))


@pytest.mark.parametrize(
    ("producer", "epoch", "sequence", "saying"),
    [(7, 2, 5, "which is the next one"), (7, 3, 0, "it had epoch 2"), (8, 0, 3, "and is not known")],
)
def test_the_next_batch_is_in_order(producer: int, epoch: int, sequence: int, saying: str) -> None:
    with breaks(saying):
        Broker().produce(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, batch(producer, epoch, sequence))


def test_a_batch_that_is_remembered_is_no_gap() -> None:
    again = bytes(build_batch([Record(value=b"v")] * 5, producer_id=7, producer_epoch=2, base_sequence=0))
    with breaks("epoch 2 and sequence 0, and has that batch already"):
        Broker().produce(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, again)


def test_only_an_earlier_producer_epoch_is_refused() -> None:
    Broker().produce(ErrorCode.INVALID_PRODUCER_EPOCH, batch(7, 1, 0))
    with breaks("comes with epoch 2, and is known with epoch 2"):
        Broker().produce(ErrorCode.INVALID_PRODUCER_EPOCH, batch(7, 2, 5))
    with breaks("comes with epoch 0, and is not known"):
        Broker().produce(ErrorCode.INVALID_PRODUCER_EPOCH, batch(8, 0, 0))


def test_a_batch_whose_request_came_in_an_earlier_turn_is_not_judged() -> None:
    Broker().produce(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    Broker().produce(ErrorCode.INVALID_PRODUCER_EPOCH)


# -- what no client expects -----------------------------------------------------------------------------------------


def test_an_error_that_no_client_of_the_api_expects_is_a_breach() -> None:
    Broker().produce(ErrorCode.MESSAGE_TOO_LARGE)
    with breaks("FETCH v17 .* with MESSAGE_TOO_LARGE; no client of that API expects it"):
        Broker().fetch(ErrorCode.MESSAGE_TOO_LARGE)


def test_a_broker_without_a_replica_may_only_say_that_it_does_not_lead() -> None:
    Broker().fetch(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=1)
    with breaks("it has no replica of it"):
        Broker().fetch(ErrorCode.FENCED_LEADER_EPOCH, partition=1)

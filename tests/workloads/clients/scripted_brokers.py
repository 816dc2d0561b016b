"""Three brokers of our own making for the native clients, in the simulation's time; a test says who answers what, when.

Every broker has the same log; `ends` says how far each shows it. `script` is asked first about every request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from squall.harness.simulation.world.kernel import Kernel
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from squall.nodes.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from squall.nodes.protocol.messages.init_producer_id import InitProducerIdResponse
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from squall.nodes.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from squall.nodes.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.requests.headers import encode_response
from squall.nodes.protocol.requests.session import ServerSession
from squall.workloads.clients.common.client import Client, ClientPlan
from squall.workloads.clients.common.payload import encode_value
from squall.workloads.clients.native.native import NativeFactory
from squall.workloads.core.operation import Completion, Operation

VERSIONS = {
    int(ApiKey.PRODUCE): (3, 9),
    int(ApiKey.FETCH): (4, 12),
    int(ApiKey.LIST_OFFSETS): (1, 6),
    int(ApiKey.METADATA): (0, 9),
    int(ApiKey.DELETE_RECORDS): (0, 2),
    int(ApiKey.INIT_PRODUCER_ID): (0, 3),
}
WHERE = ("events", 0)
NODES = (1, 2, 3)
EPOCH = 3
DELAY = 1_000
NEVER = (None, -1)


class Brokers:
    """See the module. `asked` is (node, api key, body) of every request; nobody reaches who is `unreachable`."""

    def __init__(self) -> None:
        self.kernel = Kernel()  # type: ignore[abstract]
        self.leader = 1
        self.epoch = EPOCH
        self.values: list[int] = []
        self.start = 0
        self.ends: dict[int, int] = {}
        self.preferred = -1
        self.script: Callable[[int, Any], Any] = lambda node, request: None
        self.asked: list[tuple[int, int, Any]] = []
        self.streams: list[ScriptedStream] = []
        self.unreachable: set[int] = set()
        self.producer_ids = 0
        self.names: list[str | None] = []
        """What clients call themselves, by request."""

    def client(self, role: Any, *, partitions: int = 1, **options: Any) -> Client:
        places = tuple((WHERE[0], number) for number in range(partitions))
        plan = ClientPlan(4, role, tuple(range(8)), places, **options)
        return NativeFactory(self, (("b1", 9092),), self).client(plan)  # type: ignore[arg-type]

    async def connect(self, host: str, port: int) -> ScriptedStream:
        node = int(host.removeprefix("b"))
        while node in self.unreachable:
            await self.pause(3600)
        self.streams.append(ScriptedStream(self, node))
        return self.streams[-1]

    async def pause(self, seconds: float) -> None:
        future = self.kernel.create_future()
        self.kernel.after(int(seconds * 1e6), lambda: future.done() or future.set_result(None))
        await future

    def now_ns(self) -> int:
        return self.kernel.now * 1000

    def of(self, key: ApiKey) -> list[tuple[int, Any]]:
        """Who was asked for this, and what."""
        return [(node, body) for node, asked, body in self.asked if asked == key]

    # -- answers ------------------------------------------------------------------------------------------------

    def answer(self, node: int, request: Any) -> Any:
        self.asked.append((node, request.api_key, request.body))
        self.names.append(request.client_id)
        scripted = self.script(node, request)
        if scripted is not None:
            return scripted if isinstance(scripted, tuple) else (scripted, DELAY)
        body = request.body
        match request.api_key:
            case ApiKey.METADATA:
                return self.metadata(), DELAY
            case ApiKey.INIT_PRODUCER_ID:
                self.producer_ids += 1
                return InitProducerIdResponse(producer_id=self.producer_ids, producer_epoch=0), DELAY
            case ApiKey.PRODUCE:
                return produced(100 * node), DELAY
            case ApiKey.LIST_OFFSETS:
                wanted = body.topics[0].partitions[0]
                return listed(self.start if wanted.timestamp == -2 else self.end(node)), DELAY
            case ApiKey.DELETE_RECORDS:
                return deleted(self.start), DELAY
        return self.fetched(node, body)

    def end(self, node: int) -> int:
        return self.ends.get(node, len(self.values))

    def metadata(self) -> MetadataResponse:
        parts = [
            MetadataResponsePartition(partition_index=number, leader_id=self.leader, leader_epoch=self.epoch)
            for number in range(4)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node, f"b{node}", 9092) for node in NODES],
            topics=[MetadataResponseTopic(name="events", partitions=parts)],
        )

    def fetched(self, node: int, body: Any) -> Any:
        """Of one topic-partition, the first of those asked for: KIP-227 is not offered here."""
        (topic,) = body.topics
        wanted = topic.partitions[0]
        number, end = wanted.partition, self.end(node)
        if not self.start <= wanted.fetch_offset <= end:
            return failed(ErrorCode.OFFSET_OUT_OF_RANGE, number), DELAY
        if node == self.leader and body.rack_id and self.preferred >= 0:
            return answered(PartitionData(number, 0, end, preferred_read_replica=self.preferred, records=b"")), DELAY
        values = self.values[wanted.fetch_offset : end]
        records = batch(wanted.fetch_offset, values) if values else b""
        waits = DELAY if values else body.max_wait_ms * 1000
        return answered(PartitionData(number, 0, end, log_start_offset=self.start, records=records)), waits

    # -- the course of a test -----------------------------------------------------------------------------------

    def run(self, course: Any) -> Any:
        return self.kernel.run_until_complete(course)


class ScriptedStream:
    """One connection, 1 ms away; what is held is never answered."""

    def __init__(self, brokers: Brokers, node: int) -> None:
        self.brokers = brokers
        self.node = node
        self.session = ServerSession(1, "PLAINTEXT", VERSIONS)
        self.ended = ""

    def listen(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        self.received, self.lost = received, lost

    async def send(self, frame: bytes) -> None:
        request = self.session.received(0, frame)
        response, delay = self.brokers.answer(self.node, request)
        if response is not None:
            chunks = encode_response(request.api_key, request.api_version, request.correlation_id, response)
            self.brokers.kernel.after(delay, self._arrive, b"".join(chunks))

    def _arrive(self, frame: bytes) -> None:
        if not self.ended:
            self.received(frame)

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = self.ended or "aborted"


def op(f: str, thread: int = 0, value: int | None = None, partition: int = 0) -> Operation:
    return Operation(f, thread, thread, 4, 0, WHERE[0], partition, value)


def batch(base: int, values: list[int]) -> bytes:
    records = [Record(value=encode_value(value, 16)) for value in values]
    return bytes(build_batch(records, timestamp=1, base_offset=base, leader_epoch=EPOCH))


def answered(*parts: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="events", partitions=list(parts))])


def failed(error: ErrorCode, partition: int = 0) -> FetchResponse:
    return answered(PartitionData(partition, int(error), -1, records=b""))


def produced(offset: int, error: int = 0) -> ProduceResponse:
    answer = PartitionProduceResponse(index=0, error_code=error, base_offset=offset)
    return ProduceResponse(responses=[TopicProduceResponse(name="events", partition_responses=[answer])])


def listed(offset: int, error: int = 0) -> ListOffsetsResponse:
    part = ListOffsetsPartitionResponse(
        partition_index=0, error_code=error, offset=offset, timestamp=-1, leader_epoch=EPOCH
    )
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="events", partitions=[part])])


def deleted(low_watermark: int) -> DeleteRecordsResponse:
    part = DeleteRecordsPartitionResult(partition_index=0, low_watermark=low_watermark)
    return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="events", partitions=[part])])


def told(completion: Completion) -> tuple[str, str | None]:
    return completion.type, completion.error

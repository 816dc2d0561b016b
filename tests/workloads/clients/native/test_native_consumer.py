"""The native consumer against a scripted broker: what is asked in one Fetch, what a poll is told, and when.

Time is the simulation's, so half a second of waiting costs nothing and is exact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from squall.harness.simulation.world.kernel import Kernel
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
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
from squall.nodes.protocol.records import Record, build_batch, patch
from squall.nodes.protocol.requests.headers import encode_response
from squall.nodes.protocol.requests.session import ServerSession
from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.common.payload import encode_value
from squall.workloads.clients.native.native import NativeFactory
from squall.workloads.core.operation import FAIL, OK, POLL, Completion, Operation

VERSIONS = {int(ApiKey.FETCH): (4, 12), int(ApiKey.METADATA): (0, 9), int(ApiKey.LIST_OFFSETS): (1, 6)}
PARTITIONS = 4


class ScriptedBroker:
    """Leads every topic-partition of `events`. `records` are by partition; an empty Fetch is held for its max wait."""

    def __init__(self, kernel: Kernel, *, session: int = 0) -> None:
        self.kernel = kernel
        self.session = session
        self.records: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        self.errors: dict[int, int] = {}
        self.fetches: list[FetchRequest] = []
        self.offered: dict[int, int] = {}
        self.down = False

    def answer(self, request: Any) -> tuple[Any, int]:
        """The response and how long it takes, in microseconds."""
        if isinstance(request.body, FetchRequest):
            self.fetches.append(request.body)
            response = self._fetched(request.body)
            return response, 1_000 if response.responses else request.body.max_wait_ms * 1000
        if request.api_key == ApiKey.METADATA:
            parts = [
                MetadataResponsePartition(partition_index=number, leader_id=1, leader_epoch=3)
                for number in range(PARTITIONS)
            ]
            return MetadataResponse(
                brokers=[MetadataResponseBroker(1, "b1", 9092)],
                topics=[MetadataResponseTopic(name="events", partitions=parts)],
            ), 1_000
        asked = request.body.topics[0].partitions[0].partition_index
        part = ListOffsetsPartitionResponse(partition_index=asked, offset=0, timestamp=-1, leader_epoch=3)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="events", partitions=[part])]), 1_000

    def _fetched(self, body: FetchRequest) -> FetchResponse:
        if body.session_epoch <= 0:
            self.offered = {}
        for topic in body.forgotten_topics_data:
            for partition in topic.partitions:
                self.offered.pop(partition, None)
        for asked in body.topics:
            self.offered |= {part.partition: part.fetch_offset for part in asked.partitions}
        parts = []
        for partition, offset in self.offered.items():
            values = self.records[partition][offset:]
            error = self.errors.get(partition, 0)
            if values or error:
                parts.append(
                    PartitionData(
                        partition, error, len(self.records[partition]), records=b"" if error else batch(offset, values)
                    )
                )
        topics = [FetchableTopicResponse(topic="events", partitions=parts)] if parts else []
        return FetchResponse(session_id=self.session, responses=topics)


def batch(base: int, values: list[int]) -> bytes:
    made = bytearray(build_batch([Record(value=encode_value(value, 16)) for value in values], timestamp=1))
    patch(made, base, 3)
    return bytes(made)


class ScriptedStream:
    """One connection to the scripted broker, 1 ms away; responses come in order."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.session = ServerSession(1, "PLAINTEXT", VERSIONS)
        self.received: Callable[[bytes], None] = lambda frame: None

    def listen(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        self.received, self.lost = received, lost

    async def send(self, frame: bytes) -> None:
        if self.broker.down:
            raise ConnectionResetError("gone")
        request = self.session.received(0, frame)
        response, delay = self.broker.answer(request)
        chunks = encode_response(request.api_key, request.api_version, request.correlation_id, response)
        self.broker.kernel.after(delay, self.received, b"".join(chunks))

    def close(self) -> None:
        return None


class Bench:
    """A consumer of all topic-partitions of the scripted broker."""

    def __init__(self, **options: int) -> None:
        self.kernel = Kernel()
        self.broker = ScriptedBroker(self.kernel, **options)
        plan = ClientPlan(0, "consumer", tuple(range(PARTITIONS)), tuple(("events", n) for n in range(PARTITIONS)))
        self.consumer = NativeFactory(self, (("b1", 9092),), self).client(plan)  # type: ignore[arg-type]

    async def connect(self, host: str, port: int) -> ScriptedStream:
        return ScriptedStream(self.broker)

    def now_ns(self) -> int:
        return self.kernel.now * 1000

    def poll(self, *partitions: int) -> list[Completion]:
        """One poll of each, all at once."""

        async def everyone() -> list[Completion]:
            return await asyncio.gather(*(self.invoke(partition) for partition in partitions))

        completions: list[Completion] = self.kernel.run_until_complete(everyone())
        return completions

    async def invoke(self, partition: int) -> Completion:
        return await self.consumer.invoke(Operation(POLL, partition, partition, 0, 0, "events", partition))


def test_polls_of_one_broker_share_a_fetch() -> None:
    bench = Bench()
    bench.broker.records = {partition: [10 + partition] for partition in range(PARTITIONS)}
    completions = bench.poll(0, 1, 2, 3)
    assert [(one.type, one.offsets, one.values) for one in completions] == [
        (OK, (0,), (10 + partition,)) for partition in range(PARTITIONS)
    ]
    assert [(one.position, one.high_watermark, one.leader_epoch, one.node) for one in completions] == [(0, 1, 3, 1)] * 4
    assert [len(fetch.topics[0].partitions) for fetch in bench.broker.fetches] == [4]


def test_a_poll_without_news_waits_and_is_then_told_that_there_is_nothing() -> None:
    bench = Bench()
    (completion,) = bench.poll(0)
    assert (completion.type, completion.offsets, completion.position) == (OK, (), 0)
    assert 5_000_000 <= bench.kernel.now < 6_000_000


def test_one_poll_with_news_does_not_end_the_others() -> None:
    bench = Bench()
    bench.broker.records[2] = [77]

    async def course() -> tuple[Completion, bool]:
        waiting = asyncio.get_running_loop().create_task(bench.invoke(0))
        found = await bench.invoke(2)
        return found, waiting.done()

    found, done = bench.kernel.run_until_complete(course())
    assert (found.values, done) == ((77,), False)


def test_what_comes_later_is_read_from_the_cursor_on_once() -> None:
    bench = Bench()
    bench.broker.records[0] = [10, 11]
    assert bench.poll(0)[0].values == (10, 11)
    bench.broker.records[0].append(12)
    (completion,) = bench.poll(0)
    assert (completion.values, completion.offsets, completion.position) == ((12,), (2,), 2)


def test_an_error_of_one_topic_partition_is_its_own() -> None:
    bench = Bench()
    bench.broker.records[1] = [5]
    bench.broker.errors[0] = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    broken, fine = bench.poll(0, 1)
    assert (broken.type, broken.error) == (FAIL, "not_leader_or_follower")
    assert fine.values == (5,)


def test_out_of_range_begins_a_new_session_of_the_reader() -> None:
    """The log start has moved past the cursor: reading goes on from there, and no promise spans the gap."""
    bench = Bench()
    bench.broker.errors[0] = int(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert bench.poll(0)[0].type == FAIL
    bench.broker.errors.clear()
    bench.broker.records[0] = [9]
    assert bench.poll(0)[0].session == 1


def test_a_lost_connection_fails_the_polls_that_waited() -> None:
    bench = Bench()
    bench.broker.records[0] = [1]
    bench.poll(0)
    bench.broker.down = True
    (completion,) = bench.poll(0)
    assert (completion.type, completion.error) == (FAIL, "disconnected")


def test_an_incremental_session_names_only_what_has_changed() -> None:
    """KIP-227."""
    bench = Bench(session=99)
    bench.broker.records[0] = [1]
    bench.poll(0)
    bench.broker.records[0] += [2]
    bench.poll(0, 1)
    first, second = bench.broker.fetches[:2]
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert (second.session_id, second.session_epoch) == (99, 1)
    assert sorted(part.partition for part in second.topics[0].partitions) == [0, 1]
    bench.broker.records[1] = [3]
    bench.poll(1)
    third = bench.broker.fetches[-1]
    assert third.session_epoch >= 2
    assert [topic.partitions for topic in third.forgotten_topics_data] in ([[0]], [])

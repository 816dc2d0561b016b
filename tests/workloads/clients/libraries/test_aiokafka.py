"""The aiokafka adapter against a node of our own, and against stand-ins for what a healthy node never says."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition, errors
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.common.shared_producer import Delivered
from squall.workloads.clients.kits import LibraryMissing, factory_of
from squall.workloads.clients.libraries import aiokafka_consumer
from squall.workloads.clients.libraries.aiokafka import AiokafkaFactory, AiokafkaProducer, ProducerInstance, offset_of
from squall.workloads.clients.libraries.aiokafka_consumer import AiokafkaConsumer, AiokafkaInstance
from squall.workloads.core.operation import (
    DELETE_RECORDS,
    FAIL,
    INFO,
    LIST_OFFSETS,
    OK,
    POLL,
    REOPEN,
    SEND,
    UNREADABLE_VALUE,
    Completion,
    Operation,
)
from tests.clusters import Cluster

Bootstrap = tuple[tuple[str, int], ...]

NOBODY: Bootstrap = (("127.0.0.1", 1),)


@pytest.fixture(scope="module")
def brokers() -> Iterator[Bootstrap]:
    """A cluster of one node, with a topic for each test."""
    with Cluster.combined() as cluster:
        cluster.wait_until_ready()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        names = ("order", "plain", "reading", "idle", "foreign", "ends", "short")
        for created in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            created.result(10)
        host, _, port = cluster.bootstrap.partition(":")
        yield ((host, int(port)),)


def send(value: int, topic: str, partition: int = 0) -> Operation:
    return Operation(SEND, 0, 0, 3, 0, topic, partition, value)


def poll(topic: str, f: str = POLL) -> Operation:
    return Operation(f, 1, 1, 4, 0, topic, 0)


def producer(brokers: Bootstrap, *, idempotent: bool = True) -> AiokafkaProducer:
    made = AiokafkaFactory(brokers).client(ClientPlan(3, "producer", (0,), (("order", 0),), idempotent=idempotent))
    assert isinstance(made, AiokafkaProducer)
    return made


def consumer(brokers: Bootstrap, topic: str) -> AiokafkaConsumer:
    made = AiokafkaFactory(brokers).client(ClientPlan(4, "consumer", (1,), ((topic, 0),)))
    assert isinstance(made, AiokafkaConsumer)
    return made


async def send_all(brokers: Bootstrap, topic: str, values: list[int], *, idempotent: bool = True) -> list[Completion]:
    client = producer(brokers, idempotent=idempotent)
    await client.open()
    completions = await asyncio.gather(*(client.invoke(send(value, topic)) for value in values))
    await client.close()
    return list(completions)


async def polled(client: AiokafkaConsumer, topic: str, tries: int = 20) -> Completion:
    """The first poll that brings something."""
    for _ in range(tries):
        completion = await client.invoke(poll(topic))
        if completion.offsets or completion.type != OK:
            return completion
    raise AssertionError(f"nothing arrived of {topic}")


@pytest.mark.parametrize(("topic", "idempotent"), [("order", True), ("plain", False)])
def test_pipelined_sends_lie_in_the_order_of_their_sequence(brokers: Bootstrap, topic: str, idempotent: bool) -> None:
    completions = asyncio.run(send_all(brokers, topic, list(range(200)), idempotent=idempotent))
    assert all(completion.type == OK for completion in completions), completions[:3]
    assert [completion.sequence for completion in completions] == list(range(1, 201))
    assert [completion.offset for completion in completions] == list(range(200))
    assert {completion.client for completion in completions} == {3}


def test_a_consumer_delivers_runs_from_the_beginning_and_goes_on_where_it_was(brokers: Bootstrap) -> None:
    async def scenario() -> list[Completion]:
        await send_all(brokers, "reading", [5, 6, 7])
        client = consumer(brokers, "reading")
        await client.open()
        first = await polled(client, "reading")
        await send_all(brokers, "reading", [8])
        second = await polled(client, "reading")
        await client.close()
        return [first, second]

    first, second = asyncio.run(scenario())
    assert (first.offsets, first.values, first.position) == ((0, 1, 2), (5, 6, 7), None)
    assert (second.offsets, second.values, second.position) == ((3,), (8,), 3)
    assert first.session == second.session == 0


def test_a_poll_of_an_idle_log_is_ok_and_empty(brokers: Bootstrap) -> None:
    async def scenario() -> Completion:
        await send_all(brokers, "idle", [1])
        client = consumer(brokers, "idle")
        await client.open()
        await polled(client, "idle")
        empty = await client.invoke(poll("idle"))
        await client.close()
        return empty

    completion = asyncio.run(scenario())
    assert (completion.type, completion.offsets, completion.position) == (OK, (), 1)


def test_a_record_that_is_none_of_ours_is_reported_as_unreadable(brokers: Bootstrap) -> None:
    stranger = Producer({"bootstrap.servers": ",".join(f"{host}:{port}" for host, port in brokers)})
    stranger.produce("foreign", b"hello", partition=0)
    stranger.flush(10)

    async def scenario() -> Completion:
        client = consumer(brokers, "foreign")
        await client.open()
        completion = await polled(client, "foreign")
        await client.close()
        return completion

    assert asyncio.run(scenario()).values == (UNREADABLE_VALUE,)


def test_listed_offsets_are_those_of_the_log(brokers: Bootstrap) -> None:
    async def scenario() -> tuple[Completion, Completion]:
        await send_all(brokers, "ends", [1, 2, 3])
        client = consumer(brokers, "ends")
        await client.open()
        await polled(client, "ends")
        told = await client.invoke(poll("ends", LIST_OFFSETS)), await client.invoke(poll("ends", DELETE_RECORDS))
        await client.close()
        return told

    listed, deleted = asyncio.run(scenario())
    assert (listed.log_start, listed.high_watermark) == (0, 3)
    assert (deleted.type, deleted.error) == (FAIL, "not_offered")


def test_a_record_for_an_absent_partition_never_reaches_the_library(brokers: Bootstrap) -> None:
    async def scenario() -> list[Completion]:
        client = producer(brokers)
        await client.open()
        known = await client.invoke(send(1, "short"))
        unknown = await client.invoke(send(2, "short", partition=5))
        after = await client.invoke(send(3, "short"))
        await client.close()
        return [known, unknown, after]

    known, unknown, after = asyncio.run(scenario())
    assert (known.type, unknown.type, after.type) == (OK, FAIL, OK)
    assert after.client == known.client, "one record that cannot be sent is no reason for a new producer"


def test_what_was_never_handed_over_has_certainly_not_happened() -> None:
    async def scenario() -> Completion:
        client = producer(NOBODY)
        await client.open()
        waiting = asyncio.create_task(client.invoke(send(1, "order")))
        await asyncio.sleep(0)
        await client.close()
        return await asyncio.wait_for(waiting, 5)

    completion = asyncio.run(scenario())
    assert (completion.type, completion.error) == (FAIL, "closed")


def metadata(offset: int, log_start_offset: int | None) -> SimpleNamespace:
    return SimpleNamespace(offset=offset, log_start_offset=log_start_offset)


@pytest.mark.parametrize(
    ("answer", "offset"),
    [
        (metadata(7, 0), 7),
        (metadata(0, 0), 0),
        (metadata(7, None), 7),
        (metadata(-1, -1), None),
        (metadata(4, -1), None),
        (None, None),
    ],
    ids=[
        "acknowledged",
        "the first",
        "an old broker",
        "duplicate, first of its batch",
        "duplicate, its sixth",
        "acks 0",
    ],
)
def test_an_offset_is_recorded_only_if_the_broker_answered_one(answer: Any, offset: int | None) -> None:
    assert offset_of(answer) == offset


@pytest.mark.parametrize(("idempotent", "dies"), [(True, True), (False, False)])
def test_a_failed_record_may_have_arrived_and_ends_an_idempotent_instance(idempotent: bool, dies: bool) -> None:
    async def scenario() -> tuple[ProducerInstance, Delivered]:
        loop = asyncio.get_running_loop()
        instance = ProducerInstance({"bootstrap_servers": ["127.0.0.1:1"], "enable_idempotence": idempotent}, loop)
        report: asyncio.Future[Delivered] = loop.create_future()
        failed: asyncio.Future[object] = loop.create_future()
        failed.set_exception(errors.NotLeaderForPartitionError())
        instance._reported(report, failed)
        dead = instance.dead
        instance.retire()
        await instance.ended()
        assert dead == dies
        return instance, await report

    _, delivered = asyncio.run(scenario())
    assert (delivered.meaning, delivered.refused, delivered.error) == (INFO, False, "not_leader_or_follower")


class LosingItsPlace:
    """A consumer of the library whose log was cut behind its position."""

    def __init__(self) -> None:
        place = TopicPartition("events", 0)
        self.answers: list[object] = [
            {place: [SimpleNamespace(offset=0, value=(7).to_bytes(8, "big"))]},
            errors.OffsetOutOfRangeError({place: 1}),
            {place: [SimpleNamespace(offset=0, value=(9).to_bytes(8, "big"))]},
        ]
        self.sought: list[tuple[object, ...]] = []

    async def getmany(self, **_: object) -> object:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def seek_to_beginning(self, *places: object) -> None:
        self.sought.append(places)


def test_a_position_gone_fails_one_poll_and_restarts_from_the_beginning() -> None:
    async def scenario(library: Any) -> list[Completion]:
        client = consumer(NOBODY, "events")  # not opened: the task's part is done here
        client.instance = AiokafkaInstance({}, {("events", 0): 0}, from_beginning=True)
        for _ in range(3):
            await client.instance._poll(library)
        return [await client.invoke(poll("events")) for _ in range(4)]

    library = LosingItsPlace()
    before, failed, after, empty = asyncio.run(scenario(library))
    assert (before.values, before.session) == ((7,), 0)
    assert (failed.type, failed.error, failed.session) == (FAIL, "offset_out_of_range", 0)
    assert (after.values, after.session, after.position) == ((9,), 1, None)
    assert (empty.type, empty.offsets, empty.position) == (OK, (), 1)
    assert library.sought == [(TopicPartition("events", 0),)]


def test_a_consumer_whose_task_died_fails_its_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unusable:
        """A consumer of the library that breaks as nobody expected."""

        def __init__(self, **_: object) -> None: ...

        async def start(self) -> None:
            raise ValueError("broken")

        async def stop(self) -> None: ...

    monkeypatch.setattr(aiokafka_consumer, "AIOKafkaConsumer", Unusable)

    async def scenario() -> list[Completion]:
        client = consumer(NOBODY, "events")
        await client.open()
        told = [await client.invoke(poll("events", f)) for f in (POLL, POLL, LIST_OFFSETS, DELETE_RECORDS, SEND)]
        await client.close()
        return told

    told = asyncio.run(scenario())
    assert [(one.type, one.error) for one in told] == [(FAIL, "value")] * 3 + [(FAIL, "not_offered")] * 2


def test_consumers_check_what_they_read_and_name_their_rack() -> None:
    made = AiokafkaFactory(NOBODY).client(ClientPlan(4, "consumer", (1,), (("events", 0),), rack="r1"))
    assert isinstance(made, AiokafkaConsumer)
    assert (made.configuration["check_crcs"], made.configuration["client_rack"]) == (True, "r1")
    assert "client_rack" not in consumer(NOBODY, "events").configuration


def test_a_consumer_that_finds_no_broker_is_reopened_and_closed() -> None:
    """At any moment of its attempts: the library swallows the one or other cancel."""

    async def scenario() -> None:
        for pause in (0.0, 0.01, 0.05, 0.1):
            client = consumer(NOBODY, "events")
            await client.open()
            # The moment is what differs: the library's attempts to connect offer nothing to wait for.
            await asyncio.sleep(pause)
            reopened = await client.invoke(Operation(REOPEN, 1, 1, 4, 0))
            assert (reopened.type, reopened.client) == (OK, 10_004)
            # As above.
            await asyncio.sleep(pause)
            await asyncio.wait_for(client.close(), 5)

    asyncio.run(scenario())


def test_the_library_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    monkeypatch.delitem(sys.modules, "squall.workloads.clients.libraries.aiokafka", raising=False)
    with pytest.raises(LibraryMissing, match=r'"aiokafka".*not installed.*pip install "squall\[aiokafka\]"'):
        factory_of("aiokafka", NOBODY)

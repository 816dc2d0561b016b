"""The kafka-python adapter against a node of our own: librdkafka's mock brokers do not speak all that it asks for."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import TopicPartition, errors

from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.common.errors import exception_name
from squall.workloads.clients.common.shared_producer import Delivered
from squall.workloads.clients.kits import factory_of
from squall.workloads.clients.libraries import kafka_python, kafka_python_consumer
from squall.workloads.clients.libraries.confluent import ConfluentConsumer, ConfluentProducer
from squall.workloads.clients.libraries.kafka_python import (
    KafkaPythonFactory,
    KafkaPythonProducer,
    ProducerInstance,
)
from squall.workloads.clients.libraries.kafka_python_consumer import KafkaPythonConsumer, KafkaPythonInstance
from squall.workloads.core.operation import (
    DELETE_RECORDS,
    FAIL,
    LIST_OFFSETS,
    OK,
    POLL,
    SEND,
    UNREADABLE_VALUE,
    Completion,
    Operation,
)
from tests.clusters import Cluster
from tests.waiting import soon

Bootstrap = tuple[tuple[str, int], ...]

NOBODY: Bootstrap = (("127.0.0.1", 1),)


@pytest.fixture(scope="module")
def brokers() -> Iterator[Bootstrap]:
    """A cluster of one node, with a topic for each test."""
    with Cluster.combined() as cluster:
        cluster.wait_until_ready()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topics = [NewTopic(name, 1, 1) for name in ("order", "reading", "idle", "foreign", "ends")]
        for created in admin.create_topics(topics).values():
            created.result(10)
        host, _, port = cluster.bootstrap.partition(":")
        yield ((host, int(port)),)


def send(value: int, topic: str = "events") -> Operation:
    return Operation(SEND, 0, 0, 3, 0, topic, 0, value)


def poll(topic: str, f: str = POLL) -> Operation:
    return Operation(f, 1, 1, 4, 0, topic, 0)


def producer(brokers: Bootstrap) -> KafkaPythonProducer:
    made = KafkaPythonFactory(brokers).client(ClientPlan(3, "producer", (0,), (("events", 0),)))
    assert isinstance(made, KafkaPythonProducer)
    return made


def consumer(brokers: Bootstrap, topic: str) -> KafkaPythonConsumer:
    made = KafkaPythonFactory(brokers).client(ClientPlan(4, "consumer", (1,), ((topic, 0),)))
    assert isinstance(made, KafkaPythonConsumer)
    return made


async def send_all(brokers: Bootstrap, topic: str, values: list[int]) -> list[Completion]:
    client = producer(brokers)
    await client.open()
    completions = await asyncio.gather(*(client.invoke(send(value, topic)) for value in values))
    await client.close()
    return list(completions)


async def polled(client: KafkaPythonConsumer, topic: str, tries: int = 20) -> Completion:
    """The first poll that brings something."""
    for _ in range(tries):
        completion = await client.invoke(poll(topic))
        if completion.offsets or completion.type != OK:
            return completion
    raise AssertionError(f"nothing arrived of {topic}")


def test_pipelined_sends_lie_in_the_order_of_their_sequence(brokers: Bootstrap) -> None:
    completions = asyncio.run(send_all(brokers, "order", list(range(200))))
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
    async def scenario() -> Completion:
        await send_all(brokers, "ends", [1, 2, 3])
        client = consumer(brokers, "ends")
        await client.open()
        completion = await client.invoke(poll("ends", LIST_OFFSETS))
        await client.close()
        return completion

    completion = asyncio.run(scenario())
    assert (completion.log_start, completion.high_watermark) == (0, 3)


def test_a_position_gone_fails_one_poll_and_restarts_from_the_beginning() -> None:
    class Library:
        """A consumer whose log was cut behind its position."""

        def __init__(self) -> None:
            self.answers: list[object] = [
                {
                    TopicPartition("events", 0): [
                        SimpleNamespace(offset=0, leader_epoch=4, value=(7).to_bytes(8, "big"))
                    ]
                },
                errors.LogTruncationError({TopicPartition("events", 0): None}),
                {
                    TopicPartition("events", 0): [
                        SimpleNamespace(offset=0, leader_epoch=4, value=(9).to_bytes(8, "big"))
                    ]
                },
            ]
            self.sought: list[tuple[object, ...]] = []

        def poll(self, timeout_ms: int) -> object:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        def seek_to_beginning(self, *places: object) -> None:
            self.sought.append(places)

    async def scenario(library: Library) -> list[Completion]:
        client = consumer(NOBODY, "events")  # not opened: the thread's part is done here
        client.instance = KafkaPythonInstance({}, {("events", 0): 0}, from_beginning=True)
        for _ in range(3):
            client.instance._poll(library)
        await asyncio.sleep(0)
        return [await client.invoke(poll("events")) for _ in range(4)]

    library = Library()
    before, failed, after, empty = asyncio.run(scenario(library))
    assert (before.values, before.session) == ((7,), 0)
    assert (failed.type, failed.error, failed.session) == (FAIL, "log_truncation", 0)
    assert (after.values, after.session, after.position) == ((9,), 1, None)
    assert (empty.type, empty.offsets, empty.position) == (OK, (), 1)
    assert library.sought == [(TopicPartition("events", 0),)]


class Unusable:
    """A consumer of the library that breaks as nobody expected."""

    def __init__(self, **_: object) -> None:
        raise ValueError("broken")


def test_a_consumer_whose_thread_died_fails_and_refuses_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_python_consumer, "KafkaConsumer", Unusable)

    async def scenario() -> list[Completion]:
        client = consumer(NOBODY, "events")
        await client.open()
        told = [await client.invoke(poll("events", f)) for f in (POLL, POLL, LIST_OFFSETS, DELETE_RECORDS, SEND)]
        await client.close()
        return told

    told = asyncio.run(scenario())
    assert [(one.type, one.error) for one in told] == [(FAIL, "value")] * 3 + [(FAIL, "not_offered")] * 2


def test_a_seek_before_any_broker_answers_is_where_the_consumer_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def __init__(self) -> None:
            self.calls: list[object] = []

        def assign(self, _: object) -> None: ...

        def seek_to_beginning(self, *places: object) -> None:
            self.calls.append("beginning")

        def seek(self, place: object, offset: int) -> None:
            self.calls.append((place, offset))

    async def scenario(library: Library) -> Completion:
        instance = KafkaPythonInstance({}, {("events", 0): 0}, from_beginning=True)
        seeking = asyncio.create_task(instance.seek(("events", 0), 7))
        await asyncio.sleep(0)
        instance.carry_out_seeks()
        instance._assign(library)
        return await seeking

    library = Library()
    sought = asyncio.run(scenario(library))
    assert (sought.type, sought.session, sought.position) == (OK, 1, 7)
    assert library.calls == ["beginning", (TopicPartition("events", 0), 7)]


def test_consumers_check_what_they_read_and_name_their_rack() -> None:
    made = KafkaPythonFactory(NOBODY).client(ClientPlan(4, "consumer", (1,), (("events", 0),), rack="r1"))
    assert isinstance(made, KafkaPythonConsumer)
    assert (made.configuration["check_crcs"], made.configuration["client_rack"]) == (True, "r1")
    assert "client_rack" not in consumer(NOBODY, "events").configuration


class Overtaking(queue.SimpleQueue[Any]):
    """A queue into which the event loop puts one more record just when the thread has found it empty."""

    one_more: Callable[[], object] | None = None

    def get_nowait(self) -> Any:
        try:
            return super().get_nowait()
        except queue.Empty:
            if self.one_more is not None:
                one_more, self.one_more = self.one_more, None
                one_more()
            raise


def test_records_that_wait_for_a_broker_are_handed_over_in_the_order_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handed:
        """The library; the broker answers at the second attempt."""

        attempts = 0
        payloads: ClassVar[list[bytes]] = []

        def __init__(self, **_: object) -> None:
            Handed.attempts += 1
            if Handed.attempts == 1:
                begun.wait(5)
                raise errors.KafkaConnectionError("nobody")
            self._sender = SimpleNamespace(force_close=lambda: None, join=lambda _: None)

        def send(self, _: str, payload: bytes, partition: int) -> Any:
            self.payloads.append(payload)
            metadata = SimpleNamespace(offset=len(self.payloads))
            return SimpleNamespace(add_callback=lambda call: call(metadata), add_errback=lambda _: None)

        def flush(self, _: float) -> None: ...

        def close(self, timeout: float) -> None: ...

    begun = threading.Event()
    monkeypatch.setattr(kafka_python, "KafkaProducer", Handed)

    async def scenario() -> None:
        instance = ProducerInstance({}, asyncio.get_running_loop())
        waiting = Overtaking()
        instance._records = waiting
        third: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        late = kafka_python._Record("events", 0, b"3", third, time.monotonic() + 10)
        waiting.one_more = lambda: waiting.put(late)
        sends = [asyncio.create_task(instance.send("events", 0, payload)) for payload in (b"1", b"2")]
        await asyncio.sleep(0)
        begun.set()
        await asyncio.gather(*sends, third)
        instance.retire()
        await instance.ended()

    asyncio.run(scenario())
    assert Handed.payloads == [b"1", b"2", b"3"]


@pytest.mark.parametrize(("acks", "offset"), [(0, None), (1, 4), ("all", 4)])
def test_offsets_are_those_of_an_acknowledgement(acks: int | str, offset: int | None) -> None:
    """Without acknowledgements the library tells offsets that it has made up."""

    async def scenario() -> Delivered:
        loop = asyncio.get_running_loop()
        instance = ProducerInstance(
            {"bootstrap_servers": ["127.0.0.1:1"], "bootstrap_timeout_ms": 10, "acks": acks}, loop
        )
        report: asyncio.Future[Delivered] = loop.create_future()
        instance._acknowledged(report, 4)
        instance.retire()
        return await report

    assert asyncio.run(scenario()) == Delivered(offset=offset)


def test_what_was_never_handed_over_has_certainly_not_happened() -> None:
    async def scenario() -> Completion:
        client = producer(NOBODY)
        await client.open()
        waiting = asyncio.create_task(client.invoke(send(1)))
        instance = client.life.instance
        assert isinstance(instance, ProducerInstance)
        await soon(lambda: instance._open, "the record waits to be handed over")
        await client.close()
        return await asyncio.wait_for(waiting, 5)

    completion = asyncio.run(scenario())
    assert (completion.type, completion.error) == (FAIL, "closed")


@pytest.mark.parametrize(
    ("error", "dies"),
    [
        (errors.KafkaTimeoutError("expired"), False),
        (errors.NotEnoughReplicasAfterAppendError(), False),
        (errors.OutOfOrderSequenceNumberError(), False),
        (errors.ProducerFencedError(), True),
        (errors.DuplicateSequenceNumberError(), True),
    ],
)
def test_an_instance_dies_of_what_the_library_does_not_recover_from(error: Exception, dies: bool) -> None:
    async def scenario() -> tuple[bool, Delivered]:
        instance = ProducerInstance({"bootstrap_servers": ["127.0.0.1:1"], "bootstrap_timeout_ms": 10}, loop())
        report: asyncio.Future[Delivered] = loop().create_future()
        instance._failed(report, error)
        died_of_it = instance.dead  # once it is retired, it dies of that
        instance.retire()
        return died_of_it, await report

    def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    died_of_it, delivered = asyncio.run(scenario())
    assert (died_of_it, delivered.refused, delivered.error) == (dies, False, exception_name(error))


def test_a_mixed_kit_gives_every_other_client_to_each_library() -> None:
    factory = factory_of("mixed", NOBODY)
    made = [factory.client(ClientPlan(number, "producer", (0,), (("events", 0),))) for number in range(2)]
    made += [factory.client(ClientPlan(number, "consumer", (0,), (("events", 0),))) for number in range(2)]
    assert [type(client) for client in made] == [
        ConfluentProducer,
        KafkaPythonProducer,
        ConfluentConsumer,
        KafkaPythonConsumer,
    ]

"""The librdkafka adapter against librdkafka's own mock brokers: real sockets, no cluster of ours."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.libraries import confluent
from squall.workloads.clients.libraries.confluent import (
    ConfluentConsumer,
    ConfluentFactory,
    ConfluentProducer,
    sort_out,
)
from squall.workloads.core.operation import (
    CREATE_TOPIC,
    DELETE_RECORDS,
    FAIL,
    LIST_OFFSETS,
    OK,
    POLL,
    REOPEN,
    SEEK,
    SEND,
    UNREADABLE_VALUE,
    Completion,
    Operation,
)
from tests.waiting import soon

Bootstrap = tuple[tuple[str, int], ...]


@pytest.fixture(scope="module")
def brokers() -> Iterator[Bootstrap]:
    """Three mock brokers that live as long as the producer that owns them."""
    owner = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "mock", "log_level": 0})
    metadata = owner.list_topics(timeout=10)
    yield tuple((broker.host, broker.port) for broker in metadata.brokers.values())
    owner.flush(1)


def send(value: int, partition: int = 0, topic: str = "events") -> Operation:
    return Operation(SEND, 0, 0, 3, 0, topic, partition, value)


def poll(topic: str, partition: int = 0, f: str = POLL) -> Operation:
    return Operation(f, 1, 1, 4, 0, topic, partition)


def producer(brokers: Bootstrap) -> ConfluentProducer:
    made = ConfluentFactory(brokers).client(ClientPlan(3, "producer", (0,), (("events", 0),)))
    assert isinstance(made, ConfluentProducer)
    return made


def consumer(brokers: Bootstrap, topic: str) -> ConfluentConsumer:
    made = ConfluentFactory(brokers).client(ClientPlan(4, "consumer", (1,), ((topic, 0),)))
    assert isinstance(made, ConfluentConsumer)
    return made


async def send_all(brokers: Bootstrap, topic: str, values: list[int]) -> list[Completion]:
    client = producer(brokers)
    await client.open()
    completions = await asyncio.gather(*(client.invoke(send(value, topic=topic)) for value in values))
    await client.close()
    return list(completions)


def test_pipelined_sends_lie_in_the_order_of_their_sequence(brokers: Bootstrap) -> None:
    completions = asyncio.run(send_all(brokers, "order", list(range(200))))
    assert all(completion.type == OK for completion in completions)
    assert [completion.sequence for completion in completions] == list(range(1, 201))
    assert [completion.offset for completion in completions] == list(range(200))
    assert {completion.client for completion in completions} == {3}


def test_a_consumer_delivers_runs_from_the_beginning_and_goes_on_where_it_was(brokers: Bootstrap) -> None:
    async def scenario() -> list[Completion]:
        await send_all(brokers, "reading", [5, 6, 7])
        client = consumer(brokers, "reading")
        await client.open()
        first = await client.invoke(poll("reading"))
        await send_all(brokers, "reading", [8])
        second = await client.invoke(poll("reading"))
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
        await client.invoke(poll("idle"))
        empty = await client.invoke(poll("idle"))
        await client.close()
        return empty

    completion = asyncio.run(scenario())
    assert (completion.type, completion.offsets, completion.position) == (OK, (), 1)


def test_a_seek_begins_a_new_session(brokers: Bootstrap) -> None:
    async def scenario() -> tuple[Completion, Completion, Completion]:
        await send_all(brokers, "seeking", [1, 2])
        client = consumer(brokers, "seeking")
        await client.open()
        before = await client.invoke(poll("seeking"))
        sought = await client.invoke(Operation(SEEK, 1, 1, 4, 0, "seeking", 0, 1))
        after = await client.invoke(poll("seeking"))
        await client.close()
        return before, sought, after

    before, sought, after = asyncio.run(scenario())
    assert (sought.type, sought.session, sought.position) == (OK, 1, 1)
    assert (before.offsets, after.offsets) == ((0, 1), (1,))
    assert (before.session, after.session, after.position) == (0, 1, 1)


def message(offset: int | None, error: int | None = None, value: int = 7) -> Any:
    """As librdkafka hands it over."""
    return SimpleNamespace(
        topic=lambda: "events",
        partition=lambda: 0,
        offset=lambda: offset,
        error=lambda: None if error is None else KafkaError(error),
        value=lambda: value.to_bytes(8, "big"),
        leader_epoch=lambda: 2,
    )


def test_a_position_that_is_gone_is_restarted_whatever_else_is_told_with_it() -> None:
    truncated, unavailable = KafkaError._LOG_TRUNCATION, KafkaError.LEADER_NOT_AVAILABLE
    messages = [message(3), message(4), message(4, truncated), message(None, unavailable), message(5)]
    runs, gone = sort_out(messages, {("events", 0): 6})
    assert [(run.session, run.offsets, run.error) for _, run in runs] == [
        (6, [3, 4], None),
        (6, [], "log_truncation"),
        (6, [], "leader_not_available"),
        (6, [5], None),
    ]
    assert gone == {("events", 0)}


class Scripted:
    """Stands in for librdkafka's consumer: what it fetches comes when the test lets it."""

    def __init__(self, *_: object, **__: object) -> None:
        self.fetched: queue.Queue[list[Any] | Exception] = queue.Queue()
        self.sought: list[int] = []
        self.waits = threading.Event()
        self.closed = False

    def assign(self, _: object) -> None: ...

    def incremental_unassign(self, _: object) -> None: ...

    def incremental_assign(self, assignment: list[Any]) -> None:
        self.sought.append(assignment[0].offset)

    def consume(self, _: int, timeout: float) -> list[Any]:
        self.waits.set()
        try:
            answer = self.fetched.get(timeout=timeout)
        except queue.Empty:
            return []
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[Scripted]:
    """The consumers that were made."""
    made: list[Scripted] = []

    def make(*_: object, **__: object) -> Scripted:
        made.append(Scripted())
        return made[-1]

    monkeypatch.setattr(confluent, "Consumer", make)
    return made


NOBODY: Bootstrap = (("127.0.0.1", 1),)


def test_what_was_fetched_before_a_seek_is_not_booked_under_its_session(scripted: list[Scripted]) -> None:
    async def scenario() -> tuple[Completion, Completion]:
        client = consumer(NOBODY, "events")
        await client.open()
        library = scripted[0]
        library.waits.wait(5)
        seeking = asyncio.create_task(client.invoke(Operation(SEEK, 1, 1, 4, 0, "events", 0, 2)))
        await asyncio.sleep(0)
        library.fetched.put([message(9)])
        sought = await seeking
        library.fetched.put([message(2)])
        after = await client.invoke(poll("events"))
        await client.close()
        return sought, after

    sought, after = asyncio.run(scenario())
    assert (sought.type, sought.session, sought.position) == (OK, 1, 2)
    assert (after.offsets, after.session, after.position) == ((2,), 1, 2)
    assert scripted[0].sought == [2] and scripted[0].closed


def test_polls_of_a_consumer_whose_thread_died_fail_until_it_is_reopened(scripted: list[Scripted]) -> None:
    async def scenario() -> tuple[list[Completion], Completion, Completion]:
        client = consumer(NOBODY, "events")
        await client.open()
        scripted[0].fetched.put(RuntimeError("broken"))
        dead = [await client.invoke(poll("events")) for _ in range(2)]
        dead.append(await client.invoke(Operation(SEEK, 1, 1, 4, 0, "events", 0, 2)))
        dead.append(await client.invoke(poll("events", f=LIST_OFFSETS)))
        reopened = await client.invoke(Operation(REOPEN, 1, 1, 4, 0))
        scripted[1].fetched.put([message(0)])
        alive = await client.invoke(poll("events"))
        await client.close()
        return dead, reopened, alive

    dead, reopened, alive = asyncio.run(scenario())
    assert [(one.type, one.error) for one in dead] == [(FAIL, "runtime")] * 4
    assert (reopened.type, reopened.client) == (OK, 10_004)
    assert (alive.type, alive.offsets, alive.session, alive.client) == (OK, (0,), 1, 10_004)


def test_consumers_check_what_they_read_and_name_their_rack(brokers: Bootstrap) -> None:
    made = ConfluentFactory(brokers).client(ClientPlan(4, "consumer", (1,), (("events", 0),), rack="r1"))
    assert isinstance(made, ConfluentConsumer)
    assert (made.configuration["check.crcs"], made.configuration["client.rack"]) == (True, "r1")
    assert "client.rack" not in consumer(brokers, "events").configuration


@pytest.mark.parametrize("f", [DELETE_RECORDS, SEND, CREATE_TOPIC])
def test_what_a_consumer_does_not_know_is_refused(scripted: list[Scripted], f: str) -> None:
    async def scenario() -> Completion:
        client = consumer(NOBODY, "events")
        await client.open()
        scripted[0].fetched.put([message(0)])
        told = await client.invoke(poll("events", f=f))
        await client.close()
        return told

    told = asyncio.run(scenario())
    assert (told.type, told.error) == (FAIL, "not_offered")


def test_a_record_that_is_none_of_ours_is_reported_as_unreadable(brokers: Bootstrap) -> None:
    stranger = Producer({"bootstrap.servers": ",".join(f"{host}:{port}" for host, port in brokers)})
    stranger.produce("foreign", b"hello", partition=0)
    stranger.flush(10)

    async def scenario() -> Completion:
        client = consumer(brokers, "foreign")
        await client.open()
        completion = await client.invoke(poll("foreign"))
        await client.close()
        return completion

    assert asyncio.run(scenario()).values == (UNREADABLE_VALUE,)


def test_listed_offsets_are_those_of_the_log(brokers: Bootstrap) -> None:
    async def scenario() -> Completion:
        await send_all(brokers, "ends", [1, 2, 3])
        client = consumer(brokers, "ends")
        await client.open()
        completion = await client.invoke(poll("ends", f=LIST_OFFSETS))
        await client.close()
        return completion

    completion = asyncio.run(scenario())
    assert (completion.log_start, completion.high_watermark) == (0, 3)


def test_a_consumer_that_ends_while_offsets_are_asked_for_breaks_no_question(
    scripted: list[Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread has half a second to end between the two requests of a question."""
    asked: list[object] = []

    async def scenario() -> tuple[Completion, Completion]:
        client = consumer(NOBODY, "events")
        await client.open()
        instance = client.instance
        assert isinstance(instance, confluent.ConfluentInstance) and instance._thread is not None
        thread = instance._thread

        class EndsMeanwhile:
            def __init__(self, _: object) -> None: ...

            def list_offsets(self, wanted: dict[object, object], **_: object) -> dict[object, Future[None]]:
                asked.append(wanted)
                instance.retire()
                thread.join(0.5)
                return {one: Future() for one in wanted}

        monkeypatch.setattr(confluent, "AdminClient", EndsMeanwhile)
        during = await client.invoke(poll("events", f=LIST_OFFSETS))
        await instance.ended()
        after = await instance.list_offsets(("events", 0))
        await client.close()
        return during, after

    told = asyncio.run(scenario())
    assert [(one.type, one.error) for one in told] == [(FAIL, "closed")] * 2
    assert len(asked) == 2


def test_what_is_open_when_a_producer_closes_does_not_stay_open() -> None:
    async def scenario() -> Completion:
        client = ConfluentFactory((("127.0.0.1", 1),)).client(ClientPlan(3, "producer", (0,), (("events", 0),)))
        await client.open()
        waiting = asyncio.create_task(client.invoke(send(1)))
        instance = client.life.instance
        await soon(lambda: instance.open, "the record is handed over")
        await client.close()
        return await asyncio.wait_for(waiting, 5)

    assert asyncio.run(scenario()).type != OK


def test_a_send_that_is_answered_or_given_up_is_no_longer_waited_for(brokers: Bootstrap) -> None:
    async def scenario() -> tuple[int, int, int]:
        client = producer(brokers)
        await client.open()
        assert client.life is not None
        waiting = client.life.instance.open  # type: ignore[attr-defined]
        sends = [asyncio.create_task(client.invoke(send(value, topic="waits"))) for value in range(3)]
        await asyncio.sleep(0)
        begun = len(waiting)
        sends[0].cancel()
        await asyncio.gather(sends[0], return_exceptions=True)
        given_up = len(waiting)
        await asyncio.gather(*sends[1:])
        answered = len(waiting)
        await client.close()
        return begun, given_up, answered

    assert asyncio.run(scenario()) == (3, 2, 0)


def test_the_client_that_asks_for_offsets_connects_as_the_consumer_does() -> None:
    """A consumer's own settings are none of its, and what secures a connection is."""
    shared = {"bootstrap.servers": "a:1", "client.id": "me", "socket.timeout.ms": 4000}
    secured = {"security.protocol": "SASL_SSL", "ssl.ca.location": "ca.pem", "sasl.username": "me"}
    of_consumer = {"group.id": "g", "enable.auto.commit": False}
    assert confluent.of_connections({**shared, **secured, **of_consumer}) == {**shared, **secured}

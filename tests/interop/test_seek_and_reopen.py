"""Load clients of the real libraries against real brokers: they seek, and are abandoned with work under way.

What was said of sends is held against the log: all that was acknowledged is there, and nothing that failed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Literal

import pytest

from squall.workloads.clients.common.client import Client, ClientPlan
from squall.workloads.clients.kits import Library, factory_of
from squall.workloads.core.operation import (
    FAIL,
    INFO,
    LIST_OFFSETS,
    OK,
    POLL,
    REOPEN,
    SEEK,
    SEND,
    Completion,
    Operation,
)

pytestmark = pytest.mark.xdist_group("interop")

LIBRARIES: tuple[Library, ...] = ("confluent", "kafka-python", "aiokafka")
POLLS = 20
UNDER_WAY = 500
PAUSES_S = (0.0, 0.012)
"""Nothing is in flight at the first reopen, or next to nothing; much is at the second."""

THREADS_OF_OURS = ("producer-poll", "consumer-poll", "kafka-python-producer", "kafka-python-consumer")


def client_of(
    library: Library,
    bootstrap: str,
    topic: str,
    role: Literal["producer", "consumer"],
    acks: Literal["all", "0"] = "all",
) -> Client:
    addresses = tuple((host, int(port)) for host, _, port in (one.partition(":") for one in bootstrap.split(",")))
    plan = ClientPlan(3, role, (0,), ((topic, 0),), acks=acks, idempotent=acks == "all")
    return factory_of(library, addresses).client(plan)


def asking(f: str, topic: str, value: int | None = None) -> Operation:
    return Operation(f, 0, 0, 3, 0, topic, 0, value)


async def polled(client: Client, topic: str) -> Completion:
    """The first poll that brings something."""
    for _ in range(POLLS):
        completion = await client.invoke(asking(POLL, topic))
        if completion.offsets or completion.type != OK:
            return completion
    raise AssertionError(f"nothing arrived of {topic}")


async def read_to(client: Client, topic: str, end: int) -> list[Completion]:
    """Polls until the one that brings the last offset before `end`."""
    told = [await polled(client, topic)]
    while told[-1].type == OK and told[-1].offsets[-1] < end - 1:
        told.append(await polled(client, topic))
    return told


def offsets_of(told: list[Completion]) -> list[int]:
    return [offset for one in told for offset in one.offsets]


async def with_client(client: Client, scenario: Callable[[Client], Awaitable[list[Completion]]]) -> list[Completion]:
    await client.open()
    try:
        return await scenario(client)
    finally:
        await client.close()


async def written(library: Library, bootstrap: str, topic: str, count: int) -> list[Completion]:
    async def sends(client: Client) -> list[Completion]:
        return list(await asyncio.gather(*(client.invoke(asking(SEND, topic, value)) for value in range(count))))

    return await with_client(client_of(library, bootstrap, topic, "producer"), sends)


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name in THREADS_OF_OURS or "network" in one.name]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_consumer_seeks_and_is_reopened(library: Library, bootstrap: str, topic: str) -> None:
    async def scenario(client: Client) -> list[Completion]:
        before = await read_to(client, topic, 20)
        assert (offsets_of(before), before[0].session, before[0].client) == (list(range(20)), 0, None)

        sought = await client.invoke(asking(SEEK, topic, 5))
        assert (sought.type, sought.session, sought.position) == (OK, 1, 5)
        again = await read_to(client, topic, 20)
        assert offsets_of(again) == list(range(5, 20))
        assert (again[0].position, {one.session for one in again}) == (5, {1})

        await client.invoke(asking(SEEK, topic, 1000))
        lost = await polled(client, topic)
        assert (lost.type, lost.session) == (FAIL, 2)
        restarted = await read_to(client, topic, 20)
        assert (offsets_of(restarted), restarted[0].session, restarted[0].position) == (list(range(20)), 3, None)

        question = asyncio.ensure_future(client.invoke(asking(LIST_OFFSETS, topic)))
        await asyncio.sleep(0)
        reopened = await client.invoke(asking(REOPEN, topic))
        assert (reopened.type, reopened.client) == (OK, 10_003)
        asked = await asyncio.wait_for(question, 1)
        assert (asked.type, asked.error) in {(FAIL, "closed"), (OK, None)}
        anew = await read_to(client, topic, 20)
        assert offsets_of(anew) == list(range(20))
        assert {(one.session, one.client) for one in anew} == {(4, 10_003)}
        ends = await client.invoke(asking(LIST_OFFSETS, topic))
        assert (ends.log_start, ends.high_watermark, ends.client) == (0, 20, 10_003)
        return anew

    async def whole() -> None:
        await written(library, bootstrap, topic, 20)
        await with_client(client_of(library, bootstrap, topic, "consumer"), scenario)

    asyncio.run(whole())
    assert threads() == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_producer_is_reopened_with_sends_under_way(library: Library, bootstrap: str, topic: str) -> None:
    told: list[Completion] = []

    async def sends(client: Client) -> list[Completion]:
        for round, pause in enumerate(PAUSES_S):
            told.append(await client.invoke(asking(SEND, topic, len(told))))
            values = range(len(told), len(told) + UNDER_WAY)
            under_way = [asyncio.ensure_future(client.invoke(asking(SEND, topic, value))) for value in values]
            # The moment is what differs: before, while and after the records are sent.
            await asyncio.sleep(pause)
            reopened = await client.invoke(asking(REOPEN, topic))
            assert (reopened.type, reopened.client) == (OK, 10_003 + round * 10_000)
            told.extend(await asyncio.wait_for(asyncio.gather(*under_way), 5))
        return [await client.invoke(asking(SEND, topic, len(told)))]

    async def whole() -> tuple[Completion, list[Completion]]:
        (later,) = await with_client(client_of(library, bootstrap, topic, "producer"), sends)
        assert later.offset is not None
        end = later.offset + 1

        async def reads(client: Client) -> list[Completion]:
            return await read_to(client, topic, end)

        return later, await with_client(client_of("confluent", bootstrap, topic, "consumer"), reads)

    later, read = asyncio.run(whole())
    stored = [value for one in read for value in one.values]
    assert (later.type, later.client, later.sequence, later.idempotent) == (OK, 20_003, 1, None)
    assert [one.client for one in told] == [3] * (UNDER_WAY + 1) + [10_003] * (UNDER_WAY + 1)
    assert {one.type for one in told} <= {OK, FAIL, INFO}
    assert any(one.type != OK for one in told), "the reopens came too late for this test"
    for value, one in enumerate(told):
        assert one.type != OK or value in stored, (value, one)
        assert one.type != FAIL or value not in stored, (value, one)
    assert threads() == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_acknowledgements_no_offset_is_recorded(library: Library, bootstrap: str, topic: str) -> None:
    async def sends(client: Client) -> list[Completion]:
        return list(await asyncio.gather(*(client.invoke(asking(SEND, topic, value)) for value in range(1500))))

    told = asyncio.run(with_client(client_of(library, bootstrap, topic, "producer", acks="0"), sends))
    assert {(one.type, one.offset, one.error) for one in told} == {(OK, None, None)}

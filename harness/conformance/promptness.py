"""Produce and Fetch answer as soon as they can, and not only when a timer ends.

A leader that forgets to wake a parked request still answers it in the end: a follower's fetch after
`replica.fetch.wait.max.ms`, a consumer's after its `max_wait_ms`. Everything is slower by that and nothing is wrong, so
that no other question shows it. A single answer may be late for a reason, such as a follower that has just begun, so a
median counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from statistics import median

from squall.harness.conformance.client import Address, ConformanceClient, expect
from squall.harness.conformance.records import fetch_one, records_of, send
from squall.harness.conformance.topic import CheckedTopic
from squall.nodes.protocol.messages.fetch import PartitionData

ATTEMPTS = 5
LONG_WAIT_MS = 5000
PARKED_SECONDS = 0.02
"""Until a fetch that was sent has arrived, and is parked."""


async def sends(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Sends that wait for all in-sync replicas are acknowledged while the followers' fetches are parked."""
    number = client.rng.randrange(len(topic.partitions))
    took = [await _seconds(send(client, topic, number)) for _ in range(ATTEMPTS)]
    _expect_prompt(client, topic.leader_of(number), f"sends to {topic.name}-{number}", took)


async def parked_fetches(client: ConformanceClient, topic: CheckedTopic) -> None:
    """A fetch that waits at the end of the log brings new records once they are committed."""
    number = client.rng.randrange(len(topic.partitions))
    address = topic.leader_of(number)
    reader = client.on_other_connections()
    try:
        took = [await _seconds_parked(client, reader, topic, number) for _ in range(ATTEMPTS)]
    finally:
        await reader.close()
    _expect_prompt(client, address, f"fetches that wait for records of {topic.name}-{number}", took)


async def _seconds_parked(
    client: ConformanceClient, reader: ConformanceClient, topic: CheckedTopic, number: int
) -> float:
    """How long after an acknowledgement a fetch that was sent before is answered."""
    address, end = topic.leader_of(number), topic.partitions[number].end
    await fetch_one(reader, address, topic, number, end)
    fetch = asyncio.get_running_loop().create_task(fetch_one(reader, address, topic, number, end, wait_ms=LONG_WAIT_MS))
    try:
        await asyncio.sleep(PARKED_SECONDS)
        await send(client, topic, number)
        took = await _seconds(_finished(fetch))
        brought = [one.offset for one in records_of(await fetch)]
    finally:
        fetch.cancel()
    expected = list(range(end, topic.partitions[number].end))
    expect(address, f"what a fetch brings that waited at the end of {topic.name}-{number}", brought, expected)
    return took


async def _finished(fetch: asyncio.Task[PartitionData]) -> None:
    await asyncio.wait([fetch])


async def _seconds(action: Awaitable[object]) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await action
    return loop.time() - began


def _expect_prompt(client: ConformanceClient, address: Address, what: str, took: list[float]) -> None:
    told = ", ".join(f"{one:.3f}" for one in took)
    expect(
        address,
        f"whether half of {what} are answered within {client.patience.prompt:g} s (they took {told} s)",
        median(took) <= client.patience.prompt,
        True,
    )

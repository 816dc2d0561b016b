"""A setting of a topic takes effect where its topic-partitions are led, not only in what brokers say of it."""

from __future__ import annotations

import asyncio
from functools import partial

from squall.harness.conformance import offsets, records, settings
from squall.harness.conformance.client import ConformanceClient, expect
from squall.harness.conformance.topic import CheckedTopic
from squall.nodes.protocol.record import Record
from squall.workloads.clients.common.payload import VALUE_BYTES, encode_value

STAMPED_BY, BY_LEADERS = "message.timestamp.type", "LogAppendTime"
RETAINED, HOUR_MS, FOR_EVER = "retention.ms", 3_600_000, "-1"
PAIRS = 8
"""Batches of two hours ago, each with a new one behind it: segments of most sizes begin with one and hold both."""
RETENTION_SECONDS = 3.0
"""A simulated broker looks for old segments about as often; one on a host may not look at all within that time."""


async def stamped(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Leaders stamp records once the topic says so, and keep producers' times once it says so no longer."""
    for value in (BY_LEADERS, None):
        await settings.alter(client, topic, STAMPED_BY, value)
        for number in range(len(topic.partitions)):
            await client.settled(partial(_send_is_stamped, client, topic, number, value is not None))


async def _send_is_stamped(client: ConformanceClient, topic: CheckedTopic, number: int, by_leader: bool) -> None:
    time = await records.send(client, topic, number)
    expect(
        topic.leader_of(number), f"whether a send to {topic.name}-{number} is stamped ({time})", time >= 0, by_leader
    )


async def retained(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Retention by time removes no segment with a record that is younger, however old its other records are.

    It may remove those before the first younger one, also before that is sent (`worlds` seed 1025629).
    """
    number = client.rng.randrange(len(topic.partitions))
    checked = topic.partitions[number]
    young = [one.offset for one in checked.records if one.offset >= checked.start]
    await settings.alter(client, topic, RETAINED, str(HOUR_MS))
    for pair in range(PAIRS):
        long_ago = client.wall_clock_ms() - 2 * HOUR_MS - pair
        value = encode_value(records.LOWEST_VALUE | client.rng.getrandbits(61), VALUE_BYTES)
        old, removable = [Record(timestamp=long_ago, value=value)], young[0] if young else checked.end
        await records.send(client, topic, number, old, removable_below=removable)
        young.append(checked.end)
        await records.send(client, topic, number, removable_below=young[0])
    await asyncio.sleep(RETENTION_SECONDS)
    await settings.alter(client, topic, RETAINED, FOR_EVER)
    checked.start = await offsets.earliest(client, topic, number)
    kept = checked.start <= young[0]
    expect(topic.leader_of(number), f"whether {topic.name}-{number} begins at {young[0]} or before", kept, True)

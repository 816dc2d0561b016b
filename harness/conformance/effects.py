"""A setting of a topic takes effect where its topic-partitions are led, not only in what brokers say of it."""

from __future__ import annotations

from functools import partial

from squall.harness.conformance import records, settings
from squall.harness.conformance.client import ConformanceClient, expect
from squall.harness.conformance.topic import CheckedTopic

STAMPED_BY, BY_LEADERS = "message.timestamp.type", "LogAppendTime"


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

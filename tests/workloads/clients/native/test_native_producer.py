"""The native producers against brokers of our own making: what is recorded of a send."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from squall.nodes.protocol.messages import ApiKey
from squall.workloads.core.operation import OK, SEND, Completion
from tests.workloads.clients.scripted_brokers import NEVER, Brokers, op, produced


def value_in(body: Any) -> int:
    records = bytes(body.topic_data[0].partition_data[0].records)
    return next(value for value in (71, 72, 73) if value.to_bytes(8, "big") in records)


@pytest.mark.parametrize("acks", ["all", "0"])
def test_a_send_is_recorded_with_the_sequence_it_was_handed_over_with(acks: Any) -> None:
    """One client serves many threads, and the later send may be answered first."""
    brokers = Brokers()
    client = brokers.client("producer", idempotent=False, acks=acks)

    def first_is_slow(node: int, request: Any) -> Any:
        if request.api_key != ApiKey.PRODUCE or acks == "0":
            return None if request.api_key != ApiKey.PRODUCE else NEVER
        return produced(10), 50_000 if value_in(request.body) == 71 else 1_000

    brokers.script = first_is_slow

    async def course() -> list[Completion]:
        return await asyncio.gather(*(client.invoke(op(SEND, thread, 71 + thread)) for thread in range(3)))

    completions: list[Completion] = brokers.run(course())
    handed_over = [value_in(body) for _, body in brokers.of(ApiKey.PRODUCE)]
    assert [one.sequence for one in completions] == [handed_over.index(71 + thread) + 1 for thread in range(3)]


def test_the_node_of_a_send_is_the_one_that_answered() -> None:
    """Another send of this topic-partition has learnt of another leader meanwhile."""
    brokers = Brokers()
    client = brokers.client("producer", idempotent=False)

    def script(node: int, request: Any) -> Any:
        if request.api_key != ApiKey.PRODUCE or node != 1:
            return None
        if value_in(request.body) == 71:
            return produced(10), 500_000
        brokers.leader, brokers.epoch = 2, 4
        return produced(-1, 6), 1_000

    brokers.script = script

    async def course() -> list[Completion]:
        first = asyncio.ensure_future(client.invoke(op(SEND, 0, 71)))
        await brokers.pause(0.1)
        await client.invoke(op(SEND, 1, 72))
        third = await client.invoke(op(SEND, 1, 73))
        return [await first, third]

    first, third = brokers.run(course())
    assert (first.type, first.offset, first.node, first.leader_epoch) == (OK, 10, 1, 3)
    assert (third.type, third.offset, third.node, third.leader_epoch) == (OK, 200, 2, 4)

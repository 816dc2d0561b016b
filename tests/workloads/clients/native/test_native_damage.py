"""What the native consumer makes of records that were damaged on their way: no answer but an error, and always one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from squall.nodes.protocol.records import HEADER_SIZE
from squall.workloads.core.operation import FAIL, INFO, OK, POLL, SEND, Completion
from tests.workloads.clients.scripted_brokers import Brokers, answered, batch, op

GOOD = batch(0, [70, 71])
LENGTH_AT = 8
LAST_BYTE_OF_THE_SECOND_VALUE = len(GOOD) - 10


def flipped(at: int, bit: int = 1) -> bytes:
    damaged = bytearray(GOOD)
    damaged[at] ^= bit
    return bytes(damaged)


DAMAGES = {
    "a value": flipped(LAST_BYTE_OF_THE_SECOND_VALUE),
    "the number of records": flipped(HEADER_SIZE - 1),
    "the first record's length": flipped(HEADER_SIZE),
    "the format": flipped(16),
    "a batch shorter than its header": GOOD[:LENGTH_AT] + bytes(4) + GOOD[LENGTH_AT + 4 :],
    "a batch longer than what came": flipped(LENGTH_AT),
    "less than a header": GOOD[:20],
}


def giving(brokers: Brokers, records: bytes) -> None:
    def script(node: int, request: Any) -> Any:
        if request.api_key == ApiKey.FETCH and records:
            return answered(PartitionData(0, 0, 2, log_start_offset=0, records=records))
        return None

    brokers.script = script


def invoked(brokers: Brokers, *operations: Any, whole: bool = False) -> list[Completion]:
    client = brokers.client("consumer", partitions=2, whole=whole)

    async def course() -> list[Completion]:
        return await asyncio.gather(*(client.invoke(one) for one in operations))

    completions: list[Completion] = brokers.run(asyncio.wait_for(course(), 60))
    return completions


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("whole", [False, True])
def test_damage_is_an_error_that_says_where(damage: str, whole: bool) -> None:
    brokers = Brokers()
    brokers.values = [70, 71]
    giving(brokers, DAMAGES[damage])
    (completion,) = invoked(brokers, op(POLL), whole=whole)
    assert (completion.type, completion.values, completion.node) == (FAIL, (), 1)
    error = completion.error or ""
    assert error.startswith("corrupt_message: ")
    assert "at offset 0" in error
    assert error.endswith("from node 1")


def test_what_is_read_after_damage_is_all_there_was() -> None:
    brokers = Brokers()
    brokers.values = [70, 71]
    client = brokers.client("consumer")

    async def course() -> list[Completion]:
        giving(brokers, GOOD[:-1] + b"?")
        failed = await client.invoke(op(POLL))
        giving(brokers, b"")
        return [failed, await client.invoke(op(POLL))]

    failed, good = brokers.run(course())
    assert (failed.type, good.type) == (FAIL, OK)
    assert (good.values, good.session, good.position) == ((70, 71), 0, 0)


def test_damage_of_one_topic_partition_is_its_own() -> None:
    brokers = Brokers()

    def script(node: int, request: Any) -> Any:
        if request.api_key != ApiKey.FETCH:
            return None
        parts = [PartitionData(0, 0, 2, records=DAMAGES["a value"]), PartitionData(1, 0, 2, records=GOOD)]
        return FetchResponse(responses=[FetchableTopicResponse(topic="events", partitions=parts)])

    brokers.script = script
    damaged, good = invoked(brokers, op(POLL, 0, partition=0), op(POLL, 1, partition=1))
    assert damaged.type == FAIL
    assert good.values == (70, 71)


def test_polls_end_whatever_goes_wrong_in_the_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("squall.workloads.clients.native.native_consumer.read_records", broken)
    brokers = Brokers()
    brokers.values = [70]
    (completion,) = invoked(brokers, op(POLL))
    assert (completion.type, completion.error) == (FAIL, "client: RuntimeError: a bug of ours")


@pytest.mark.parametrize(("batches", "outcome"), [(1, INFO), (2, FAIL)])
def test_sends_end_whatever_goes_wrong_in_the_lane(monkeypatch: pytest.MonkeyPatch, batches: int, outcome: str) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("squall.workloads.clients.native.native_lanes.build_batch", broken)
    brokers = Brokers()
    client = brokers.client("producer", batches_in_flight=batches)
    completion = brokers.run(asyncio.wait_for(client.invoke(op(SEND, 0, 70)), 60))
    assert (completion.type, completion.error) == (outcome, "client: RuntimeError: a bug of ours")

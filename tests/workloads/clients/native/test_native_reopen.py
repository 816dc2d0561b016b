"""A native client that is abandoned as if it had crashed and opened anew, and a consumer that reads on elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.records import BatchHeader
from squall.workloads.clients.common.client import GENERATION_STRIDE
from squall.workloads.core.operation import (
    DELETE_RECORDS,
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
from tests.workloads.clients.scripted_brokers import NEVER, Brokers, op, told

CLIENT = 4
SECOND = CLIENT + GENERATION_STRIDE
REOPENING = Operation(REOPEN, 7, 7, CLIENT, 0)


def silent(*keys: ApiKey) -> Callable[[int, Any], Any]:
    """Brokers that never answer this."""
    return lambda node, request: NEVER if request.api_key in keys else None


def reopened_under(brokers: Brokers, client: Any, *operations: Operation) -> list[Completion]:
    """What comes of the operations if the client is opened anew while they are under way, and of that."""

    async def course() -> list[Completion]:
        begun = [asyncio.ensure_future(client.invoke(one)) for one in operations]
        await brokers.pause(0.2)
        reopened = await client.invoke(REOPENING)
        before = brokers.kernel.now
        ended = await asyncio.gather(*begun)
        assert brokers.kernel.now - before <= 400_000, "nobody waits for the answers of a client that is gone"
        return [*ended, reopened]

    completions: list[Completion] = brokers.run(course())
    return completions


@pytest.mark.parametrize("idempotent", [False, True])
def test_sends_under_way_are_open_for_ever_and_numbers_begin_anew(idempotent: bool) -> None:
    brokers = Brokers()
    client = brokers.client("producer", idempotent=idempotent)
    brokers.run(client.invoke(op(SEND, 0, 70)))
    brokers.script = silent(ApiKey.PRODUCE)
    under_way, reopened = reopened_under(brokers, client, op(SEND, 0, 71))
    assert told(under_way) == (INFO, "closed_in_flight")
    assert under_way.client is None
    assert (reopened.type, reopened.client) == (OK, SECOND)
    brokers.script = silent()
    sent = brokers.run(client.invoke(op(SEND, 0, 72)))
    assert (sent.type, sent.sequence, sent.client) == (OK, 1, SECOND)
    assert brokers.run(client.invoke(REOPENING)).client == SECOND + GENERATION_STRIDE


def test_reopening_renumbers_a_producer_and_leaves_waiting_batches_unsent() -> None:
    brokers = Brokers()
    client = brokers.client("producer")
    brokers.script = silent(ApiKey.PRODUCE)

    async def course() -> list[Completion]:
        first = asyncio.ensure_future(client.invoke(op(SEND, 0, 71)))
        await brokers.pause(0.1)
        second = asyncio.ensure_future(client.invoke(op(SEND, 1, 72)))
        await brokers.pause(0.1)
        await client.invoke(REOPENING)
        brokers.script = silent()
        return [await first, await second, await client.invoke(op(SEND, 0, 73))]

    first, second, third = brokers.run(course())
    assert [told(one) for one in (first, second)] == [(INFO, "closed_in_flight"), (FAIL, "closed_before_sending")]
    assert third.type == OK
    headers = [BatchHeader.read(body.topic_data[0].partition_data[0].records) for _, body in brokers.of(ApiKey.PRODUCE)]
    assert [(one.producer_id, one.base_sequence, one.count) for one in headers] == [(1, 0, 1), (2, 0, 1)]


def test_connections_are_aborted_and_brokers_are_told_another_name() -> None:
    brokers = Brokers()
    client = brokers.client("producer", idempotent=False)
    brokers.run(client.invoke(op(SEND, 0, 70)))
    before = list(brokers.streams)
    reopened_under(brokers, client)
    assert [stream.ended for stream in before] == ["aborted"] * len(before)
    brokers.run(client.invoke(op(SEND, 0, 71)))
    assert all(not stream.ended for stream in brokers.streams[len(before) :])
    assert brokers.names[0] == f"squall-producer-{CLIENT}"
    assert brokers.names[-1] == f"squall-producer-{SECOND}"
    brokers.run(client.close())
    assert {stream.ended for stream in brokers.streams} == {"aborted", "closed"}


@pytest.mark.parametrize("idempotent", [False, True])
def test_what_waits_for_a_connection_ends_at_once_and_connects_no_more(idempotent: bool) -> None:
    brokers = Brokers()
    brokers.unreachable = {1}
    client = brokers.client("producer", idempotent=idempotent)
    ended, _ = reopened_under(brokers, client, op(SEND, 0, 71))
    assert ended.type == (INFO if idempotent else FAIL)
    assert brokers.streams == []


@pytest.mark.parametrize(
    ("f", "key", "outcome"),
    [
        (POLL, ApiKey.FETCH, FAIL),
        (LIST_OFFSETS, ApiKey.LIST_OFFSETS, FAIL),
        (DELETE_RECORDS, ApiKey.DELETE_RECORDS, INFO),
        (POLL, ApiKey.METADATA, FAIL),
    ],
)
def test_whatever_a_consumer_has_under_way_ends(f: str, key: ApiKey, outcome: str) -> None:
    brokers = Brokers()
    brokers.values = list(range(70, 90))
    client = brokers.client("consumer", partitions=2)
    if key != ApiKey.METADATA:
        brokers.run(client.invoke(op(POLL)))
    brokers.script = silent(key)
    ended, reopened = reopened_under(brokers, client, op(f))
    assert ended.type == outcome
    assert ended.error == ("no_leader_known" if key == ApiKey.METADATA else "closed_in_flight")
    assert (reopened.type, reopened.client) == (OK, SECOND)


def test_connections_that_several_made_for_one_purpose_all_end() -> None:
    """Two ask for offsets at once and find no connection: each makes one."""
    brokers = Brokers()
    client = brokers.client("consumer", partitions=2)
    brokers.run(client.invoke(op(POLL)))
    brokers.script = silent(ApiKey.LIST_OFFSETS)
    for stream in brokers.streams:
        stream.lost("gone")
    ended = reopened_under(brokers, client, op(LIST_OFFSETS, 0), op(LIST_OFFSETS, 1, partition=1))
    assert [told(one) for one in ended[:2]] == [(FAIL, "closed_in_flight")] * 2
    assert all(stream.ended for stream in brokers.streams)


@pytest.mark.parametrize(("from_beginning", "values"), [(True, (70, 71, 72)), (False, (72,))])
def test_a_consumer_starts_again_in_a_new_session_of_every_topic_partition(
    from_beginning: bool, values: tuple[int, ...]
) -> None:
    brokers = Brokers()
    brokers.values = [70]
    client = brokers.client("consumer", partitions=2, from_beginning=from_beginning)
    first = brokers.run(client.invoke(op(POLL)))
    assert (first.session, first.client) == (0, None)
    brokers.values = [70, 71]
    brokers.run(client.invoke(REOPENING))

    async def course() -> list[Completion]:
        polling = asyncio.ensure_future(client.invoke(op(POLL)))
        await brokers.pause(0.05 if not from_beginning else 0)
        brokers.values.append(72)
        return [await polling, await client.invoke(op(POLL, 1, partition=1))]

    again, other = brokers.run(course())
    assert again.values == values
    assert (again.session, again.client, other.session, other.client) == (1, SECOND, 1, SECOND)


def test_a_whole_reader_reads_everything_again() -> None:
    brokers = Brokers()
    brokers.values = [70, 71]
    client = brokers.client("consumer", whole=True)
    sessions = [brokers.run(client.invoke(op(POLL))).session]
    brokers.run(client.invoke(REOPENING))
    again = brokers.run(client.invoke(op(POLL)))
    assert (again.values, again.client) == ((70, 71), SECOND)
    assert again.session > sessions[0]


# --- seeking ---------------------------------------------------------------------------------------------------


def test_a_consumer_reads_on_from_where_it_is_sent_in_a_new_session() -> None:
    brokers = Brokers()
    brokers.values = [70, 71, 72]
    client = brokers.client("consumer")
    brokers.run(client.invoke(op(POLL)))
    asked = len(brokers.asked)
    sought = brokers.run(client.invoke(op(SEEK, value=1)))
    assert (sought.type, sought.session, sought.position, sought.client) == (OK, 1, 1, None)
    assert len(brokers.asked) == asked, "nobody was asked for that"
    found = brokers.run(client.invoke(op(POLL)))
    assert (found.values, found.offsets, found.session, found.position) == ((71, 72), (1, 2), 1, 1)


def test_seeking_comes_before_anything_else_too() -> None:
    brokers = Brokers()
    brokers.values = [70, 71, 72]
    client = brokers.client("consumer")
    assert brokers.run(client.invoke(op(SEEK, value=2))).session == 1
    assert brokers.run(client.invoke(op(POLL))).values == (72,)


def test_a_target_out_of_range_fails_the_next_poll_and_ends_the_session() -> None:
    brokers = Brokers()
    brokers.values = [70]
    client = brokers.client("consumer")
    brokers.run(client.invoke(op(SEEK, value=99)))
    failed = brokers.run(client.invoke(op(POLL)))
    assert told(failed) == (FAIL, ErrorCode.OFFSET_OUT_OF_RANGE.name.lower())
    found = brokers.run(client.invoke(op(POLL)))
    assert (found.values, found.session, found.position) == ((70,), 2, 0)


def test_a_seek_of_a_client_opened_anew_is_its_own() -> None:
    brokers = Brokers()
    brokers.values = [70, 71]
    client = brokers.client("consumer")
    brokers.run(client.invoke(REOPENING))
    sought = brokers.run(client.invoke(op(SEEK, value=1)))
    assert (sought.session, sought.client) == (2, SECOND)

"""Specifies ZooKeeper's records, with bytes of which each is written out."""

from __future__ import annotations

import pytest

from squall.nodes.server.zookeeper import jute
from squall.nodes.zookeeper.session import (
    Check,
    Code,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    SetData,
    Stat,
    WatchFired,
    WatchType,
)

PATH = bytes.fromhex("00000002") + b"/a"
STAT = bytes.fromhex(
    "0000000000000002 0000000000000003 0000000000000004 0000000000000005 00000006 00000007 00000008"
    "0000000000000009 0000000a 0000000b 000000000000000c"
)
READ_STAT = Stat(2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)


@pytest.mark.parametrize(
    ("operation", "kind", "body"),
    [
        (Delete("/a", 7), 2, PATH + bytes.fromhex("00000007")),
        (Exists("/a"), 3, PATH + b"\0"),
        (GetData("/a", watch=True), 4, PATH + b"\1"),
        (GetChildren("/a"), 12, PATH + b"\0"),
        (SetData("/a", b"xy", 3), 5, PATH + bytes.fromhex("00000002") + b"xy" + bytes.fromhex("00000003")),
        (
            Create("/a", b"x", ephemeral=True, sequential=True),
            1,
            PATH
            + bytes.fromhex("00000001")
            + b"x"
            + bytes.fromhex("00000001 0000001f 00000005")
            + b"world"
            + bytes.fromhex("00000006")
            + b"anyone"
            + bytes.fromhex("00000003"),
        ),
        (
            Multi((Check("/a", 1), Delete("/a"))),
            14,
            bytes.fromhex("0000000d 00 ffffffff")
            + PATH
            + bytes.fromhex("00000001")
            + bytes.fromhex("00000002 00 ffffffff")
            + PATH
            + bytes.fromhex("ffffffff")
            + bytes.fromhex("ffffffff 01 ffffffff"),
        ),
    ],
)
def test_a_request_is_number_kind_and_fields(operation: object, kind: int, body: bytes) -> None:
    expected = (5).to_bytes(4, "big") + kind.to_bytes(4, "big") + body
    assert jute.request(5, operation) == expected  # type: ignore[arg-type]


def test_data_and_stat_are_read() -> None:
    reader = jute.Reader(bytes.fromhex("00000001") + b"x" + STAT)
    response = jute.response(GetData("/a"), reader, 9, 0)
    assert (response.code, response.data, response.stat, response.zxid) == (Code.OK, b"x", READ_STAT, 9)


def test_children_are_sorted() -> None:
    names = bytes.fromhex("00000002 00000001") + b"b" + bytes.fromhex("00000001") + b"a"
    response = jute.response(GetChildren("/a"), jute.Reader(names + STAT), 9, 0)
    assert (response.children, response.stat) == (("a", "b"), READ_STAT)


def test_a_failed_transaction_has_the_code_of_the_operation_that_failed() -> None:
    results = b"".join(
        bytes.fromhex("ffffffff 00") + code.to_bytes(4, "big", signed=True) * 2 for code in (0, -103, -2)
    )
    reader = jute.Reader(results + bytes.fromhex("ffffffff 01 ffffffff"))
    response = jute.response(Multi(()), reader, 9, 0)
    assert response.code is Code.BAD_VERSION
    assert [one.code for one in response.results] == [Code.OK, Code.BAD_VERSION, Code.RUNTIME_INCONSISTENCY]


def test_an_error_has_no_fields() -> None:
    response = jute.response(GetData("/a"), jute.Reader(b""), 9, -101)
    assert (response.code, response.stat) == (Code.NO_NODE, None)
    assert jute.response(GetData("/a"), jute.Reader(b""), 9, -9999).code is Code.SYSTEM_ERROR


def test_an_event_of_a_watch_is_read_and_one_of_the_session_is_not() -> None:
    fired = bytes.fromhex("00000002 00000003") + PATH
    assert jute.watch_event(jute.Reader(fired)) == WatchFired(WatchType.NODE_DELETED, "/a")
    assert jute.watch_event(jute.Reader(bytes.fromhex("ffffffff 00000003 00000000"))) is None


@pytest.mark.parametrize("cut", [0, 3, 5, 30])
def test_a_response_that_ends_too_early_is_refused(cut: int) -> None:
    whole = bytes.fromhex("00000001") + b"x" + STAT
    with pytest.raises(jute.MalformedResponse):
        jute.response(GetData("/a"), jute.Reader(whole[:cut]), 9, 0)

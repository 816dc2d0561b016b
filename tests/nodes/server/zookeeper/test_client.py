"""Specifies the session as a state machine: the test is the server, and time is a number."""

from __future__ import annotations

import pytest

from squall.nodes.server.zookeeper.client import Drop, Open, SessionClient
from squall.nodes.server.zookeeper.jute import MalformedResponse
from squall.nodes.zookeeper.session import (
    Code,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Operation,
    SessionEvent,
    SessionRequest,
    SessionState,
    SetData,
    StateChanged,
    WatchFired,
    WatchType,
)

TIMEOUT_MS, MS = 6_000, 1_000
ONE, TWO = ("one", 1), ("two", 2)


def number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def introduced(session: int = 77, timeout_ms: int = TIMEOUT_MS) -> bytes:
    return number(0) + number(timeout_ms) + number(session, 8) + number(16) + b"p" * 16 + b"\0"


def response(xid: int, zxid: int = 1, error: int = 0, body: bytes = b"") -> bytes:
    return number(xid) + number(zxid, 8) + number(error) + body


STAT = bytes(68)
DATA = number(0) + STAT


def event(kind: WatchType, path: str) -> bytes:
    return response(-1, -1) + number(kind.value) + number(3) + number(len(path)) + path.encode()


class Scene:
    """A client and what it did."""

    def __init__(self, *servers: tuple[str, int], chroot: str = "") -> None:
        self.now = 0
        self.client = SessionClient(servers or (ONE, TWO), TIMEOUT_MS, 0, chroot=chroot)
        self.completed: list[tuple[str, Code]] = []
        self.happened: list[object] = []

    def connect(self, answer: bytes | None = None) -> Scene:
        self.effects()
        self.client.opened(self.now)
        self.client.received(self.now, answer or introduced())
        return self

    def submit(self, operation: Operation) -> None:
        def completed(now: int, answer: object) -> None:
            self.happened.append((operation, answer.code))  # type: ignore[attr-defined]

        self.client.submit(self.now, SessionRequest(operation, completed))

    def delivered(self) -> list[object]:
        def fired(now: int, one: SessionEvent) -> None:
            self.happened.append(one)

        self.client.deliver(self.now, fired)
        found, self.happened = self.happened, []
        return found

    def effects(self) -> list[object]:
        found, self.client.outbox = self.client.outbox, []
        return list(found)

    def at(self, ms: int) -> list[object]:
        self.now = ms * MS
        self.client.tick(self.now)
        return self.effects()


CONNECTED = StateChanged(SessionState.CONNECTED)
DISCONNECTED = StateChanged(SessionState.CONNECTING)
READ, WRITE = GetData("/a"), SetData("/a", b"x")


def test_requests_wait_for_the_connection_and_keep_their_order() -> None:
    scene = Scene()
    assert scene.effects() == [Open(*ONE)]
    scene.submit(WRITE)
    scene.submit(READ)
    scene.connect()
    assert scene.client.id == 77
    hello, write, read = scene.effects()
    assert (hello[:4], write[:8], read[:8]) == (number(0), number(1) + number(5), number(2) + number(4))  # type: ignore[index]
    scene.client.received(0, response(1, body=STAT))
    scene.client.received(0, response(2, error=-101))
    assert scene.delivered() == [CONNECTED, (WRITE, Code.OK), (READ, Code.NO_NODE)]


def test_a_lost_connection_leaves_sent_requests_open_and_the_next_server_gets_the_rest() -> None:
    scene = Scene().connect()
    scene.submit(WRITE)
    scene.effects()
    scene.client.lost(0)
    scene.submit(READ)
    assert scene.delivered() == [CONNECTED, (WRITE, Code.CONNECTION_LOSS), DISCONNECTED]
    assert scene.effects() == [Open(*TWO)]
    scene.client.opened(0)
    (hello,) = scene.effects()
    assert number(77, 8) + number(16) + b"p" * 16 in hello, "the same session is introduced"  # type: ignore[operator]
    scene.client.received(0, introduced())
    scene.client.received(0, response(2, error=0, body=DATA))
    assert scene.delivered() == [CONNECTED, (READ, Code.OK)]


def test_an_expired_session_ends_every_request_until_it_is_renewed() -> None:
    scene = Scene().connect()
    scene.client.lost(0)
    scene.submit(READ)
    scene.client.opened(0)
    scene.client.received(0, introduced(0, 0))
    scene.submit(WRITE)
    expired = [
        CONNECTED, DISCONNECTED, (READ, Code.SESSION_EXPIRED), StateChanged(SessionState.EXPIRED),
        (WRITE, Code.SESSION_EXPIRED),
    ]  # fmt: skip
    assert scene.delivered() == expired
    assert scene.client.id == 0
    scene.effects()
    scene.client.renew(0)
    assert scene.effects() == [Open(*ONE)]
    scene.client.opened(0)
    scene.client.received(0, introduced(78))
    assert (scene.client.id, scene.delivered()) == (78, [CONNECTED])


def test_watches_are_set_again_with_the_last_transaction_seen() -> None:
    scene = Scene().connect()
    for xid, (operation, error) in enumerate(
        [
            (GetData("/d", True), 0),
            (Exists("/e", True), -101),
            (GetChildren("/c", True), 0),
            (GetData("/n", True), -101),
        ],
        start=1,
    ):
        scene.submit(operation)
        body = b"" if error else number(0) + STAT
        scene.client.received(0, response(xid, 40 + xid, error, body))
    scene.effects()
    scene.client.lost(0)
    scene.connect()
    watches = scene.effects()[-1]
    paths = [number(1) + number(2) + path for path in (b"/d", b"/e", b"/c")]
    assert watches == number(-8) + number(101) + number(44, 8) + b"".join(paths)


def test_a_fired_watch_is_reported_once_and_not_set_again() -> None:
    scene = Scene().connect()
    scene.submit(GetData("/d", True))
    scene.client.received(0, response(1, body=DATA))
    scene.client.received(0, event(WatchType.NODE_DATA_CHANGED, "/d"))
    scene.client.received(0, event(WatchType.NODE_DATA_CHANGED, "/d"))
    fired = WatchFired(WatchType.NODE_DATA_CHANGED, "/d")
    assert scene.delivered() == [CONNECTED, (GetData("/d", True), Code.OK), fired]
    scene.client.lost(0)
    scene.connect()
    assert scene.effects()[-1][:4] == number(0), "nothing follows the introduction"  # type: ignore[index]


def test_many_watches_are_set_again_in_several_requests() -> None:
    scene = Scene().connect()
    long = "/" + "x" * 9_999
    for xid in range(1, 31):
        scene.submit(GetData(f"{long}{xid}", True))
        scene.client.received(0, response(xid, body=DATA))
    scene.client.lost(0)
    scene.connect()
    sets = [one for one in scene.effects() if isinstance(one, bytes) and one[:4] == number(-8)]
    assert len(sets) == 3 and all(len(one) < 1 << 20 for one in sets)


def test_a_silent_server_is_given_up_after_two_thirds_of_the_timeout() -> None:
    scene = Scene().connect()
    scene.effects()
    assert scene.at(1_999) == []
    assert scene.at(2_000) == [number(-2) + number(11)], "a ping"
    scene.client.received(scene.now, response(-2))
    assert scene.at(4_000) == [number(-2) + number(11)]
    assert scene.at(6_001) == [Drop(), Open(*TWO)], "silent since 2 000"


def test_servers_that_do_not_answer_are_tried_in_turn_with_a_pause_after_each_round() -> None:
    scene = Scene()
    scene.effects()
    scene.client.lost(0)
    assert scene.effects() == [Open(*TWO)]
    scene.client.lost(0)
    assert scene.effects() == []
    assert scene.at(200) == [Open(*ONE)]
    assert scene.at(3_200) == [Drop(), Open(*TWO)], "it accepted the connection and says nothing"


def test_a_request_that_is_too_large_is_refused_in_its_turn() -> None:
    scene = Scene().connect()
    large = SetData("/a", bytes(1 << 20))
    scene.submit(large)
    scene.submit(READ)
    scene.submit(large)
    assert scene.delivered() == [CONNECTED, (large, Code.MARSHALLING_ERROR)]
    scene.client.received(0, response(1, body=DATA))
    assert scene.delivered() == [(READ, Code.OK), (large, Code.MARSHALLING_ERROR)]


def test_closing_ends_the_session_at_the_server() -> None:
    scene = Scene().connect()
    scene.effects()
    scene.submit(READ)
    scene.client.close(0)
    assert scene.effects()[1:] == [number(2) + number(-11), Drop()]
    assert scene.delivered() == [CONNECTED, (READ, Code.SESSION_EXPIRED)]
    assert scene.client.state is SessionState.CLOSED


@pytest.mark.parametrize(
    "frame", [b"", response(9, body=DATA), response(1, body=number(99)), event(WatchType(1), "")[:-2]]
)
def test_what_is_not_the_protocol_is_refused(frame: bytes) -> None:
    scene = Scene().connect()
    scene.submit(READ)
    with pytest.raises(MalformedResponse):
        scene.client.received(0, frame)
    scene.client.lost(0)
    assert scene.delivered() == [CONNECTED, (READ, Code.CONNECTION_LOSS), DISCONNECTED]


def test_a_deletion_needs_no_answer_fields() -> None:
    scene = Scene().connect()
    scene.submit(Delete("/a"))
    scene.client.received(0, response(1))
    assert scene.delivered() == [CONNECTED, (Delete("/a"), Code.OK)]


def test_a_chroot_is_created_first_and_shows_in_no_path() -> None:
    scene = Scene(chroot="/east/one")
    scene.submit(Create("/a"))
    scene.submit(Exists("/", True))
    scene.connect()
    _, outer, inner, create, exists = scene.effects()
    assert [one[8:].partition(b"\0\0\0\0")[0][4:] for one in (outer, inner)] == [b"/east", b"/east/one"]  # type: ignore[index]
    assert b"/east/one/a" in create and exists[12:] == b"/east/one\1"  # type: ignore[index,operator]
    for xid, error in ((1, -110), (2, 0)):
        scene.client.received(0, response(xid, error=error, body=number(9) + b"/east/one"))
    scene.client.received(0, response(3, body=number(11) + b"/east/one/a"))
    scene.client.received(0, response(4, body=STAT))
    scene.client.received(0, event(WatchType.NODE_DELETED, "/east/one"))
    fired = WatchFired(WatchType.NODE_DELETED, "/")
    assert scene.delivered() == [CONNECTED, (Create("/a"), Code.OK), (Exists("/", True), Code.OK), fired]


def test_a_chroot_is_created_again_when_the_response_was_lost() -> None:
    scene = Scene(chroot="/east").connect()
    scene.client.lost(0)
    scene.submit(READ)
    scene.effects()
    scene.client.opened(0)
    scene.client.received(0, introduced())
    _, root, read = scene.effects()
    assert b"/east" in root and b"/east/a" in read  # type: ignore[operator]

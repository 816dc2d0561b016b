"""Runs the session against real ZooKeeper servers: one, and an ensemble of three of which one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from kazoo.client import KazooClient

from squall.harness.loopback.ensemble import Ensemble
from squall.nodes.server.clock import monotonic_us
from squall.nodes.server.zookeeper.session import WireSession
from squall.nodes.zookeeper.session import (
    Check,
    Code,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Operation,
    SessionEvent,
    SessionRequest,
    SessionResponse,
    SessionState,
    SetData,
    StateChanged,
    Sync,
    WatchFired,
    WatchType,
)
from tests.waiting import soon, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("zookeeper"), pytest.mark.timeout(240)]

TIMEOUT_MS = 2_000


class User:
    """A component that uses a session: it keeps the events, and waits for responses."""

    def __init__(self, servers: list[tuple[str, int]], timeout_ms: int) -> None:
        self.events: list[SessionEvent] = []
        self.session = WireSession(servers, timeout_ms, self._turn, monotonic_us)

    def _turn(self) -> None:
        self.session.deliver(monotonic_us(), lambda now, event: self.events.append(event))

    def submit(self, operation: Operation) -> asyncio.Future[SessionResponse]:
        found: asyncio.Future[SessionResponse] = asyncio.get_running_loop().create_future()
        self.session.submit(monotonic_us(), SessionRequest(operation, lambda now, one: found.set_result(one)))
        return found

    async def do(self, operation: Operation) -> SessionResponse:
        return await self.submit(operation)

    async def is_in(self, state: SessionState) -> None:
        await soon(lambda: self.session.state is state, f"{state}", 60.0)


def course(
    servers: list[tuple[str, int]], steps: Callable[[User, User], Awaitable[None]], timeout_ms: int = TIMEOUT_MS
) -> None:
    """Run the steps with two sessions."""

    async def both() -> None:
        users = [User(servers, timeout_ms), User(servers, timeout_ms)]
        try:
            await steps(*users)
        finally:
            for one in users:
                one.session.close(monotonic_us())
            await asyncio.sleep(0)

    asyncio.run(both())


@pytest.fixture(scope="module")
def single() -> Iterator[Ensemble]:
    with Ensemble(servers=1) as ensemble:
        ensemble.wait_until_ready()
        yield ensemble


@pytest.fixture(scope="module")
def kazoo(single: Ensemble) -> Iterator[KazooClient]:
    client = KazooClient(single.connect)
    client.start()
    yield client
    client.stop()
    client.close()


def test_an_ensemble_tells_how_many_packets_it_has_received(single: Ensemble, kazoo: KazooClient) -> None:
    before = single.received()
    for _ in range(50):
        kazoo.exists("/")
    assert before + 50 <= single.received() < before + 100


def test_what_one_client_writes_another_reads(single: Ensemble, kazoo: KazooClient) -> None:
    async def steps(user: User, _: User) -> None:
        assert (await user.do(Create("/written", b"ours"))).path == "/written"
        assert kazoo.get("/written")[0] == b"ours"
        kazoo.set("/written", b"theirs")
        read = await user.do(GetData("/written"))
        stat = kazoo.exists("/written")
        assert read.data == b"theirs" and read.stat is not None
        assert (read.stat.czxid, read.stat.mzxid, read.stat.version) == (stat.czxid, stat.mzxid, stat.version)
        numbered = await user.do(Create("/written/n-", b"", ephemeral=True, sequential=True))
        assert numbered.path == "/written/n-0000000000"
        assert kazoo.exists(numbered.path).ephemeralOwner == user.session.id
        assert (await user.do(GetChildren("/written"))).children == tuple(kazoo.get_children("/written"))

    course(single.addresses, steps, timeout_ms=20_000)
    # The session does not wait for the response to its close request, and kazoo asks on a connection of its own. A
    # session that was not closed would expire after the wait has failed.
    wait_until(lambda: kazoo.get_children("/written") == [], "closing the session deletes its ephemeral nodes")


def test_each_operation_fails_with_its_code(single: Ensemble) -> None:
    async def steps(user: User, _: User) -> None:
        await user.do(Create("/codes"))
        await user.do(Create("/codes/child"))
        for operation, code in (
            (Create("/codes"), Code.NODE_EXISTS),
            (Create("/none/child"), Code.NO_NODE),
            (Delete("/codes"), Code.NOT_EMPTY),
            (Delete("/codes/child", 5), Code.BAD_VERSION),
            (SetData("/codes", b"", 5), Code.BAD_VERSION),
            (GetData("/none"), Code.NO_NODE),
            (Exists("/none"), Code.NO_NODE),
            (GetChildren("/none"), Code.NO_NODE),
            (Create("bad"), Code.BAD_ARGUMENTS),
            (Sync("/"), Code.OK),
            (SetData("/codes", bytes(1 << 20)), Code.MARSHALLING_ERROR),
        ):
            assert (await user.do(operation)).code is code, operation

    course(single.addresses, steps)


def test_a_transaction_is_carried_out_in_whole_or_not_at_all(single: Ensemble) -> None:
    async def steps(user: User, _: User) -> None:
        made = await user.do(Multi((Create("/multi", b"0"), SetData("/multi", b"1", 0), Check("/multi", 1))))
        assert made.ok and made.results[1].stat is not None and made.results[1].stat.version == 1
        failed = await user.do(Multi((SetData("/multi", b"2"), Check("/multi", 1), Create("/multi/never"))))
        assert failed.code is Code.BAD_VERSION
        assert [one.code for one in failed.results] == [Code.OK, Code.BAD_VERSION, Code.RUNTIME_INCONSISTENCY]
        assert (await user.do(GetData("/multi"))).data == b"1"

    course(single.addresses, steps)


def test_a_watch_fires_once_before_the_change_can_be_read(single: Ensemble) -> None:
    async def steps(user: User, other: User) -> None:
        await user.do(Create("/watched"))
        await user.do(GetData("/watched", watch=True))
        await user.do(Exists("/watched/new", watch=True))
        await user.do(GetChildren("/watched", watch=True))
        await other.do(SetData("/watched", b"1"))
        await other.do(SetData("/watched", b"2"))
        await other.do(Create("/watched/new"))
        await user.do(Sync("/"))
        assert (await user.do(GetData("/watched"))).data == b"2"
        fired = [one for one in user.events if isinstance(one, WatchFired)]
        assert fired == [
            WatchFired(WatchType.NODE_DATA_CHANGED, "/watched"),
            WatchFired(WatchType.NODE_CREATED, "/watched/new"),
            WatchFired(WatchType.NODE_CHILDREN_CHANGED, "/watched"),
        ]

    course(single.addresses, steps)


def test_pipelined_requests_are_carried_out_in_order(single: Ensemble) -> None:
    async def steps(user: User, _: User) -> None:
        await user.do(Create("/counter"))
        requests = [user.submit(SetData("/counter", b"%d" % value, value)) for value in range(2_000)]
        versions = [one.stat.version for one in await asyncio.gather(*requests) if one.stat is not None]
        assert versions == list(range(1, 2_001))

    course(single.addresses, steps)


def test_a_session_outlives_a_restart_and_a_change_meanwhile_fires_its_watch(single: Ensemble) -> None:
    async def steps(user: User, other: User) -> None:
        await user.do(Create("/restart", b"", ephemeral=True))
        await user.do(GetData("/restart", watch=True))
        identity = user.session.id
        single.servers[0].pause()
        try:
            lost = user.submit(Sync("/"))
            assert (await lost).code is Code.CONNECTION_LOSS, "a paused server is silent"
        finally:
            single.servers[0].resume()
        await user.is_in(SessionState.CONNECTED)
        await other.is_in(SessionState.CONNECTED)
        assert user.session.id == identity
        assert (await user.do(Exists("/restart"))).ok, "the session and its ephemeral node are still there"
        await other.do(SetData("/restart", b"changed"))
        await user.do(Sync("/"))
        assert WatchFired(WatchType.NODE_DATA_CHANGED, "/restart") in user.events

    course(single.addresses, steps)


def test_a_session_of_a_frozen_client_expires_and_is_renewed(single: Ensemble) -> None:
    async def steps(user: User, other: User) -> None:
        await user.do(Create("/mortal", b"", ephemeral=True))
        await other.do(Exists("/mortal", watch=True))
        identity = user.session.id
        freeze(user.session)
        await soon(lambda: WatchFired(WatchType.NODE_DELETED, "/mortal") in other.events, "the expiry", 30.0)
        thaw(user.session)
        await user.is_in(SessionState.EXPIRED)
        assert user.events[-2:] == [StateChanged(SessionState.CONNECTING), StateChanged(SessionState.EXPIRED)]
        assert (await user.do(Exists("/"))).code is Code.SESSION_EXPIRED
        user.session.renew(monotonic_us())
        await user.is_in(SessionState.CONNECTED)
        assert user.session.id not in (0, identity)
        assert (await user.do(Create("/mortal"))).ok

    course(single.addresses, steps)


def freeze(session: WireSession) -> None:
    """Stop what the session does by itself, as if its process had been stopped."""
    if session._timer is not None:
        session._timer.cancel()
    session._arm = lambda: None  # type: ignore[method-assign]


def thaw(session: WireSession) -> None:
    del session._arm
    session._fired()


@pytest.mark.full
def test_a_session_moves_to_another_server_when_its_own_is_killed() -> None:
    with Ensemble(servers=3) as ensemble:
        ensemble.wait_until_ready()

        async def steps(user: User, other: User) -> None:
            await user.do(Create("/moved", b"", ephemeral=True))
            await other.do(Exists("/moved", watch=True))
            identity = user.session.id
            ensemble.servers[0].kill()
            await soon(lambda: len(user.events) >= 3, "both have moved", 60.0)
            await user.is_in(SessionState.CONNECTED)
            await other.is_in(SessionState.CONNECTED)
            assert user.session.id == identity
            assert (await user.do(SetData("/moved", b"still"))).ok
            await other.do(Sync("/"))
            assert WatchFired(WatchType.NODE_DATA_CHANGED, "/moved") in other.events

        course(ensemble.addresses, steps)

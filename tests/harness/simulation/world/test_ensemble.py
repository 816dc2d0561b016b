"""What a client can see of the simulated ensemble: order, watches, expiry, lost connections (ZK-04, ZK-11, ZK-14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from squall.harness.simulation.world.ensemble import SimEnsemble
from squall.harness.simulation.world.kernel import MICROSECONDS, Kernel
from squall.harness.simulation.world.network import SimNetwork
from squall.harness.simulation.world.zookeeper_session import SimSession
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
    WatchFired,
    WatchType,
)

SERVERS = ("z1", "z2", "z3")
TIMEOUT = 3 * MICROSECONDS
Happened = list[SessionResponse | SessionEvent]


@dataclass(eq=False)
class Client:
    """A program with a session: what it asked and what it was told, in order."""

    world: World
    address: str
    happened: Happened = field(default_factory=list)
    paused: bool = False

    def __post_init__(self) -> None:
        world = self.world
        self.session = SimSession(
            self.address, SERVERS, TIMEOUT,
            network=world.network, rng=Random(self.address), wake=self.turn, now=world.kernel.now,
        )  # fmt: skip
        self.turn()

    def turn(self) -> None:
        if self.paused:
            return
        self.session.deliver(self.world.kernel.now, lambda now, event: self.happened.append(event))
        due = self.session.deadline()
        if due < 2**60:
            self.world.kernel.at(max(due, self.world.kernel.now + 1000), self.turn)

    def ask(self, *operations: Operation) -> Happened:
        """Submit operations at once; the list that their responses will be in, among what else is delivered."""
        answers: Happened = []
        for one in operations:
            self.session.submit(self.world.kernel.now, SessionRequest(one, self._noting(answers)))
        self.turn()
        return answers

    def _noting(self, answers: Happened) -> Callable[[int, SessionResponse], None]:
        def complete(now: int, response: SessionResponse) -> None:
            answers.append(response)
            self.happened.append(response)

        return complete

    def asked(self, operation: Operation) -> SessionResponse:
        """Carry out one operation and wait for the answer."""
        answers = self.ask(operation)
        self.world.run(1.0)
        (answer,) = answers
        assert isinstance(answer, SessionResponse)
        return answer

    @property
    def states(self) -> list[SessionState]:
        return [one.state for one in self.happened if isinstance(one, StateChanged)]


class World:
    def __init__(self, seed: int = 1) -> None:
        self.kernel = Kernel()  # type: ignore[abstract]
        self.network = SimNetwork(self.kernel, Random(seed))
        self.ensemble = SimEnsemble(SERVERS, self.kernel, self.network, Random(seed))

    def client(self, address: str = "b1") -> Client:
        client = Client(self, address)
        self.run(0.5)
        return client

    def run(self, seconds: float) -> None:
        self.kernel.run_until_complete(asyncio.sleep(seconds))

    def cut(self, address: str) -> None:
        for server in SERVERS:
            self.network.block(address, server, "cut")
            self.network.block(server, address, "cut")


@pytest.fixture
def world() -> World:
    return World()


def codes(answers: Happened) -> list[Code]:
    return [one.code for one in answers if isinstance(one, SessionResponse)]


def test_operations_are_answered_in_order_and_a_client_reads_its_own_writes(world: World) -> None:
    client = world.client()
    answers = client.ask(Create("/a", b"1"), SetData("/a", b"2"), GetData("/a"), Delete("/a"), Exists("/a"))
    world.run(1.0)
    assert codes(answers) == [Code.OK, Code.OK, Code.OK, Code.OK, Code.NO_NODE]
    read = answers[2]
    assert isinstance(read, SessionResponse) and read.stat is not None
    assert (read.data, read.stat.version) == (b"2", 1)


def test_writes_are_checked_and_transactions_are_whole(world: World) -> None:
    client = world.client()
    assert client.asked(Create("/a/b")).code is Code.NO_NODE
    assert client.asked(Create("/a")).code is Code.OK
    assert client.asked(Create("/a")).code is Code.NODE_EXISTS
    assert client.asked(SetData("/a", b"x", 5)).code is Code.BAD_VERSION
    failed = client.asked(Multi((SetData("/a", b"x"), Create("/b"), Check("/a", 7), Delete("/a"))))
    assert failed.code is Code.BAD_VERSION
    assert [one.code for one in failed.results] == [
        Code.OK, Code.OK, Code.BAD_VERSION, Code.RUNTIME_INCONSISTENCY,
    ]  # fmt: skip
    assert client.asked(GetData("/a")).data == b""
    assert client.asked(Exists("/b")).code is Code.NO_NODE


def test_sequential_names_grow_and_children_are_sorted(world: World) -> None:
    client = world.client()
    client.asked(Create("/q"))
    paths = [client.asked(Create("/q/n_", sequential=True)).path for _ in range(2)]
    assert paths == ["/q/n_0000000000", "/q/n_0000000001"]
    client.asked(Delete(paths[0]))
    assert client.asked(Create("/q/n_", sequential=True)).path == "/q/n_0000000002"
    assert client.asked(GetChildren("/q")).children == ("n_0000000001", "n_0000000002")


def test_a_watch_fires_once_and_before_a_read_that_shows_the_change(world: World) -> None:
    """ZK-04."""
    reader, writer = world.client("b1"), world.client("b2")
    writer.asked(Create("/a", b"old"))
    reader.asked(GetData("/a", watch=True))
    del reader.happened[:]
    writer.ask(SetData("/a", b"new"), SetData("/a", b"newer"))
    while not any(isinstance(one, SessionResponse) and one.data.startswith(b"new") for one in reader.happened):
        reader.ask(GetData("/a"))
        world.run(0.001)
    fired = [number for number, one in enumerate(reader.happened) if isinstance(one, WatchFired)]
    changed = [number for number, one in enumerate(reader.happened) if getattr(one, "data", b"").startswith(b"new")]
    assert reader.happened[fired[0]] == WatchFired(WatchType.NODE_DATA_CHANGED, "/a")
    assert len(fired) == 1 and fired[0] < changed[0]


def test_a_paused_client_loses_session_and_ephemeral_nodes(world: World) -> None:
    """ZK-11."""
    sleeper, other = world.client("b1"), world.client("b2")
    sleeper.asked(Create("/me", ephemeral=True))
    other.asked(Exists("/me", watch=True))
    sleeper.paused = True
    world.run(5.0)
    assert WatchFired(WatchType.NODE_DELETED, "/me") in other.happened
    sleeper.paused = False
    answers = sleeper.ask(Create("/late"))
    world.run(2.0)
    assert SessionState.EXPIRED in sleeper.states
    assert codes(answers) in ([Code.SESSION_EXPIRED], [Code.CONNECTION_LOSS])
    former = sleeper.session.id
    sleeper.session.renew(world.kernel.now)
    sleeper.turn()
    world.run(1.0)
    assert sleeper.session.id > former
    assert sleeper.asked(Create("/me", ephemeral=True)).code is Code.OK


def test_a_lost_connection_leaves_the_outcome_unknown_and_the_session_alive(world: World) -> None:
    client = world.client()
    answers = client.ask(Create("/a"))
    world.cut("b1")
    while not answers:
        world.run(0.1)
    assert codes(answers) == [Code.CONNECTION_LOSS]
    waiting = client.ask(Create("/b"))
    world.network.unblock("cut")
    world.run(2.0)
    assert codes(waiting) == [Code.OK], "what was not sent waits for the next connection"
    assert client.states == [SessionState.CONNECTED, SessionState.CONNECTING, SessionState.CONNECTED]
    assert client.asked(Create("/a")).code in (Code.OK, Code.NODE_EXISTS)


def test_a_change_while_disconnected_is_reported_afterwards(world: World) -> None:
    client, writer = world.client("b1"), world.client("b2")
    writer.asked(Create("/a"))
    client.asked(GetChildren("/a", watch=True))
    world.cut("b1")
    while client.states[-1] is not SessionState.CONNECTING:
        world.run(0.1)
    writer.ask(Create("/a/b"))
    world.run(0.1)
    world.network.unblock("cut")
    world.run(2.0)
    assert client.happened.count(WatchFired(WatchType.NODE_CHILDREN_CHANGED, "/a")) == 1


def test_an_ensemble_without_a_quorum_ends_no_session(world: World) -> None:
    client = world.client()
    client.asked(Create("/me", ephemeral=True))
    world.ensemble.lose_quorum(4 * MICROSECONDS)
    world.run(6.0)
    assert SessionState.EXPIRED not in client.states
    assert client.asked(Exists("/me")).code is Code.OK


def test_a_closed_session_ends_at_once(world: World) -> None:
    client, other = world.client("b1"), world.client("b2")
    client.asked(Create("/me", ephemeral=True))
    client.session.close(world.kernel.now)
    world.run(0.2)
    assert other.asked(Exists("/me")).code is Code.NO_NODE


def test_a_request_that_is_too_large_is_not_sent(world: World) -> None:
    """ZK-14."""
    client = world.client()
    assert client.asked(Create("/a", bytes(1 << 20))).code is Code.MARSHALLING_ERROR
    assert client.asked(Exists("/a")).code is Code.NO_NODE


def test_every_server_ends_with_the_same_tree(world: World) -> None:
    """ZK-16: the history, replayed, is the state."""
    clients = [world.client(f"b{number}") for number in (1, 2, 3)]
    clients[0].asked(Create("/a"))
    for number, client in enumerate(clients * 5):
        client.ask(Create(f"/a/{number % 4}", ephemeral=number % 2 == 0), SetData("/a", bytes([number])))
    world.run(1.0)
    trees = [server._tree for server in world.ensemble._servers]
    assert all(tree.nodes == world.ensemble.tree.nodes for tree in trees)

"""A connection through the proxy, over loopback sockets: what is held, what is cut, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from squall.nemesis.agent.net.addresses import address_of
from squall.nemesis.agent.rpc import rpc_rules
from squall.nemesis.agent.rpc.rpc_relay import Relay
from squall.nemesis.agent.rpc.rpc_rules import Effects, Rules, RuleSpec
from tests.nemesis.agent.rpc.test_rpc_frames import FETCH, PRODUCE, request, response

CLIENT = "10.1.2.3"
SHORT = 0.1


def rule(
    api_key: int = FETCH,
    *,
    id: str = "f1",
    responses: bool = False,
    messages: int | None = None,
    sources: tuple[str, ...] = ("*",),
    lasts: float = 60,
) -> RuleSpec:
    return RuleSpec(id, api_key, responses, sources, messages, time.monotonic() + lasts)


class Line:
    """A client and a node with a relay between them."""

    def __init__(
        self, rules: Rules, effects: Effects, client: socket.socket, node: socket.socket, relay: Relay
    ) -> None:
        self.rules = rules
        self.effects = effects
        self.client = client
        self.node = node
        self.relay = relay
        self.task = asyncio.create_task(relay.run())

    async def ask(self, message: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.client, message)

    async def answer(self, message: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.node, message)

    async def at_node(self, message: bytes) -> bool:
        return await received(self.node, message)

    async def at_client(self, message: bytes) -> bool:
        return await received(self.client, message)

    def met(self, id: str = "f1") -> int:
        return int(self.effects.of(id).met)

    def waiting(self) -> int:
        return sum(one.waiting for one in self.rules)


async def received(one: socket.socket, message: bytes) -> bool:
    """Whether just this comes; False if nothing does for a while."""
    got = b""
    with contextlib.suppress(TimeoutError):
        while len(got) < len(message):
            got += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(one, len(message) - len(got)), 1)
    return got == message


async def nothing_comes(one: socket.socket) -> bool:
    try:
        await asyncio.wait_for(asyncio.get_running_loop().sock_recv(one, 1), SHORT)
    except TimeoutError:
        return True
    return False


async def ended(one: socket.socket) -> str:
    """`reset` or `closed`, once all that was sent has been read."""
    try:
        while await asyncio.wait_for(asyncio.get_running_loop().sock_recv(one, 1 << 16), 2):
            pass
    except ConnectionResetError:
        return "reset"
    return "closed"


async def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    one.setblocking(False)
    other.setblocking(False)
    return one, other


@contextlib.asynccontextmanager
async def line(directory: Path, *specs: RuleSpec) -> AsyncIterator[Line]:
    effects = Effects(directory / "effects")
    rules = Rules(effects)
    rules.become(specs)
    client, to_client = await connected()
    to_node, node = await connected()
    one = Line(rules, effects, client, node, Relay(to_client, to_node, address_of(CLIENT), rules))
    try:
        yield one
    finally:
        one.relay.reset()
        await one.task
        client.close()
        node.close()


def test_what_no_rule_picks_out_passes_both_ways(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, rule(PRODUCE)) as one:
            await one.ask(request(FETCH, 1, b"x" * 300_000))
            assert await one.at_node(request(FETCH, 1, b"x" * 300_000))
            await one.answer(response(1, b"y" * 300_000))
            assert await one.at_client(response(1, b"y" * 300_000))
            assert one.met() == 0

    asyncio.run(story())


def test_a_held_request_waits_and_all_behind_it_while_answers_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, rule(FETCH)) as one:
            await one.ask(request(PRODUCE, 1) + request(FETCH, 2) + request(PRODUCE, 3))
            assert await one.at_node(request(PRODUCE, 1))
            assert await nothing_comes(one.node)
            assert (one.met(), one.waiting()) == (1, 1)
            await one.answer(response(1))
            assert await one.at_client(response(1))
            one.rules.become([])
            assert await one.at_node(request(FETCH, 2) + request(PRODUCE, 3))
            assert one.met() == 1

    asyncio.run(story())


def test_a_held_answer_waits_and_requests_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, rule(FETCH, responses=True)) as one:
            await one.ask(request(FETCH, 1) + request(PRODUCE, 2))
            assert await one.at_node(request(FETCH, 1) + request(PRODUCE, 2))
            await one.answer(response(1, b"held") + response(2))
            assert await nothing_comes(one.client)
            await one.ask(request(PRODUCE, 3))
            assert await one.at_node(request(PRODUCE, 3))
            one.rules.become([])
            assert await one.at_client(response(1, b"held") + response(2))

    asyncio.run(story())


def test_a_held_request_arrives_in_the_end_though_its_sender_has_given_up(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, rule(FETCH)) as one:
            await one.ask(request(FETCH, 1))
            assert await nothing_comes(one.node)
            one.client.close()
            one.rules.become([])
            assert await one.at_node(request(FETCH, 1))
            assert await ended(one.node) == "closed"

    asyncio.run(story())


def test_a_rule_ends_by_itself_at_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = rule(FETCH, lasts=60)

    async def story() -> None:
        async with line(tmp_path, spec) as one:
            monkeypatch.setattr(rpc_rules, "time", SimpleNamespace(monotonic=lambda: spec.deadline))
            await one.ask(request(FETCH, 1))
            assert await one.at_node(request(FETCH, 1))

    asyncio.run(story())


def test_two_holds_end_one_by_one(tmp_path: Path) -> None:
    async def story() -> None:
        first, second = rule(FETCH, id="f1"), rule(FETCH, id="f2")
        async with line(tmp_path, first, second) as one:
            await one.ask(request(FETCH, 1))
            assert await nothing_comes(one.node)
            one.rules.become([second])
            assert await nothing_comes(one.node)
            assert (one.met("f1"), one.met("f2")) == (1, 1)
            one.rules.become([])
            assert await one.at_node(request(FETCH, 1))

    asyncio.run(story())


@pytest.mark.parametrize(
    ("sources", "concerned"), [((CLIENT + "/32",), 1), (("10.1.2.0/24",), 1), (("10.1.3.3/32",), 0)]
)
def test_a_rule_concerns_its_sources_only(tmp_path: Path, sources: tuple[str, ...], concerned: int) -> None:
    async def story() -> None:
        async with line(tmp_path, rule(FETCH, sources=sources)) as one:
            await one.ask(request(FETCH, 1))
            assert await nothing_comes(one.node) == bool(concerned)
            assert one.met() == concerned

    asyncio.run(story())


def test_a_cut_after_requests_lets_them_arrive_and_loses_the_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, rule(PRODUCE, messages=2)) as one:
            await one.ask(request(PRODUCE, 1))
            assert await one.at_node(request(PRODUCE, 1))
            await one.answer(response(1))
            assert await one.at_client(response(1))
            await one.ask(request(PRODUCE, 2, b"x" * 100_000))
            assert await ended(one.client) == "reset"
            assert await one.at_node(request(PRODUCE, 2, b"x" * 100_000))
            assert await ended(one.node) == "closed"
            assert one.met() == 1

    asyncio.run(story())


def test_a_cut_in_place_of_a_request_loses_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, rule(PRODUCE, messages=0)) as one:
            await one.ask(request(PRODUCE, 1))
            assert await ended(one.client) == "reset"
            assert await ended(one.node) == "reset"
            assert one.met() == 1

    asyncio.run(story())


def test_a_cut_after_an_answer_lets_it_arrive(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, rule(PRODUCE, responses=True, messages=1)) as one:
            await one.ask(request(PRODUCE, 1))
            assert await one.at_node(request(PRODUCE, 1))
            await one.answer(response(1, b"y" * 50_000))
            assert await one.at_client(response(1, b"y" * 50_000))
            assert await ended(one.client) == "reset"
            assert await ended(one.node) == "reset"

    asyncio.run(story())


def test_a_cut_in_place_of_an_answer_loses_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, rule(PRODUCE, responses=True, messages=0)) as one:
            await one.ask(request(PRODUCE, 1))
            assert await one.at_node(request(PRODUCE, 1))
            await one.answer(response(1))
            assert await ended(one.client) == "reset"

    asyncio.run(story())


def test_one_that_holds_goes_before_one_that_cuts(tmp_path: Path) -> None:
    async def story() -> None:
        cut = rule(FETCH, id="cut", messages=0)
        async with line(tmp_path, cut, rule(FETCH, id="hold")) as one:
            await one.ask(request(FETCH, 1))
            assert await nothing_comes(one.client)
            assert (one.met("hold"), one.met("cut")) == (1, 0)
            one.rules.become([cut])
            assert await ended(one.client) == "reset"
            assert one.met("cut") == 1

    asyncio.run(story())


def test_ends_and_resets_are_told_to_the_other_side(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path) as one:
            one.client.shutdown(socket.SHUT_WR)
            assert await ended(one.node) == "closed"
            await one.answer(response(1))
            assert await one.at_client(response(1))
            one.node.close()
            assert await ended(one.client) == "closed"
        async with line(tmp_path) as one:
            one.node.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.node.close()
            assert await ended(one.client) == "reset"

    asyncio.run(story())


def test_it_leaves_when_the_last_answer_has_passed(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path) as one:
            await one.ask(request(FETCH, 1))
            assert await one.at_node(request(FETCH, 1))
            one.relay.leave()
            assert not one.task.done() and await nothing_comes(one.client)
            await one.answer(response(1))
            assert await one.at_client(response(1))
            assert await ended(one.client) == "closed"
            assert await ended(one.node) == "closed"

    asyncio.run(story())


def test_it_leaves_an_idle_connection_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path) as one:
            await one.ask(request(FETCH, 1))
            assert await one.at_node(request(FETCH, 1))
            await one.answer(response(1))
            assert await one.at_client(response(1))
            one.relay.leave()
            await asyncio.wait_for(one.task, 1)
            assert await ended(one.client) == "closed"

    asyncio.run(story())

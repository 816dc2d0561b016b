"""Single messages taken out of their connection: what passes meanwhile, and when and whether they arrive."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis.agent.rpc.rpc_aside import Aside, Held
from squall.nemesis.agent.rpc.rpc_frames import Header
from squall.nemesis.agent.rpc.rpc_rules import Effects, Rule, RuleSpec
from tests.nemesis.agent.rpc.test_rpc_frames import FETCH, PRODUCE, request, response
from tests.nemesis.agent.rpc.test_rpc_relay import Line, ended, line, nothing_comes, rule


def aside(api_key: int = FETCH, *, responses: bool = False, count: int | None = 1, **more: Any) -> RuleSpec:
    return replace(rule(api_key, responses=responses), count=count, pass_others=True, **more)


async def settled(one: Line, **wanted: int) -> bool:
    """Whether the effects come to be these within a second."""
    for _ in range(100):
        effect = one.effects.of("f1")
        if all(getattr(effect, name) == value for name, value in wanted.items()):
            return True
        await asyncio.sleep(0.01)
    return False


def test_the_first_request_is_taken_out_and_later_ones_pass(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, aside()) as one:
            await one.ask(request(FETCH, 1, b"x" * 200_000) + request(PRODUCE, 2) + request(FETCH, 3))
            assert await one.at_node(request(PRODUCE, 2) + request(FETCH, 3))
            assert await nothing_comes(one.node)
            assert (one.met(), one.waiting()) == (1, 1)
            one.rules.become([])
            assert await one.at_node(request(FETCH, 1, b"x" * 200_000))
            assert await settled(one, delivered=1, late=0, dropped=0)
            await one.answer(response(2) + response(3) + response(1))
            assert await one.at_client(response(2) + response(3) + response(1))

    asyncio.run(story())


def test_a_count_without_passing_holds_no_second_connection(tmp_path: Path) -> None:
    """A near-miss of the above: on the same connection all waits behind the message, as TCP has it."""

    async def story() -> None:
        async with line(tmp_path, replace(rule(FETCH), count=1)) as one:
            await one.ask(request(FETCH, 1) + request(PRODUCE, 2))
            assert await nothing_comes(one.node)
            one.rules.become([])
            assert await one.at_node(request(FETCH, 1) + request(PRODUCE, 2))

    asyncio.run(story())


def test_a_request_outlives_its_connection_and_is_answered_in_vain(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, aside(outlive=True)) as one:
            await one.ask(request(FETCH, 1, b"late"))
            assert await nothing_comes(one.node)
            one.client.close()
            assert await nothing_comes(one.node), "the node's side stays open"
            one.rules.become([])
            assert await one.at_node(request(FETCH, 1, b"late"))
            assert await settled(one, delivered=1, late=1, answered=0)
            await one.answer(response(1))
            assert await ended(one.node) == "closed"
            assert await settled(one, delivered=1, late=1, answered=1)

    asyncio.run(story())


def test_a_request_outlives_a_reset_while_others_are_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, aside(outlive=True)) as one:
            await one.ask(request(FETCH, 1) + request(PRODUCE, 2))
            assert await one.at_node(request(PRODUCE, 2))
            one.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.client.close()
            for _ in range(3):
                await one.answer(response(2, b"y" * 1000))  # the client takes it no more
            assert await nothing_comes(one.node)
            one.rules.become([])
            assert await one.at_node(request(FETCH, 1))
            assert await settled(one, delivered=1, late=1)

    asyncio.run(story())


def test_a_request_that_does_not_outlive_its_sender_is_dropped(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, aside()) as one:
            await one.ask(request(FETCH, 1))
            assert await nothing_comes(one.node)
            one.client.close()
            assert await ended(one.node) == "closed"
            assert await settled(one, delivered=0, dropped=1)

    asyncio.run(story())


def test_nothing_follows_a_message_that_was_cut_short(tmp_path: Path) -> None:
    """The held request would be read as the rest of the incomplete one."""

    async def story() -> None:
        async with line(tmp_path, aside(outlive=True)) as one:
            half = request(PRODUCE, 2, b"z" * 1000)[:500]
            await one.ask(request(FETCH, 1) + half)
            assert await one.at_node(half)
            one.client.close()
            assert await ended(one.node) == "closed"
            assert await settled(one, delivered=0, dropped=1)

    asyncio.run(story())


@pytest.mark.parametrize("gives_up", [True, False])
def test_a_response_is_held_alone_and_dies_with_its_receiver(tmp_path: Path, gives_up: bool) -> None:
    async def story() -> None:
        async with line(tmp_path, aside(PRODUCE, responses=True)) as one:
            await one.ask(request(PRODUCE, 1) + request(PRODUCE, 2))
            assert await one.at_node(request(PRODUCE, 1) + request(PRODUCE, 2))
            await one.answer(response(1, b"held") + response(2))
            assert await one.at_client(response(2))
            if gives_up:
                one.client.close()
                assert await settled(one, dropped=1)
            else:
                one.rules.become([])
                assert await one.at_client(response(1, b"held"))
                assert await settled(one, delivered=1, dropped=0)

    asyncio.run(story())


@pytest.mark.parametrize(("other", "released"), [(response(2), True), (b"", False)])
def test_what_is_held_is_released_at_an_event(tmp_path: Path, other: bytes, released: bool) -> None:
    """The event: one more response to a Produce has passed. The rule stays, and holds nothing more."""
    until = {"api_key": PRODUCE, "responses": True, "messages": 1}

    async def story() -> None:
        async with line(tmp_path, aside(count=None, until=until)) as one:
            await one.ask(request(FETCH, 1) + request(PRODUCE, 2))
            assert await one.at_node(request(PRODUCE, 2))
            assert await nothing_comes(one.node)
            await one.answer(other)
            if not released:
                assert await nothing_comes(one.node) and one.waiting() == 1
                return
            assert await one.at_client(other)
            assert await one.at_node(request(FETCH, 1))
            await one.ask(request(FETCH, 3))
            assert await one.at_node(request(FETCH, 3))

    asyncio.run(story())


def test_a_message_taken_out_goes_between_two_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with line(tmp_path, aside()) as one:
            long = request(PRODUCE, 2, b"x" * 5000)
            await one.ask(request(FETCH, 1) + long[:1000])
            assert await one.at_node(long[:1000])
            one.rules.become([])
            assert await nothing_comes(one.node), "it waits for the end of the message under way"
            await one.ask(long[1000:])
            assert await one.at_node(long[1000:] + request(FETCH, 1))

    asyncio.run(story())


def test_an_event_at_once_after_a_message_was_taken_out_releases_it(tmp_path: Path) -> None:
    """The event comes before any other task has run: request and response were read in one go."""
    until = {"api_key": 3, "responses": True, "messages": 1}
    spec = RuleSpec("h", 0, False, ("*",), None, 1e12, count=1, pass_others=True, until=until)
    delivered: list[Held] = []

    async def deliver(held: Held) -> None:
        delivered.append(held)

    async def scenario() -> None:
        rule = Rule(spec, Effects(tmp_path))
        aside, held = Aside(deliver, lambda: None), Held(rule, Header(1, 0, 9), response=False)
        rule.take()
        aside.keep(held)
        rule.note_passed(3, responses=True)
        task = aside._waiting[held]
        await asyncio.wait_for(task, 5)
        assert delivered == [held]

    asyncio.run(scenario())

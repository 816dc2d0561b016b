"""DUE as the observer asserts it: a node does nothing before the time it has named to its host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node.due_work import DueWork
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import NEVER
from squall.nodes.node.effects import Close, Effect, Send
from squall.nodes.protocol.messages import ApiKey

DUE = 7_000
FETCH = int(ApiKey.FETCH).to_bytes(2, "big") + b"the rest"


def turns_early(*outbox: Effect, traced: tuple[str, ...] = (), due: int = DUE) -> None:
    """Take a turn at 5,000 that leaves these effects and events."""
    process: Any = SimpleNamespace(name="b1", now=5_000)
    node: Any = SimpleNamespace(outbox=list(outbox))
    DueWork(None).turned_early(process, node, due, traced)  # type: ignore[arg-type]


def test_a_turn_that_does_nothing_is_legal() -> None:
    turns_early()


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        (Send(-3, [FETCH]), "it sends FETCH"),
        (Send(3, [b"an answer"]), "it answers on connection 3"),
        (Close(4), "it asks for Close"),
    ],
)
def test_a_turn_with_an_effect_breaks_due(effect: Effect, said: str) -> None:
    with pytest.raises(InvariantBroken, match=f"DUE: b1 named the time 7000, and when called at 5000 {said}"):
        turns_early(effect)


def test_a_turn_that_traces_something_breaks_due() -> None:
    with pytest.raises(InvariantBroken, match=r"b1 named nothing to be due, .* it traces leader"):
        turns_early(traced=("leader",), due=NEVER)


def test_a_turn_in_which_something_rare_happened_is_not_judged() -> None:
    """A rarity may do at any time what is due later; it is legal by its definition."""
    turns_early(Send(3, [b"an answer"]), traced=("buggify",))

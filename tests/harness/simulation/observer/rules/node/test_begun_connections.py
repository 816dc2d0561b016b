"""CONNECT as the observer asserts it: a node gives up a connection that nobody answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node.begun_connections import BOUND, BegunConnections
from squall.harness.simulation.observer.state.observed_log import InvariantBroken


class Connecting:
    """A node that has begun to connect at second 1."""

    def __init__(self) -> None:
        self.rule = BegunConnections(None)  # type: ignore[arg-type]
        self.process: Any = SimpleNamespace(name="b1", incarnation=1, now=0, connecting={-4: 1_000_000})

    def turns(self, after: int) -> None:
        """It takes a turn so many microseconds later."""
        self.process.now = 1_000_000 + after
        self.rule.turned(self.process, None)  # type: ignore[arg-type]


def test_a_node_that_waits_too_long_breaks_it() -> None:
    node = Connecting()
    node.turns(BOUND + 1)
    with pytest.raises(
        InvariantBroken, match=r"^CONNECT: b1 has waited for its connection -4 for 1\.600 s, and has not"
    ):
        node.turns(BOUND + 100_000)


def test_a_node_that_gives_up_in_time_is_sound() -> None:
    node = Connecting()
    node.turns(BOUND)
    node.turns(BOUND + 1)  # in this turn it gives up: it was paused until now
    node.process.connecting = {-5: 1_000_000 + BOUND}
    node.turns(BOUND + 100_000)


def test_another_incarnation_has_another_connection() -> None:
    node = Connecting()
    node.turns(BOUND + 1)
    node.process.incarnation = 2
    node.turns(BOUND + 2)

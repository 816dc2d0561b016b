"""BUDGET as the observer asserts it: a real node, with memory that its connections hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node.counted_memory import EVERY, CountedMemory
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from tests.nodes.node.test_node import CLIENT, Host

HOLDER = 7


class Watched:
    """A combined node, for one of whose connections the host holds a hundred bytes."""

    def __init__(self) -> None:
        self.host = Host()
        self.node = self.host.node
        self.process: Any = SimpleNamespace(name="n1", node=self.node)
        self.cluster = ObservedCluster()
        self.cluster.processes = {"n1": self.process}
        self.host.run()
        self.host.open(HOLDER, CLIENT)
        self.node.host_holds(self.host.now, HOLDER, 100)

    def turn(self, number: int = EVERY) -> None:
        self.cluster.turns["n1"] = number
        CountedMemory(self.cluster).turned(self.process, self.node)


def test_what_is_held_counts_until_its_connection_ends() -> None:
    watched = Watched()
    assert watched.node.data.budget.used == 100
    watched.turn()
    watched.node.closed(watched.host.now, HOLDER)
    assert watched.node.data.budget.used == 0
    watched.turn()
    CountedMemory(watched.cluster).at_end()


def test_what_counts_and_is_held_by_nobody_breaks_budget() -> None:
    watched = Watched()
    watched.node.closed(watched.host.now, HOLDER)
    watched.node.data.budget.used += 100
    with pytest.raises(InvariantBroken, match=r"^BUDGET: n1: the data plane counts 100 bytes, and .* hold 0$"):
        watched.turn()
    with pytest.raises(InvariantBroken, match=r"^BUDGET"):
        CountedMemory(watched.cluster).at_end()
    watched.turn(EVERY + 1)


def waits(watched: Watched, charge: int) -> None:
    """A response of ten bytes waits for an earlier one, and counts as so many."""
    inbound = SimpleNamespace(charge=charge, chunks=[b"12345", b"67890"])
    connections = watched.node.connections
    connections.waiting = lambda channel: iter([inbound] if channel is watched.node.data else [])  # type: ignore


def test_a_response_that_waits_counts_with_its_size() -> None:
    watched = Watched()
    waits(watched, 10)
    watched.turn()
    waits(watched, 9)
    with pytest.raises(InvariantBroken, match=r"^BUDGET: n1: a response of 10 bytes waits on the data plane .* as 9$"):
        watched.turn()

"""TURN as the observer asserts it: a turn takes no more requests of the data plane than a node's settings allow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node.limited_turns import LimitedTurns
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.node.zookeeper_node import ZooKeeperNode

MOST = 2


class Broker:
    """A broker that takes requests in turns."""

    def __init__(self) -> None:
        self.rule = LimitedTurns(None)  # type: ignore[arg-type]
        self.process: Any = SimpleNamespace(name="b1", incarnation=1)
        config = SimpleNamespace(turn_requests_max=MOST)
        self.node: Any = SimpleNamespace(
            config=config, data=SimpleNamespace(served=0), control=SimpleNamespace(served=0)
        )

    def turn(self, taken: int, controls: int = 0) -> None:
        self.node.data.served += taken
        self.node.control.served += controls
        self.rule.turned(self.process, self.node)


def test_a_turn_that_takes_more_breaks_it() -> None:
    broker = Broker()
    broker.turn(MOST)
    with pytest.raises(InvariantBroken, match=r"^TURN: b1 takes 3 requests of the data plane in a turn, 2 are the"):
        broker.turn(MOST + 1)


def test_a_turn_may_take_as_many_requests_as_are_the_most() -> None:
    broker = Broker()
    for taken in (MOST, MOST, 0, MOST):
        broker.turn(taken)


def test_a_turn_without_inputs_counts_for_itself() -> None:
    broker = Broker()
    broker.node.data.served += MOST
    broker.rule.turned_early(broker.process, broker.node, 0, ())
    broker.turn(MOST)


def test_beside_requests_of_a_zookeeper_era_controller_one_is_the_most() -> None:
    broker = Broker()
    broker.turn(MOST, controls=1)
    on_zookeeper = ZooKeeperNode.__new__(ZooKeeperNode)
    vars(on_zookeeper).update(vars(broker.node))
    broker.node = on_zookeeper
    broker.turn(1, controls=3)
    broker.turn(MOST)
    with pytest.raises(InvariantBroken, match="takes 2 requests of the data plane in a turn, 1 are the most"):
        broker.turn(MOST, controls=1)


def test_the_next_incarnation_counts_from_the_beginning() -> None:
    broker = Broker()
    for _ in range(3):
        broker.turn(MOST)
    broker.process.incarnation, broker.node.data.served = 2, 0
    broker.turn(MOST)
    broker.process.incarnation, broker.node.data.served = 3, 0
    with pytest.raises(InvariantBroken):
        broker.turn(MOST + 1)

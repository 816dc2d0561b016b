"""ZK-14 and ZK-08 as the observer asserts them: whom a broker obeys, and whom a controller takes for stopping."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.zookeeper.zookeeper_controllers import ZooKeeperControllers
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from tests.harness.simulation.observer.observed import Cluster


def accepts(*epochs: int, restarts_before: int | None = None) -> None:
    """B2 accepts requests of controllers with these epochs, one a turn."""
    cluster = Cluster()
    process = cluster.processes["b2"]
    for epoch in epochs:
        if epoch == restarts_before:
            process.up = False
            cluster.observer.look(process)  # type: ignore[arg-type]
            process.up = True
            process.incarnation += 1
        cluster.observer.event("zk_request", node=2, api=6, epoch=epoch)
        cluster.observer.look(process)  # type: ignore[arg-type]


def test_a_request_of_a_deposed_controller_breaks_zk_14() -> None:
    with pytest.raises(InvariantBroken, match=r"^ZK-14: broker 2 .* with epoch 3, after one of epoch 4"):
        accepts(3, 4, 3)


def test_the_same_controller_and_its_successor_may_give_orders() -> None:
    accepts(3, 3, 4, 4)


def test_another_incarnation_has_obeyed_nobody_yet() -> None:
    accepts(4, 3, restarts_before=3)


def controls(*, brokers: tuple[int, ...], stopping: tuple[int, ...], active: bool = True) -> None:
    """B1 takes a turn as a controller that knows these brokers, and takes some of them for stopping."""
    node = ZooKeeperNode.__new__(ZooKeeperNode)
    context = SimpleNamespace(brokers=dict.fromkeys(brokers), shutting_down=dict.fromkeys(stopping))
    node.controller = SimpleNamespace(is_active=active, context=context)  # type: ignore[assignment]
    process: Any = SimpleNamespace(name="b1")
    ZooKeeperControllers(None).turned(process, node)  # type: ignore[arg-type]


def test_a_broker_that_has_stopped_is_no_longer_stopping() -> None:
    with pytest.raises(InvariantBroken, match=r"^ZK-08: controller b1 takes \[3\] for stopping, whose registrations"):
        controls(brokers=(1, 2), stopping=(2, 3))
    controls(brokers=(1, 2, 3), stopping=(2, 3))


def test_a_controller_that_was_deposed_knows_nothing() -> None:
    controls(brokers=(1, 2), stopping=(3,), active=False)

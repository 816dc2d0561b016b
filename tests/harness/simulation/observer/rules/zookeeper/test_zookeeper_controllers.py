"""ZK-14 as the observer asserts it: a broker obeys no controller that is older than one that it has obeyed."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
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

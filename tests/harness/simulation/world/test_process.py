"""A simulated process: when its host calls the node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from squall.harness.simulation.world.process import SimProcess
from squall.harness.simulation.world.world import ClusterShape, SimWorld


def test_some_inputs_are_preceded_by_a_turn_for_which_nothing_is_due() -> None:
    """Observer rule DUE: the turn is taken without the inputs, before the time that the node has named."""
    taken: list[str] = []

    def watch(process: SimProcess, due: int) -> Callable[[], None]:
        assert process.now < due
        assert process.node is not None and not process.node.outbox
        turned = process.node.connections.drained
        calls: list[None] = []
        process.node.connections.drained = lambda: calls.append(turned())  # type: ignore[method-assign]

        def judge() -> None:
            assert process.node is not None
            process.node.connections.drained = turned  # type: ignore[method-assign]
            assert len(calls) == 1, "a whole turn was taken in between"
            taken.append(process.name)

        return judge

    world = SimWorld(ClusterShape(), 5, topics={}, on_early_turn=watch)
    world.start()
    world.kernel.run_until_complete(asyncio.sleep(20))  # of virtual time
    assert set(taken) == set(world.processes)


def test_no_turn_begins_before_the_last_one_is_over() -> None:
    """Seed 1012645 of `worlds`: what left before a flush stalled a connection, and the node was called for that."""
    over: dict[str, int] = {}
    stalls: list[str] = []

    def watch(process: SimProcess) -> None:
        assert process.now >= over.get(process.name, 0), (
            f"{process.name} takes a turn at {process.now} while it is busy"
        )
        over[process.name] = process.now + SimProcess.TURN_COST
        stalls.extend(method.__name__ for method, _ in process.last_inputs if method.__name__ == "stalled")

    world = SimWorld(ClusterShape(buggify=("responses-not-taken",)), 2, topics={}, on_iteration=watch)
    world.start()
    world.kernel.run_until_complete(asyncio.sleep(20))  # of virtual time
    assert stalls

"""Every controller keeps an image that is up to date, so that any of them can take over at once (QC-23)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from squall.harness.scenario.cluster import await_whole, create_topics
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nodes.controller.controller import QuorumController
from squall.nodes.node.node import Node
from squall.workloads.clients.common.client import Topic
from squall.workloads.clients.native.admin import NativeAdmin

STEP_S = 0.001
FEW, MANY = 10, 400
ON_THE_WAY = 2
"""Records that a standby may lack: it learns with its next fetch that they are committed."""
TAKES_OVER_S = 0.1
"""From the first turn as the quorum's leader: a commit of its epoch's first record, a few messages."""


def controllers(world: SimWorld) -> dict[str, QuorumController]:
    running = {name: process.node for name, process in world.processes.items()}
    return {name: one.controller for name, one in running.items() if isinstance(one, Node) and one.controller}


def quorum_leader(world: SimWorld, but: str) -> str | None:
    for name, process in world.processes.items():
        if name != but and isinstance(process.node, Node) and process.node.raft.is_leader:
            return name
    return None


def follows(standby: QuorumController, offset: int) -> bool:
    """Whether a standby has applied what is before this offset but for what is on its way."""
    return standby.committed.last_offset >= offset - ON_THE_WAY


async def until(world: SimWorld, seconds: float, holds: str, check: Callable[[], bool]) -> float:
    """Return when `check` holds, in seconds of virtual time."""
    end = world.kernel.now + round(seconds * MICROSECONDS)
    while world.kernel.now < end:
        if check():
            return world.kernel.now / MICROSECONDS
        await asyncio.sleep(STEP_S)  # virtual time until the next look
    raise AssertionError(f"not within {seconds:g} s: {holds}")


async def fail_over(world: SimWorld, partitions: int) -> float:
    """Kill the active controller of a cluster with a topic. Return how long its successor took from its election."""
    places = [(place.address, place.port) for place in world.places if place.is_controller]
    admin = NativeAdmin(world.connector(), world.bootstrap(), places)
    await create_topics(admin, (Topic("events", partitions, 3, ()),), 60)
    await await_whole(admin, 3, {"events": partitions}, 60)
    await admin.close()
    (active,) = [name for name, one in controllers(world).items() if one.is_active]
    image = controllers(world)[active].committed
    standbys = [one for name, one in controllers(world).items() if name != active]
    await until(world, 5, "standbys have the image", lambda: all(follows(one, image.last_offset) for one in standbys))
    assert all(len(one.committed.topics) == 1 for one in standbys)
    loaded = {name: one.snapshots_loaded for name, one in controllers(world).items()}
    world.processes[active].crash()
    elected = await until(world, 20, "another leader", lambda: quorum_leader(world, active) is not None)
    successor = quorum_leader(world, active)
    assert successor is not None
    took = await until(world, 20, "it is active", lambda: controllers(world)[successor].is_active) - elected
    assert controllers(world)[successor].snapshots_loaded == loaded[successor], "it had everything"
    return took


def taking_over(partitions: int) -> float:
    world = SimWorld(ClusterShape(), 1, topics={"events": partitions})
    world.start()
    took = world.kernel.run_until_complete(fail_over(world, partitions))
    world.switch_off()
    return took


@pytest.mark.parametrize("partitions", [FEW, MANY])
def test_a_standby_takes_over_at_once_whatever_the_number_of_topic_partitions(partitions: int) -> None:
    """QC-23: the others follow the log, and have applied it; nothing is read when one of them becomes active."""
    assert taking_over(partitions) < TAKES_OVER_S

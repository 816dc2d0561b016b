"""Brokers that come back to index files that are lost or damaged: what is drawn, and what it does."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random

import pytest

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.kinds import LOSE_INDEXES, UNITS
from squall.harness.simulation.swarm.situations.lost_indexes import CLEAN, draw_lost_indexes, lose_indexes
from squall.harness.simulation.swarm.swarm import Swarm
from squall.harness.simulation.world.disk import SimDisk
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.log import Log

BROKERS = ("b1", "b2", "b3")
LOAD = 24.0
SECOND = 1_000_000
DRAWN = {seed: draw_lost_indexes(seed, BROKERS, LOAD) for seed in range(200)}


def test_a_seed_draws_the_same_again_and_most_draw_nothing() -> None:
    assert {seed: draw_lost_indexes(seed, BROKERS, LOAD) for seed in DRAWN} == DRAWN
    assert 110 < sum(not drawn for drawn in DRAWN.values()) < 160


def test_one_broker_after_the_other_is_back_before_the_load_ends() -> None:
    for drawn in filter(None, DRAWN.values()):
        assert all(one.latest_end < other.at for one, other in pairwise(drawn))
        assert drawn[-1].latest_end < LOAD
    faults = [fault for drawn in DRAWN.values() for fault in drawn]
    assert {fault.kind for fault in faults} == {LOSE_INDEXES} <= set(UNITS)
    assert {fault.hosts[0] for fault in faults} == set(BROKERS)
    assert 0.4 < sum(fault.amount < CLEAN for fault in faults) / len(faults) < 0.8


def log_of(disk: SimDisk, *, records: int) -> None:
    """A log with many sealed segments, closed."""
    log = Log.open(disk, "t-0", LogConfig(segment_bytes=300, index_interval_bytes=0), now_ms=0, trace=NullTrace())
    for time in range(records):
        log.append_as_leader(build_batch([Record(timestamp=time, value=b"v")]), 1, 0)
    log.close()


def test_only_index_files_are_damaged_and_durably() -> None:
    disk = SimDisk(Random(1))
    log_of(disk, records=60)
    disk.crash_after = 0
    before = {path: disk.content(path) for path in disk.paths()}
    damaged = lose_indexes(disk, Random(7))
    after = {path: disk.content(path) for path in disk.paths()}
    changed = {path for path, content in before.items() if after.get(path) != content}
    assert len(changed) == damaged == disk.damaged_files > 10
    assert {path.rpartition(".")[2] for path in changed} == {"index", "timeindex"}
    assert any(path not in after for path in changed)
    assert any(path in after and after[path] and len(after[path]) < len(before[path] or b"") for path in changed)  # type: ignore[arg-type]
    assert any(path in after and len(after[path] or b"") == len(before[path] or b"") for path in changed)
    disk.crash_after = None
    disk.lose_power("all")
    assert {path: disk.content(path) for path in changed} == {path: after.get(path) for path in changed}


@pytest.mark.parametrize("amount", [0.1, 0.9], ids=["stopped cleanly", "killed"])
def test_the_broker_is_down_meanwhile_and_runs_again(amount: float) -> None:
    world = SimWorld(ClusterShape(), seed=3, topics={})
    world.start()
    world.kernel.run_for(5 * SECOND)
    log_of(world.processes["b2"].disk, records=60)
    fault = SwarmFault(1.0, LOSE_INDEXES, ("b2",), 0.5, amount)
    incarnation = world.processes["b2"].incarnation
    swarm = Swarm(world, [fault], operator=world.operator())
    asyncio.set_event_loop(world.kernel)
    try:
        world.kernel.run_until_complete(swarm.run())
    finally:
        asyncio.set_event_loop(None)
    assert swarm.counts == {LOSE_INDEXES: 1}
    assert swarm.effects[LOSE_INDEXES] == world.processes["b2"].disk.damaged_files > 10
    assert world.processes["b2"].incarnation == incarnation + 1
    world.switch_off()

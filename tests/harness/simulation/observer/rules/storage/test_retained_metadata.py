"""SN-07 as the observer asserts it: old snapshots go, and the metadata log before the kept ones."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.storage.retained_metadata import RetainedMetadata
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk

DIRECTORY = "__cluster_metadata-0"


class Keeper:
    """Node c1, whose log and snapshots may have 100 bytes."""

    def __init__(self, limit: int = 100) -> None:
        cluster = ObservedCluster()
        cluster.names = {1: "c1"}
        self.rule = RetainedMetadata(cluster)
        self.disk = SimDisk(Random(0))
        self.process: Any = SimpleNamespace(name="c1", disk=self.disk)
        self.node: Any = SimpleNamespace(config=SimpleNamespace(metadata_max_retention_bytes=limit))

    def keeps(self, **sizes: int) -> None:
        """Files of these sizes; `log_8` is a segment and `snapshot_8` a snapshot at offset 8."""
        for name, size in sizes.items():
            kind, offset = name.split("_")
            end = f"{int(offset):020d}" + (
                ".log" if kind == "log" else f"-{0:010d}.checkpoint" if kind == "snapshot" else f".{kind}"
            )
            self.disk.open(f"{DIRECTORY}/{end}", create=True).append(bytes(size))

    def places_a_snapshot(self) -> None:
        self.rule.traced("snapshot", {"node": 1})

    def turn(self) -> None:
        self.rule.turned(self.process, self.node)


def test_what_is_within_the_limit_may_stay() -> None:
    keeper = Keeper()
    keeper.keeps(log_0=40, snapshot_8=30, snapshot_16=30, index_0=500)
    keeper.places_a_snapshot()
    keeper.turn()


def test_sn_07_breaks_when_older_snapshots_stay_above_the_limit() -> None:
    keeper = Keeper()
    keeper.keeps(log_0=41, snapshot_8=30, snapshot_16=30)
    keeper.places_a_snapshot()
    with pytest.raises(InvariantBroken, match=r"^SN-07: c1 .* keeps 101 bytes .* 2 snapshots; the limit is 100"):
        keeper.turn()


def test_the_newest_snapshot_and_the_log_after_it_stay_whatever_their_size() -> None:
    keeper = Keeper()
    keeper.keeps(log_0=400, snapshot_16=300)
    keeper.places_a_snapshot()
    keeper.turn()


@pytest.mark.parametrize("limit", [-1, 1_000])
def test_without_a_limit_or_far_below_it_all_may_stay(limit: int) -> None:
    keeper = Keeper(limit)
    keeper.keeps(log_0=400, snapshot_8=200, snapshot_16=300)
    keeper.places_a_snapshot()
    keeper.turn()


def test_the_limit_applies_when_there_is_another_snapshot() -> None:
    """Until then a log may grow, and a node that dies as it puts one in place does the rest later."""
    keeper = Keeper()
    keeper.keeps(log_0=400, snapshot_8=200, snapshot_16=300)
    keeper.turn()
    keeper.places_a_snapshot()
    keeper.rule.died(keeper.process)
    keeper.turn()

"""Kernels and the DataFrame formulation count the same anomalies, in every forged history of a log (HX-06)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from squall.results.checkers.engine.spark import SparkEngine
from squall.results.cross_check.dataframes import COVERED, OPINION_ON_LOSSES, Place, second_opinions
from squall.results.history.history import close_history
from squall.results.synthetic.forge import INJECTIONS, NEAR_MISSES, Forged, forge_run, healthy
from squall.results.synthetic.forge_catalogue import checked_log

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

Counts = dict[str, int]


def forged_logs(seed: int) -> dict[str, list[Forged]]:
    """A healthy log, one without its final read, and one per anomaly and near-miss."""
    logs = {"healthy": healthy(seed), "unfinished": without_final_read(healthy(seed))}
    changes = {name: inject for name, (_, inject) in INJECTIONS.items()} | NEAR_MISSES
    for number, (name, change) in enumerate(changes.items(), seed):
        logs[name] = change(healthy(number), random.Random(number))
    return logs


def without_final_read(operations: list[Forged]) -> list[Forged]:
    return [one for one in operations if one.f not in ("marker", "final_poll")]


def by_kernels(operations: list[Forged]) -> Counts:
    result = checked_log(operations)
    counts = {name: count for name, count in result.anomalies.items() if name in COVERED}
    return counts | ({OPINION_ON_LOSSES: 1} if result.final.complete else {})


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, *range(100, 700, 100)])
def test_both_formulations_count_the_same(seed: int, tmp_path: Path, spark: SparkEngine) -> None:
    logs = forged_logs(seed)
    files = {
        name: close_history(forge_run(tmp_path / str(number), operations)).resolve()
        for number, (name, operations) in enumerate(logs.items())
    }
    opinions: dict[Place, Counts] = second_opinions(spark.session, list(files.values()))
    said = {name: opinions.get((files[name], "events", 0), {}) for name in logs}
    assert said == {name: by_kernels(operations) for name, operations in logs.items()}
    found = {anomaly for counts in said.values() for anomaly in counts}
    assert found == {*COVERED, OPINION_ON_LOSSES}, "each rule had something to find"
    assert said["healthy"] == {OPINION_ON_LOSSES: 1}
    assert said["unfinished"] == {}

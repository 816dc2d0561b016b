"""A real Spark cluster comes to the verdicts that one process comes to (HX-06); one that cannot check says why.

Six JVMs on two cores take their time, so these are `full`; what can be told without a cluster is in `test_cluster.py`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from squall.harness.errors import USAGE_EXIT_STATUS
from squall.results.check import check_runs
from squall.results.checkers.engine.engines import InProcess
from squall.results.checkers.engine.spark import SparkEngine
from squall.results.report.tables import TABLES_FOLDER
from squall.results.synthetic.forge import INJECTIONS, forge_run, healthy
from squall.results.synthetic.forge_catalogue import FAMILIES, LOG
from squall.results.verdict.verdict import Verdict
from tests.spark_clusters import StandaloneCluster, standalone_cluster

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.xdist_group("spark")]

Tables = dict[str, Any]
TIMINGS: Final = {"seconds", "check_ms", "engine"}
"""What may differ between engines: how long it took, and who they are."""
DRIVER: Final = """
import sys, time
from pathlib import Path
from squall.results.check import check_runs
from squall.results.checkers.engine.spark import SparkEngine

master, executors, *runs = sys.argv[1:]
with SparkEngine(master, class_sharing=False) as engine:
    end = time.monotonic() + 120
    while engine.executors() < int(executors):
        assert time.monotonic() < end, f"{engine.executors()} executors"
        time.sleep(0.05)
    check_runs([Path(run) for run in runs], engine, report=False)
"""
"""In a process of its own: one process has one Spark session, and that of the tests may be there already."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as there:
        yield there


def forged_runs(folder: Path) -> list[Path]:
    """Healthy ones and every anomaly of logs, and of each other kind a healthy run and one with its first anomaly."""
    runs = [forge_run(folder / "healthy", [one for number in range(3) for one in healthy(1, 150, number)])]
    for number, (name, (_, inject)) in enumerate(INJECTIONS.items()):
        operations = inject(healthy(number), random.Random(number)) + healthy(number, 100, 1)
        runs.append(forge_run(folder / name.replace(" ", "-"), operations, seed=number))
    for kind, family in FAMILIES.items():
        if kind == LOG:
            continue
        for case in (None, family.injections[0]):
            run = folder / f"{kind}-{'healthy' if case is None else 'spoilt'}"
            family.write(run, 5, 300, case)
            runs.append(run)
    return runs


def verdict_tables(run: Path) -> Tables:
    """The verdict and the sorted rows of each table, timings aside. They are removed: the next engine makes its own."""
    tables: Tables = {"verdict": without_timings(json.loads((run / "verdict.json").read_text()))}
    for path in sorted((run / TABLES_FOLDER).glob("*.parquet")):
        table = pq.read_table(path)
        rows = [without_timings(row) for row in table.to_pylist()]
        tables[path.stem] = (str(table.schema), sorted(rows, key=lambda row: json.dumps(row, sort_keys=True)))
    (run / "verdict.json").unlink()
    shutil.rmtree(run / TABLES_FOLDER)
    return tables


def without_timings(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_timings(one) for name, one in value.items() if name not in TIMINGS}
    return [without_timings(one) for one in value] if isinstance(value, list) else value


def squall_check(cluster: str, runs: list[Path], **environment: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; from squall.harness.cli.main import main; main()"
    words = [sys.executable, "-c", program, "check", "--spark-master", cluster, *map(str, runs)]
    return subprocess.run(words, capture_output=True, text=True, timeout=200, env=os.environ | environment, check=False)


def test_a_cluster_gives_the_tables_that_one_process_gives(
    tmp_path: Path, cluster: StandaloneCluster, spark: SparkEngine
) -> None:
    runs = forged_runs(tmp_path)
    here = check_runs(runs, InProcess(), report=False)
    assert {one.verdict for one in here} == {"valid", "invalid"}
    expected = [verdict_tables(run) for run in runs]
    check_runs(runs, spark, report=False)
    assert [verdict_tables(run) for run in runs] == expected, "Spark on this host"

    subprocess.run([sys.executable, "-c", DRIVER, cluster.master, "2", *map(str, runs)], timeout=250, check=True)

    assert {Verdict.load(run).coverage.engine for run in runs} == {f"Spark {cluster.master}"}
    assert [verdict_tables(run) for run in runs] == expected, "Spark on a cluster"
    for worker in cluster.workers:
        assert "Running task" in cluster.executors_log(worker), f"{worker} was given nothing to do"


def test_the_command_line_checks_on_a_cluster(tmp_path: Path, cluster: StandaloneCluster) -> None:
    _, inject = INJECTIONS["lost"]
    good = forge_run(tmp_path / "good", healthy(1), fault_free=True)
    bad = forge_run(tmp_path / "bad", inject(healthy(1), random.Random(1)))
    done = squall_check(cluster.master, [good, bad])
    assert done.returncode == 1, done.stderr
    assert [Verdict.load(run).verdict for run in (good, bad)] == ["valid", "invalid"]
    assert f"Spark {cluster.master}" in done.stdout


def test_workers_without_the_interpreter_are_told(tmp_path: Path, cluster: StandaloneCluster) -> None:
    run = forge_run(tmp_path / "run", healthy(1))
    done = squall_check(cluster.master, [run], PYSPARK_PYTHON="/nowhere/python")
    assert done.returncode == USAGE_EXIT_STATUS, done.stderr
    assert "a worker has no /nowhere/python. Install Squall there at the same path, or let" in done.stderr
    assert "squall check --in-process" in done.stderr
    assert not (run / "verdict.json").exists(), "no verdict is better than one that rests on nothing"

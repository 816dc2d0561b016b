"""Campaigns on Spark: the same traces as here, seed by seed; failures are shrunk there; trouble is never green.

The command line runs in a process of its own, since one process has one Spark session. Six JVMs on two cores take their
time, so tests with a cluster are `full`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pytest

from squall.harness.simulation.run.parallel import simulate_many
from squall.harness.simulation.run.scenarios import find_scenario
from squall.results.lake.store import Lake
from tests.harness.conftest import CommandLine
from tests.spark_clusters import StandaloneCluster, standalone_cluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

LOCAL = "local[2]"
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
TIMINGS = {"wall_s", "processor_s"}
SEEDS = int(os.environ.get("SQUALL_SEEDS", "200"))
"""How many seeds of data-plane are compared; two thousand take two cores one and a half hours."""
RESULTS = """
import pickle, sys, time
from squall.harness.distributed.calls import CallsOnSpark
from squall.harness.simulation.run.on_spark import simulate_on_spark
from squall.harness.simulation.run.run import SimOptions
from squall.harness.simulation.run.scenarios import find_scenario
from squall.results.checkers.engine.spark import SparkEngine

master, executors, name, seeds, out = sys.argv[1:]
with SparkEngine(master, class_sharing=False) as engine, CallsOnSpark(engine, print) as calls:
    end = time.monotonic() + 120
    while engine.executors() < int(executors):
        assert time.monotonic() < end, f"{engine.executors()} executors"
        time.sleep(0.05)
    results = list(simulate_on_spark(calls, find_scenario(name)[0], range(1, int(seeds) + 1), SimOptions()))
with open(out, "wb") as file:
    pickle.dump(results, file)
"""
"""Simulates seeds on a cluster once it has its executors, and keeps the results."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as there:
        yield there


def without_timings(result: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(result).items() if name not in TIMINGS}


def assert_same_traces(master: str, executors: int, name: str, seeds: int, out: Path) -> None:
    """Simulate seeds on Spark and here, and compare all that is known of each."""
    words = [master, str(executors), name, str(seeds), str(out)]
    subprocess.run([sys.executable, "-c", RESULTS, *words], check=True)
    there = sorted(pickle.loads(out.read_bytes()), key=lambda one: one.seed)
    here = sorted(simulate_many(find_scenario(name)[0], range(1, seeds + 1), processes=2), key=lambda one: one.seed)
    assert len(here) == seeds
    assert [without_timings(one) for one in there] == [without_timings(one) for one in here]


def test_spark_gives_the_same_traces_seed_by_seed(tmp_path: Path) -> None:
    assert_same_traces(LOCAL, 0, "barren-epoch", 2, tmp_path / "results")


@pytest.mark.full
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize(("name", "seeds"), [("barren-epoch", 2), ("data-plane", SEEDS)])
def test_a_cluster_of_two_workers_gives_the_same_traces_seed_by_seed(
    tmp_path: Path, cluster: StandaloneCluster, name: str, seeds: int
) -> None:
    assert_same_traces(cluster.master, 2, name, seeds, tmp_path / "results")
    for worker in cluster.workers:
        assert "Running task" in cluster.executors_log(worker), f"{worker} was given nothing to do"


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_failing_seed_is_shrunk_on_an_executor(squall: CommandLine, tmp_path: Path) -> None:
    asked = ("two-hop-failover", "--seed", "2", "--mutant", "truncate-to-hw")
    said = squall("simulate", *asked, "--spark-master", LOCAL, "--shrink", "--lake", "lake")
    assert said.status == 1, said.all
    assert "INVALID  seed 2: ISR" in said.out and "3 of 3 replays fail" in said.out
    schedule = tmp_path / "two-hop-failover-seed-2.yaml"
    assert schedule.is_file() and schedule.with_suffix(".svg").is_file()
    campaigns = {one["kind"]: one for one in Lake(tmp_path / "lake").table("campaigns").to_pylist()}
    assert (campaigns["simulate"]["invalid"], campaigns["simulate"]["engine"]) == (1, LOCAL)
    assert campaigns["shrink"]["first_seed"] == 2 and "event" in campaigns["shrink"]["result"]


@pytest.mark.full
@pytest.mark.timeout(600)
def test_mutants_and_forged_histories_are_verified_on_a_cluster(
    squall: CommandLine, cluster: StandaloneCluster
) -> None:
    said = squall("mutants", "--verify", "--seeds", "1", "--mutant", "truncate-to-hw", "--spark-master", cluster.master)
    assert said.status == 0 and re.search(r"truncate-to-hw .* 1/1 .* 1/1 +✔", said.out), said.all
    words = ("forge", "--verify", "--kind", "registers", "--seeds", "4", "--clean", "120")
    there, here = squall(*words, "--spark-master", cluster.master), squall(*words, "--processes", "1")
    assert there.status == here.status == 0
    assert sorted(there.out.splitlines()[:-1]) == sorted(here.out.splitlines()[:-1])


@pytest.mark.full
@pytest.mark.timeout(900)
def test_seeds_of_a_lost_worker_are_run_again(squall: CommandLine, tmp_path: Path, cluster: StandaloneCluster) -> None:
    words = ("simulate", "barren-epoch", "--seeds", "100", "--spark-master", cluster.master)
    running = squall.start(*words)
    said = tmp_path / "said.txt"
    wait_until(lambda: "10 of 100 seeds" in said.read_text() or running.poll() is not None, said.read_text, 200)
    executors = [one for one in psutil.process_iter(["cmdline"]) if EXECUTOR in (one.info["cmdline"] or [])]
    own = [one for one in executors if str(cluster.folder) in one.cwd()]
    own[0].kill()
    assert running.wait(600) == 0, said.read_text()
    assert "1 executor lost: " in said.read_text()
    assert "seeds      100: 100 valid" in said.read_text()


@pytest.mark.full
@pytest.mark.timeout(600)
def test_an_interrupted_campaign_keeps_the_seeds_that_ended(squall: CommandLine, tmp_path: Path) -> None:
    running = squall.start("simulate", "barren-epoch", "--seeds", "100", "--spark-master", LOCAL, "--lake", "lake")
    said = tmp_path / "said.txt"
    wait_until(lambda: "10 of 100 seeds" in said.read_text() or running.poll() is not None, said.read_text, 200)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130, said.read_text()
    ended = re.search(r"interrupted: (\d+) of 100 seeds ended", said.read_text())
    assert ended is not None and 10 <= int(ended[1]) < 100
    (row,) = Lake(tmp_path / "lake").table("campaigns").to_pylist()
    assert (row["seeds"], row["valid"], row["ended"]) == (int(ended[1]), int(ended[1]), False)
    with contextlib.suppress(psutil.NoSuchProcess):
        assert not psutil.Process(running.pid).children(recursive=True)

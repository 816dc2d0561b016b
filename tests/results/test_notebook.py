"""`squall.results.load`: everything of a run as pandas tables, with nothing lost on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import squall.results
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.history import ClusterObservation, FaultWindow
from squall.results.history.segments import ABSENT
from squall.results.synthetic.forge import MILLISECOND, ORIGIN, Forged, forge_run, healthy
from tests.facts import naming
from tests.results.test_further import WORKS, recorded

FAULT = FaultWindow(
    id="f", fault="kill", targets=("b1",), summary="b1", injected=ORIGIN + 50 * MILLISECOND, healed=None, took=True
)
LEADER = ClusterObservation(time=ORIGIN + 5 * MILLISECOND, kind="leader", node="b1", topic="events", partition=0)


def test_operations_have_names_seconds_and_whole_values(tmp_path: Path) -> None:
    value = (20_000 << 40) + 1  # beyond what a float can tell from its neighbours
    send = Forged("send", 5, 1, 20 * MILLISECOND, 30 * MILLISECOND, value=value, offset=3)
    open_one = Forged("send", 6, 1, 25 * MILLISECOND, None, "info", value=value + 1)
    poll = Forged("poll", 7, 2, 40 * MILLISECOND, 41 * MILLISECOND, run=((3, value), (4, 9)))
    run = squall.results.load(forge_run(tmp_path, [send, open_one, poll]))
    first, second, third = run.operations.to_dict("records")
    assert (first["f"], first["type"], first["value"], first["offset"]) == ("send", "ok", value, 3)
    assert (first["second"], first["completed_second"], first["latency"]) == (0.02, 0.03, 0.01)
    assert second["type"] == "info" and second["value"] == value + 1
    assert run.operations["latency"].isna().tolist() == [False, True, False]
    assert third["f"] == "poll" and "offsets" not in third
    assert run.records[["offset", "value", "completed_second"]].to_numpy().tolist() == [
        [3, value, 0.041],
        [4, 9, 0.041],
    ]
    assert set(run.records["op_id"]) == {third["op_id"]}
    assert run.verdict is None
    assert run.registers.empty


def test_segments_and_parquet_give_the_same_tables(tmp_path: Path) -> None:
    directory = recorded(tmp_path / "run", WORKS, healthy(1), checks=("log", "availability"))
    before = squall.results.load(directory)
    check_run(directory, InProcess(), report=False)
    after = squall.results.load(directory)
    assert before.operations.equals(after.operations)
    assert before.records.equals(after.records)
    assert after.verdict is not None and after.verdict.verdict == "valid"
    assert after.series("throughput")["operations"].sum() == len(after.operations)


def test_registers_faults_and_the_cluster_are_tables_too(tmp_path: Path) -> None:
    directory = recorded(tmp_path / "run", WORKS, faults=(FAULT,), cluster=(LEADER,))
    run = squall.results.load(directory)
    assert run.registers["f"].tolist() == ["read", "write", "cas", "cas", "read"]
    assert run.registers["found"].iloc[0] == ABSENT
    (fault,) = run.faults.to_dict("records")
    assert (fault["fault"], fault["injected"], fault["took"]) == ("kill", 0.05, True)
    assert fault["healed"] != fault["healed"], "it never was"
    assert run.cluster["time"].tolist() == [0.005]


def test_a_series_that_is_not_there_is_named_with_what_is(tmp_path: Path) -> None:
    directory = forge_run(tmp_path / "run", healthy(1))
    with pytest.raises(KeyError, match=naming("squall check")):
        squall.results.load(directory).series("latency")
    check_run(directory, InProcess(), report=False)
    with pytest.raises(KeyError, match=naming("errors", "latency", "outages", "partitions", "throughput")):
        squall.results.load(directory).series("latencies")


def test_a_load_worker_does_not_import_pandas_with_the_package() -> None:
    script = "import sys, squall.results.history.segments; sys.exit('pandas' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0

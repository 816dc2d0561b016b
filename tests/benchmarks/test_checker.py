"""The benchmark of the checker, small: what it forges is judged from outside, and what it is held against looks too."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from squall.benchmarks import checker
from squall.benchmarks.parts.check_runs import judged, watched
from squall.benchmarks.parts.pandas_check import plain_check
from squall.results.history.history import HISTORY_FILE, History, close_history, write_history
from squall.results.synthetic.forge_catalogue import FAMILIES, LOG
from squall.results.synthetic.forge_wide import forge_wide


@pytest.fixture
def history(tmp_path: Path) -> Path:
    forge_wide(tmp_path / "run", 4_000, partitions=2)
    return tmp_path / "run"


def test_plain_pandas_finds_nothing_in_a_healthy_history(history: Path) -> None:
    assert plain_check(history) == {}


def test_plain_pandas_does_not_round_the_values_of_late_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten million operations retire so many processes that values need more bits than a float has."""
    monkeypatch.setattr("squall.results.synthetic.forge_wide.FIRST_PROCESS", 1 << 20)
    forge_wide(tmp_path, 4_000, partitions=2)
    assert plain_check(tmp_path) == {}


@pytest.mark.parametrize(
    "anomaly", ["lost_write", "phantom", "aborted_read", "inconsistent_offset", "poll_skip", "nonmonotonic_poll",
                "future_read", "nonmonotonic_send", "stale_read", "duplicate"]
)  # fmt: skip
def test_plain_pandas_finds_what_was_put_in(tmp_path: Path, anomaly: str) -> None:
    case = next(one for one in FAMILIES[LOG].cases if one.anomaly == anomaly)
    FAMILIES[LOG].write(tmp_path, 3, 400, case)
    close_history(tmp_path)
    assert anomaly in plain_check(tmp_path)


def test_memory_and_processor_time_are_those_of_all_processes_together(history: Path) -> None:
    hungry = "import subprocess, sys; b = bytearray(2**28); subprocess.run([sys.executable, '-c', sys.argv[1]])"
    inner = "import time; b = bytearray(2**28); t = time.time()\nwhile time.time() < t + 0.7: pass"
    _, seconds, tree = watched([sys.executable, "-c", hungry, inner])
    assert tree.peak > 2 * 2**28
    assert 0.1 < tree.processor < seconds + 1


def test_a_command_that_fails_is_no_measurement() -> None:
    with pytest.raises(RuntimeError, match=r"exit 3[\s\S]*because"):
        watched([sys.executable, "-c", "print('because'); raise SystemExit(3)"])


@pytest.mark.spark
@pytest.mark.full
def test_runs_are_judged_in_their_own_process_and_a_bad_one_is_refused(history: Path) -> None:
    found = judged([history, history], history, rounds=2)
    assert len(found.seconds) == 2 and found.peak > 2**27
    rows = History.load(history)
    poll = rows.table["f"].to_pylist().index(4)
    kept = pa.array([number != poll for number in range(rows.table.num_rows)])
    write_history(History(rows.table.filter(kept), 0, rows.source), history / HISTORY_FILE)
    with pytest.raises(RuntimeError, match="lost_write"):
        judged([history], history, rounds=1)


def test_there_must_be_room(tmp_path: Path) -> None:
    scene = checker.Scene(tmp_path)
    with pytest.raises(OSError, match="make room"), scene.forged(10**15):
        pass


@pytest.mark.spark
@pytest.mark.full
@pytest.mark.timeout(900)  # seven JVMs, one after the other
def test_every_figure_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "RUNS_AT_ONCE", 3)
    found = {one.name: one for one in checker.run(20_000, billion=True)}
    for name in ("20 k operations, warm", "20 k operations, cold", "100 k operations, warm", "3 runs of 7 k, warm",
                 "20 k in one topic-partition, warm", "2 k list-append", "2 M operations, warm"):  # fmt: skip
        assert found[name].measured > 0
    assert all(one.must is None for one in found.values()), "a small one is held to no bar"
    assert json.dumps([one.samples for one in found.values()])

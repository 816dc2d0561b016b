"""Latencies of a whole run: what verdict and report state is what an exact count of the history comes to (HX-12)."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.history import History
from squall.results.report.render import check_lines, plain
from squall.results.synthetic.forge import Forged, forge_run
from squall.results.verdict.verdict import Verdict

MILLISECOND = 1_000_000
SLOW = 3_400 * MILLISECOND
SENDS = 2_700
SHARES = {"p50_ns": 0.5, "p99_ns": 0.99, "p999_ns": 0.999, "longest_ns": 1.0}


def sends(seed: int, slow: float, unknown: int = 0) -> list[Forged]:
    """Sends to three topic-partitions. The first ones wait for a stalled cluster, the last ones do not."""
    rng, found = random.Random(seed), []
    for number in range(SENDS):
        stalled = number < slow * SENDS
        took = SLOW + rng.randrange(SLOW // 10) if stalled else rng.randrange(MILLISECOND, 20 * MILLISECOND)
        due = number * MILLISECOND
        one = Forged("send", number, 0, due, due + took, partition=number % 3, value=number << 40, offset=number // 3)
        found.append(replace(one, type="info", offset=None) if number >= SENDS - unknown else one)
    return found


def forged(run: Path, seed: int, slow: float = 0.03, unknown: int = 0) -> Path:
    return forge_run(run, sends(seed, slow, unknown), seed=seed)


def exact(run: Path) -> list[int]:
    """Nanoseconds from due to acknowledged, of every acknowledged send of the history, in order."""
    table = History.load(run).table
    columns = {name: table[name].to_pylist() for name in ("f", "type", "at", "completed")}
    rows = zip(*columns.values(), strict=True)
    return sorted(completed - at for f, kind, at, completed in rows if (f, kind) == (0, 0))


@pytest.mark.parametrize("seed", range(4))
def test_quantiles_of_the_verdict_are_those_of_the_history_to_one_per_cent(tmp_path: Path, seed: int) -> None:
    run = forged(tmp_path / "run", seed)
    verdict = check_run(run, InProcess())
    latencies, told = exact(run), verdict.send_latency
    assert told is not None and told.acknowledged == len(latencies) > 500
    for name, share in SHARES.items():
        true = latencies[math.ceil(share * len(latencies)) - 1]
        assert true <= getattr(told, name) <= true * 1.0101, name
    assert Verdict.load(run).send_latency == told


def test_a_stall_long_ago_is_not_forgotten(tmp_path: Path) -> None:
    """The defect: 17 ms were shown, of the last 4 000 sends, where the run's p99 was 3.4 s."""
    verdict = check_run(forged(tmp_path / "run", 7), InProcess())
    assert verdict.send_latency is not None
    assert verdict.send_latency.p50_ns < 20 * MILLISECOND and verdict.send_latency.p99_ns >= SLOW


def test_terminal_and_report_state_the_numbers_of_the_verdict(tmp_path: Path) -> None:
    run = forged(tmp_path / "run", 1)
    verdict = check_run(run, InProcess())
    assert verdict.send_latency is not None
    words = verdict.send_latency.text
    assert words.startswith("p50 ") and " · p99 3." in words and " · p99.9 3." in words
    assert f"latency, whole run: {words} (" in plain(check_lines(verdict))
    assert words in (run / "report.html").read_text()


def test_sends_without_an_acknowledgement_have_no_latency_and_are_counted(tmp_path: Path) -> None:
    verdict = check_run(forged(tmp_path / "run", 3, unknown=5), InProcess())
    assert verdict.send_latency is not None
    assert verdict.send_latency.without == 5
    assert verdict.send_latency.acknowledged == SENDS - 5
    assert "without an acknowledgement not counted" in verdict.send_latency.told

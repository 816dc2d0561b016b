"""The interpreter benchmark counts operations that are in the history."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from squall.benchmarks._acknowledged import Look, _rate
from squall.benchmarks.interpreter import Round, _as_one, one_round, rounds, together
from squall.results.history.segments import read_segment, segment_path


def test_every_operation_counted_is_recorded_with_its_completion(tmp_path: Path) -> None:
    measured = one_round(400, tmp_path)
    assert measured.per_second > 0 and measured.microseconds > 0
    _, rows, torn = read_segment(segment_path(tmp_path, 0))
    kinds = Counter(type(row).__name__ for _, row in rows)
    assert (kinds, torn) == ({"InvocationRow": 400, "CompletionRow": 400}, 0)


def test_the_round_that_warms_up_is_not_counted() -> None:
    assert len(rounds(200, 2)) == 2


def test_several_processes_count_from_the_first_beginning_to_the_last_end() -> None:
    samples = together(2, 400, 2)
    assert len(samples) == 2 and all(sample.per_second > 0 for sample in samples)
    at_once = (Round(10.0, per_second=100, microseconds=7), Round(12.0, per_second=50, microseconds=9))
    assert _as_one(at_once, operations=200) == Round(10.0, per_second=400 / 6, microseconds=8)


def test_a_rate_is_what_came_between_two_reports_of_a_worker() -> None:
    assert _rate((1_000_000_000, 500), (3_000_000_000, 1500)) == 500
    with pytest.raises(AssertionError, match="has not reported for a whole window"):
        _rate((1_000_000_000, 500), (1_000_000_000, 500))


def test_what_an_acknowledged_operation_costs_is_what_was_used_between_two_looks() -> None:
    before = Look(((1_000_000_000, 500), (1_000_000_000, 100)), workers_seconds=1.0, brokers_seconds=4.0)
    after = Look(((3_000_000_000, 1500), (2_000_000_000, 1100)), workers_seconds=1.1, brokers_seconds=4.04)
    window = before.until(after)
    assert window.per_second == 500 + 1000
    assert (window.workers_microseconds, window.brokers_microseconds) == (pytest.approx(50), pytest.approx(20))
    with pytest.raises(AssertionError, match="nothing was acknowledged in a whole window"):
        after.until(after)

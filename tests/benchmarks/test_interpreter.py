"""The interpreter benchmark counts operations that are in the history."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from squall.benchmarks._acknowledged import _rate
from squall.benchmarks.interpreter import one_round, rounds, together
from squall.results.segments import read_segment, segment_path


def test_every_operation_counted_is_recorded_with_its_completion(tmp_path: Path) -> None:
    assert one_round(400, tmp_path) > 0
    _, rows, torn = read_segment(segment_path(tmp_path, 0))
    kinds = Counter(type(row).__name__ for _, row in rows)
    assert (kinds, torn) == ({"InvocationRow": 400, "CompletionRow": 400}, 0)


def test_the_round_that_warms_up_is_not_counted() -> None:
    assert len(rounds(200, 2)) == 2


def test_several_processes_are_counted_together_from_the_first_beginning_to_the_last_end() -> None:
    samples = together(2, 400, 2)
    assert len(samples) == 2 and all(sample > 0 for sample in samples)


def test_a_rate_is_what_came_between_two_reports_of_a_worker() -> None:
    assert _rate((1_000_000_000, 500), (3_000_000_000, 1500)) == 500
    with pytest.raises(AssertionError, match="has not reported for a whole window"):
        _rate((1_000_000_000, 500), (1_000_000_000, 500))

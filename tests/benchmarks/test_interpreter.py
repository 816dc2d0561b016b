"""The interpreter benchmark counts operations that are in the history."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from squall.benchmarks.interpreter import one_round
from squall.results.segments import read_segment, segment_path


def test_every_operation_counted_is_recorded_with_its_completion(tmp_path: Path) -> None:
    assert one_round(400, tmp_path) > 0
    _, rows, torn = read_segment(segment_path(tmp_path, 0))
    kinds = Counter(type(row).__name__ for _, row in rows)
    assert (kinds, torn) == ({"InvocationRow": 400, "CompletionRow": 400}, 0)

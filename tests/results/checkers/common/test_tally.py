"""What is counted adds up: to the same numbers, however it is put together, and in bounded memory."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from squall.results.checkers.common.tally import HELD, Aggregator, Counts, Tally
from squall.results.checkers.engine.engines import Checked, Outcome, Unchecked, added_up, outcome_of
from squall.results.checkers.kernels.operations import Operations
from squall.results.checkers.kernels.series import (
    Frame,
    bucket_and_class,
    class_nanoseconds,
    ended_as,
    latencies,
    throughput,
)
from squall.results.checkers.log.partition import Task
from squall.results.history.history import FUNCTIONS, TYPES, SegmentHeader, close_history, joined, layout
from squall.results.synthetic.forge import MILLISECOND, ORIGIN, Forged, forge_run, healthy, rows_of

NUMBERS = st.dictionaries(st.integers(-(2**62), 2**62), st.integers(1, 2**40), max_size=8)
ERRORS = st.dictionaries(
    st.tuples(st.integers(-3, 3), st.integers(0, 5), st.sampled_from(("a", "b"))), st.integers(1, 9)
)


def tally_of(numbers: dict[int, int]) -> Tally:
    keys = sorted(numbers)
    return Tally.of(np.array(keys, np.int64), np.array([numbers[one] for one in keys], np.int64))


@st.composite
def counted(draw: st.DrawFn) -> tuple[Counts, tuple[Counter[object], ...]]:
    ended, took, errors = draw(NUMBERS), draw(NUMBERS), draw(ERRORS)
    told = tuple(sorted((*what, count) for what, count in errors.items()))
    return Counts(tally_of(ended), tally_of(took), told), (Counter(ended), Counter(took), Counter(errors))


@given(st.lists(counted(), max_size=6))
def test_a_sum_is_what_counting_everything_would_have_found(
    parts: list[tuple[Counts, tuple[Counter[object], ...]]],
) -> None:
    found = Counts.sum([one for one, _ in parts])
    ended, took, errors = (sum((counters[number] for _, counters in parts), Counter()) for number in range(3))
    for tally, expected in ((found.throughput, ended), (found.latencies, took)):
        keys, counts = (one.tolist() for one in tally.arrays)
        assert keys == sorted(expected), "ascending, each once"
        assert dict(zip(keys, counts, strict=True)) == expected
    assert found.errors == tuple((*what, errors[what]) for what in sorted(errors))  # type: ignore[misc]


def test_however_many_come_few_are_held() -> None:
    aggregator = Aggregator()
    for number in range(5 * HELD + 3):
        aggregator.add(Counts(throughput=tally_of({number % 7: 1})))
        assert len(vars(aggregator)["_held"]) <= HELD
    assert sum(aggregator.counts.throughput.arrays[1].tolist()) == 5 * HELD + 3


def test_numbers_stand_for_what_was_counted_before_the_start_as_well() -> None:
    """Completions before the load began lie in buckets below zero."""
    width = 10 * MILLISECOND
    history = [
        Forged("send", 1, 0, 0, 5 * MILLISECOND, value=1, offset=0),
        Forged("poll", 2, 1, 0, 25 * MILLISECOND),
    ]
    operations = Operations.from_table(
        joined(Path("segment"), SegmentHeader("test", 0), enumerate(rows_of(history), 2))
    )
    frame = Frame(ORIGIN + 2 * width, width, ORIGIN + 3 * width)
    keys, counts = throughput(operations, frame).arrays
    assert [one.tolist() for one in ended_as(keys)] == [
        [-2, 0], [FUNCTIONS["send"], FUNCTIONS["poll"]], [TYPES["ok"], TYPES["ok"]],
    ]  # fmt: skip
    assert counts.tolist() == [1, 1]
    (bucket,), (latency,) = (one.tolist() for one in bucket_and_class(latencies(operations, frame).arrays[0]))
    assert bucket == -2
    assert class_nanoseconds(latency - 1) < 5 * MILLISECOND <= class_nanoseconds(latency)


def test_what_follows_each_other_of_one_run_comes_with_its_last(tmp_path: Path) -> None:
    operations = [one for partition in range(3) for one in healthy(1, 60, partition)]
    path = close_history(forge_run(tmp_path / "run", operations))
    tasks = [
        Task(run, str(path), one.topic, one.partition, one.row_groups, ORIGIN, MILLISECOND, ORIGIN)
        for run in (0, 1)
        for one in layout(path)
        if one.partition >= 0
    ]
    alone: list[Outcome] = [outcome_of(one) for one in tasks]
    alone.insert(5, Unchecked(1, "events-9"))
    found = list(added_up(alone))
    assert [type(one) for one in found] == [type(one) for one in alone]
    assert [None if not isinstance(one, Checked) else one.counts is not None for one in found] == [
        False, False, True, False, True, None, True,
    ]  # fmt: skip
    for run in (0, 1):
        before, after = (
            Counts.sum([o.counts for o in which if isinstance(o, Checked) and o.result.run == run and o.counts])
            for which in (alone, found)
        )
        assert before == after
    assert list(added_up(found)) == found, "what is added up stays so"

"""Measurements: quantiles that add up, outages that include the last one, lag as a number."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from squall.results.checkers.kernels.observed import Observed
from squall.results.checkers.kernels.operations import Operations
from squall.results.checkers.kernels.series import (
    Frame,
    availability,
    class_nanoseconds,
    latency_class,
    longest_gap_within,
    realtime_lag,
)
from squall.results.history.history import SegmentHeader, joined
from squall.results.report.tables import bucket_width, quantiles
from squall.results.synthetic.forge import MILLISECOND, ORIGIN, Forged, rows_of

S = 1000 * MILLISECOND
FRAME = Frame(ORIGIN, S, ORIGIN + 10 * S)


def operations_of(history: list[Forged]) -> Operations:
    rows = enumerate(rows_of(history), 2)
    return Operations.from_table(joined(Path("segment"), SegmentHeader("test", 0), rows))


def sends(*completed: float) -> list[Forged]:
    return [
        Forged("send", 1, 0, int(moment * S) - 5, int(moment * S), value=1 << 40 | number, offset=number)
        for number, moment in enumerate(completed, 1)
    ]


def test_the_longest_gap_is_the_outage() -> None:
    found = availability(operations_of(sends(1, 2, 3, 6, 7, 8, 9, 10)), FRAME)
    assert (found.longest, found.longest_start) == (3 * S, ORIGIN + 3 * S)
    assert found.acknowledged == 8


def test_an_outage_that_lasts_to_the_end_of_the_load_counts() -> None:
    found = availability(operations_of(sends(1, 2, 3)), FRAME)
    assert (found.longest, found.longest_start) == (7 * S, ORIGIN + 3 * S)


def test_a_topic_partition_that_never_answered_was_out_all_the_time() -> None:
    found = availability(operations_of([Forged("send", 1, 0, S, None, "info", value=1)]), FRAME)
    assert (found.longest, found.acknowledged) == (10 * S, 0)


def test_a_gap_counts_with_the_part_of_it_that_lies_within_the_window() -> None:
    operations = operations_of(sends(1, 5, 6, 9))
    at = {number: ORIGIN + number * S for number in range(11)}
    assert longest_gap_within(operations, at[0], at[10]) == 4 * S
    assert longest_gap_within(operations, at[3], at[8]) == 2 * S  # from 3 to 5; the other is from 6 to 8
    assert longest_gap_within(operations, at[2], at[4]) == 2 * S  # nothing at all


def test_there_is_no_gap_where_there_is_no_time_or_nobody_to_send() -> None:
    assert longest_gap_within(operations_of(sends(1)), ORIGIN + S, ORIGIN + S) is None
    assert longest_gap_within(operations_of([Forged("poll", 1, 0, S, 2 * S)]), ORIGIN, ORIGIN + S) is None


def test_a_topic_partition_nobody_sent_to_has_no_outage() -> None:
    assert availability(operations_of([Forged("poll", 1, 0, S, 2 * S)]), FRAME).longest == 0


def test_outages_stand_out_from_the_usual_gap() -> None:
    steady = [number / 10 for number in range(1, 40)]
    found = availability(operations_of(sends(*steady, 8, *np.arange(8.1, 10, 0.1))), FRAME)
    ((start, end),) = found.outages
    assert (round((start - ORIGIN) / S, 1), round((end - ORIGIN) / S, 1)) == (3.9, 8.0)


def test_quantiles_of_a_histogram_are_within_one_per_cent_and_never_flatter() -> None:
    rng = random.Random(5)
    samples = np.array(sorted(int(rng.lognormvariate(15, 1.5)) for _ in range(5000)))
    found = quantiles(Counter(latency_class(samples).tolist()))
    for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
        exact = samples[int(np.ceil(share * len(samples))) - 1] / 1e9
        assert exact <= found[name] <= exact * 1.0101, name
    assert class_nanoseconds(0) == 1000


def test_lag_is_how_long_the_next_record_had_been_known() -> None:
    history = [
        *sends(1, 2),
        Forged("poll", 5, 5, int(1.1 * S), int(1.2 * S), run=((1, 1 << 40 | 1),), session=0),
        Forged("poll", 5, 5, 5 * S, 6 * S, run=((2, 1 << 40 | 2),), session=0),
        Forged("poll", 5, 5, 7 * S, 8 * S, session=0),
    ]
    operations = operations_of(history)
    assert realtime_lag(operations, Observed.of(operations)).tolist() == [3 * S, 0]


@pytest.mark.parametrize(("seconds", "width"), [(5, 0.1), (60, 0.5), (240, 1), (1800, 1), (3600, 2), (10**7, 3600)])
def test_buckets_are_round_and_not_too_many(seconds: int, width: float) -> None:
    assert bucket_width(seconds * S) == width * S

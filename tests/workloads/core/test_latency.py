"""Latencies in classes: both of them, quantiles, and adding up what several workers counted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from squall.results.checkers.kernels.series import class_edges as checkers_edges
from squall.results.checkers.kernels.series import latency_class as checkers_class
from squall.workloads.core.latency import (
    CLASS_RATIO,
    Latencies,
    SendLatencies,
    class_edges,
    latency_class,
    upper_end,
)
from squall.workloads.core.operation import INFO, OK, POLL, SEND, Completion, Event, Operation

MILLISECOND = 1_000_000


def latencies(*nanoseconds: int) -> Latencies:
    noted = Latencies()
    for one in nanoseconds:
        noted.note(one)
    return noted


@pytest.mark.parametrize("nanoseconds", [1001, 1010, 1011, 123_456_789, 10**12])
def test_a_latency_lies_in_its_class_which_is_one_per_cent_wide(nanoseconds: int) -> None:
    number = latency_class(nanoseconds)
    assert upper_end(number - 1) < nanoseconds <= upper_end(number)
    assert upper_end(number) / upper_end(number - 1) == pytest.approx(CLASS_RATIO, abs=0.001)


@pytest.mark.parametrize("nanoseconds", [-7, 0, 1, 1000])
def test_what_takes_up_to_a_microsecond_is_in_the_first_class(nanoseconds: int) -> None:
    assert latency_class(nanoseconds) == 0


def test_the_checker_counts_in_the_same_classes() -> None:
    """Rooms share no code; that the end of a load and the check of its history tell the same rests on this."""
    edges = class_edges()
    assert list(edges) == checkers_edges().tolist()[: len(edges)]
    times = [edge + step for edge in edges[:3000] for step in (-1, 0, 1)]
    assert [latency_class(one) for one in times] == checkers_class(np.array(times)).tolist()


def test_quantiles_are_told_within_a_class_and_never_too_low() -> None:
    noted = latencies(*(MILLISECOND * number for number in range(1, 1001)))
    for share, exact in ((0.5, 500), (0.99, 990), (0.999, 999), (1.0, 1000)):
        told = noted.quantile(share)
        assert told is not None and exact <= told / MILLISECOND <= exact * 1.0101


def test_the_slowest_of_few_is_not_lost_in_a_quantile() -> None:
    noted = latencies(*[MILLISECOND] * 99, 5_000 * MILLISECOND)
    assert noted.quantile(0.99) == pytest.approx(MILLISECOND, rel=0.0101)
    assert noted.quantile(1.0) == pytest.approx(5_000 * MILLISECOND, rel=0.0101)


def test_nothing_has_no_quantile() -> None:
    assert Latencies().quantile(0.5) is None


def events(at: int, invoked: int, completed: int, f: str = SEND, outcome: str = OK) -> list[Event]:
    operation = Operation(f, 0, 0, 0, at)
    completion = Completion(OK if outcome == OK else INFO)
    return [Event(operation, invoked), Event(operation, invoked, completion, completed)]


def noted(*listed: list[Event]) -> SendLatencies:
    sends = SendLatencies()
    for event in (one for several in listed for one in several):
        sends.note(event)
    return sends


def test_a_send_that_waited_is_late_by_intention_and_fast_in_service() -> None:
    sends = noted(events(at=0, invoked=900 * MILLISECOND, completed=901 * MILLISECOND))
    assert sends.intended.quantile(1.0) == pytest.approx(901 * MILLISECOND, rel=0.0101)
    assert sends.service.quantile(1.0) == pytest.approx(MILLISECOND, rel=0.0101)


def test_only_acknowledged_sends_have_a_latency_and_all_begun_ones_count() -> None:
    sends = noted(events(0, 0, 1), events(0, 0, 1, outcome=INFO), events(0, 0, 1, f=POLL))
    assert (sends.begun, sends.intended.count, sends.service.count) == (2, 1, 1)


def test_what_several_workers_counted_adds_up_across_the_pipe() -> None:
    one = noted(events(0, 5, MILLISECOND))
    other = noted(events(0, 5, 7 * MILLISECOND), events(0, 5, 9 * MILLISECOND))
    total = SendLatencies()
    for worker in (one, other):
        total.add(SendLatencies.from_json(json.loads(json.dumps(worker.to_json()))))
    assert (total.begun, total.intended.count) == (3, 3)
    assert total.intended.quantile(0.5) == pytest.approx(7 * MILLISECOND, rel=0.0101)

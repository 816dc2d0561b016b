"""Latencies in classes: both of them, quantiles, and adding up what several workers counted."""

from __future__ import annotations

import json

import pytest

from squall.workloads.latency import CLASSES_PER_OCTAVE, Latencies, SendLatencies, latency_class, upper_end
from squall.workloads.operation import INFO, OK, POLL, SEND, Completion, Event, Operation

MILLISECOND = 1_000_000


def latencies(*nanoseconds: int) -> Latencies:
    noted = Latencies()
    for one in nanoseconds:
        noted.note(one)
    return noted


@pytest.mark.parametrize("nanoseconds", [1, 2, 3, 1000, 123_456_789, 10**12])
def test_a_latency_lies_in_its_class(nanoseconds: int) -> None:
    number = latency_class(nanoseconds)
    assert upper_end(number - 1) <= nanoseconds * 1.0000001 and nanoseconds < upper_end(number) * 1.0000001
    assert upper_end(number) / upper_end(number - 1) == pytest.approx(2 ** (1 / CLASSES_PER_OCTAVE))


@pytest.mark.parametrize("nanoseconds", [-7, 0, 1])
def test_less_than_a_nanosecond_counts_as_one(nanoseconds: int) -> None:
    assert latency_class(nanoseconds) == 0


def test_quantiles_are_told_within_a_class_and_never_too_low() -> None:
    noted = latencies(*(MILLISECOND * number for number in range(1, 1001)))
    for share, exact in ((0.5, 500), (0.99, 990), (0.999, 999), (1.0, 1000)):
        told = noted.quantile(share)
        assert told is not None and exact <= told / MILLISECOND <= exact * 1.05


def test_the_slowest_of_few_is_not_lost_in_a_quantile() -> None:
    noted = latencies(*[MILLISECOND] * 99, 5_000 * MILLISECOND)
    assert noted.quantile(0.99) == pytest.approx(MILLISECOND, rel=0.05)
    assert noted.quantile(1.0) == pytest.approx(5_000 * MILLISECOND, rel=0.05)


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


def test_a_send_that_had_to_wait_for_its_turn_is_late_by_intention_and_fast_in_service() -> None:
    sends = noted(events(at=0, invoked=900 * MILLISECOND, completed=901 * MILLISECOND))
    assert sends.intended.quantile(1.0) == pytest.approx(901 * MILLISECOND, rel=0.05)
    assert sends.service.quantile(1.0) == pytest.approx(MILLISECOND, rel=0.05)


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
    assert total.intended.quantile(0.5) == pytest.approx(7 * MILLISECOND, rel=0.05)

"""Where to continue a run, and how often: the search finds steps, spends where it is unsure, and repeats."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from squall.harness.simulation.why.search import (
    RESOLUTION_US,
    WIDE,
    Instant,
    Search,
    decisive_change,
    other_changes,
)

BEGINS, ENDS = 1_600_000, 9_700_000


def searched(probability: Callable[[int], float], *, continuations: int = 50, instants: int = 20) -> Search:
    search = Search(BEGINS, ENDS, continuations=continuations, instants=instants)
    while requests := search.next_round():
        outcomes = [Random(f"{one.number}").random() < probability(one.at) for one in requests]
        search.record(requests, outcomes)
    return search


def step_at(when: int, before: float = 0.04, after: float = 0.97) -> Callable[[int], float]:
    return lambda at: before if at < when else after


def test_a_step_is_located_to_a_millisecond() -> None:
    for when in (1_700_000, 4_321_234, 9_655_001):
        change = decisive_change(searched(step_at(when)).results())
        assert change is not None
        assert change.before.at < when <= change.after.at
        assert change.length <= 2 * RESOLUTION_US
        assert change.before.probability < 0.2 < 0.8 < change.after.probability


def test_two_steps_are_the_decisive_one_and_another() -> None:
    def twice(at: int) -> float:
        return 0.02 if at < 3_000_000 else 0.4 if at < 7_000_000 else 1.0

    instants = searched(twice, instants=30).results()
    decisive = decisive_change(instants)
    assert decisive is not None and decisive.before.at < 7_000_000 <= decisive.after.at
    assert [change.before.at < 3_000_000 <= change.after.at for change in other_changes(instants, decisive)] == [True]


def test_a_flat_probability_has_no_decisive_change() -> None:
    for level in (0.0, 0.5, 1.0):
        search = searched(lambda at, level=level: level)
        assert decisive_change(search.results()) is None
        assert len(search.results()) < 10, "nothing is bisected"


def test_wide_intervals_get_more_continuations_than_narrow_ones() -> None:
    instants = searched(step_at(5_000_000, before=0.5, after=1.0)).results()
    before = [one.runs for one in instants if one.at < 5_000_000]
    after = [one.runs for one in instants if one.at >= 5_000_000]
    assert set(before) == {50}
    assert max(after) < 30
    assert all(one.width <= WIDE for one in instants if one.at >= 5_000_000)


def test_limits_of_instants_and_continuations_hold() -> None:
    instants = searched(step_at(5_000_000, before=0.3, after=0.7), continuations=7, instants=6).results()
    assert len(instants) <= 6
    assert max(one.runs for one in instants) <= 7


def test_a_search_is_complete_only_after_its_last_round() -> None:
    search = Search(BEGINS, ENDS, continuations=10, instants=6)
    assert not search.is_complete()
    while requests := search.next_round():
        assert not search.is_complete() and search.still_planned() > 0
        search.record(requests, [False] * len(requests))
    assert search.is_complete() and search.still_planned() == 0


def test_a_run_that_breaks_before_its_load_is_searched_from_its_start() -> None:
    search = Search(0, 500, continuations=5, instants=6)
    assert {one.at for one in search.next_round()} == {0, 500}


def test_neighbours_with_overlapping_intervals_are_no_change() -> None:
    instants = (Instant(0, (True, False, False)), Instant(10, (True, True, False)))
    assert decisive_change(instants) is None and other_changes(instants, None) == []


def test_a_noisy_beginning_does_not_stretch_the_decision() -> None:
    """Only the first and the last of these have disjoint intervals; the last stretch has most of the rise."""
    counts = ((0, 1, 10), (900, 2, 5), (1_000, 5, 5))
    first, late, end = (Instant(at, (True,) * failed + (False,) * (runs - failed)) for at, failed, runs in counts)
    change = decisive_change((first, late, end))
    assert change is not None and (change.before, change.after) == (first, end)
    almost = Instant(900, (True, *(False,) * 5))
    change = decisive_change((first, almost, end))
    assert change is not None and (change.before, change.after) == (almost, end)

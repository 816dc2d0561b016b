"""Delta debugging on pure predicates: what comes out fails, and no item of it could be spared."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from squall.harness.simulation.shrink.ddmin import ddmin

Predicate = Callable[[list[int]], bool]


def shrink(items: list[int], fails: Predicate) -> tuple[list[int], int]:
    """The outcome, and how many candidates were looked at."""
    asked = 0

    def first_failing(candidates: list[list[int]]) -> int | None:
        nonlocal asked
        for index, candidate in enumerate(candidates):
            asked += 1
            if fails(candidate):
                return index
        return None

    return ddmin(items, first_failing), asked


def assert_one_minimal(left: list[int], fails: Predicate) -> None:
    assert fails(left)
    for index in range(len(left)):
        assert not fails(left[:index] + left[index + 1 :]), f"item {index} of {left} could be spared"


@pytest.mark.parametrize("seed", range(40))
def test_the_outcome_of_a_monotonic_predicate_is_just_what_it_needs(seed: int) -> None:
    rng = Random(seed)
    items = list(range(rng.randint(1, 300)))
    needed = set(rng.sample(items, rng.randint(0, min(7, len(items)))))
    left, asked = shrink(items, lambda some: needed <= set(some))
    assert set(left) == needed, f"seed {seed}"
    assert asked < 60 + 70 * len(needed), f"seed {seed}: {asked} runs for {len(needed)} of {len(items)}"


@pytest.mark.parametrize("seed", range(40))
def test_the_outcome_of_any_predicate_fails_and_is_one_minimal(seed: int) -> None:
    """Predicates of runs are not monotonic: with one event less, a seed may stop failing and start again."""
    rng = Random(seed)
    items = list(range(rng.randint(2, 60)))
    salt = rng.randint(0, 1000)

    def fails(some: list[int]) -> bool:
        return some == items or (len(some) > 0 and (sum(some) * 31 + len(some) + salt) % 4 == 0)

    left, _ = shrink(items, fails)
    assert fails(left)
    if left:
        assert_one_minimal(left, fails)


def test_order_is_kept() -> None:
    left, _ = shrink([5, 3, 9, 1, 7], lambda some: 9 in some and 5 in some)
    assert left == [5, 9]


def test_nothing_is_left_of_what_fails_anyway() -> None:
    assert shrink([1, 2, 3], lambda some: True) == ([], 1)
    assert shrink([], lambda some: True) == ([], 0)


def test_one_of_a_thousand_is_found_in_a_few_dozen_runs() -> None:
    left, asked = shrink(list(range(1000)), lambda some: 617 in some)
    assert left == [617]
    assert asked <= 40


def test_the_outcome_does_not_depend_on_how_many_candidates_run_ahead() -> None:
    """Candidates run side by side; the first that fails, in their order, is taken."""
    needed = {3, 40, 41, 77}

    def all_then_first(candidates: list[list[int]]) -> int | None:
        outcomes = [needed <= set(candidate) for candidate in candidates]
        return outcomes.index(True) if True in outcomes else None

    assert ddmin(list(range(100)), all_then_first) == shrink(list(range(100)), lambda some: needed <= set(some))[0]

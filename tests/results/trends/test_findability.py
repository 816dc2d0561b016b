"""How many clean runs a fix needs: formulas, monotony, and how often a finding that is still there is given up."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.results.trends.findability import Findability, clean_runs_needed_at, still_there_at

SIGHTINGS = st.integers(1, 300).flatmap(lambda runs: st.tuples(st.integers(1, runs), st.just(runs)))


def test_at_a_known_rate_the_formula_is_that_of_bayes() -> None:
    assert still_there_at(0.1, 0) == 0.5
    assert still_there_at(0.1, 10) == pytest.approx(0.9**10 / (0.9**10 + 1))
    assert clean_runs_needed_at(0.1) == ceil(log(0.05 / 0.95) / log(0.9)) == 28
    assert still_there_at(0.1, 28) <= 0.05 < still_there_at(0.1, 27)
    assert (clean_runs_needed_at(0), clean_runs_needed_at(1)) == (inf, 1)
    assert (still_there_at(1, 0), still_there_at(1, 1), still_there_at(0, 1000)) == (0.5, 0, 0.5)


def test_unseen_is_the_mean_over_the_rates_that_the_sightings_allow() -> None:
    one = Findability(3, 40)
    rates = np.random.default_rng(1).beta(3.5, 37.5, 400_000)
    assert one.unseen(50) == pytest.approx(float(((1 - rates) ** 50).mean()), rel=0.02)
    assert one.rate == 3.5 / 41


@given(SIGHTINGS)
def test_the_clean_runs_needed_are_the_fewest_that_suffice(counts: tuple[int, int]) -> None:
    one = Findability(*counts)
    needed = one.clean_runs_needed()
    assert one.still_there(needed) <= 0.05
    assert one.still_there(needed - 1) > 0.05
    assert one.clean_runs_still_needed(needed - 1) == 1
    assert one.clean_runs_still_needed(needed + 5) == 0


@given(SIGHTINGS, st.integers(0, 500))
def test_every_clean_run_makes_a_fix_more_believable(counts: tuple[int, int], clean: int) -> None:
    one = Findability(*counts)
    assert 0 <= one.still_there(clean + 1) < one.still_there(clean) <= one.still_there(0) == pytest.approx(0.5)


@given(SIGHTINGS)
def test_an_unknown_rate_needs_at_least_as_many_as_a_known_one(counts: tuple[int, int]) -> None:
    one = Findability(*counts)
    assert one.clean_runs_needed() >= clean_runs_needed_at(one.rate)


def given_up(needed: Callable[[int], float], rate: float) -> float:
    """How probable it is that a finding which is still there shows in none of the clean runs needed.

    It was sought in 60 runs and seen at least once.
    """
    rng = np.random.default_rng(2)
    seen = rng.binomial(60, rate, 20_000)
    return float(np.mean([(1 - rate) ** needed(k) for k in seen[seen > 0].tolist()]))


@pytest.mark.parametrize("rate", [0.02, 0.05, 0.2])
def test_about_one_in_twenty_findings_still_there_is_given_up(rate: float) -> None:
    """Little more at 2 %: that it was seen at all in 60 runs makes it look more frequent than it is."""
    needed = {k: Findability(k, 60).clean_runs_needed() for k in range(1, 61)}
    assert given_up(needed.__getitem__, rate) < 0.07


def test_the_simple_formula_would_give_up_rare_findings_too_early() -> None:
    """Why the mean over the rates is taken: at a rate of 2 %, with what 60 runs show of it."""
    simple = {k: clean_runs_needed_at(Findability(k, 60).rate) for k in range(1, 61)}
    assert given_up(simple.__getitem__, 0.02) > 0.1


@pytest.mark.parametrize(("seen", "runs"), [(0, 5), (6, 5), (1, 0)])
def test_a_finding_never_seen_has_no_findability(seen: int, runs: int) -> None:
    with pytest.raises(ValueError):
        Findability(seen, runs)


@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        still_there_at(rate, 1)
    with pytest.raises(ValueError, match="rate"):
        clean_runs_needed_at(rate)

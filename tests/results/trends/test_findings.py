"""The state of a finding from its nights: new, ongoing, rare, resolved, and new again."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.results.trends.findability import Findability
from squall.results.trends.findings import FindingState, Night, finding_state

FIRST = date(2026, 11, 1)


def after(*nights: tuple[int, int]) -> FindingState:
    """The state after nights of (runs, sightings)."""
    found = finding_state(Night(FIRST + timedelta(at), runs, seen) for at, (runs, seen) in enumerate(nights))
    assert found is not None
    return found


def test_a_finding_seen_tonight_for_the_first_time_is_new() -> None:
    one = after((60, 0), (60, 0), (60, 2))
    assert (one.state, one.returned, one.seen, one.runs) == ("new", False, 2, 60)
    assert one.first_seen == one.last_seen == date(2026, 11, 3)


def test_a_finding_seen_before_is_ongoing_seen_tonight_or_not() -> None:
    assert after((10, 5), (10, 3)).state == "ongoing"
    unseen = after((10, 5), (10, 3), (2, 0))
    assert (unseen.state, unseen.clean_runs, unseen.last_seen) == ("ongoing", 2, date(2026, 11, 2))
    assert unseen.clean_runs_needed > 0


def test_a_finding_in_less_than_a_tenth_of_the_runs_is_rare() -> None:
    assert after((60, 1), (60, 0)).state == "rare"
    assert after((60, 1), (60, 1)).state == "rare"
    assert after((6, 1), (1, 0)).state == "ongoing"


def test_a_finding_is_resolved_only_beyond_the_clean_runs_needed() -> None:
    needed = Findability(5, 10).clean_runs_needed()
    short, enough = after((10, 5), (needed - 1, 0)), after((10, 5), (needed, 0))
    assert (short.state, short.clean_runs_needed) == ("ongoing", 1)
    assert short.still_there > 0.05
    assert (enough.state, enough.clean_runs_needed) == ("resolved", 0)
    assert enough.still_there <= 0.05


def test_nights_without_runs_resolve_nothing() -> None:
    assert after((10, 5), *[(0, 0)] * 100).state == "ongoing"


def test_a_resolved_finding_that_comes_back_is_new_and_says_so() -> None:
    nights = ((10, 5), (20, 0), (10, 1))
    one = after(*nights)
    assert (one.state, one.returned, one.seen, one.runs) == ("new", True, 1, 10)
    assert (one.first_seen, one.last_seen) == (date(2026, 11, 1), date(2026, 11, 3))
    later = after(*nights, (10, 1))
    assert (later.state, later.returned) == ("ongoing", True)


def test_a_sighting_before_it_was_resolved_is_no_return() -> None:
    """The clean runs between the two count for its rate."""
    one = after((10, 5), (3, 0), (10, 1))
    assert (one.state, one.returned, one.seen, one.runs) == ("ongoing", False, 6, 23)


def test_a_finding_never_seen_has_no_state() -> None:
    assert finding_state([]) is None
    assert finding_state([Night(FIRST, 60, 0)]) is None


def test_a_night_listed_twice_or_with_an_impossible_count_is_refused() -> None:
    with pytest.raises(ValueError, match="more than once"):
        finding_state([Night(FIRST, 1, 0), Night(FIRST, 1, 1)])
    with pytest.raises(ValueError, match="no count"):
        Night(FIRST, 1, 2)


NIGHT = st.integers(0, 30).flatmap(lambda runs: st.tuples(st.just(runs), st.integers(0, runs)))


@given(st.lists(NIGHT, max_size=12), st.randoms(use_true_random=False))
def test_states_agree_with_the_nights_in_any_order(counts: list[tuple[int, int]], random: object) -> None:
    nights = [Night(FIRST + timedelta(at), runs, seen) for at, (runs, seen) in enumerate(counts)]
    one = finding_state(nights)
    random.shuffle(nights)  # type: ignore[attr-defined]
    assert finding_state(nights) == one
    if one is None:
        assert not any(seen for _, seen in counts)
        return
    seen_on = [FIRST + timedelta(at) for at, (_, seen) in enumerate(counts) if seen]
    assert (one.first_seen, one.last_seen) == (seen_on[0], seen_on[-1])
    assert one.clean_runs == sum(runs for at, (runs, _) in enumerate(counts) if FIRST + timedelta(at) > one.last_seen)
    assert (one.state == "resolved") == (one.still_there <= 0.05) == (one.clean_runs_needed == 0)

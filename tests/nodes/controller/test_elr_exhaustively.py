"""EL-01, EL-03, EL-05, EL-06: what eligible leader replicas promise, checked over every order of events.

The results are those of the exhaustive model that the rules were taken from. Each promise stands beside what breaks it
when one rule is left out, so that it is known that the model could have found it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.nodes.controller.elr_model import Setting, explore

SMALL = Setting(records=1, fencings=2)


def small(**changes: Any) -> Setting:
    return replace(SMALL, **changes)


def test_one_lossy_restart_costs_nothing() -> None:
    """EL-01: min ISR is 2, so one may lose records; and somebody can lead as soon as everybody is back."""
    outcome = explore(small(lossy=1))
    assert outcome.trace is None
    assert not outcome.leaderless
    assert outcome.states > 10_000


def test_without_elr_the_last_replica_standing_takes_acked_records_along() -> None:
    """N09: the ISR keeps its last member, which comes back without them and leads."""
    outcome = explore(small(elr=False, lossy=1))
    assert outcome.trace is not None
    assert outcome.trace[-2:] == ("0 loses power, keeps 0", "0 registers")


def test_without_elr_nothing_is_lost_while_every_log_is_kept() -> None:
    assert explore(small(elr=False, lossy=0, kills=2)).trace is None


def test_more_lossy_restarts_leave_no_leader_rather_than_an_incomplete_one() -> None:
    outcome = explore(small(lossy=2))
    assert outcome.trace is None
    assert outcome.leaderless


def test_a_high_watermark_that_advances_under_min_isr_breaks_eligibility() -> None:
    """EL-03: a leader alone exposes a record, is fenced, and one that is eligible leads without it."""
    outcome = explore(small(lossy=0, frozen_below_min_isr=False))
    assert outcome.trace is not None
    assert len(outcome.trace) <= 5


def test_an_unclean_restart_that_goes_unnoticed_costs_records() -> None:
    """EL-05, and the mutant unclean-restart-stays-eligible."""
    assert explore(small(lossy=1, unclean_restart_is_noticed=False)).trace is not None


def test_unclean_elections_lose_records_without_anybody_losing_its_log() -> None:
    assert explore(small(lossy=0, unclean_election=True)).trace is not None


def test_the_last_known_leader_is_complete_however_many_are_killed() -> None:
    """Nobody stays leaderless for good, either."""
    outcome = explore(small(lossy=0, kills=3, last_known_leader=True))
    assert outcome.trace is None
    assert not outcome.leaderless


def test_unclean_restarts_and_power_loss_leave_an_incomplete_last_leader() -> None:
    """The limit that `elections` states: as many unclean restarts as min ISR, one of them lossy."""
    outcome = explore(small(lossy=1, kills=1, last_known_leader=True))
    assert outcome.trace is not None
    strict = explore(small(lossy=1, kills=1, last_known_leader=False))
    assert strict.trace is None
    assert strict.leaderless


def test_one_unclean_restart_is_safe_with_the_last_known_leader_too() -> None:
    assert explore(small(lossy=1, last_known_leader=True)).trace is None


@pytest.mark.parametrize(("min_isr", "edits"), [(1, (2,)), (2, (1,))])
def test_min_isr_may_be_edited_at_any_time(min_isr: int, edits: tuple[int, ...]) -> None:
    """EL-06."""
    assert explore(small(lossy=0, min_isr=min_isr, edits=edits)).trace is None


def test_an_edit_without_a_partition_epoch_lets_a_leader_commit_alone() -> None:
    outcome = explore(small(lossy=0, min_isr=1, edits=(2,), edit_moves_partition_epoch=False))
    assert outcome.trace == (
        "append",
        "out of the ISR: 1",
        "min ISR becomes 2",
        "out of the ISR: 2",
        "high watermark 1",
    )


LARGER = {
    "one lossy restart": Setting(lossy=1),
    "two lossy restarts": Setting(lossy=2),
    "one lossy restart, last known leader": Setting(lossy=1, last_known_leader=True),
    "one lossy restart, two kills": Setting(records=1, fencings=3, lossy=1, kills=2),
    "three kills, last known leader": Setting(records=1, fencings=3, lossy=0, kills=3, last_known_leader=True),
    "min ISR 2, 1, 2": Setting(lossy=0, edits=(1, 2)),
    "min ISR 1, 2, one lossy restart": Setting(lossy=1, min_isr=1, edits=(2,)),
}


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("setting", LARGER.values(), ids=LARGER.keys())
def test_in_the_larger_space_there_is_no_incomplete_leader(setting: Setting) -> None:
    assert explore(setting).trace is None


@pytest.mark.full
def test_in_the_larger_space_the_loss_without_elr_is_found() -> None:
    assert explore(Setting(elr=False, fencings=4)).trace is not None

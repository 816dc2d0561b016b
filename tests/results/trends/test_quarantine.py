"""Quarantine: what it excuses, until when, and which entries are problems themselves."""

from __future__ import annotations

from datetime import date

import pytest

from squall.results.trends.quarantine import QuarantineEntry, quarantine_of

ENTRY = QuarantineEntry("kills", "ada", "the lab's clock jumps", date(2026, 12, 1))
SCENARIOS = ("kills", "cuts")


def test_an_entry_counts_up_to_and_including_its_last_day() -> None:
    last_day = quarantine_of([ENTRY], SCENARIOS, date(2026, 12, 1))
    assert (last_day.active, last_day.problems) == ((ENTRY,), ())
    assert last_day.excuses("kills", "unknown")
    assert not last_day.excuses("cuts", "unknown")


def test_an_expired_entry_excuses_nothing_and_is_a_problem() -> None:
    after = quarantine_of([ENTRY], SCENARIOS, date(2026, 12, 2))
    assert after.active == () and not after.excuses("kills", "error")
    (problem,) = after.problems
    for fact in ("kills", "2026-12-01", "ada", "the lab's clock jumps"):
        assert fact in problem


def test_an_invalid_verdict_is_never_excused() -> None:
    quarantine = quarantine_of([ENTRY], SCENARIOS, date(2026, 11, 1))
    assert quarantine.excuses("kills", "error")
    assert not quarantine.excuses("kills", "invalid")


def test_an_entry_for_no_scenario_or_for_one_twice_is_a_problem() -> None:
    assert len(quarantine_of([ENTRY], ("cuts",), date(2026, 11, 1)).problems) == 1
    assert len(quarantine_of([ENTRY, ENTRY], SCENARIOS, date(2026, 11, 1)).problems) == 1


@pytest.mark.parametrize(("name"), ["scenario", "owner", "reason"])
def test_an_entry_without_owner_or_reason_is_refused(name: str) -> None:
    texts = {"scenario": "kills", "owner": "ada", "reason": "clock", name: "  "}
    with pytest.raises(ValueError, match=name):
        QuarantineEntry(**texts, until=date(2026, 12, 1))

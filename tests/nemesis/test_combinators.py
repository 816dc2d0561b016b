"""Faults in parallel and faults mixed by lot: worked out beforehand from the seed, within the time that faults have."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from squall.nemesis.entries import NemesisEntry, steps_in
from squall.nemesis.schedule import Schedule, ScheduledFault, build_schedule

ENTRIES: TypeAdapter[list[NemesisEntry]] = TypeAdapter(list[NemesisEntry])
KILL = {"fault": "kill", "target": "one broker", "for": {"from": "100ms", "to": "2s"}}
PAUSE = {"fault": "pause", "target": "b1", "for": "1s"}


def schedule(*entries: dict[str, Any], load_s: float = 60, seed: int = 1, quiet_s: float = 0) -> Schedule:
    return build_schedule(ENTRIES.validate_python(list(entries)), load_s, seed, quiet_s=quiet_s)


def windows(built: Schedule) -> list[tuple[str, float, float]]:
    return [(fault.options.fault, fault.at_s, fault.ends_at_s) for fault in built.faults]


class TestParallel:
    def test_its_faults_begin_together_or_so_long_after(self) -> None:
        built = schedule({"at": 10, "parallel": [PAUSE, {"fault": "kill", "target": "b2", "for": 3, "after": "500ms"}]})
        assert windows(built) == [("pause", 10, 11), ("kill", 10.5, 13.5)]
        assert all(fault.follows is None for fault in built.faults)

    def test_it_is_repeated_as_one_and_lasts_as_long_as_its_longest(self) -> None:
        steps = [PAUSE, {"fault": "kill", "target": "b2", "for": 3, "after": 1}]
        built = schedule({"parallel": steps, "repeat": {"every": 10}}, load_s=20)
        assert windows(built) == [("pause", 6, 7), ("kill", 7, 10), ("pause", 16, 17), ("kill", 17, 20)]

    def test_it_must_fit_the_load_with_its_longest(self) -> None:
        with pytest.raises(ValueError, match=r"nemesis\[0\]: at 8s for up to 3s ends after the load"):
            schedule({"at": 8, "parallel": [PAUSE, {"fault": "kill", "target": "b2", "for": 3}]}, load_s=10)

    def test_one_fault_alone_is_not_in_parallel_with_anything(self) -> None:
        with pytest.raises(ValidationError, match="at least 2"):
            schedule({"at": 1, "parallel": [PAUSE]})


class TestMix:
    MIX: dict[str, Any] = {"mix": [KILL, PAUSE], "stable": {"from": "200ms", "to": "3s"}}

    def test_the_same_seed_mixes_alike_and_another_seed_does_not(self) -> None:
        assert schedule(self.MIX).content_hash() == schedule(self.MIX).content_hash()
        assert schedule(self.MIX).content_hash() != schedule(self.MIX, seed=2).content_hash()

    def test_before_each_fault_it_is_quiet_for_a_stable_period(self) -> None:
        built = schedule(self.MIX, load_s=300)
        gaps = [later.at_s - earlier.ends_at_s for earlier, later in pairwise(built.faults)]
        assert len(gaps) > 50
        assert min(gaps) >= 0.199 and max(gaps) <= 3.001
        assert built.faults[0].at_s >= 0.2

    def test_every_step_has_its_turn(self) -> None:
        drawn = [kind for kind, _, _ in windows(schedule(self.MIX, load_s=300))]
        assert 0.3 < drawn.count("kill") / len(drawn) < 0.7

    def test_it_lies_within_its_time(self) -> None:
        built = schedule({**self.MIX, "at": 10, "for": 20})
        assert built.faults[0].at_s >= 10 and built.ends_at_s <= 30

    def test_steps_may_be_sequences_and_parallels_which_stay_whole(self) -> None:
        both = [{"sequence": [PAUSE, PAUSE]}, {"parallel": [PAUSE, KILL]}]
        built = schedule({"mix": both, "stable": 1}, load_s=100)
        turns: dict[str, list[ScheduledFault]] = {}
        for fault in built.faults:
            turns.setdefault(fault.id.split("-")[0], []).append(fault)
        assert {len(turn) for turn in turns.values()} == {2}
        assert {turn[1].follows is None for turn in turns.values()} == {True, False}

    def test_a_lot_pins_what_the_seed_would_decide(self) -> None:
        pinned = {**self.MIX, "lot": "as it was"}
        same = [windows(schedule(pinned, seed=seed)) for seed in (1, 2)]
        assert [(kind, at) for kind, at, _ in same[0]][:1] == [(kind, at) for kind, at, _ in same[1]][:1]

    @pytest.mark.parametrize(
        ("changed", "told"),
        [
            ({"repeat": {"every": 5}}, "remove `repeat`"),
            ({"for": {"from": 1, "to": 2}}, "one fixed duration"),
            ({"mix": [{**PAUSE, "after": 1}]}, "`stable` sets the quiet period"),
            ({"mix": [{**PAUSE, "at": 1}]}, "must not have `at`"),
            ({"at": 50, "for": 20}, "ends after the load"),
            ({"for": "300ms"}, "the first of the mix, a .*, would end at"),
        ],
    )
    def test_what_cannot_be_is_told(self, changed: dict[str, Any], told: str) -> None:
        with pytest.raises(ValueError, match=told):
            schedule({**self.MIX, **changed})


class TestQuiet:
    def test_no_fault_reaches_into_the_quiet_period(self) -> None:
        repeated = {"fault": "pause", "target": "b1", "repeat": {"every": 10, "for": 2}}
        built = schedule(repeated, TestMix.MIX, quiet_s=15)
        assert built.ends_at_s <= 45
        assert schedule(repeated, TestMix.MIX).ends_at_s > 45

    def test_a_fault_that_would_is_told_of_it(self) -> None:
        with pytest.raises(ValueError, match=r"ends after the quiet period of 10s begins, .* load, which lasts 60s"):
            schedule({**PAUSE, "at": 49.5}, quiet_s=10)


def test_every_single_fault_of_an_entry_is_found_with_its_place() -> None:
    (entry,) = ENTRIES.validate_python([{"mix": [{"sequence": [PAUSE, KILL]}, KILL]}])
    assert [(place, fault.fault) for place, fault in steps_in(entry)] == [
        (("mix", 0, "sequence", 0), "pause"),
        (("mix", 0, "sequence", 1), "kill"),
        (("mix", 1), "kill"),
    ]

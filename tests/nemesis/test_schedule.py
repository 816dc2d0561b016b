"""The same suite and seed give the same schedule, and all of it lies within the load."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from squall.nemesis.entries import NemesisEntry
from squall.nemesis.schedule import Schedule, build_schedule
from tests.facts import naming

ENTRIES: TypeAdapter[list[NemesisEntry]] = TypeAdapter(list[NemesisEntry])


def schedule(*entries: dict[str, Any], load_s: float = 60, seed: int = 1) -> Schedule:
    return build_schedule(ENTRIES.validate_python(list(entries)), load_s, seed)


def windows(built: Schedule) -> list[tuple[float, float]]:
    return [(fault.at_s, fault.ends_at_s) for fault in built.faults]


def test_each_window_of_a_repeated_fault_lies_at_the_end_of_its_period() -> None:
    built = schedule({"fault": "isolate", "target": "b1", "repeat": {"every": "20s", "for": "10s"}})
    assert windows(built) == [(10, 20), (30, 40), (50, 60)]
    assert [fault.id for fault in built.faults] == ["1.1-isolate", "1.2-isolate", "1.3-isolate"]


def test_a_repeated_fault_may_start_at_a_time_and_end_after_some_turns() -> None:
    repeat = {"every": 10, "for": 2, "times": 2}
    assert windows(schedule({"fault": "kill", "target": "b1", "at": 5, "repeat": repeat})) == [(5, 7), (15, 17)]


def test_a_single_fault_lasts_ten_seconds_unless_told() -> None:
    assert windows(schedule({"fault": "kill", "target": "b1", "at": "35s"})) == [(35, 45)]


def test_the_lag_of_a_lagging_leader_kill_counts() -> None:
    built = schedule({"fault": "leader-kill-lagging", "target": "events/0", "at": 1, "for": 12})
    assert windows(built) == [(1, 14)]


def test_a_fault_may_only_refer_to_one_that_is_named() -> None:
    named = {"fault": "kill", "target": "b1", "as": "first", "at": 1, "for": 1}
    assert len(schedule(named, {"fault": "kill", "target": "same as first", "at": 9, "for": 1}).faults) == 2
    with pytest.raises(ValueError, match=r"nemesis\[1\].target: .*no fault is called second; known are first"):
        schedule(named, {"fault": "kill", "target": "all brokers but same as second", "at": 9, "for": 1})
    with pytest.raises(ValueError, match=naming("`as: second`")):
        schedule({"fault": "kill", "target": "same as second", "at": 9, "for": 1})


def test_steps_of_a_sequence_follow_one_another() -> None:
    steps = [
        {"fault": "pause", "target": "b1", "for": 1},
        {"fault": "kill", "target": "b1", "for": 5, "after": "500ms"},
    ]
    built = schedule({"at": 10, "sequence": steps})
    first, second = built.faults
    assert windows(built) == [(10, 11), (11.5, 16.5)]
    assert second.follows == first.id and first.follows is None


def test_ranges_are_drawn_log_uniformly_from_the_seed() -> None:
    entry = {"fault": "pause", "target": "b1", "repeat": {"every": 1, "for": {"from": "1ms", "to": "1s"}}}
    lengths = [fault.for_s for fault in schedule(entry, load_s=1000).faults]
    below_the_middle = sum(length < 0.0316 for length in lengths) / len(lengths)
    assert min(lengths) >= 0.001 and max(lengths) <= 1
    assert 0.4 < below_the_middle < 0.6


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another() -> None:
    entry = {"fault": "pause", "target": "b1", "at": 1, "for": {"from": "1ms", "to": "10s"}}
    assert schedule(entry).content_hash() == schedule(entry).content_hash()
    assert schedule(entry).content_hash() != schedule(entry, seed=2).content_hash()


def test_taking_the_last_entry_out_changes_no_other() -> None:
    kill = {"fault": "kill", "target": "b1", "at": 1, "for": {"from": "1ms", "to": "10s"}}
    pause = {"fault": "pause", "target": "one broker", "at": 20}
    assert schedule(kill).faults[0] == schedule(kill, pause).faults[0]


def test_it_survives_json() -> None:
    built = schedule(
        {"fault": "isolate", "from": "everyone", "target": "leader of events/*", "at": 1, "for": 3},
        {"fault": "clock", "target": "b1", "at": 5, "offset": "-90s", "rate": 1.5},
        {"fault": "leader-kill-lagging", "target": "events/0", "at": 20, "lag": "700ms"},
        {"at": 40, "sequence": [{"fault": "one-way", "target": "b1", "direction": "mute", "for": 2}]},
    )
    again = Schedule.from_json(json.loads(json.dumps(built.to_json())))
    assert again == built and again.content_hash() == built.content_hash()


def test_a_schedule_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match=naming("version: 99", "1")):
        Schedule.from_json({"version": 99, "seed": 1, "faults": []})


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"fault": "kill", "target": "b1", "at": 55}, r"nemesis\[0\]: at 55s for up to 10s ends after the load"),
        ({"fault": "kill", "target": "b1", "repeat": {"every": 5}}, "longer than its period of 5s"),
        ({"fault": "kill", "target": "b1", "repeat": {"every": 90, "for": 9}}, "not even one turn"),
    ],
)
def test_what_does_not_fit_the_load_is_told(entry: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        schedule(entry)

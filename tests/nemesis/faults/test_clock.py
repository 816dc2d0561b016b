"""When looks at clocks show a fault, and when they do not."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pydantic import TypeAdapter

from squall.nemesis.core.fault import FaultContext
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.options.clock import seconds_of
from squall.nemesis.registry import build_fault
from tests.facts import assert_names

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)

TRUE = {
    "offset_s": 0.0,
    "wall_s": 1e9,
    "monotonic_offset_s": 0.0,
    "monotonic_rate": 1.0,
    "watched_s": 1.0,
    "wall_ran_s": 1.0,
    "monotonic_ran_s": 1.0,
    "jumps": 0,
    "jump_s": 0.0,
    "mapped": True,
}
SHOWN: dict[str, dict[str, Any]] = {
    "clock-strobe": {"jumps": 10, "jump_s": 3600.0, "offset_s": 3600.0},
    "clock-freeze": {"wall_ran_s": 0.0, "offset_s": -1.0},
    "clock-monotonic": {"monotonic_ran_s": 1.5, "monotonic_offset_s": 0.5, "monotonic_rate": 1.5},
}


def fault_of(name: str, **more: Any) -> Any:
    async def sleep(seconds: float) -> None: ...

    context = FaultContext("1-clock", {}, None, lambda: 0, sleep, random.Random(1))  # type: ignore[arg-type]
    fault: Any = build_fault(ENTRY.validate_python({"fault": name, "target": "b1", "at": 1, **more}), context)  # type: ignore[arg-type]
    fault._targets = ("b1",)
    return fault


def looks(**more: Any) -> dict[str, Any]:
    return {"clocks": {"b1": {**TRUE, **more}}, "elapsed_s": 1.0}


@pytest.mark.parametrize("name", SHOWN)
def test_a_clock_that_is_as_it_was_proves_no_fault_and_its_end(name: str) -> None:
    fault = fault_of(name)
    assert fault.check_effect(looks(), looks()) is not None
    assert fault.shows_end(looks(), looks()) is None


@pytest.mark.parametrize("name", SHOWN)
def test_what_was_asked_for_proves_it_and_not_its_end(name: str) -> None:
    fault = fault_of(name)
    assert fault.check_effect(looks(), looks(**SHOWN[name])) is None
    assert fault.shows_end(looks(), looks(**SHOWN[name])) is not None
    assert fault.told(looks(**SHOWN[name]))


@pytest.mark.parametrize("name", SHOWN)
def test_a_process_that_does_not_follow_its_page_proves_nothing(name: str) -> None:
    reason = fault_of(name).check_effect(looks(), looks(**{**SHOWN[name], "mapped": False}))
    assert_names(reason, "b1", "clock page")


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("clock-strobe", {"jumps": 3}, "jumped 3 times in 1.00 s, not 10 times"),
        ("clock-strobe", {"jump_s": 60.0}, "jumps by 60.000 s, not 3600 s"),
        ("clock-strobe", {"monotonic_offset_s": 1.0}, "the monotonic clock is off by +1.000 s too"),
        ("clock-freeze", {"wall_ran_s": 0.5}, "ran on by 0.500 s in 1.00 s"),
        ("clock-freeze", {"monotonic_offset_s": -1.0}, "the monotonic clock is off by -1.000 s too"),
        ("clock-monotonic", {"monotonic_ran_s": 1.2}, "runs at 1.200, not 1.5"),
        ("clock-monotonic", {"monotonic_rate": 1.0}, "in the running process it runs at 1"),
        ("clock-monotonic", {"offset_s": 3.0}, "the wall clock is off by +3.000 s too"),
        ("clock-monotonic", {"monotonic_offset_s": 9.0}, "ahead by 9.000 s, not 0.500 s"),
    ],
)
def test_what_falls_short_of_it_proves_nothing(name: str, more: dict[str, Any], told: str) -> None:
    assert told in fault_of(name).check_effect(looks(), looks(**{**SHOWN[name], **more}))


def test_a_clock_set_to_a_time_must_show_that_time() -> None:
    fault = fault_of("clock", time="2038-01-19T03:14:07Z")
    assert fault.check_effect(looks(), looks(wall_s=2147483648.2)) is None
    assert "from the time it was set to" in fault.check_effect(looks(), looks(wall_s=2147480000.0))


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert seconds_of("1970-01-02") == 86400 == seconds_of("1970-01-02T02:00:00+02:00")

"""Which disk calls a run has to have watched, and what proves that they were struck."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pydantic import TypeAdapter

from squall.nemesis.core.fault import FaultContext
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.faults.disk.disk import watched_calls
from squall.nemesis.registry import build_fault
from tests.facts import assert_names

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


def calls_of(*faults: dict[str, object]) -> tuple[str, ...]:
    return watched_calls(ENTRY.validate_python({"target": "b1", "at": 1, **fault}) for fault in faults)  # type: ignore[misc]


def test_a_run_without_disk_faults_watches_nothing() -> None:
    assert calls_of({"fault": "kill"}, {"fault": "power-loss"}) == ()


def test_a_run_watches_what_any_of_its_faults_is_about() -> None:
    slow = {"fault": "disk-slow", "calls": ["fsync"]}
    fails = {"fault": "disk-error", "calls": ["rename", "fsync"]}
    assert calls_of(slow, {"fault": "kill"}, fails) == ("fsync", "rename")
    assert calls_of({"fault": "disk-error"}) == ("write", "fsync")
    assert calls_of({"fault": "disk-stall"}, {"fault": "disk-full"}) == ("fsync", "write", "create", "rename")
    assert "remove" in calls_of({"fault": "read-only-disk"})
    assert calls_of({"fault": "lying-fsync"}) == ("fsync",)


def fault_of(**options: object) -> Any:
    async def sleep(seconds: float) -> None: ...

    context = FaultContext("1-disk", {}, None, lambda: 0, sleep, random.Random(1))  # type: ignore[arg-type]
    fault: Any = build_fault(ENTRY.validate_python({"target": "b1", "at": 1, **options}), context)  # type: ignore[arg-type]
    fault._targets = ("b1",)
    return fault


def looks(state: str = "running", **seen: object) -> dict[str, Any]:
    idle = {"open": False, "met": 0, "driver": None, "free_bytes": 10**9, "refused": None, "unsynced_bytes": 0}
    return {"disks": {"b1": {**idle, **seen}}, "processes": {"b1": {"state": state}}}


@pytest.mark.parametrize(
    "name", ["disk-error", "disk-slow", "disk-stall", "disk-full", "read-only-disk", "lying-fsync"]
)
def test_a_disk_fault_that_no_call_met_is_not_proven(name: str) -> None:
    fault = fault_of(fault=name)
    assert "was made" in fault.check_effect(looks(), looks(open=True, driver="watch"))
    assert fault.check_effect(looks(), looks(open=True, met=3, driver="watch")) is None
    assert fault.told(looks(met=3)).startswith("3 ")
    assert fault.shows_end(looks(), looks(met=3)) is None
    assert_names(fault.shows_end(looks(), looks(open=True)), "b1", "disk calls")
    assert fault.shows_end(looks(), looks(state="absent")) == "b1: the process is absent"


def test_a_stall_shows_in_the_process_where_its_threads_can_be_seen() -> None:
    stall = fault_of(fault="disk-stall")
    assert stall.check_effect(looks(), looks(met=1, under_way=["fsync", "read"])) is None
    assert "none of the process's threads waits" in stall.check_effect(looks(), looks(met=1, under_way=["read"]))


def test_a_disk_that_was_filled_must_be_full_for_others_too() -> None:
    full = fault_of(fault="disk-full")
    filled = {"open": True, "driver": "filler", "free_bytes": 0, "refused": "ENOSPC"}
    assert full.check_effect(looks(), looks(**filled)) is None
    assert full.told(looks(**filled)) == "0 bytes free, a write ends in ENOSPC"
    assert full.check_effect(looks(), looks(**{**filled, "free_bytes": 8192})) == "b1: 8192 bytes are still free"
    assert "ended in success" in full.check_effect(looks(), looks(**{**filled, "refused": None}))
    assert "still ends in ENOSPC" in full.shows_end(looks(), looks(refused="ENOSPC"))

"""Which disk calls a run has to have watched."""

from __future__ import annotations

from pydantic import TypeAdapter

from squall.nemesis.disk import watched_calls
from squall.nemesis.options import NemesisEntry

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

"""The nemesis's events become fault windows, each written whole when something about it becomes known."""

from __future__ import annotations

from pathlib import Path

from squall.harness.scenario.faults import FaultLog
from squall.nemesis.core.evidence import FaultRecord
from squall.nemesis.runner import NemesisEvent, Phase
from squall.results.history.segments import EventWriter, FaultWindow, read_faults


def event(phase: Phase, at: int, text: str = "", record: FaultRecord | None = None) -> NemesisEvent:
    return NemesisEvent(at, phase, "1-kill", "kill", ("c2",), "active controller", text, record)


def record(*, proven: bool, healed: bool, injected: int | None = 100, detail: str = "") -> FaultRecord:
    return FaultRecord(
        "1-kill", "kill", ("c2",), "active controller", injected, 300, {}, {}, {}, proven, healed, detail
    )


def windows(directory: Path, *events: NemesisEvent) -> list[FaultWindow]:
    told: list[FaultWindow] = []
    log = FaultLog(EventWriter.faults(directory), told.append)
    for one in events:
        log.note(one)
    assert read_faults(directory) == [told[-1]]
    return told


def test_a_fault_is_followed_from_injection_to_the_proof_of_its_end(tmp_path: Path) -> None:
    told = windows(
        tmp_path,
        event("started", 100),
        event("proven", 150, "process gone"),
        event("healed", 300, "", record(proven=True, healed=True)),
    )
    assert [(one.injected, one.took, one.undone) for one in told] == [
        (100, None, None),
        (100, True, None),
        (100, True, True),
    ]
    assert (told[-1].name, told[-1].summary) == ("kill -9 c2", "c2 (active controller)")
    assert (told[-1].during, told[-1].healed, told[-1].trouble) == ("process gone", 300, "")


def test_a_fault_without_proof_keeps_the_reason(tmp_path: Path) -> None:
    told = windows(
        tmp_path,
        event("started", 100),
        event("unproven", 150, "still answered 3 of 5"),
        event("healed", 300, "", record(proven=False, healed=True)),
    )
    assert (told[-1].took, told[-1].during) == (False, "still answered 3 of 5")


def test_a_fault_that_never_began_says_why(tmp_path: Path) -> None:
    told = windows(
        tmp_path,
        event("unproven", 150, "", record(proven=False, healed=False, injected=None, detail="no target: no leader")),
    )
    assert (told[0].injected, told[0].undone, told[0].trouble) == (None, None, "no target: no leader")


def test_a_fault_that_did_not_end_says_why(tmp_path: Path) -> None:
    told = windows(
        tmp_path,
        event("started", 100),
        event("proven", 150, "process gone"),
        event("unhealed", 300, "", record(proven=True, healed=False, detail="not healed: c2 is unreachable")),
    )
    assert (told[-1].undone, told[-1].trouble) == (False, "not healed: c2 is unreachable")

"""The worked example of docs/faults.md, "Writing a fault": as it stands there it takes hold, ends, and cannot lie."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis import registry
from squall.nemesis.controls import silenced
from squall.nemesis.faults.kind import Kind
from squall.nemesis.runner import NemesisRunner
from squall.nemesis.schedule import Schedule, ScheduledFault

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"


@pytest.fixture
def doze(monkeypatch: pytest.MonkeyPatch) -> Kind:
    """The kind that the guide's block of Python defines, known to the registry."""
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    found: dict[str, Any] = {"__name__": "example"}
    exec(compile(block, str(GUIDE), "exec", dont_inherit=True), found)
    kind = found["DOZE"]
    monkeypatch.setitem(registry.FAULTS, kind.options, kind)  # type: ignore[arg-type]
    return kind


def runner_of(world: Any, doze: Kind, hosts: Any) -> NemesisRunner:
    options = doze.options.model_validate({"fault": "doze", "target": "leader of events/0"})
    schedule = Schedule(1, (ScheduledFault("1-doze", 1.0, 2.0, options, "1"),))  # type: ignore[arg-type]
    return NemesisRunner(
        schedule, hosts, world, now_ns=world.time.now_ns, sleep=world.time.sleep, report=lambda event: None
    )


def test_it_takes_hold_on_who_leads_and_ends(world: Any, drive: Any, doze: Kind) -> None:
    (record,) = drive(runner_of(world, doze, world.hosts).run())
    assert (record.proven, record.healed, record.targets) == (True, True, ("b2",)), record.detail
    assert record.detail == "dozing"
    assert not world.hosts["b2"].open_faults()


def test_it_is_found_out_if_it_only_claims(world: Any, drive: Any, doze: Kind) -> None:
    (record,) = drive(runner_of(world, doze, silenced(world.hosts)).run())
    assert not record.proven
    assert record.detail.startswith("b2: the process is running")


def test_it_takes_some_thirty_lines() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    lines = [line for line in block.splitlines() if line.strip() and not line.startswith("from ")]
    assert len(lines) <= 35

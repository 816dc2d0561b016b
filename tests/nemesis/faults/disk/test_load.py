"""When looks show that somebody loads a disk, and when they do not."""

from __future__ import annotations

import random
from typing import Any

from pydantic import TypeAdapter

from squall.nemesis.core.fault import FaultContext
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.registry import build_fault
from tests.facts import assert_names

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


def disk_load() -> Any:
    async def sleep(seconds: float) -> None: ...

    context = FaultContext("1-load", {}, None, lambda: 0, sleep, random.Random(1))  # type: ignore[arg-type]
    fault: Any = build_fault(ENTRY.validate_python({"fault": "disk-load", "target": "b1", "at": 1}), context)  # type: ignore[arg-type]
    fault._targets = ("b1",)
    return fault


def looks(**more: object) -> dict[str, Any]:
    idle = {"open": False, "pid": None, "written_bytes": 0, "seconds": 0.5, "fsync_s": 0.002}
    return {"loads": {"b1": {**idle, **more}}}


BUSY = {"open": True, "pid": 7, "written_bytes": 50 << 20}


def test_bytes_that_another_process_gave_to_the_disk_prove_a_load() -> None:
    assert disk_load().check_effect(looks(), looks(**BUSY)) is None
    assert disk_load().told(looks(**BUSY)) == "100 MiB/s written by another process, an fsync takes 2.0 ms"


def test_without_such_a_process_or_with_an_idle_one_there_is_none() -> None:
    assert disk_load().check_effect(looks(), looks()) == "b1: no writer process is running"
    assert "nothing to the disk in 0.5 s" in disk_load().check_effect(looks(), looks(**{**BUSY, "written_bytes": 0}))


def test_it_is_over_when_nobody_writes_any_more() -> None:
    assert disk_load().shows_end(looks(), looks()) is None
    assert_names(disk_load().shows_end(looks(), looks(**BUSY)), "b1", "writer process")

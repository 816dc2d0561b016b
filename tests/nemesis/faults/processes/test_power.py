"""What proves a power loss and a wiped disk, and what is told of them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from squall.nemesis.core.evidence import Facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.selector import Target
from squall.nemesis.faults.processes.power import LosePower, WipeLogDirectory
from squall.nemesis.options import PowerLoss, WipeDisk
from tests.facts import assert_names

RUNNING = {"state": "running", "pid": 7, "started": 1, "files": 3, "unsynced_bytes": 900, "lost_bytes": None}
GONE = {"state": "absent", "pid": None, "started": None, "files": 3, "unsynced_bytes": 0, "lost_bytes": 1024}


def aimed(fault: Any) -> Any:
    """The fault, aimed at b1."""

    async def at_b1(selector: str) -> Target:
        return Target(("b1",), "by name")

    object.__setattr__(fault._context, "resolve", at_b1)
    asyncio.run(fault.aim())
    return fault


def context() -> FaultContext:
    async def sleep(seconds: float) -> None: ...

    return FaultContext("1-power", {}, None, lambda: 0, sleep, random.Random(1))  # type: ignore[arg-type]


def power_loss(mode: str) -> LosePower:
    loss: LosePower = aimed(
        LosePower(PowerLoss.model_validate({"fault": "power-loss", "target": "b1", "mode": mode}), context())
    )
    return loss


def looks(**during: object) -> tuple[Facts, Facts]:
    return {"b1": dict(RUNNING)}, {"b1": {**GONE, **during}}


def test_a_dead_process_and_nothing_left_but_what_was_fsynced_prove_a_power_loss() -> None:
    assert power_loss("all").check_effect(*looks()) is None


def test_a_power_loss_with_nothing_to_lose_is_proven_all_the_same() -> None:
    assert power_loss("all").check_effect(*looks(lost_bytes=0)) is None


def test_a_kill_that_left_the_page_cache_is_no_power_loss() -> None:
    assert (
        power_loss("all").check_effect(*looks(unsynced_bytes=900))
        == "b1: 900 bytes that were not fsynced are still there"
    )


def test_a_torn_tail_may_leave_a_part_and_a_kill_all_of_it() -> None:
    assert power_loss("torn").check_effect(*looks(unsynced_bytes=300)) is None
    assert power_loss("none").check_effect(*looks(unsynced_bytes=900)) is None


def test_a_process_that_still_runs_has_not_lost_power() -> None:
    assert power_loss("all").check_effect(*looks(state="running", pid=7)) == "b1: the process is running, pid 7"


def test_a_process_that_was_down_before_proves_a_power_loss_by_its_disk() -> None:
    before = {"b1": {**RUNNING, "state": "absent", "pid": None}}
    assert power_loss("all").check_effect(before, looks()[1]) is None
    started = looks(state="running", pid=7)[1]
    assert power_loss("all").check_effect(before, started) == "b1: the process is running, pid 7"


def test_it_is_told_how_much_is_gone_and_of_which_logs() -> None:
    lost = {"__cluster_metadata-0": [3, 9], "events-0": [12, 40], "events-1": [0, 7], "events-2": [3, 5]}
    _, during = looks(lost_offsets=lost)
    assert power_loss("all").told(during) == (
        "process gone, and 1024 bytes that were not fsynced"
        " (events-0 from offset 12 to 39, events-1 from offset 0 to 6, 2 more)"
    )
    _, simulated = looks()
    assert power_loss("all").told(simulated) == "process gone, and 1024 bytes that were not fsynced"


def test_files_that_are_left_disprove_a_wiped_disk() -> None:
    wiped = aimed(WipeLogDirectory(WipeDisk.model_validate({"fault": "wipe-disk", "target": "b1"}), context()))
    assert_names(wiped.check_effect(*looks(files=2)), "b1", "log directory", "2 files")
    assert wiped.check_effect(*looks(files=0)) is None

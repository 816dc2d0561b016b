"""Trials in the lab: verified where they take hold, found out where they are only claimed, healed when interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from squall.harness.lab.lab import lab_status
from tests.harness.conftest import CommandLine
from tests.labs import need_lab
from tests.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("power-loss")]

PATIENCE_SECONDS = 90.0


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


def rows(file: Path) -> dict[int, dict[str, object]]:
    return {row["number"]: row for row in json.loads(file.read_text())["rows"]}


def labs_of(running: subprocess.Popen[str]) -> set[str]:
    """Labs that this process has brought up; other tests have theirs."""
    children = {child.pid for child in psutil.Process(running.pid).children()}
    return {status.lab.name for status in lab_status() if status.lab.supervisor in children}


def test_trials_are_carried_out_one_after_the_other_and_told_with_their_evidence(squall: CommandLine) -> None:
    said = squall("faults", "--verify", "--lab", "--only", "1", "--only", "58", "--only", "53", "--json", "it.json")
    assert said.status == 0, said.all
    assert "2 verified, 1 skipped" in said.out
    found = rows(squall.directory / "it.json")
    assert {number: row["outcome"] for number, row in found.items()} == {1: "verified", 53: "skipped", 58: "verified"}
    kill = found[1]
    assert "running" in str(kill["before"]) and kill["during"] == "process gone" and "running" in str(kill["after"])
    assert 0 < float(str(kill["inject_s"])) < 5 and 0 < float(str(kill["heal_s"])) < 15
    assert "transactions" in str(found[53]["reason"])


@pytest.mark.full
def test_what_is_only_claimed_is_not_verified_and_stops_nothing(squall: CommandLine) -> None:
    said = squall("faults", "--verify", "--lab", "--only", "1", "--only", "14", "--idle-nemesis", "--json", "it.json")
    assert said.status == 1, said.all
    found = rows(squall.directory / "it.json")
    assert {number: row["outcome"] for number, row in found.items()} == {1: "failed", 14: "failed"}
    assert "the process is running" in str(found[1]["reason"])


@pytest.mark.full
def test_interrupted_it_heals_tells_what_was_done_and_leaves_no_lab(squall: CommandLine) -> None:
    running = squall.start("faults", "--verify", "--lab", "--only", "1", "--only", "3", "--only", "14")
    told = squall.directory / "said.txt"
    wait_until(lambda: "row 1 " in told.read_text(), told.read_text, PATIENCE_SECONDS)
    own = labs_of(running)
    assert own
    running.send_signal(signal.SIGINT)
    assert running.wait(PATIENCE_SECONDS) == 130, told.read_text()
    assert "all hosts were healed" in told.read_text()
    assert "row" in told.read_text().partition("all hosts were healed")[2]
    assert not own & {status.lab.name for status in lab_status()}

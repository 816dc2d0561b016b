"""A scenario that cannot be run is named in the summary and the others run; `plan` and `run` refuse the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from squall.harness.cli.main import status_of
from squall.harness.cli.run import campaign as campaign_module
from squall.harness.cli.run.campaign import Campaign
from squall.harness.errors import UsageError
from squall.harness.scenario.plan import RunPlan
from squall.results.history.manifest import Expected, Manifest
from squall.results.synthetic.forge import forge_run, healthy

GOOD = "{scenario: good, fault_free: true, expect: valid}"
LATER = "{scenario: later, fault_free: true}"

REFUSED = {
    "an unlisted host": ("nemesis: [{fault: kill, target: b9, at: 1s, for: 1s}]", "no node is called b9"),
    "nobody": ("nemesis: [{fault: kill, target: b1 but all brokers, at: 1s, for: 1s}]", "no host is left"),
    "faults that exclude each other": (
        "nemesis: [{fault: kill, target: b1, at: 1s, for: 5s}, {fault: pause, target: b1, at: 2s, for: 1s}]",
        "exclude each other on b1",
    ),
    "a fault after the load": ("nemesis: [{fault: kill, target: b1, at: 59s, for: 5s}]", "ends after the load"),
    "faults drawn by seed": ("swarm: true", "which only the simulation does"),
    "client hosts that are not there": (
        "nemesis: [{fault: pause-clients, at: 1s, for: 1s}]",
        "needs load workers on client hosts",
    ),
}


def written(path: Path, *scenarios: str) -> Path:
    file = path / "suite.yaml"
    file.write_text("scenarios:\n" + "".join(f"  - {one}\n" for one in scenarios))
    return file


@pytest.fixture
def carried_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs that forge a healthy history in place of a lab; the names of those that were carried out."""
    names: list[str] = []

    async def forged(self: Campaign, plan: RunPlan, display: Any, locks: Any) -> Path:
        names.append(plan.scenario.scenario)
        if plan.scenario.scenario == "unreachable":
            raise UsageError("b1 (10.0.0.1): connection refused on port 22", remedy="start sshd there")
        if plan.scenario.scenario == "interrupted":
            raise asyncio.CancelledError
        forge_run(plan.directory, healthy(1), scenario=plan.scenario.scenario)
        return plan.directory

    monkeypatch.setattr(campaign_module.Campaign, "_run", forged)
    return names


@pytest.mark.parametrize("why", REFUSED)
def test_plan_refuses_what_run_refuses_with_the_same_words(
    why: str,
    carried_out: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    rest, reason = REFUSED[why]
    file = written(tmp_path, f"{{scenario: bad, {rest}}}", GOOD)
    assert status_of(["plan", str(file)]) == 254
    planned = capsys.readouterr().out
    assert "scenario   good" in planned and reason in planned
    assert status_of(["run", str(file), "--in-process"]) == 254
    ran = capsys.readouterr().out
    (refused,) = [line for line in planned.splitlines() if line.startswith("refused")]
    assert refused.partition(", seed")[0] in ran and reason in ran
    assert carried_out == ["good"]


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_scenario_that_is_refused_alone_is_one_message(
    command: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest, reason = REFUSED[why]
    file = written(tmp_path, f"{{scenario: bad, {rest}}}")
    assert status_of([command, str(file)]) == 254
    assert reason in capsys.readouterr().err


def test_the_rest_of_a_suite_runs_and_the_summary_names_the_refused(
    carried_out: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, GOOD, "{scenario: bad, swarm: true}", "{scenario: unreachable, fault_free: true}", LATER)
    assert status_of(["run", str(file), "--in-process", "--seed", "3"]) == 254
    assert carried_out == ["good", "unreachable", "later"]
    summary = capsys.readouterr().out.rpartition("suite ─")[2].splitlines()[1:]
    assert [line.split()[:2] for line in summary] == [
        ["✔", "good"],
        ["✘", "bad"],
        ["✘", "unreachable"],
        ["✔", "later"],
    ]
    assert "refused: b1 (10.0.0.1): connection refused on port 22" in summary[2]


def test_an_interrupted_suite_sums_up_what_ended(
    carried_out: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, GOOD, "{scenario: interrupted, fault_free: true}", LATER)
    assert status_of(["run", str(file), "--in-process"]) == 130
    said = capsys.readouterr().out
    assert "✔ good" in said and "2 of 3 runs did not end" in said


@pytest.mark.parametrize(("rest", "status"), [("", 0), (", more", 0)], ids=["alone", "in a suite"])
def test_a_run_that_ends_as_expected_exits_0_alone_and_in_a_suite(
    rest: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def proves_nothing(self: Campaign, plan: RunPlan, display: Any, locks: Any) -> Path:
        run = forge_run(plan.directory, [], scenario=plan.scenario.scenario)
        Manifest.load(run).with_changes(expect=Expected(verdict="unknown")).save(run)
        return run

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(campaign_module.Campaign, "_run", proves_nothing)
    scenarios = [f"{{scenario: {name}, fault_free: true, expect: unknown}}" for name in ("idle", "idler")]
    file = written(tmp_path, *(scenarios if rest else scenarios[:1]))
    assert status_of(["run", str(file), "--in-process"]) == status
    said = capsys.readouterr().out
    assert "UNKNOWN" in said and "as the scenario expects: unknown" in said and "exit 0" in said


def test_the_seeds_of_a_scenario_are_planned_as_they_are_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "{scenario: own, seeds: [8, 9], nemesis: [{fault: kill, target: one broker, at: 1s}]}")
    assert status_of(["plan", str(file), "--seed", "3"]) == 0
    assert "8, 9" in capsys.readouterr().out

"""A dry run prints every command, host by host and in order, and starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from squall.harness.cli.main import status_of
from squall.harness.run.dry_run import AFTER, BEFORE, CLUSTER, Command, DryRun
from squall.harness.scenario.plan import RunPlan, plan_suite
from squall.harness.scenario.suite import load_suite
from squall.nemesis.catalogue import ROWS

SUITE = """
scenario: dry
nemesis:
  - {fault: kill, target: b1, at: 5s, for: 3s}
  - {fault: isolate, target: leader of events/0, at: 10s, for: 2s}
  - {fault: remove-voter, target: c2, at: 15s, for: 4s}
  - {fault: pause, target: replicas of events/0 out of sync, at: 20s, for: 1s}
  - {fault: bounce, target: b3, at: 25s, for: 3s}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    written = tmp_path / "dry.yaml"
    written.write_text(SUITE)
    return written


@pytest.fixture
def plan(path: Path) -> RunPlan:
    return next(plan_suite(load_suite(path), 1, path.parent))


def of(commands: list[Command], host: str) -> list[tuple[float, str]]:
    return [(one.at_s, one.text.partition(" {")[0]) for one in commands if one.host == host]


def test_a_host_is_deployed_to_disturbed_healed_and_cleaned_in_this_order(plan: RunPlan) -> None:
    mine = of(DryRun(plan).commands(), "b1")
    assert [at for at, _ in mine] == sorted(at for at, _ in mine)
    before = [text for at, text in mine if at == BEFORE]
    assert before[0].startswith("take the host's lock") and before[1].startswith("send the bundle")
    assert before[-2:] == ["proc.define", "proc.start"]
    assert (5, "proc.kill") in mine and (8, "heal") in mine
    after = [text for at, text in mine if at == AFTER]
    assert after[:2] == ["heal", "proc.stop"] and after[-2].startswith("rm -rf")
    assert after[-1] == "give the host's lock back"


def test_verbs_come_with_all_that_the_agent_would_hear(plan: RunPlan) -> None:
    (kill,) = [one for one in DryRun(plan).commands() if one.text.startswith("proc.kill") and one.at_s == 5]
    assert kill.text == 'proc.kill {"id": "1-kill", "name": "node", "ttl": 8.0}'


def test_a_role_is_shown_on_a_stand_in_and_says_so(plan: RunPlan) -> None:
    drops = [one for one in DryRun(plan).commands() if one.text.startswith("net.drop")]
    assert drops and all("leader of events/0 (resolved at that time)" in one.note for one in drops)


def test_whom_nobody_can_know_beforehand_is_told_as_that(plan: RunPlan) -> None:
    (pause,) = [one for one in DryRun(plan).commands() if one.at_s == 20]
    assert pause.host == CLUSTER and "known only then" in pause.text


def test_what_is_asked_of_the_cluster_is_listed_beside_the_hosts(plan: RunPlan) -> None:
    assert of(DryRun(plan).commands(), CLUSTER)[:2] == [(15, "remove voter c2"), (19, "add voter c2")]


@pytest.mark.parametrize("command", ["plan", "run"])
def test_both_commands_print_it_with_the_schedule_s_hash(
    command: str, path: Path, plan: RunPlan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    assert status_of([command, str(path), "--seed", "1", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert plan.schedule.content_hash() in said
    assert "proc.kill" in said and "5.000 s" in said
    assert list(path.parent.iterdir()) == [path], "nothing is left behind"


def test_every_trial_of_the_catalogue_can_be_run_dry(path: Path) -> None:
    """Whatever kind there is, its commands can be told beforehand: it asks some host or the cluster for something."""
    silent = []
    for row in ROWS:
        if not row.trial or row.clients:
            continue
        path.write_text(f"scenario: dry\nnemesis:\n  - {{at: 1s, {_flow(row.trial)}}}\n")
        built = next(plan_suite(load_suite(path), 1, path.parent))
        faults = {fault.id for fault in built.schedule.faults}
        told = {one.note.partition(":")[0] for one in DryRun(built).commands() if one.note}
        silent += [f"row {row.number}: {id}" for id in sorted(faults - told)]
    assert not silent


def _flow(trial: object) -> str:
    """A trial as it stands within braces of YAML."""
    return yaml.safe_dump(trial, default_flow_style=True, width=10_000).strip()[1:-1]

"""An attempt is a process: what it leaves is its outcome, whatever happens to it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from squall.harness.hosts.network import process_started
from squall.harness.nightly import attempts
from squall.harness.nightly.attempts import ProcessRunner, Settings, of_suite, outcome_of
from squall.harness.nightly.conduct import Cluster
from squall.harness.nightly.ledger.items import Item, Outcome
from tests.harness.nightly.nights import item
from tests.waiting import wait_until

HERE = Cluster("here")


def runner(directory: Path, **more: Any) -> ProcessRunner:
    return ProcessRunner(Settings(directory, "n", directory / "runs", None, {"MARK": "x"}, **more))


def outcome(directory: Path, command: str, limit_s: float = 30.0) -> Outcome:
    async def carried_out() -> Outcome:
        return await (await runner(directory).begin(item("a", command=command), 1, HERE)).outcome(limit_s)

    return asyncio.run(carried_out())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("test $MARK$SQUALL_SEED = x7", Outcome(ending="valid")),
        ("echo lost; exit 1", Outcome(ending="invalid", cause="finding", problem="lost")),
        ("echo one; echo two >&2; exit 2", Outcome(ending="unknown", cause="evidence", problem="two")),
        ("exit 254", Outcome(ending="refused", cause="refused")),
        ("exit 3", Outcome(ending="error", cause="crash", problem="its process ended with exit status 3")),
        ("kill -9 $$", Outcome(ending="error", cause="crash", problem="its process was ended by signal 9")),
    ],
)
def test_the_exit_status_of_a_command_is_its_ending(tmp_path: Path, command: str, expected: Outcome) -> None:
    assert outcome(tmp_path, command) == expected


def test_an_attempt_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "GRACE_SECONDS", 0.2)
    hung = outcome(tmp_path, f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/child; wait; wait", limit_s=1.0)
    assert (hung.ending, hung.cause) == ("error", "hung") and "within 1 s" in hung.problem
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: process_started(child) is None, "the kernel has ended what was killed")


def test_a_scenario_is_a_squall_run_on_its_cluster(tmp_path: Path) -> None:
    one = item("a", kind="scenario", suite="suites/smoke.yaml", name="smoke")
    words = runner(tmp_path, wait=5.0, in_process=True)._words(one, Cluster("c", Path("i.yaml")), tmp_path / "r.json")
    said = " ".join(words)
    assert "squall.harness.cli.main run suites/smoke.yaml --only smoke --seed 7" in said
    assert "--night n" in said and "--inventory i.yaml" in said and "--wait 5.0" in said and "--in-process" in said
    assert "--system" not in said, "the suite decides"
    other = item("a", kind="scenario", suite="suites/smoke.yaml", name="smoke", system="kafka:4.4.0")
    assert runner(tmp_path)._words(other, HERE, tmp_path / "r.json")[-2:] == ["--system", "kafka:4.4.0"]


def suite(**run: Any) -> dict[str, Any]:
    usual = {"verdict": "valid", "anomalies": [], "problem": "", "directory": "runs/a/1", "machine": False}
    return {"items": [usual | run]}


def of(name: str, status: int, directory: Path, content: object, kind: Any = "scenario") -> Outcome:
    result = directory / name
    result.write_text(json.dumps(content))
    return outcome_of(Item(id="a", kind=kind, name="a"), status, directory / "log", result)


def test_the_outcome_of_a_run_is_what_its_suite_json_says(tmp_path: Path) -> None:
    found = of("s", 1, tmp_path, suite(verdict="invalid", anomalies=["lost_write"], problem="p"))
    assert found == Outcome(
        ending="invalid", anomalies=("lost_write",), problem="p", cause="finding", directory="runs/a/1"
    )
    assert of("s", 254, tmp_path, suite(verdict="refused")).ending == "refused"


def test_hosts_that_are_in_use_or_unreachable_are_an_error_that_may_pass(tmp_path: Path) -> None:
    found = of("s", 254, tmp_path, suite(verdict="refused", machine=True, problem="b1: in use"))
    assert (found.ending, found.cause) == ("error", "machine")


@pytest.mark.parametrize("content", [suite(verdict=None), {"items": []}, {}, "nonsense"])
def test_a_run_that_left_no_verdict_is_a_crash_and_never_valid(tmp_path: Path, content: object) -> None:
    assert of("s", 0, tmp_path, content).cause == "crash"


def test_a_run_killed_by_a_signal_has_no_outcome_even_if_it_left_one(tmp_path: Path) -> None:
    assert of("s", -9, tmp_path, suite()).ending == "error"
    assert of("s", -9, tmp_path, {"ending": "valid"}, kind="simulation").ending == "error"


def test_a_simulated_attempt_leaves_its_outcome(tmp_path: Path) -> None:
    assert of("s", 0, tmp_path, {"ending": "unknown", "problem": "p"}, kind="campaign").ending == "unknown"
    assert of("s", 0, tmp_path, {"ending": "dance"}, kind="campaign").cause == "crash"


def test_a_suite_of_several_runs_is_no_outcome() -> None:
    with pytest.raises(ValueError, match="unpack"):
        of_suite(item("a"), {"items": suite()["items"] * 2})

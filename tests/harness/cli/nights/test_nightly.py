"""`squall nightly` from the command line: items are commands of the shell, so that a night takes a second."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xmlschema

from squall.harness.cli.main import status_of
from squall.harness.nightly.ledger.ledger import Ended, read_ledger
from squall.results.lake.store import Lake
from tests.harness.nightly.nights import SQUALL, night_json, the_night, write_night
from tests.harness.nightly.test_guard import await_true

SCHEMA = xmlschema.XMLSchema(Path(__file__).parents[2] / "nightly" / "junit.xsd")
HOOKS = ("--provision", "echo up >> calls", "--teardown", "echo down >> calls")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def calls(place: Path) -> list[str]:
    return (place / "calls").read_text().split() if (place / "calls").exists() else []


def verdicts(place: Path) -> dict[str, str]:
    return {one["id"]: one["verdict"] for one in night_json(place)["items"]}


def test_a_night_ends_with_files_for_people_and_machines(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place / "step.md"))
    write_night(place, ["true", "echo records are lost; exit 1", "exit 2", "exit 9"])
    hook = ("--webhook", "cat > hook.json", "--junit", "out/junit.xml", "--price-per-hour", "3600")
    assert status_of(["nightly", "night.yaml", *HOOKS, *hook]) == 1
    assert verdicts(place) == {"item-1": "valid", "item-2": "invalid", "item-3": "unknown", "item-4": "error"}
    assert calls(place) == ["up", "down"]
    SCHEMA.validate(str(place / "out" / "junit.xml"))
    assert (the_night(place) / "junit.xml").read_text() == (place / "out" / "junit.xml").read_text()
    assert "| item-2 | invalid | records are lost |" in (place / "step.md").read_text()
    assert (place / "step.md").read_text() == (the_night(place) / "summary.md").read_text()
    hooked = json.loads((place / "hook.json").read_text())
    assert hooked["exit_status"] == 1 and hooked["cost"] > 0
    assert (
        "::error title=item-2::invalid where valid is expected, a finding: records are lost" in capsys.readouterr().out
    )


def test_a_dry_run_prints_the_plan_with_its_cost_and_begins_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_night(place, ["touch began", "touch began"], price_per_hour=2.0, budget={"time": "121s"})
    assert status_of(["nightly", "night.yaml", "--dry-run", *HOOKS]) == 0
    said = capsys.readouterr().out
    assert "run        item-1" in said and "left out   item-2" in said
    assert "1 item on this machine: about 2.0 min of 2 min, about 0.07 at 2 an hour" in said
    assert not (place / "began").exists() and not (place / "runs").exists() and calls(place) == []


def test_what_is_left_out_is_in_the_ledger_and_in_every_output(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_night(place, ["true", "true"])
    assert status_of(["nightly", "night.yaml", "--budget", "1.5s"]) == 0
    (left,) = night_json(place)["left_out"]
    assert left["id"] == "item-2" and "takes about 1 s, 0 s of 2 s were left" in left["why"]
    for name in ("ledger.jsonl", "junit.xml", "summary.md"):
        assert "takes about 1 s" in (the_night(place) / name).read_text()
    assert "left out   item-2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--provision", "no-such-cloud up", "--teardown", "true"], "no-such-cloud up"),
        (["--provision", "echo up >> calls"], "nothing would ever end the hosts"),
        (["--lake", "a-file", *HOOKS], "cannot be written"),
        (["--clusters", "a.yaml,b.yaml"], "a.yaml: no such file"),
        (["--shard", "3/2"], "write 2/3"),
        (["--budget", "soon"], "--budget soon: is not a duration"),
        (["--resume"], "no night of night.yaml was interrupted"),
        (["--rerun-failed"], "no night of this suite"),
        (["--budget", "10ms"], "the budget allows no item"),
        (["--max-cost", "3"], "a night that has no price"),
    ],
)
def test_what_is_wrong_is_found_before_anything_is_spent(
    place: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "a-file").touch()
    write_night(place, ["touch began"])
    assert status_of(["nightly", "night.yaml", *words]) == 254
    assert says in capsys.readouterr().err
    assert not (place / "began").exists() and calls(place) == []
    assert not list(place.glob("runs/nights/*/ledger.jsonl"))


@pytest.mark.parametrize(
    ("provision", "says"),
    [
        ("echo up >> calls; echo no quota >&2; exit 3", "exit status 3: no quota"),
        ("echo up >> calls; sleep 60", "did not end within 0 s"),
        ("echo up >> calls; echo Apply complete", "is not JSON"),
    ],
)
def test_hosts_that_were_half_made_are_torn_down(
    place: Path, provision: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_night(place, ["touch began"])
    words = ["--provision", provision, "--teardown", "echo down >> calls", "--hook-timeout", "400ms"]
    assert status_of(["nightly", "night.yaml", *words]) == 254
    assert says in capsys.readouterr().err
    assert calls(place) == ["up", "down"] and not (place / "began").exists()
    assert night_json(place)["finished"] is False and says in night_json(place)["notes"][0]


def test_a_night_by_itself_runs_only_what_failed_again_with_its_seeds(place: Path) -> None:
    night = write_night(place, ["true", "test -e repaired"])
    assert status_of(["nightly", "night.yaml"]) == 1
    first = the_night(place)
    (place / "repaired").touch()
    assert status_of(["nightly", str(night.name), "--rerun-failed", "--nights", "runs/nights"]) == 0
    (second,) = [path.parent for path in place.glob("runs/nights/*/night.json") if path.parent != first]
    (one,) = json.loads((second / "night.json").read_text())["items"]
    assert one["id"] == "item-2" and one["verdict"] == "valid"


def test_shards_together_run_everything_once(place: Path) -> None:
    write_night(place, [f"echo {number} >> ran" for number in range(5)])
    for number in (1, 2):
        assert status_of(["nightly", "night.yaml", "--shard", f"{number}/2", "--nights", f"n{number}"]) == 0
    assert sorted((place / "ran").read_text().split()) == ["0", "1", "2", "3", "4"]
    hashes = {json.loads(path.read_text())["shard"].split()[-1] for path in place.glob("n*/*/night.json")}
    assert len(hashes) == 1, "both distributed alike"


def test_a_flake_in_quarantine_does_not_fail_the_night_and_an_expired_entry_does(place: Path) -> None:
    entry = {"scenario": "item-2", "owner": "ann", "reason": "slow disk", "until": "2999-01-01"}
    write_night(place, ["true", "exit 2"], quarantine=[entry])
    assert status_of(["nightly", "night.yaml", "--nights", "a"]) == 0
    write_night(place, ["true", "exit 1"], quarantine=[entry])
    assert status_of(["nightly", "night.yaml", "--nights", "b"]) == 1
    write_night(place, ["true", "exit 2"], quarantine=[entry])
    for number in (1, 2):
        words = ["--shard", f"{number}/2", "--nights", "shards"]
        assert status_of(["nightly", "night.yaml", *words]) == 0, "an entry of another shard's item is no problem"
    write_night(place, ["true", "true"], quarantine=[{**entry, "until": "2020-01-01"}])
    assert status_of(["nightly", "night.yaml", "--nights", "c"]) == 2


SUITE = """
scenario: lossy
cluster:
  topics: {events: {partitions: 2, replication_factor: 3, min_insync_replicas: 2}}
  mutants: [ack-before-replication]
workload: {name: log, producers: 2, consumers: 1, rate: 40/s, acks: all}
nemesis: [{fault: kill, target: leader of events/*, at: 2s, for: 2s}]
time: {load: 6s, settle: 10s}
"""


@pytest.mark.timeout(120)
def test_a_scenario_that_fails_is_in_annotation_summary_and_lake(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (place / "lossy.yaml").write_text(SUITE)
    assert status_of(["nightly", "lossy.yaml", "--simulate", "--seed", "1"]) == 1
    (one,) = night_json(place)["items"]
    assert one["verdict"] == "invalid" and Path(one["directory"], "run.json").exists(), "kept, because it failed"
    assert "::error title=lossy,file=lossy.yaml::invalid (" in capsys.readouterr().out
    assert "| lossy | invalid (" in (the_night(place) / "summary.md").read_text()
    (row,) = Lake(place / "runs" / "lake").table("runs").to_pylist()
    assert (row["scenario"], row["verdict"], row["as_expected"]) == ("lossy", "invalid", False)
    assert row["night"] == the_night(place).name and row["world"] == "simulation"
    assert Lake(place / "runs" / "lake").table("anomalies").num_rows == len(one["anomalies"]) > 0
    (night,) = Lake(place / "runs" / "lake").table("nights").to_pylist()
    assert night["night"] == row["night"] and night["seconds"] > 0


# -- interruptions ---------------------------------------------------------------------------------------------------


def begin(place: Path, *words: str) -> subprocess.Popen[str]:
    out = (place / "said").open("a")
    return subprocess.Popen([*SQUALL, "nightly", "night.yaml", *words], cwd=place, stdout=out, stderr=out, text=True)


def ended(place: Path) -> list[str]:
    return [one.item for one in read_ledger(the_night(place)) if isinstance(one, Ended)]


def test_a_killed_night_is_resumed_by_the_same_command_with_what_was_left(place: Path) -> None:
    slow = "test -e go || { touch slow; sleep 60; }; echo done >> ran"
    write_night(place, ["echo done >> ran", slow, "echo done >> ran"])
    night = begin(place, *HOOKS)
    await_true((place / "slow").exists)
    night.kill()
    night.wait()
    await_true(lambda: calls(place) == ["up", "down"])
    assert night_json(place)["finished"] is False, "the outputs exist all the same"
    assert {"item-1": "valid"}.items() <= verdicts(place).items()
    (place / "go").touch()
    assert status_of(["nightly", "night.yaml", *HOOKS]) == 0
    assert calls(place) == ["up", "down", "up", "down"]
    assert sorted(ended(place)) == ["item-1", "item-2", "item-3"] and (place / "ran").read_text() == "done\n" * 3
    assert night_json(place)["sessions"] == 2 and night_json(place)["exit_status"] == 0


def test_a_resumed_night_writes_junit_where_it_is_asked_now_and_names_the_options_that_do_not_apply(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_night(place, ["true", "test -e go || { touch slow; sleep 60; }"])
    night = begin(place, *HOOKS, "--budget", "1h", "--lake", "own", "--junit", "first.xml")
    await_true((place / "slow").exists)
    night.send_signal(signal.SIGINT)
    assert night.wait(60) == 130
    (place / "go").touch()
    first = (place / "first.xml").read_bytes()
    assert status_of(["nightly", "night.yaml", *HOOKS, "--budget", "2h", "--retry", "0", "--junit", "now.xml"]) == 0
    said = capsys.readouterr().out
    assert re.search("resume +as it was begun, not as given now: --budget, --retry$", said, re.MULTILINE), said
    SCHEMA.validate(str(place / "now.xml"))
    assert (place / "first.xml").read_bytes() == first


def test_an_interrupted_night_tears_down_and_leaves_its_files(place: Path) -> None:
    write_night(place, ["true", "touch slow; sleep 60"])
    night = begin(place, *HOOKS, "--junit", "junit.xml")
    await_true((place / "slow").exists)
    night.send_signal(signal.SIGINT)
    assert night.wait(60) == 130
    assert calls(place) == ["up", "down"]
    assert verdicts(place) == {"item-1": "valid", "item-2": None} and night_json(place)["finished"] is False
    SCHEMA.validate(str(place / "junit.xml"))
    assert status_of(["nightly", "--resume", "--dry-run"]) == 0


def test_at_its_deadline_a_night_ends_in_order(place: Path) -> None:
    write_night(place, ["true", "sleep 60"])
    night = begin(place, *HOOKS, "--deadline", "2s")
    assert night.wait(60) == 130
    assert calls(place) == ["up", "down"] and verdicts(place) == {"item-1": "valid", "item-2": None}


def test_a_night_under_way_is_not_begun_twice(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_night(place, ["touch slow; sleep 60"])
    night = begin(place)
    try:
        await_true((place / "slow").exists)
        assert status_of(["nightly", "night.yaml"]) == 254
        assert f"this night is under way: pid {night.pid} on" in capsys.readouterr().err
    finally:
        night.terminate()
        night.wait(60)


def kill_at_a_random_moment(place: Path, moment: float, wait: Callable[[Any], None] = await_true) -> None:
    """Begin a night of short items, kill it so long after its hosts were made, and resume it."""
    import time

    write_night(place, [f"sleep 0.15; echo {number} >> ran" for number in range(6)])
    night = begin(place, *HOOKS)
    wait(lambda: calls(place))
    time.sleep(moment)  # the moment is what is varied
    night.kill()
    night.wait()
    wait(lambda: calls(place) == ["up", "down"])
    state = status_of(["nightly", "night.yaml", *HOOKS]) if night_json_or_none(place) != 0 else 0
    assert state == 0
    assert calls(place) in (["up", "down"], ["up", "down", "up", "down"])
    assert sorted(ended(place)) == [f"item-{number}" for number in range(1, 7)]


def night_json_or_none(place: Path) -> int | None:
    """Return the exit status of the night, None if it has not finished."""
    if not (the_night(place) / "night.json").exists():
        return None
    status: int | None = night_json(place)["exit_status"]
    return status


def test_after_a_kill_the_teardown_runs_exactly_once(place: Path) -> None:
    kill_at_a_random_moment(place, 0.6)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_in_each_of_twenty_kills_the_teardown_runs_exactly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from random import Random

    for trial in range(20):
        place = tmp_path / str(trial)
        place.mkdir()
        monkeypatch.chdir(place)
        kill_at_a_random_moment(place, Random(trial).uniform(0, 1.6))

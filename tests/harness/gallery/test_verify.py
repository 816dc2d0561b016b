"""What a verification concludes: broken must be INVALID with its anomaly, the twin VALID, and nothing else is green."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from squall.harness.errors import UsageError
from squall.harness.gallery import verify
from squall.harness.gallery.core.entry import BROKEN, TWIN, Arm, ArmName, Entry
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.entries import chosen
from squall.harness.gallery.history import write_minimal
from squall.harness.gallery.verify import ArmResult, free_directory, outcome_of, status_of, table_of
from squall.results.check import verdict_of
from squall.results.lake.store import Lake
from squall.results.verdict.verdict import Verdict


@pytest.fixture(scope="module")
def d1() -> Entry:
    return chosen(["D1"])[0]


@pytest.fixture(scope="module")
def verdicts(d1: Entry, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    """A verdict of each kind; `other` is invalid by another anomaly than the entry's."""
    found = {}
    for name in (BROKEN, TWIN):
        directory = tmp_path_factory.mktemp(name)
        write_minimal(directory, d1, name)
        found["invalid" if name == BROKEN else "valid"] = verdict_of(directory)
    other = msgspec.structs.replace(found["invalid"].anomalies[0], name="phantom")
    found["other"] = msgspec.structs.replace(found["invalid"], anomalies=(other,))
    found["unknown"] = msgspec.structs.replace(found["valid"], verdict="unknown", reasons=("no evidence",))
    return found


@pytest.mark.parametrize(
    ("arm", "verdict", "outcome"),
    [
        (BROKEN, "invalid", "as expected"),
        (BROKEN, "other", "unexpected"),
        (BROKEN, "valid", "unexpected"),
        (BROKEN, "unknown", "unknown"),
        (BROKEN, None, "unknown"),
        (TWIN, "valid", "as expected"),
        (TWIN, "invalid", "unexpected"),
        (TWIN, "other", "unexpected"),
        (TWIN, "unknown", "unknown"),
        (TWIN, None, "unknown"),
    ],
)
def test_only_the_expected_verdict_is_as_expected(
    d1: Entry, verdicts: dict[str, Verdict], arm: ArmName, verdict: str | None, outcome: str
) -> None:
    """HX-06: a reproduction that did not happen proves nothing."""
    assert outcome_of(d1.arm(arm), None if verdict is None else verdicts[verdict]) == outcome


def result(entry: Entry, arm: ArmName, verdict: Verdict | None) -> ArmResult:
    return ArmResult(entry.arm(arm), verdict, 1.0, Path("run"), "" if verdict else "the broker did not start\nmore")


@pytest.mark.parametrize(
    ("broken", "twin", "status"),
    [
        ("invalid", "valid", 0),
        ("invalid", "invalid", 1),
        ("valid", "valid", 1),
        ("invalid", None, 2),
        (None, "valid", 2),
        ("unknown", "valid", 2),
        ("valid", None, 1),
    ],
)
def test_the_exit_status_is_that_of_the_worst_arm(
    d1: Entry, verdicts: dict[str, Verdict], broken: str | None, twin: str | None, status: int
) -> None:
    results = [
        result(d1, BROKEN, verdicts[broken] if broken else None),
        result(d1, TWIN, verdicts[twin] if twin else None),
    ]
    assert status_of(results) == status


def test_no_results_are_unknown() -> None:
    assert status_of([]) == 2


def test_the_table_names_what_ran_and_what_came_out(d1: Entry, verdicts: dict[str, Verdict]) -> None:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table_of([result(d1, BROKEN, verdicts["invalid"]), result(d1, TWIN, None)]))
    broken, twin = console.export_text().splitlines()[1:3]
    assert all(words in broken for words in ("D1", "librdkafka 2.16.0", "invalid (duplicate)", "✔"))
    assert all(words in twin for words in ("twin", "without gap", "? unknown: the broker did not start"))


def test_a_reproduction_that_did_not_happen_is_unknown_with_its_reason(
    d1: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def __init__(self, *_: object) -> None:
            pass

        def run(self) -> Path:
            raise NotReproduced("gap: a message is held: not so after 30 s")

    monkeypatch.setattr(verify, "Conductor", Failing)
    out = Console(quiet=True)
    results = list(verify.verify([d1], tmp_path, out, runs=2, lake=tmp_path / "lake"))
    assert [one.arm.name for one in results] == [BROKEN, TWIN, BROKEN, TWIN]
    assert {one.outcome for one in results} == {"unknown"} and status_of(results) == 2
    assert results[0].data()["trouble"] == "gap: a message is held: not so after 30 s"
    rows = Lake(tmp_path / "lake").table("runs").to_pylist()
    assert [one["scenario"] for one in rows].count("gallery-D1-broken") == 2
    assert {(one["verdict"], one["expected"]) for one in rows} == {("none", "invalid"), ("none", "valid")}


def test_a_verified_arm_is_in_the_lake_with_the_commit_and_the_machine(
    d1: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Minimal:
        def __init__(self, arm: Arm, run_dir: Path, *_: object) -> None:
            self.arm, self.run_dir = arm, run_dir

        def run(self) -> Path:
            write_minimal(self.run_dir, d1, self.arm.name)  # type: ignore[arg-type]
            return self.run_dir

    monkeypatch.setattr(verify, "Conductor", Minimal)
    results = list(verify.verify([d1], tmp_path, Console(quiet=True), lake=tmp_path / "lake"))
    assert [one.outcome for one in results] == ["as expected", "as expected"]
    rows = {one["scenario"]: one for one in Lake(tmp_path / "lake").table("runs").to_pylist()}
    broken = rows["gallery-D1-broken"]
    assert (broken["verdict"], broken["as_expected"], broken["anomalies"]) == ("invalid", True, ["duplicate"])
    assert (broken["system"], bool(broken["version"]), bool(broken["machine"])) == ("kafka 4.4.0", True, True)
    assert rows["gallery-D1-twin"]["verdict"] == "valid"


def test_an_arm_for_which_something_is_missing_here_does_not_end_the_others(
    d1: Entry, verdicts: dict[str, Verdict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Missing:
        def __init__(self, *_: object) -> None:
            pass

        def run(self) -> Path:
            raise UsageError("there is no go on PATH", remedy="install Go")

    monkeypatch.setattr(verify, "Conductor", Missing)
    out = Console(width=100, record=True, file=io.StringIO())
    results = list(verify.verify([d1], tmp_path, out))
    assert [(one.outcome, one.words) for one in results] == [("missing", "missing: there is no go on PATH")] * 2
    assert "there is no go on PATH\n    install Go" in out.export_text()
    assert status_of(results) == 254
    assert status_of([*results, result(d1, TWIN, None)]) == 254
    assert status_of([*results, result(d1, TWIN, verdicts["invalid"])]) == 1


def test_a_run_directory_is_never_used_twice(tmp_path: Path) -> None:
    assert free_directory(tmp_path / "a") == tmp_path / "a"
    (tmp_path / "a").mkdir()
    (tmp_path / "a-2").mkdir()
    assert free_directory(tmp_path / "a") == tmp_path / "a-3"

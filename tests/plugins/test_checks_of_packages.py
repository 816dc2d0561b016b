"""The check of a package decides a verdict like ours; whatever goes wrong with it makes the verdict unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from squall.results.check import check_run, verdict_of
from squall.results.checkers import check_plugins
from squall.results.checkers.check_plugins import Check, Outcome, Proof, wrong_with_check
from squall.results.checkers.common.anomaly import Anomaly
from squall.results.checkers.engine.engines import InProcess
from squall.results.checkers.plugin_checks import plugin_results
from squall.results.history.history import History
from squall.results.history.manifest import PLUGINS, Manifest
from squall.results.report.render import plain, verdict_lines
from squall.results.synthetic.forge import forge_run, healthy
from squall.results.verdict.verdict import Verdict

LATE = Anomaly("my_late_ack", "an acknowledgement was late", "an ack was late", "acks were late", "the clock")


@dataclass
class Plugged:
    """One plugin named `mine`."""

    made: Any
    names: tuple[str, ...] = ("mine",)
    loaded: list[str] = field(default_factory=list)

    def load(self, name: str) -> Any:
        self.loaded.append(name)
        if isinstance(self.made, Exception):
            raise self.made
        return self.made

    def origin(self, name: str) -> str:
        return "squall-mine 1.2"


Look = Callable[[History, Manifest, float], Any]


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Plugged]:
    def plug_one(made: Any) -> Plugged:
        plugged = Plugged(Check("acks in time", made, (LATE,)) if callable(made) else made)
        monkeypatch.setattr(check_plugins, "_plugins", plugged)
        return plugged

    return plug_one


def judged(directory: Path, *checks: str) -> Verdict:
    run = forge_run(directory / "run", healthy(1), checks=("log", "availability", *(checks or ("mine",))))
    return check_run(run, InProcess())


def test_a_check_that_holds_is_stated_with_its_package(plug: Any, tmp_path: Path) -> None:
    plug(lambda history, manifest, seconds: Outcome(history.table.num_rows, counts={"rows": history.table.num_rows}))
    verdict = judged(tmp_path)
    assert (verdict.verdict, verdict.plugins) == ("valid", {"check mine": "squall-mine 1.2"})
    (summary,) = verdict.further
    assert (summary.statement, summary.holds, summary.plugin) == ("acks in time", True, "squall-mine 1.2")
    assert "acks in time ✔ (check mine of squall-mine 1.2)" in plain(verdict_lines(verdict))
    assert Verdict.load(tmp_path / "run") == verdict


def test_a_violation_makes_the_verdict_invalid_with_its_proof(plug: Any, tmp_path: Path) -> None:
    proof = Proof("my_late_ack", "an ack took 9 s", (("record", "at offset 4"),))
    plug(lambda history, manifest, seconds: Outcome(1, {"my_late_ack": 1}, (proof,)))
    verdict = judged(tmp_path)
    (anomaly,) = verdict.anomalies
    assert (verdict.verdict, anomaly.name, anomaly.where) == ("invalid", "my_late_ack", {"mine": 1})
    assert anomaly.meaning == LATE.meaning
    shown = plain(verdict_lines(verdict))
    assert "mine: an ack took 9 s" in shown and "at offset 4" in shown and "Look at: the clock." in shown
    report = (tmp_path / "run" / "report.html").read_text()
    assert "an ack took 9 s" in report and "An acknowledgement was late." in report
    assert verdict_of(tmp_path / "run").verdict == "invalid"


def raising(history: History, manifest: Manifest, seconds: float) -> Outcome:
    raise ZeroDivisionError("by me")


def leaving(history: History, manifest: Manifest, seconds: float) -> Outcome:
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("look", "reason"),
    [
        (raising, "check mine: the check of squall-mine 1.2 raised ZeroDivisionError: by me"),
        (leaving, "check mine: the check of squall-mine 1.2 raised SystemExit: 0"),
        (lambda *given: Outcome(5, undecided=("too many",)), "check mine: too many"),
        (lambda *given: Outcome(0), "check mine: no conclusive operation was acknowledged: nothing was checked"),
        (lambda *given: True, "raised TypeError: it returned True, which is no Outcome"),
        (lambda *given: Outcome(5, {"lost_write": 1}), "raised ValueError: it reported lost_write, which is none of"),
        (ValueError("package squall-mine 1.2 is broken"), "check mine: package squall-mine 1.2 is broken"),
    ],
)
def test_a_check_without_a_result_makes_the_verdict_unknown(look: Any, reason: str, plug: Any, tmp_path: Path) -> None:
    plug(look)
    verdict = judged(tmp_path)
    assert verdict.verdict == "unknown"
    assert any(reason in one for one in verdict.reasons), verdict.reasons


def test_a_check_whose_package_is_gone_makes_the_verdict_unknown(tmp_path: Path) -> None:
    verdict = judged(tmp_path)
    assert verdict.verdict == "unknown"
    assert any(one.startswith("check mine: unknown check") for one in verdict.reasons)


def test_a_check_that_a_run_does_not_name_is_not_loaded(plug: Any, tmp_path: Path) -> None:
    plugged = plug(raising)
    assert (judged(tmp_path, "log").verdict, plugged.loaded) == ("valid", [])


def test_a_check_is_not_begun_after_the_deadline(plug: Any, tmp_path: Path) -> None:
    plug(raising)
    run = forge_run(tmp_path / "run", healthy(1), checks=("log", "mine"))
    (result,) = plugin_results(run, Manifest.load(run), 0.0)
    assert (result.holds, result.undecided) == (None, ("the time was up before it was looked at",))


def test_the_verdict_names_the_other_plugins_of_a_run(tmp_path: Path) -> None:
    run = forge_run(tmp_path / "run", healthy(1))
    manifest = Manifest.load(run).with_changes(options={PLUGINS: {"fault mine": "squall-mine 1.2"}})
    manifest.save(run)
    verdict = check_run(run, InProcess())
    assert verdict.plugins == {"fault mine": "squall-mine 1.2"}
    assert "plugins: fault mine of squall-mine 1.2" in plain(verdict_lines(verdict))


def test_an_anomaly_of_ours_cannot_be_declared() -> None:
    ours = Anomaly("lost_write", "", "", "", "")
    assert "lost_write, a name that Squall uses itself" in str(wrong_with_check("mine", Check("", raising, (ours,))))

"""Verify entries: conduct the broken version and its twin, judge both histories, and sum up.

Cells, the same schedule over other versions, are conducted and judged in the same way (`cells.py` sums them up). An arm
is as expected if its verdict is the expected one, with the entry's anomaly where it is invalid. A reproduction
that did not happen is *unknown*, and so is an entry of which an arm is unknown: never green. An arm for which this
machine lacks something is *missing*; the others are verified all the same. Statuses are those of a suite: 1 if an arm
is against its expectation, else 254 if one is missing, else 2 if one is unknown, else 0.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from rich.console import Console
from rich.table import Table

from squall.harness.errors import USAGE_EXIT_STATUS, UsageError
from squall.harness.gallery.conduct import Conductor
from squall.harness.gallery.core.entry import BROKEN, TWIN, Arm, Entry
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.history import write_not_reproduced
from squall.harness.lake.runs import add_to_lake
from squall.harness.provenance import machine, versions
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.manifest import Manifest
from squall.results.report.render import verdict_lines
from squall.results.verdict.verdict import Verdict

Outcome = Literal["as expected", "unexpected", "unknown", "missing"]
STATUSES: Final[dict[Outcome, int]] = {"unexpected": 1, "missing": USAGE_EXIT_STATUS, "unknown": 2, "as expected": 0}
"""The exit statuses. Of several outcomes the first in this order decides."""
MARKS: Final[dict[Outcome, str]] = {"as expected": "✔", "unexpected": "✘", "unknown": "?", "missing": "–"}
ARMS: Final = (BROKEN, TWIN)


@dataclass(frozen=True)
class ArmResult:
    """One run of an arm. `verdict` is None if the reproduction did not happen, for the reason in `trouble`.

    It is `missing` if something was not found on this machine.
    """

    arm: Arm
    verdict: Verdict | None
    seconds: float
    run_dir: Path
    trouble: str = ""
    missing: bool = False

    @property
    def outcome(self) -> Outcome:
        return "missing" if self.missing else outcome_of(self.arm, self.verdict)

    @property
    def words(self) -> str:
        """The verdict with its anomalies, or why there is none."""
        if self.verdict is None:
            return f"{self.outcome}: {self.trouble.splitlines()[0]}"
        found = ", ".join(f"{one.name} ({one.count})" for one in self.verdict.anomalies)
        reasons = f": {self.verdict.reasons[0]}" if self.verdict.verdict == "unknown" else ""
        return f"{self.verdict.verdict}{f' ({found})' if found else ''}{reasons}"

    def data(self) -> dict[str, object]:
        """The result for programs."""
        anomalies = {} if self.verdict is None else {one.name: one.count for one in self.verdict.anomalies}
        return {
            "entry": self.arm.entry.name,
            "arm": self.arm.name,
            "ran": self.arm.words,
            "verdict": "unknown" if self.verdict is None else self.verdict.verdict,
            "anomalies": anomalies,
            "expected": self.arm.expects,
            "outcome": self.outcome,
            "seconds": round(self.seconds, 1),
            "run": str(self.run_dir),
            "trouble": self.trouble,
        }


def outcome_of(arm: Arm, verdict: Verdict | None) -> Outcome:
    """Whether a verdict is the arm's expected one; None is that of a reproduction that did not happen."""
    if verdict is None or verdict.verdict == "unknown":
        return "unknown"
    shows = arm.entry.anomaly in {one.name for one in verdict.anomalies}
    if arm.expects == "invalid":
        return "as expected" if verdict.verdict == "invalid" and shows else "unexpected"
    return "as expected" if verdict.verdict == "valid" else "unexpected"


def status_of(results: Sequence[ArmResult]) -> int:
    """Return the exit status of the outcome that decides. Without results it is that of unknown."""
    outcomes = {one.outcome for one in results} or {"unknown"}
    return next(status for outcome, status in STATUSES.items() if outcome in outcomes)


def verify(
    entries: Sequence[Entry], runs_dir: Path, console: Console, *, runs: int = 1, lake: Path | None = None
) -> Iterator[ArmResult]:
    """Yield the result of each arm of each entry, `runs` times; add it to `lake` if one is given."""
    arms = [entry.arm(name) for entry in entries for _ in range(runs) for name in ARMS]
    return verify_arms(arms, runs_dir, console, lake)


def verify_arms(arms: Sequence[Arm], runs_dir: Path, console: Console, lake: Path | None = None) -> Iterator[ArmResult]:
    """Yield the result of each of these runs."""
    for arm in arms:
        result = conduct_and_judge(arm, runs_dir, console)
        if lake is not None and not result.missing:
            add_to_lake(result.run_dir, lake, console)
        yield result


def conduct_and_judge(arm: Arm, runs_dir: Path, console: Console) -> ArmResult:
    """Conduct an arm and judge its history."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    started = datetime.datetime.now(datetime.UTC)
    run_dir = free_directory(runs_dir / f"gallery-{arm.entry.name}" / f"{started:%Y%m%d-%H%M%S}-{arm.name}")
    say(f"{arm.entry.name:<5}{'cell' if arm.is_cell else arm.name:<8}{arm.words}")
    began = time.monotonic()
    try:
        Conductor(arm, run_dir, say).run()
    except NotReproduced as trouble:
        say(f"{'':<13}unknown: {trouble}")
        write_not_reproduced(run_dir, arm, str(trouble), started.isoformat(timespec="seconds"))
        _state_what_ran(run_dir)
        return ArmResult(arm, None, time.monotonic() - began, run_dir, str(trouble))
    except UsageError as trouble:
        say(f"{'':<13}missing: {trouble}")
        return ArmResult(arm, None, time.monotonic() - began, run_dir, str(trouble), missing=True)
    _state_what_ran(run_dir)
    verdict = check_run(run_dir, InProcess())
    result = ArmResult(arm, verdict, time.monotonic() - began, run_dir)
    say(f"{'':<13}{MARKS[result.outcome]} {result.words}   {result.seconds:.1f} s   {run_dir}")
    if verdict.verdict == "invalid":
        for _, line in verdict_lines(verdict, str(run_dir), ""):
            say(f"{'':<13}{line}")
    return result


def _state_what_ran(run_dir: Path) -> None:
    """Add the commit and the machine to a run's manifest."""
    manifest, (code, where) = Manifest.load(run_dir), _provenance()
    manifest.with_changes(versions={**code, **manifest.versions}, machine=dict(where)).save(run_dir)


@cache
def _provenance() -> tuple[Mapping[str, str], Mapping[str, str]]:
    return versions(), machine()


def free_directory(wanted: Path) -> Path:
    """Return the directory, or the same with a number if it exists already."""
    numbered = (wanted.with_name(f"{wanted.name}-{number}") for number in range(2, 1000))
    return next(one for one in (wanted, *numbered) if not one.exists())


def table_of(results: Sequence[ArmResult]) -> Table:
    """The table of all results."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column in ("entry", "arm", "what ran", "expected", "verdict", "time"):
        table.add_column(column, overflow="fold", no_wrap=column in ("entry", "arm", "expected", "time"))
    for one in results:
        expected = f"{one.arm.expects}" + (f" ({one.arm.entry.anomaly})" if one.arm.expects == "invalid" else "")
        table.add_row(
            one.arm.entry.name,
            one.arm.name,
            one.arm.words,
            expected,
            f"{MARKS[one.outcome]} {one.words}",
            f"{one.seconds:.1f} s",
        )
    return table

"""`squall compare A B`: what differs between runs, nights, commits or benchmark files, and whether a gate may pass.

A word is a run's directory, a directory of runs, a benchmark file or a directory of them, a night, several nights,
columns of the lake such as `commit:HASH`, or a run's id or its beginning. Statuses with `--gate`: 0 pass, 1 worse, 2
undecided. Without it the comparison only informs, and the status is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from squall.harness.errors import UsageError
from squall.harness.terminal.console import console
from squall.harness.terminal.documents import JsonOption, print_document
from squall.harness.terminal.lake_options import DEFAULT_LAKE, LakeOption, opened, runs_in
from squall.harness.terminal.time_left import share_done
from squall.harness.yaml_source import suggestion

EXAMPLES: Final = (
    "Examples: squall compare 2026-11-23 2026-11-24 · squall compare runs/smoke/before runs/smoke/after · "
    "squall compare commit:8bf7102 commit:58f3e33 --gate · squall compare --baseline 2026-11-01..2026-11-20 2026-11-24 "
    "--scenario kill · squall compare before.json after.json --gate --margin 3"
)
RUNS: Final = Path("runs")
STATUSES: Final = {"pass": 0, "fail": 1, "undecided": 2}


@dataclass(frozen=True)
class Asked:
    """What is compared, and how it is judged. `margin` is a share."""

    sides: tuple[str, ...]
    metrics: tuple[str, ...]
    scenario: str | None
    lake: Path
    gate: bool
    margin: float
    verdicts_only: bool
    as_json: bool


def compare(
    sides: Annotated[list[str], typer.Argument(metavar="A B…", help="runs, nights, commits or benchmark files")],
    baseline: Annotated[
        str | None, typer.Option(metavar="A", help="what the others are compared with; by default the first")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="only this figure, such as p99; may be given again")
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(metavar="TEXT", help="only scenarios whose name contains this")
    ] = None,
    gate: Annotated[bool, typer.Option("--gate", help="decide: exit status 0 pass, 1 worse, 2 undecided")] = False,
    margin: Annotated[
        float, typer.Option(metavar="PERCENT", help="--gate: a figure may be worse by less than this")
    ] = 5.0,
    verdicts_only: Annotated[
        bool, typer.Option("--verdicts-only", help="--gate: decide by the verdicts, not by figures")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="list every scenario and every figure")] = False,
    as_json: JsonOption = False,
    lake: LakeOption = DEFAULT_LAKE,
) -> int:
    """Compare runs, nights, commits or benchmark files: verdicts, figures and the machine; a gate decides if asked."""
    asked = Asked(
        sides=((baseline,) if baseline is not None else ()) + tuple(sides),
        metrics=tuple(metric or ()),
        scenario=scenario,
        lake=lake,
        gate=gate,
        margin=margin / 100,
        verdicts_only=verdicts_only,
        as_json=as_json,
    )
    return compared(asked, everything=everything)


def compared(asked: Asked, *, everything: bool) -> int:
    """Compare each side with the first, print it, and return the status of the worst. Raises UsageError."""
    from squall.results.regression.side_by_side import NothingInCommon, compare_samples, decide
    from squall.results.regression.words import data, gate_lines, lines
    from squall.results.trends.gate import GateRules

    _refuse_wrong(asked)
    rules = GateRules(margin=asked.margin)
    first, *others = [_sample(word, asked) for word in asked.sides]
    documents, status, out = [], 0, console()
    for number, other in enumerate(others):
        try:
            with share_done(console(aside=asked.as_json), "compare") as on_progress:
                both = compare_samples(first, other, asked.metrics, on_progress)
        except NothingInCommon as different:
            raise UsageError(
                str(different), remedy="compare runs of the same suite, or files of one benchmark"
            ) from None
        result = decide(both, asked.metrics, rules=rules, verdicts_only=asked.verdicts_only) if asked.gate else None
        documents.append(data(both, result))
        said = lines(both, everything=everything) + (gate_lines(result, other) if result is not None else [])
        for line in [] if asked.as_json else ["", *said] if number else said:
            out.print(line, markup=False, highlight=False, soft_wrap=True)
        if result is not None:
            status = max(status, STATUSES[result.outcome], key=(0, 2, 1).index)
    if asked.as_json:
        print_document({"comparisons": documents, "exit_status": status})
    return status


def _refuse_wrong(asked: Asked) -> None:
    if len(asked.sides) < 2:
        raise UsageError(
            f"{asked.sides[0]}: is one side only", remedy="name two: squall compare A B, or --baseline A B"
        )
    if not 0 < asked.margin < 1:
        raise UsageError(f"--margin {asked.margin * 100:g}: must lie between 0 and 100 per cent", remedy="--margin 5")
    if asked.verdicts_only and not asked.gate:
        raise UsageError("--verdicts-only: says what a gate decides by, and none is asked", remedy="add --gate")


def _sample(word: str, asked: Asked) -> Any:
    """Return the sample that a word names. Raises UsageError."""
    from squall.results.regression.benchmark_file import NoBenchmark, benchmark_sample
    from squall.results.regression.sample import Sample

    path = Path(word)
    try:
        if path.is_file():
            found = benchmark_sample(word, [path])
        elif path.is_dir() and (files := _benchmark_files(path)):
            found = benchmark_sample(word, files)
        elif path.is_dir():
            found = Sample.of_runs(word, _of_scenario(_runs_in(path), word, asked.scenario))
        else:
            found = Sample.of_runs(word, _runs_of_lake(word, asked))
    except NoBenchmark as wrong:
        raise UsageError(str(wrong)) from None
    return _with_metrics(found, asked.metrics)


def _with_metrics(found: Any, wanted: Sequence[str]) -> Any:
    """Return the sample if it knows the figures that are asked for. Raises UsageError."""
    from squall.results.regression.metrics import METRICS

    known = {name for _, name in found.repetitions} or set(METRICS)
    for name in wanted:
        if name not in known:
            raise UsageError(f"--metric {name}: {found.name} has no such figure{suggestion(name, known)}")
    return found


def _benchmark_files(directory: Path) -> list[Path]:
    """Return the benchmark files of a directory that has no runs."""
    from squall.results.history.store import is_run

    return [] if is_run(directory) else sorted(path for path in directory.glob("*.json") if path.is_file())


def _runs_in(directory: Path) -> list[Any]:
    """Return the runs at, or below, a directory. Raises UsageError."""
    from squall.results.history.ill_formed import IllFormedHistory
    from squall.results.history.store import is_run
    from squall.results.lake.of_run import entry_of_run
    from squall.results.regression.measured_run import measured_runs

    directories = sorted({found.resolve() for found in runs_in(directory)})
    if not directories:
        problem = "is a run without its manifest (run.json): it was cut off" if is_run(directory) else "holds no run"
        remedy = f"judge what is there: squall check {directory}" if is_run(directory) else "name a run, or its id"
        raise UsageError(f"{directory}: {problem}", remedy=remedy)
    tables: dict[str, list[dict[str, Any]]] = {"runs": []}
    for one in directories:
        try:
            entry = entry_of_run(one)
        except IllFormedHistory as trouble:
            remedy = "another version of Squall may have written it; compare with that one, or leave the run out"
            raise UsageError(str(trouble), remedy=remedy) from None
        for name, columns in entry.tables.items():
            rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
            tables.setdefault(name, []).extend({**row, "key": str(one)} for row in rows)
    return measured_runs(tables)


def _runs_of_lake(word: str, asked: Asked) -> list[Any]:
    """Return the runs that a word selects from the lake, or the run `runs/…` of that name. Raises UsageError."""
    from squall.results.history.store import NoSuchRun, find_run
    from squall.results.regression.selection import NoSuchRuns, run_of_directory, runs_selected, selection

    path = Path(word)
    if path.is_symlink():
        raise UsageError(f"{word}: points to a deleted run", remedy="name another run, or its id")
    try:
        if selection(word) is None:
            if not ("/" in word or path.suffix):
                try:
                    return _of_scenario(_runs_in(find_run(word, RUNS)), word, asked.scenario)
                except NoSuchRun as missing:  # it may be the id of a run in the lake
                    if not asked.lake.is_dir():
                        raise UsageError(str(missing)) from None
            elif path.suffix == ".json" or not asked.lake.is_dir():
                raise UsageError(f"{word}: no such file or directory")
        with opened(asked.lake, as_json=asked.as_json) as lake:
            if "/" in word and selection(word) is None:
                return _deleted(word, run_of_directory(lake, path.resolve()), asked.scenario)
            return runs_selected(lake, word, asked.scenario)
    except NoSuchRuns as missing:
        raise UsageError(str(missing)) from None


def _deleted(word: str, runs: list[Any], scenario: str | None) -> list[Any]:
    """Return the rows that a deleted run has left. Raises UsageError if there are none."""
    if not runs:
        raise UsageError(
            f"{word}: no such directory, and the lake has no rows of a run that lay there",
            remedy="if the run was deleted, name its id: squall runs --json",
        )
    return _of_scenario(runs, word, scenario)


def _of_scenario(runs: list[Any], word: str, scenario: str | None) -> list[Any]:
    found = [one for one in runs if scenario is None or scenario in one.scenario]
    if not found:
        raise UsageError(f"{word}: none of its runs is of a scenario whose name contains {scenario!r}")
    return found

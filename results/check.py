"""Check runs: from their directories to verdicts, in one job of the engine.

    segments → history.parquet → tasks → engine → results → verdict.json, tables/, report.html

A run is closed first, if its control process did not live to do so. All topic-partitions of all runs become
the tasks of one job, because a job has a fixed cost and a run of a suite is small. What cannot be read is
unknown, with file and row; it never takes the other runs with it. What a history holds beside operations on logs is
one task more for each kind (`checks/further.py`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from squall.results.checks.engines import AnyTask, Checked, CheckedFurther, Engine, TaskFailure, Unchecked
from squall.results.checks.further import FurtherResult, FurtherTask, check_further
from squall.results.checks.kernels.series import Frame
from squall.results.checks.partition import Task, check_table
from squall.results.checks.result import PartitionResult
from squall.results.history import (
    FUNCTIONS,
    History,
    IllFormedHistory,
    close_history,
    cut_off_segments,
    layout,
    read_cluster,
    read_faults,
    torn_lines,
    validate,
)
from squall.results.kinds import LIST_APPEND, recorded_files, write_kind
from squall.results.lists import holds_lists, transactions_of
from squall.results.manifest import Manifest
from squall.results.parquet_files import read_columns
from squall.results.report import write_report
from squall.results.required import windows_of
from squall.results.tables import Series, bucket_width, series_of
from squall.results.text import several
from squall.results.verdict import Verdict, ill_formed, judge
from squall.results.witness import Surroundings

_NEEDED = ["op_id", "process", "f", "invoked", "completed", "type"]


@dataclass(frozen=True)
class Prepared:
    """A run that can be checked: what is known about it, and its tasks."""

    run_dir: Path
    manifest: Manifest
    around: Surroundings
    frame: Frame
    torn: int
    tasks: tuple[AnyTask, ...]


@dataclass(frozen=True)
class Found:
    """What the tasks of a run found, and those for which there was no time."""

    results: list[PartitionResult]
    further: list[FurtherResult]
    unchecked: list[str]


def check_runs(
    run_dirs: Sequence[Path], engine: Engine, *, report: bool = True, budget: float | None = None
) -> list[Verdict]:
    """Check runs and write verdict, tables and report beside each. One verdict per run, in their order.

    After `budget` seconds nothing more is begun: what was found until then stands, and the rest is unknown.
    """
    began = time.perf_counter()
    deadline = None if budget is None else time.time() + budget
    prepared: list[Prepared | Verdict] = []
    for number, run_dir in enumerate(run_dirs):
        prepared.append(_prepared_or_verdict(number, Path(run_dir), deadline))
    ready = [one for one in prepared if isinstance(one, Prepared)]
    outcomes = engine.check([task for one in ready for task in one.tasks])
    results: defaultdict[int, list[PartitionResult]] = defaultdict(list)
    further: defaultdict[int, list[FurtherResult]] = defaultdict(list)
    failures: dict[int, TaskFailure] = {}
    unchecked: defaultdict[int, list[str]] = defaultdict(list)
    for outcome in outcomes:
        if isinstance(outcome, Checked):
            results[outcome.result.run].append(outcome.result)
        elif isinstance(outcome, CheckedFurther):
            further[outcome.run].append(outcome.result)
        elif isinstance(outcome, Unchecked):
            unchecked[outcome.run].append(outcome.name)
        else:
            failures[outcome.run] = outcome
    seconds = time.perf_counter() - began
    verdicts = []
    for number, (run_dir, one) in enumerate(zip(run_dirs, prepared, strict=True)):
        if isinstance(one, Prepared) and number in failures:
            failure = failures[number]
            one = ill_formed(one.manifest, str(IllFormedHistory(failure.file, failure.row, failure.problem)))
        found = Found(results[number], further[number], unchecked[number])
        verdicts.append(_conclude(Path(run_dir), one, found, engine.name, seconds, report))
    return verdicts


def check_run(run_dir: Path, engine: Engine, *, report: bool = True, budget: float | None = None) -> Verdict:
    """Check a single run."""
    return check_runs([run_dir], engine, report=report, budget=budget)[0]


def verdict_of(run_dir: Path) -> Verdict:
    """The verdict alone, from what was recorded, without a file being written: for runs that nobody will look at."""
    manifest = None
    began = time.perf_counter()
    try:
        manifest = Manifest.load(run_dir)
        history = History.load(run_dir)
        _require_ends(manifest, history.source, history.cut_off)
        frame = _frame(history.table, manifest)
        results = [
            check_table(_task(0, "", topic, partition, (), frame, manifest), table.combine_chunks())
            for topic, partition, table in history.parts()
            if partition >= 0
        ]
        tables = dict(history.further)
        if holds_lists(manifest.workload):
            tables[LIST_APPEND] = transactions_of(history.table)
        further = [check_further(name, kind, manifest.workload) for name, kind in tables.items()]
    except IllFormedHistory as trouble:
        return ill_formed(manifest, str(trouble))
    around = Surroundings(frame.start, tuple(read_faults(run_dir)), tuple(read_cluster(run_dir)))
    seconds = time.perf_counter() - began
    return judge(manifest, results, around, further=further, torn=history.torn, engine="in memory", seconds=seconds)


def _prepared_or_verdict(number: int, run_dir: Path, deadline: float | None) -> Prepared | Verdict:
    manifest = None
    try:
        manifest = Manifest.load(run_dir)
        return _prepare(number, run_dir, manifest, deadline)
    except IllFormedHistory as trouble:
        return ill_formed(manifest, str(trouble))


def _prepare(number: int, run_dir: Path, manifest: Manifest, deadline: float | None) -> Prepared:
    path = close_history(run_dir)
    _require_ends(manifest, path, cut_off_segments(path))
    columns = read_columns(path, _NEEDED)
    places = layout(path)
    validate(columns, path)
    frame = _frame(columns, manifest)
    if holds_lists(manifest.workload):
        write_kind(run_dir, LIST_APPEND, transactions_of(History.load(run_dir).table))
    logs = [
        _task(number, str(path.resolve()), place.topic, place.partition, place.row_groups, frame, manifest, deadline)
        for place in places
        if place.partition >= 0
    ]
    further = [
        FurtherTask(number, str(table.resolve()), name, manifest.workload, deadline)
        for name, table in recorded_files(run_dir).items()
    ]
    around = Surroundings(frame.start, tuple(read_faults(run_dir)), tuple(read_cluster(run_dir)))
    return Prepared(run_dir, manifest, around, frame, torn_lines(path), (*logs, *further))


def _require_ends(manifest: Manifest, source: Path, cut_off: int) -> None:
    """A run that ended in good order closed its segments. Where one has no end nevertheless, somebody cut it off: what
    is missing might explain whatever looks wrong, so nothing is certain. Raises IllFormedHistory.
    """
    if cut_off and manifest.completed and not manifest.trouble:
        problem = f"{several(cut_off, 'segment')} of a run that ended in good order lack their end"
        raise IllFormedHistory(
            source, None, f"{problem}: they were cut off afterwards, and what is left proves nothing"
        )


def _task(
    number: int,
    path: str,
    topic: str,
    partition: int,
    row_groups: tuple[int, ...],
    frame: Frame,
    manifest: Manifest,
    deadline: float | None = None,
) -> Task:
    return Task(
        run=number,
        path=path,
        topic=topic,
        partition=partition,
        row_groups=row_groups,
        frame_start=frame.start,
        frame_width=frame.width,
        frame_end=frame.end,
        linearizable_reads=manifest.profile == "lin",
        windows=tuple(
            (frame.start + round(start * 1e9), frame.start + round(end * 1e9))
            for start, end in windows_of(manifest.require)
        ),
        deadline=deadline,
    )


def _frame(columns: pa.Table, manifest: Manifest) -> Frame:
    """The time axis of a run: from the start of its load to its last completion."""
    invoked = np.asarray(columns["invoked"])
    if len(invoked) == 0:
        return Frame(manifest.load_started or 0, bucket_width(0), manifest.load_started or 0)
    start = manifest.load_started if manifest.load_started is not None else int(invoked.min())
    last = max(int(invoked.max()), pc.max(columns["completed"]).as_py() or 0)
    sent = invoked[np.asarray(columns["f"]) == FUNCTIONS["send"]]
    end = manifest.load_ended if manifest.load_ended is not None else int(sent.max(initial=start))
    return Frame(start, bucket_width(last - start), end)


def _conclude(
    run_dir: Path,
    one: Prepared | Verdict,
    found: Found,
    engine: str,
    seconds: float,
    report: bool,
) -> Verdict:
    """Judge, and write everything down."""
    if isinstance(one, Verdict):
        if run_dir.is_dir():
            one.save(run_dir)
        return one
    verdict = judge(
        one.manifest,
        found.results,
        one.around,
        further=found.further,
        unchecked=found.unchecked,
        torn=one.torn,
        engine=engine,
        seconds=seconds,
    )
    series: Series = series_of(found.results, one.frame)
    series.save(run_dir)
    verdict.save(run_dir)
    if report:
        write_report(run_dir, one.manifest, verdict, series, one.around, one.frame)
    return verdict

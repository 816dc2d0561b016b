"""Check runs: turn run directories into verdicts, in one job of the engine.

    segments → history.parquet → tasks → engine → results → verdict.json, tables/, report.html

A run whose control process died before it closed the history is closed first. All topic-partitions of all runs become
tasks of one job, because a job has a fixed cost and a run of a suite is small. A run is concluded when its own tasks
are done, while those of other runs continue. A history that cannot be read makes its run unknown, with file and row;
other runs are not affected.

A huge topic-partition becomes many tasks (`checkers/log/slices.py`), and one more task in a second job if these do not
prove that it is free of anomalies. Each kind of operation other than those on logs is one more task
(`checkers/further.py`). Further tasks of the same job check whether the history is well-formed
(`checkers/engine/well_formed_task.py`); if it is not, or if time runs out before that is known, no finding in it
counts. The control process reads only the footer of a closed history, so that its memory grows with tasks and not with
operations; only lists (`lists.py`) are made into transactions here. Checks of installed packages are carried out in the
control process when a run is concluded (`plugin_checks.py`).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Final

from squall.results.checkers.common.tally import Aggregator
from squall.results.checkers.common.text import several
from squall.results.checkers.engine.engines import (
    AnyTask,
    Checked,
    CheckedFurther,
    CheckedSlice,
    Engine,
    LookedOver,
    Outcome,
    TaskFailure,
)
from squall.results.checkers.engine.well_formed_task import (
    ONE_AT_A_TIME,
    RECORDED_ONCE,
    WellFormedTask,
    first_breach,
    well_formed_tasks,
)
from squall.results.checkers.further import FurtherResult, FurtherTask, check_further
from squall.results.checkers.kernels.series import Frame
from squall.results.checkers.log.declared_losses import DeclaredLoss, declared_losses
from squall.results.checkers.log.figures import Measured, settled
from squall.results.checkers.log.partition import Task, check_table
from squall.results.checkers.log.result import PartitionResult
from squall.results.checkers.log.slices import SliceTask
from squall.results.checkers.log.slicing import HUGE_ROWS, Parts, sliced
from squall.results.checkers.plugin_checks import plugin_results
from squall.results.history.history import (
    History,
    Origin,
    TopicPartitionRows,
    close_history,
    cut_off_segments,
    layout,
    origin_of,
    read_cluster,
    read_faults,
    read_watched,
    require_run,
    torn_lines,
)
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.lists import holds_lists, recorded_beside, transactions_of
from squall.results.history.manifest import SYSTEM, Manifest
from squall.results.history.operation_tables import (
    KINDS,
    LIST_APPEND,
    REGISTERS,
    recorded_files,
    require_owner,
    write_kind,
)
from squall.results.history.parquet_files import kept_open
from squall.results.history.row_groups import RowGroup, Span, row_groups_beside, row_groups_of, span_of, stored_span
from squall.results.history.segments import segment_path
from squall.results.history.store import is_run
from squall.results.history.well_formed import Breach
from squall.results.report.report import write_report
from squall.results.report.tables import Series, bucket_width, series_of
from squall.results.verdict.required import windows_of
from squall.results.verdict.verdict import Verdict, ill_formed, judge
from squall.results.witnesses.witness import Surroundings

OUT_OF_TIME: Final = "the time limit expired before the history was found well-formed: no finding in it can be trusted"
WELL_FORMED_COSTS: Final = {RECORDED_ONCE: 0.05, ONE_AT_A_TIME: 0.3}
"""As a share of what the check of a log costs per row."""
FURTHER_COSTS: Final = 0.1
"""The cost of another check per byte, in rows of a log."""


Job = tuple[int, AnyTask, int]
"""The number of a run, one of its tasks, and the size of the task in rows of a log."""


@dataclass(frozen=True)
class Prepared:
    """A run that can be checked: the facts about it, and its tasks."""

    run_dir: Path
    history: Path
    manifest: Manifest
    around: Surroundings
    frame: Frame
    torn: int
    rows: int
    """The number of operations on logs."""
    tasks: tuple[AnyTask, ...]
    sizes: tuple[int, ...]
    in_slices: Mapping[str, tuple[Task, int]] = field(default_factory=dict)
    """The topic-partitions that are checked in slices, by name: the task that checks each as a whole, and its rows."""

    def place_of(self, row: int) -> tuple[str, int]:
        """Return file and row of an operation on a log or on a register; register rows are numbered after log rows."""
        if row < self.rows:
            return str(self.history), row
        return str(self.history.with_name(KINDS[REGISTERS].file)), row - self.rows

    def jobs(self, number: int) -> list[Job]:
        """Return the run's tasks as jobs of the run with this number."""
        return [(number, task, size) for task, size in zip(self.tasks, self.sizes, strict=True)]


@dataclass
class Found:
    """What the tasks of a run found, and the tasks for which there was no time."""

    results: list[PartitionResult] = field(default_factory=list)
    slices: defaultdict[str, list[tuple[SliceTask, CheckedSlice]]] = field(default_factory=lambda: defaultdict(list))
    measured: dict[str, Measured] = field(default_factory=dict)
    counted: Aggregator = field(default_factory=Aggregator)
    further: list[FurtherResult] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    breaches: list[Breach] = field(default_factory=list)
    unread: list[TaskFailure] = field(default_factory=list)
    failures: list[TaskFailure] = field(default_factory=list)
    looked_over: bool = True

    def add(self, task: AnyTask, outcome: Outcome) -> None:
        """Add the outcome of a task."""
        if isinstance(outcome, Checked):
            self.results.append(outcome.result)
            if outcome.counts is not None:
                self.counted.add(outcome.counts)
        elif isinstance(outcome, CheckedSlice):
            assert isinstance(task, SliceTask)
            self.slices[task.name].append((task, outcome))
        elif isinstance(outcome, Measured):
            self.measured[outcome.result.name] = outcome
        elif isinstance(outcome, CheckedFurther):
            self.further.append(outcome.result)
        elif isinstance(outcome, LookedOver):
            self.breaches += [] if outcome.breach is None else [outcome.breach]
        elif isinstance(outcome, TaskFailure):
            (self.unread if isinstance(task, WellFormedTask) else self.failures).append(outcome)
        elif isinstance(task, WellFormedTask):
            self.looked_over = False
        elif outcome.name not in self.unchecked:
            self.unchecked.append(outcome.name)

    def settle(self, in_slices: Mapping[str, tuple[Task, int]]) -> list[tuple[Task, int]]:
        """Combine slices into results; return the topic-partitions to be checked as a whole, with their rows."""
        again = []
        for name, whole in in_slices.items():
            if self.failures or name in self.unchecked:
                continue
            tasks, slices = zip(*self.slices[name], strict=True)
            result = settled(
                self.measured[name], tasks[0].closing, tasks[0].several_clocks, [one.result for one in slices]
            )
            if result is None:
                again.append(whole)
                continue
            self.results.append(result)
            for one in slices:
                self.counted.add(one.counts)
        return again

    def problem(self, one: Prepared) -> str | None:
        """Why nothing can be concluded from the history: it is unreadable, ill-formed, or not decided in time."""
        breach = first_breach(self.breaches)
        told = [
            *((failure.file, failure.row, failure.problem) for failure in self.unread),
            *([] if breach is None else [(*one.place_of(breach.row), breach.problem)]),
            *((failure.file, failure.row, failure.problem) for failure in self.failures),
        ]
        if told:
            return str(IllFormedHistory(*told[0]))
        return None if self.looked_over else OUT_OF_TIME


@dataclass
class Laps:
    """Shares the seconds of a command among its runs, so that they add up to those of the command.

    Runs are checked in one job, several at a time. The time between the end of one run and the end of the next counts
    for the latter.
    """

    last: float = field(default_factory=time.perf_counter)
    seconds: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))

    def count(self, number: int) -> float:
        """Count the time since the last call for this run; return its seconds so far."""
        now = time.perf_counter()
        self.seconds[number] += now - self.last
        self.last = now
        return self.seconds[number]


def check_runs(
    run_dirs: Sequence[Path],
    engine: Engine,
    *,
    report: bool = True,
    budget: float | None = None,
    huge: int = HUGE_ROWS,
) -> list[Verdict]:
    """Check runs and write verdict, tables and report beside each. Return one verdict per run, in their order.

    After `budget` seconds no further task is begun: what was found until then stands, and the rest is unknown. A
    topic-partition of `huge` rows or more is checked in slices if the engine carries out several tasks at once.
    """
    deadline = None if budget is None else time.time() + budget
    prepared: list[Prepared | Verdict] = []
    laps = Laps()
    for number, run_dir in enumerate(run_dirs):
        prepared.append(_prepared_or_verdict(number, Path(run_dir), deadline, huge if engine.at_once > 1 else None))
        laps.count(number)
    found: defaultdict[int, Found] = defaultdict(Found)
    verdicts: dict[int, Verdict] = {}

    def conclude(number: int) -> None:
        run_dir, one, seconds = Path(run_dirs[number]), prepared[number], laps.count(number)
        verdicts[number] = _conclude(run_dir, one, found.pop(number, Found()), engine.name, seconds, report, deadline)

    there: dict[int, Prepared] = {}
    for number, one in enumerate(prepared):
        if isinstance(one, Prepared) and one.tasks:
            there[number] = one
        else:
            conclude(number)
    jobs = [job for number, one in there.items() for job in one.jobs(number)]
    again: list[Job] = []
    for number in _carried_out(jobs, engine, found):
        wholes = found[number].settle(there[number].in_slices)
        again += [(number, *whole) for whole in wholes]
        if not wholes:
            conclude(number)
    for number in _carried_out(again, engine, found):
        conclude(number)
    return [verdicts[number] for number in range(len(prepared))]


def _carried_out(jobs: Sequence[Job], engine: Engine, found: Mapping[int, Found]) -> Iterator[int]:
    """Run the jobs in one job of the engine; yield the number of each run as soon as all its own tasks are done."""
    if not jobs:
        return
    left = Counter(number for number, _, _ in jobs)
    known: defaultdict[int, list[tuple[int, Outcome]]] = defaultdict(list)
    for place, outcome in engine.check([task for _, task, _ in jobs], [size for _, _, size in jobs]):
        number = jobs[place][0]
        known[number].append((place, outcome))
        if len(known[number]) == left[number]:
            for task_place, one in sorted(known.pop(number), key=itemgetter(0)):
                found[number].add(jobs[task_place][1], one)
            yield number


def check_run(
    run_dir: Path, engine: Engine, *, report: bool = True, budget: float | None = None, huge: int = HUGE_ROWS
) -> Verdict:
    """Check a single run."""
    return check_runs([run_dir], engine, report=report, budget=budget, huge=huge)[0]


def verdict_of(run_dir: Path) -> Verdict:
    """Return the verdict from what was recorded, without writing a file: for runs whose report will not be read."""
    manifest = None
    began = time.perf_counter()
    try:
        manifest = Manifest.load(run_dir)
        history = History.load(run_dir, run_id=manifest.run_id, kinds=recorded_beside(manifest.workload))
        _require_whole(manifest, history.source, history.cut_off, history.origin)
        frame = _frame(manifest, span_of(history.table))
        losses = declared_losses(read_cluster(run_dir))
        results = [
            check_table(
                _task(0, "", topic, partition, (), frame, manifest, losses=losses.get((topic, partition), ())),
                table.combine_chunks(),
            )
            for topic, partition, table in history.parts()
            if partition >= 0
        ]
        tables = dict(history.further)
        if holds_lists(manifest.workload):
            tables[LIST_APPEND] = transactions_of(history.table)
        further = [check_further(name, kind, manifest.workload) for name, kind in tables.items()]
    except IllFormedHistory as trouble:
        return ill_formed(manifest, str(trouble))
    further += plugin_results(run_dir, manifest, None)
    around = _around(run_dir, frame)
    seconds = time.perf_counter() - began
    return judge(manifest, results, around, further=further, torn=history.torn, engine="in memory", seconds=seconds)


def _around(run_dir: Path, frame: Frame) -> Surroundings:
    faults, cluster, watched = read_faults(run_dir), read_cluster(run_dir), read_watched(run_dir)
    return Surroundings(frame.start, tuple(faults), tuple(cluster), tuple(watched))


def _prepared_or_verdict(number: int, run_dir: Path, deadline: float | None, huge: int | None) -> Prepared | Verdict:
    manifest = None
    try:
        manifest = Manifest.load(run_dir)
        return _prepare(number, run_dir, manifest, deadline, huge)
    except IllFormedHistory as trouble:
        return ill_formed(manifest, str(trouble))


def _prepare(number: int, run_dir: Path, manifest: Manifest, deadline: float | None, huge: int | None) -> Prepared:
    with kept_open():
        path = close_history(run_dir)
        _require_whole(manifest, path, cut_off_segments(path), origin_of(path))
        groups, places, torn = row_groups_of(path), layout(path), torn_lines(path)
        frame = _frame(manifest, stored_span(path, groups, sends_matter=manifest.load_ended is None))
        losses = declared_losses(read_cluster(run_dir))
        wholes = list(_log_tasks(number, path.resolve(), places, frame, manifest, losses, deadline))
        slices = {} if huge is None else {one.name: sliced(one, rows, huge) for one, rows in wholes}
    if holds_lists(manifest.workload):
        lists = transactions_of(History.load(run_dir, kinds=()).table)
        write_kind(run_dir, LIST_APPEND, lists, run_id=manifest.run_id)
    tables = recorded_files(run_dir)
    for name, table in tables.items():
        require_owner(table, name, manifest.run_id)
    tasks = [
        *_well_formed_tasks(number, path.resolve(), groups, tables.get(REGISTERS), deadline),
        *_in_parts(wholes, slices),
        *_further_tasks(number, tables, manifest, deadline),
    ]
    return Prepared(
        run_dir=run_dir,
        history=path,
        manifest=manifest,
        around=_around(run_dir, frame),
        frame=frame,
        torn=torn,
        rows=sum(one.rows for one in groups),
        tasks=tuple(task for task, _ in tasks),
        sizes=tuple(round(size) for _, size in tasks),
        in_slices={one.name: (one, rows) for one, rows in wholes if slices.get(one.name)},
    )


Sized = tuple[AnyTask, float]
"""A task and its size in rows of a log."""


def _well_formed_tasks(
    number: int, path: Path, groups: Sequence[RowGroup], registers: Path | None, deadline: float | None
) -> Iterator[Sized]:
    """Yield the tasks that check whether the history is well-formed, with their sizes.

    Operations on registers share ids and processes with those on logs, and the rules apply to both together.
    """
    beside = None if registers is None else registers.resolve()
    if beside is not None:
        groups = [*groups, *row_groups_beside(path, beside)]
    rows = {(one.beside, one.number): one.rows for one in groups}
    for task in well_formed_tasks(number, path, groups, deadline, registers=beside):
        matter = [(False, one) for one in task.row_groups] + [(True, one) for one in task.register_groups]
        yield task, WELL_FORMED_COSTS[task.rule] * sum(rows[one] for one in matter)


def _log_tasks(
    number: int,
    path: Path,
    places: Sequence[TopicPartitionRows],
    frame: Frame,
    manifest: Manifest,
    losses: Mapping[tuple[str, int], tuple[DeclaredLoss, ...]],
    deadline: float | None,
) -> Iterator[tuple[Task, int]]:
    for one in places:
        if one.partition >= 0:
            lost = losses.get((one.topic, one.partition), ())
            yield (
                _task(number, str(path), one.topic, one.partition, one.row_groups, frame, manifest, lost, deadline),
                one.rows,
            )


def _in_parts(wholes: Sequence[tuple[Task, int]], slices: Mapping[str, Parts]) -> Iterator[Sized]:
    for whole, rows in wholes:
        parts = slices.get(whole.name)
        if parts:
            yield from parts
        else:
            yield whole, rows


def _further_tasks(
    number: int, tables: Mapping[str, Path], manifest: Manifest, deadline: float | None
) -> Iterator[Sized]:
    for name, table in tables.items():
        task = FurtherTask(number, str(table.resolve()), name, manifest.workload, manifest.run_id, deadline)
        yield task, FURTHER_COSTS * table.stat().st_size


def _require_whole(manifest: Manifest, source: Path, cut_off: int, origin: Origin) -> None:
    """Require a history of this run, with the segments of all its workers, closed if the run ended in good order.

    If a segment is missing or lacks its end nevertheless, it was removed or cut off afterwards. The missing part might
    explain an apparent anomaly or contain a real one, so nothing is certain. Raises IllFormedHistory.
    """
    require_run(source, origin, manifest.run_id)
    if manifest.segments is not None and origin.segments is not None:
        missing = sorted(set(range(manifest.segments)) - set(origin.segments))
        if missing:
            names = ", ".join(segment_path("", one).name for one in missing)
            problem = f"lacks {names} of {several(manifest.segments, 'segment')}: an incomplete history proves nothing"
            raise IllFormedHistory(source, None, problem)
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
    losses: tuple[DeclaredLoss, ...] = (),
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
        keeps_deletions=SYSTEM not in manifest.options,
        keeps_front=manifest.keeps_front,
        windows=tuple(
            (frame.start + round(start * 1e9), frame.start + round(end * 1e9))
            for start, end in windows_of(manifest.require)
        ),
        losses=losses,
        deadline=deadline,
    )


def _frame(manifest: Manifest, span: Span | None) -> Frame:
    """The time axis of a run: from the start of its load to its last completion."""
    if span is None:
        return Frame(manifest.load_started or 0, bucket_width(0), manifest.load_started or 0)
    start = span.first if manifest.load_started is None else manifest.load_started
    end = max(start, span.last_send) if manifest.load_ended is None else manifest.load_ended
    return Frame(start, bucket_width(span.last - start), end)


def _conclude(
    run_dir: Path,
    one: Prepared | Verdict,
    found: Found,
    engine: str,
    seconds: float,
    report: bool,
    deadline: float | None,
) -> Verdict:
    """Judge a run, and write verdict, tables and report."""
    problem = None if isinstance(one, Verdict) else found.problem(one)
    if not isinstance(one, Verdict) and problem is not None:
        one = ill_formed(one.manifest, problem)
    if isinstance(one, Verdict):
        if is_run(run_dir):
            one.save(run_dir)
        return one
    verdict = judge(
        one.manifest,
        found.results,
        one.around,
        further=[*found.further, *plugin_results(run_dir, one.manifest, deadline)],
        unchecked=found.unchecked,
        latencies=found.counted.counts.latencies,
        torn=one.torn,
        engine=engine,
        seconds=seconds,
    )
    series: Series = series_of(found.results, found.counted.counts, one.frame)
    series.save(run_dir)
    verdict.save(run_dir)
    if report:
        write_report(run_dir, one.manifest, verdict, series, one.around, one.frame)
    return verdict

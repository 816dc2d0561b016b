"""Run tasks: the interface of engines, and the engine that works in process.

The kernels are the same under each.

A task is one topic-partition of a run (`partition.py`) or a part of a huge one (`slices.py`, `figures.py`), all
operations of another kind that a run holds (`further.py`), or a part of the check whether its history is well-formed
(`well_formed_task.py`). `InProcess` runs tasks one after the other; `SparkEngine` (`spark.py`) has Spark schedule them.
A task whose rows cannot be read yields a `TaskFailure`, so that one broken run does not affect the others.

Tasks come with their sizes, in rows, because the scheduler needs them (`schedule.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from typing import Protocol

import msgspec

from squall.results.checkers.common.tally import Aggregator, Counts
from squall.results.checkers.engine.well_formed_task import WellFormedTask, check_well_formed
from squall.results.checkers.further import FurtherResult, FurtherTask, check_further_task
from squall.results.checkers.log.figures import FiguresTask, Measured, measure
from squall.results.checkers.log.partition import Task, check_task
from squall.results.checkers.log.result import PartitionResult
from squall.results.checkers.log.slices import Slice, SliceTask, check_slice
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.parquet_files import kept_open
from squall.results.history.well_formed import Breach

AnyTask = Task | SliceTask | FiguresTask | FurtherTask | WellFormedTask


class TaskFailure(msgspec.Struct, frozen=True, tag="failure"):
    """A task that could not read its rows."""

    run: int
    file: str
    row: int | None
    problem: str


class Checked(msgspec.Struct, frozen=True, tag="checked"):
    """A topic-partition that was checked, and its counts; None if they were added to those of another one."""

    result: PartitionResult
    counts: Counts | None


class CheckedSlice(msgspec.Struct, frozen=True, tag="checked-slice"):
    """The result of a slice of a huge topic-partition, and its counts."""

    run: int
    result: Slice
    counts: Counts


class CheckedFurther(msgspec.Struct, frozen=True, tag="checked-further"):
    """Operations of another kind that were checked, as far as there was time."""

    run: int
    result: FurtherResult


class LookedOver(msgspec.Struct, frozen=True, tag="looked-over"):
    """The result of a check whether operations are well-formed, and the first breach."""

    run: int
    breach: Breach | None


class Unchecked(msgspec.Struct, frozen=True, tag="unchecked"):
    """A task for which there was no time; `name` is its topic-partition, or the rule of a well-formed history."""

    run: int
    name: str


Outcome = Checked | CheckedSlice | Measured | CheckedFurther | LookedOver | TaskFailure | Unchecked


class Engine(Protocol):
    """Runs tasks and yields each outcome, with the task's number, as soon as it is known.

    `sizes` are the numbers of rows that the tasks read.
    """

    name: str

    @property
    def at_once(self) -> int:
        """The number of tasks that are carried out at the same time."""
        ...

    def check(self, tasks: Sequence[AnyTask], sizes: Sequence[int]) -> Iterator[tuple[int, Outcome]]: ...


Progress = Callable[[float], None]
"""A callback that receives how much of a job is done, from 0 to 1."""


class InProcess:
    """Runs tasks one after the other in this process. `on_progress`, if set, is called after each."""

    name = "in process"
    at_once = 1

    def __init__(self) -> None:
        self.on_progress: Progress | None = None

    def check(self, tasks: Sequence[AnyTask], sizes: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
        with kept_open(rows_as_well=True):
            found = list(added_up(self._outcomes(tasks, sizes)))
        yield from enumerate(found)

    def _outcomes(self, tasks: Sequence[AnyTask], sizes: Sequence[int]) -> Iterator[Outcome]:
        total = max(1, sum(sizes))
        for task, done in zip(tasks, accumulate(sizes), strict=True):
            yield outcome_of(task)
            if self.on_progress is not None:
                self.on_progress(done / total)


def added_up(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Yield the same outcomes, with the counts of consecutive topic-partitions of one run added to the last of them."""
    aggregator = Aggregator()
    for one, following in pairwise(chain(outcomes, [None])):
        if isinstance(one, Checked) and one.counts is not None:
            aggregator.add(one.counts)
            if isinstance(following, Checked) and following.result.run == one.result.run:
                yield Checked(one.result, None)
            else:
                yield Checked(one.result, aggregator.counts)
                aggregator = Aggregator()
        elif one is not None:
            yield one


def outcome_of(task: AnyTask) -> Outcome:
    """Carry out one task, if there is time."""
    if not isinstance(task, FurtherTask) and task.deadline is not None and time.time() > task.deadline:
        return Unchecked(task.run, task.rule if isinstance(task, WellFormedTask) else task.name)
    try:
        if isinstance(task, FurtherTask):
            return CheckedFurther(task.run, check_further_task(task))
        if isinstance(task, WellFormedTask):
            return LookedOver(task.run, check_well_formed(task))
        if isinstance(task, SliceTask):
            return CheckedSlice(task.run, *check_slice(task))
        if isinstance(task, FiguresTask):
            return measure(task)
        return Checked(*check_task(task))
    except IllFormedHistory as trouble:
        return TaskFailure(task.run, trouble.file, trouble.row, trouble.problem)


def encode_task(task: AnyTask) -> bytes:
    return msgspec.msgpack.encode(task)


def decode_task(data: bytes) -> AnyTask:
    return msgspec.msgpack.decode(data, type=AnyTask)


def encode_outcome(outcome: Outcome) -> bytes:
    return msgspec.msgpack.encode(outcome)


def decode_outcome(data: bytes) -> Outcome:
    return msgspec.msgpack.decode(data, type=Outcome)

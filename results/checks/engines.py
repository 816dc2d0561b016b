"""Drivers: who runs the tasks. The kernels are the same under each.

A task is one topic-partition of a run (`partition.py`), or all operations of another kind that a run holds
(`further.py`). `InProcess` runs tasks one after the other; `SparkEngine` (`spark.py`) has Spark schedule them. A task
whose rows cannot be read yields a `TaskFailure`, so that one broken run does not take the others with it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from squall.results.checks.further import FurtherResult, FurtherTask, check_further_task
from squall.results.checks.partition import Task, check_task
from squall.results.checks.result import PartitionResult
from squall.results.segments import IllFormedHistory

AnyTask = Task | FurtherTask


class TaskFailure(msgspec.Struct, frozen=True, tag="failure"):
    """A task that could not read its rows."""

    run: int
    file: str
    row: int | None
    problem: str


class Checked(msgspec.Struct, frozen=True, tag="checked"):
    """A topic-partition that was checked."""

    result: PartitionResult


class CheckedFurther(msgspec.Struct, frozen=True, tag="checked-further"):
    """Operations of another kind that were checked, as far as there was time."""

    run: int
    result: FurtherResult


class Unchecked(msgspec.Struct, frozen=True, tag="unchecked"):
    """A task for which there was no time; `name` is its topic-partition."""

    run: int
    name: str


Outcome = Checked | CheckedFurther | TaskFailure | Unchecked


class Engine(Protocol):
    """Runs tasks; the order of outcomes is that of the tasks."""

    name: str

    def check(self, tasks: Sequence[AnyTask]) -> list[Outcome]: ...


class InProcess:
    """One after the other, here."""

    name = "in process"

    def check(self, tasks: Sequence[AnyTask]) -> list[Outcome]:
        return [outcome_of(task) for task in tasks]


def outcome_of(task: AnyTask) -> Outcome:
    """Carry out one task, if there is time."""
    if isinstance(task, FurtherTask):
        return _outcome_of_further(task)
    if task.deadline is not None and time.time() > task.deadline:
        return Unchecked(task.run, task.name)
    try:
        return Checked(check_task(task))
    except IllFormedHistory as trouble:
        return TaskFailure(task.run, trouble.file, trouble.row, trouble.problem)


def _outcome_of_further(task: FurtherTask) -> Outcome:
    try:
        return CheckedFurther(task.run, check_further_task(task))
    except IllFormedHistory as trouble:
        return TaskFailure(task.run, trouble.file, trouble.row, trouble.problem)


def encode_task(task: AnyTask) -> bytes:
    return msgspec.msgpack.encode(task)


def decode_task(data: bytes) -> AnyTask:
    return msgspec.msgpack.decode(data, type=Task | FurtherTask)


def encode_outcome(outcome: Outcome) -> bytes:
    return msgspec.msgpack.encode(outcome)


def decode_outcome(data: bytes) -> Outcome:
    return msgspec.msgpack.decode(data, type=Checked | CheckedFurther | TaskFailure | Unchecked)

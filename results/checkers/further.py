"""Run the checks other than that of logs, one for each kind of operations (`results/history/operation_tables.py`).

A history is judged by what it contains: each kind that is present is checked, whether or not a suite names it, and a
kind that a suite names and that is missing makes the verdict unknown. A check takes the table of its kind and the facts
of the workload, and returns plain values: anomalies by name, how much was checked, what could not be decided, and a few
witnesses with the operations that prove them. A check of nothing proves nothing.

Which checks there are is declared in the folders of their rules, and listed in `registry.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from squall.results.checkers.common.anomaly import Anomaly
from squall.results.checkers.common.check import Facts, Instance, Outcome, Proof
from squall.results.checkers.groups.facts import GroupWitness
from squall.results.checkers.registers.result import RegisterWitness
from squall.results.checkers.registry import FURTHER_CHECKS
from squall.results.checkers.replicas.facts import ReplicaWitness
from squall.results.checkers.transactions.facts import TransactionWitness
from squall.results.checkers.transactions.log_facts import LogWitness
from squall.results.history.operation_tables import KINDS, read_kind
from squall.results.history.rows import TYPES


class PluginWitness(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of an anomaly that a check describes in words itself, as those of installed packages do."""

    title: str
    lines: tuple[tuple[str, str], ...]
    meaning: str
    hint: str


class FurtherWitness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One instance of an anomaly: of a register, transactions, a transactional log, a group, of replicas, or of a check
    that describes it in words.

    `verdict.json` contains it, so that these fields and their types are part of a file format.
    """

    anomaly: str
    register: RegisterWitness | None = None
    transactions: TransactionWitness | None = None
    log: LogWitness | None = None
    group: GroupWitness | None = None
    replica: ReplicaWitness | None = None
    plugin: PluginWitness | None = None


class FurtherResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check, and what it rests on.

    `checked` operations were checked, `acknowledged` of all were acknowledged; `counts` says more, in words. `noted` is
    counted but no anomaly; `undecided` are sentences.
    """

    check: str
    statement: str
    checked: int
    acknowledged: int
    counts: tuple[tuple[str, int], ...]
    anomalies: dict[str, int]
    noted: dict[str, int]
    witnesses: tuple[FurtherWitness, ...]
    undecided: tuple[str, ...]
    milliseconds: float
    plugin: str = ""
    """The package, with its version, whose check this is; empty for ours."""
    meanings: dict[str, str] = {}
    """What the anomalies of a plugin's check mean; ours are in the registry."""

    @property
    def holds(self) -> bool | None:
        """Whether the statement holds; None if that is unknown."""
        if self.anomalies:
            return False
        return None if self.undecided or not self.checked else True


class FurtherTask(msgspec.Struct, frozen=True, tag="further"):
    """The operations of one kind in a run: where their table lies, and the facts needed to check them."""

    run: int
    path: str
    kind: str
    workload: dict[str, Any]
    run_id: str
    """The run that the table must belong to; the task that reads the table checks this."""
    deadline: float | None = None
    """As the deadline of a topic-partition's task."""


MOST_SECONDS: Final = 120.0
"""The most seconds that one check may take, unless the deadline is earlier."""

_OUT_OF_TIME: Final = Outcome[Instance](0, undecided=("the time limit expired before it was checked",))


def check_further_task(task: FurtherTask) -> FurtherResult:
    """Read the table of a task and check it. Raises IllFormedHistory."""
    table = read_kind(Path(task.path), task.kind, task.run_id)
    return check_further(task.kind, table, task.workload, deadline=task.deadline)


def check_further(name: str, table: pa.Table, workload: Facts, *, deadline: float | None = None) -> FurtherResult:
    """Check the table of one kind. Raises IllFormedHistory.

    After the deadline (as of `time.time`) no further step is begun; what was found until then stands, and the rest is
    undecided.
    """
    began = time.perf_counter()
    check = FURTHER_CHECKS[name]
    seconds = MOST_SECONDS if deadline is None else min(MOST_SECONDS, deadline - time.time())
    found = check.look(table, workload, seconds) if seconds > 0 else _OUT_OF_TIME
    return FurtherResult(
        check=name,
        statement=check.statement,
        checked=found.checked,
        acknowledged=int((np.asarray(table["type"]) == TYPES["ok"]).sum()) if "type" in KINDS[name].schema.names else 0,
        counts=tuple(found.counts.items()),
        anomalies=dict(found.anomalies),
        noted=dict(found.noted),
        witnesses=tuple(
            in_words(one, check.anomalies) if isinstance(one, Proof) else _with_facts(one, check.proof)
            for one in found.proofs
        ),
        undecided=found.undecided,
        milliseconds=(time.perf_counter() - began) * 1000,
    )


def _with_facts(one: Instance, field: str) -> FurtherWitness:
    facts: dict[str, Any] = {field: one}
    return FurtherWitness(anomaly=one.anomaly, **facts)


def in_words(one: Proof, anomalies: Iterable[Anomaly]) -> FurtherWitness:
    """The witness of a check that describes its proofs in words, with what their anomaly means."""
    declared = {anomaly.name: anomaly for anomaly in anomalies}[one.anomaly]
    told = PluginWitness(title=one.title, lines=one.lines, meaning=declared.meaning, hint=declared.hint)
    return FurtherWitness(anomaly=one.anomaly, plugin=told)

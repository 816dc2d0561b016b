"""Run the checks other than that of logs, one for each kind of operations (`results/history/operation_tables.py`).

A history is judged by what it contains: each kind that is present is checked, whether or not a suite names it, and a
kind that a suite names and that is missing makes the verdict unknown. A check takes the table of its kind and the facts
of the workload, and returns plain values: anomalies by name, how much was checked, what could not be decided, and a few
witnesses with the operations that prove them. A check of nothing proves nothing.

    registers           linearizability of each register (`checks/registers/`)
    list-append         cycles of dependencies (`checkers/transactions/list_append.py`). The workload's `model` says
                        what must hold, strict serializability if it says nothing; what only a stronger model
                        forbids is noted
    transactional-log   T1 to T4 (`checkers/transactions/log_rules.py`)
    groups              G1 to G5 (`checkers/groups/rules.py`)
    replicas            what in-sync replicas hold after the run (`checkers/replicas/logs.py`)
    control-plane       metadata logs and control traces of the nodes (`checkers/replicas/control.py`)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from squall.results.checkers.common.text import several
from squall.results.checkers.groups.facts import GroupWitness, group_witnesses
from squall.results.checkers.groups.rules import GROUP_FUNCTIONS, check_groups
from squall.results.checkers.registers.result import RegisterWitness
from squall.results.checkers.replicas.control import judge_control
from squall.results.checkers.replicas.facts import Findings, ReplicaWitness
from squall.results.checkers.replicas.logs import compare_all
from squall.results.checkers.replicas.tables import control_in, topic_partitions_in
from squall.results.checkers.transactions.facts import TransactionWitness
from squall.results.checkers.transactions.list_append import MODELS, check_list_append
from squall.results.checkers.transactions.log_facts import LogWitness, log_witnesses
from squall.results.checkers.transactions.log_rules import check_transactional_log
from squall.results.history.operation_tables import (
    CONTROL_PLANE,
    GROUPS,
    KINDS,
    LIST_APPEND,
    REGISTERS,
    REPLICAS,
    TRANSACTIONAL_LOG,
    read_kind,
)
from squall.results.history.rows import TYPES

STRICTEST: Final = "strict-serializable"


class Timed(Protocol):
    """An operation of any kind, as a witness holds it."""

    @property
    def invoked(self) -> int: ...

    @property
    def completed(self) -> int | None: ...


class PluginWitness(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of an anomaly that the check of an installed package found, in its words."""

    title: str
    lines: tuple[tuple[str, str], ...]
    meaning: str
    hint: str


class FurtherWitness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One instance of an anomaly: of a register, transactions, a transactional log, a group, of replicas, or of a
    plugin's check.
    """

    anomaly: str
    register: RegisterWitness | None = None
    transactions: TransactionWitness | None = None
    log: LogWitness | None = None
    group: GroupWitness | None = None
    replica: ReplicaWitness | None = None
    plugin: PluginWitness | None = None

    @property
    def span(self) -> tuple[int, int]:
        """From the first invocation to the last known completion of the proving operations; replicas have none."""
        proof: Sequence[Timed] = (
            (self.register.operations if self.register else ())
            or (self.transactions.transactions if self.transactions else ())
            or (self.log.transactions if self.log else ())
            or (self.group.operations if self.group else ())
        )
        ends = [one.completed if one.completed is not None else one.invoked for one in proof]
        return min(one.invoked for one in proof), max(ends)


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


Facts = Mapping[str, Any]
MOST_SECONDS: Final = 120.0
"""The most seconds that one check may take, unless the deadline is earlier."""


@dataclass(frozen=True)
class _Found:
    """The result of a check, before its time is added."""

    checked: int
    counts: tuple[tuple[str, int], ...]
    anomalies: dict[str, int]
    witnesses: Iterable[FurtherWitness]
    undecided: tuple[str, ...]
    noted: Mapping[str, int] = field(default_factory=dict)


_OUT_OF_TIME: Final = _Found(0, (), {}, (), ("the time limit expired before it was checked",))


@dataclass(frozen=True)
class FurtherCheck:
    """One check: what it states if nothing is wrong, and the function that checks."""

    statement: str
    look: Callable[[pa.Table, Facts, float], _Found]
    """Takes a table, the facts of the workload, and the seconds available."""


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
        counts=found.counts,
        anomalies=found.anomalies,
        noted=dict(found.noted),
        witnesses=tuple(found.witnesses),
        undecided=found.undecided,
        milliseconds=(time.perf_counter() - began) * 1000,
    )


def _registers(table: pa.Table, workload: Facts, seconds: float) -> _Found:
    # imported here: it needs pandas, which takes longer to load than most logs take to check
    from squall.results.checkers.registers.check import Limits, check_registers

    result = check_registers(table, limits=Limits(seconds=seconds))
    more = result.undecided_count - len(result.undecided)
    return _Found(
        checked=result.checked,
        counts=(
            ("operations", table.num_rows),
            ("registers", result.registers),
            ("decided by zones", result.by_zones),
            ("decided by search", result.by_search),
        ),
        anomalies=result.anomalies,
        witnesses=(FurtherWitness(anomaly=one.anomaly, register=one) for one in result.witnesses),
        undecided=(*result.undecided, *((f"and {several(more, 'register')} more",) if more else ())),
    )


def _list_append(table: pa.Table, workload: Facts, seconds: float) -> _Found:
    model = str(workload.get("model", STRICTEST))
    if model not in MODELS:
        return _Found(0, (), {}, (), (f"the workload's model {model!r} is not one of {', '.join(MODELS)}",))
    result = check_list_append(table, seconds=seconds)
    forbidden = MODELS[model]
    return _Found(
        checked=result.transactions.get("ok", 0) if result.elements else 0,
        counts=(
            ("transactions", sum(result.transactions.values())),
            ("operations", result.micro_operations),
            ("elements read", result.elements),
            ("keys", result.keys),
        ),
        anomalies={name: count for name, count in result.anomalies.items() if name in forbidden},
        witnesses=(
            FurtherWitness(anomaly=one.anomaly, transactions=one)
            for one in result.witnesses
            if one.anomaly in forbidden
        ),
        undecided=result.undecided,
        noted={name: count for name, count in result.anomalies.items() if name not in forbidden},
    )


def _transactional_log(table: pa.Table, workload: Facts, seconds: float) -> _Found:
    result = check_transactional_log(table, seconds=seconds)
    return _Found(
        checked=table.num_rows if result.records else 0,
        counts=(("transactions and polls", table.num_rows), ("records read", result.records)),
        anomalies=result.counts,
        witnesses=(FurtherWitness(anomaly=one.anomaly, log=one) for one in log_witnesses(table, result)),
        undecided=result.undecided,
    )


def _groups(table: pa.Table, workload: Facts, seconds: float) -> _Found:
    result = check_groups(table)
    missing = [f"no {name} was acknowledged" for name in GROUP_FUNCTIONS if not result.checked.get(name)]
    return _Found(
        checked=sum(result.checked.values()),
        counts=tuple((f"{name} operations", count) for name, count in result.checked.items()),
        anomalies=result.counts,
        witnesses=(FurtherWitness(anomaly=one.anomaly, group=one) for one in group_witnesses(table, result.instances)),
        undecided=result.undecided or tuple(missing),
    )


MOST_UNDECIDED: Final = 5


def _replicas(table: pa.Table, workload: Facts, seconds: float) -> _Found:
    found = compare_all(topic_partitions_in(table), Findings(KINDS[REPLICAS].file))
    return _of_nodes(found, found.looked_at["records"], "no in-sync replica held a record: nothing was compared")


def _control_plane(table: pa.Table, workload: Facts, seconds: float) -> _Found:
    found = judge_control(*control_in(table), Findings(KINDS[CONTROL_PLANE].file))
    return _of_nodes(found, found.looked_at["metadata batches"], "no metadata log could be read: nothing was checked")


def _of_nodes(found: Findings, checked: int, nothing: str) -> _Found:
    undecided = found.undecided or ([] if checked else [nothing])
    more = len(undecided) - MOST_UNDECIDED
    return _Found(
        checked=checked,
        counts=tuple(found.looked_at.items()),
        anomalies=dict(found.anomalies),
        witnesses=[FurtherWitness(anomaly=one.anomaly, replica=one) for one in found.witnesses],
        undecided=(*undecided[:MOST_UNDECIDED], *((f"and {more} more like these",) if more > 0 else ())),
        noted=dict(found.noted),
    )


FURTHER_CHECKS: Final[Mapping[str, FurtherCheck]] = {
    REGISTERS: FurtherCheck("linearizable registers", _registers),
    LIST_APPEND: FurtherCheck("transactions in an order that explains their reads", _list_append),
    TRANSACTIONAL_LOG: FurtherCheck("transactions whole and never read before they are committed", _transactional_log),
    GROUPS: FurtherCheck("groups share nothing and lose no position", _groups),
    REPLICAS: FurtherCheck("in-sync replicas equal and complete", _replicas),
    CONTROL_PLANE: FurtherCheck("one leader an epoch, committed metadata kept", _control_plane),
}

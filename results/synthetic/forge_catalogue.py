"""List what can be forged, by kind of history, and write it as runs.

A *case* is a healthy history of a seed with one change. A *family* has the cases of one kind. It can find what they
should raise (in memory, with the kernels alone) and write a history as a run directory, which goes the whole way to a
verdict. Tests, benchmarks and `squall forge` share this catalogue.

Sizes: a log is forged topic-partition by topic-partition, registers group by group, each part in its own segment, so
that memory does not grow with the size; a case changes the first part. The other kinds are forged in one piece. A large
healthy log is forged in columns, and has no segments.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from squall.results.checkers.further import check_further
from squall.results.checkers.groups.rules import check_groups
from squall.results.checkers.log.partition import Task, check_table
from squall.results.checkers.log.result import PartitionResult
from squall.results.checkers.registers.check import check_registers
from squall.results.checkers.registers.operations import RegisterOperation, register_table
from squall.results.checkers.registry import LOG
from squall.results.checkers.replicas.tables import control_table, replica_table
from squall.results.checkers.transactions.list_append import check_list_append
from squall.results.checkers.transactions.log_rules import check_transactional_log
from squall.results.history.history import history_of, joined
from squall.results.history.manifest import Manifest, TopicFacts
from squall.results.history.operation_tables import (
    CONTROL_PLANE,
    GROUPS,
    LIST_APPEND,
    REGISTERS,
    REPLICAS,
    TRANSACTIONAL_LOG,
    write_kind,
)
from squall.results.history.segments import (
    HistoryWriter,
    RegisterCompletion,
    RegisterInvocation,
    SegmentHeader,
    segment_path,
)
from squall.results.synthetic import (
    forge,
    forge_cycles,
    forge_groups,
    forge_log_transactions,
    forge_registers,
    forge_replicas,
)
from squall.results.synthetic.forge import ORIGIN, Forge, Forged, forge_run, rows_of, write_operations
from squall.results.synthetic.forge_transactions import healthy_table, table_of
from squall.results.synthetic.forge_wide import forge_wide

LOG_PART: Final = 20_000
"""The most operations of a topic-partition; the processes of different topic-partitions are distinct."""
WIDE_OPERATIONS: Final = 200_000
"""From this size on, a healthy log is forged in columns (`forge_wide.py`)."""
REGISTER_PART: Final = 50_000
PART_PROCESSES: Final = 1 << 20
Found = dict[str, int]
Change = Callable[[Any, random.Random], Any]


@dataclass(frozen=True)
class Case:
    """One way to change a healthy history: the anomaly it must raise, None for a near-miss."""

    name: str
    anomaly: str | None
    history: Callable[[int], Any]
    """Makes the history from a seed, in the usual small size."""
    part: Callable[[int, int], Any]
    """Makes the history from a seed and a number of operations."""


@dataclass(frozen=True)
class Family:
    """The histories of one kind.

    `exact`: a case raises its own anomaly and no other. `write` makes the run directory of about so many operations,
    changed by a case if there is one, and returns how many operations it has.
    """

    kind: str
    healthy: Callable[[int], Any]
    cases: tuple[Case, ...]
    found: Callable[[Any], Found]
    write: Callable[[Path, int, int, Case | None], int]
    exact: bool = True

    @property
    def injections(self) -> tuple[Case, ...]:
        return tuple(one for one in self.cases if one.anomaly is not None)

    @property
    def near_misses(self) -> tuple[Case, ...]:
        return tuple(one for one in self.cases if one.anomaly is None)

    def case(self, name: str) -> Case:
        """Return the case with this name. Raises KeyError."""
        return {one.name: one for one in self.cases}[name]


def _cases(
    injections: Mapping[str, tuple[str, Change]],
    near_misses: Mapping[str, Change],
    healthy: Callable[[int], Any],
    sized: Callable[[int, int], Any],
) -> tuple[Case, ...]:
    listed: list[tuple[str, str | None, Change]] = [(name, *one) for name, one in injections.items()]
    listed += [(name, None, change) for name, change in near_misses.items()]
    return tuple(
        Case(name, anomaly, _spoilt(healthy, change), _spoilt_part(sized, change)) for name, anomaly, change in listed
    )


def _spoilt(healthy: Callable[[int], Any], change: Change) -> Callable[[int], Any]:
    return lambda seed: change(healthy(seed), random.Random(seed))


def _spoilt_part(sized: Callable[[int, int], Any], change: Change) -> Callable[[int, int], Any]:
    return lambda seed, operations: change(sized(seed, operations), random.Random(seed))


def parts(operations: int, most: int) -> list[int]:
    """Divide operations into equal parts of at most `most`."""
    count = -(-operations // most)
    return [operations // count + (number < operations % count) for number in range(count)]


# Logs -----------------------------------------------------------------------------------------------------------------

SHARE_OF_SENDS: Final = 0.88


def _log_part(seed: int, operations: int, partition: int = 0) -> list[Forged]:
    return Forge(seed, max(20, round(operations * SHARE_OF_SENDS)), partition).operations


def checked_log(
    operations: Sequence[Forged],
    *,
    linearizable_reads: bool = False,
    keeps_deletions: bool = True,
    keeps_front: bool = False,
) -> PartitionResult:
    """Check operations of events-0 as if they came from a segment. The options are those of a `Task`."""
    rows = enumerate(rows_of(list(operations)), 2)
    history = history_of([joined(Path("segment"), SegmentHeader("forged", 0), rows)], 0, Path("history"))
    task = Task(
        0,
        "",
        "events",
        0,
        (),
        ORIGIN,
        10**9,
        ORIGIN + 10**9,
        linearizable_reads,
        keeps_deletions=keeps_deletions,
        keeps_front=keeps_front,
    )
    return check_table(task, history.of("events", 0))


def _write_log(run_dir: Path, seed: int, operations: int, case: Case | None) -> int:
    if case is None and operations >= WIDE_OPERATIONS:
        return forge_wide(run_dir, operations, seed=seed)
    count, ended = 0, 0
    sizes = parts(operations, LOG_PART)
    for number, size in enumerate(sizes):
        history = case.part(seed, size) if case is not None and number == 0 else _log_part(seed, size, number)
        write_operations(segment_path(run_dir, number), history, SegmentHeader(f"forged-{seed}", number))
        count += len(history)
        ended = max(ended, *(one.completed or one.invoked for one in history if one.f == "send"))
    _manifest(run_dir, seed, LOG, case).with_changes(
        topics={"events": TopicFacts(partitions=len(sizes))},
        segments=len(sizes),
        load_ended=ORIGIN + ended,
        checks=("log", "availability"),
    ).save(run_dir)
    return count


def _manifest(run_dir: Path, seed: int, kind: str, case: Case | None) -> Manifest:
    """Make the manifest of a run that ended well without a fault."""
    return Manifest(
        run_id=f"forged-{seed}",
        scenario="forged",
        seed=seed,
        description="" if case is None else case.name,
        topics={},
        load_started=ORIGIN,
        completed=True,
        checks=(kind,),
        fault_free=True,
        min_acknowledged=1,
        final_read="complete",
    )


# Registers ------------------------------------------------------------------------------------------------------------


def _register_cases() -> Iterator[Case]:
    for name, case in (forge_registers.REGISTER_INJECTIONS | forge_registers.REGISTER_NEAR_MISSES).items():
        yield Case(name, case.anomaly, case.history, case.history)


def _write_registers(run_dir: Path, seed: int, operations: int, case: Case | None) -> int:
    count, sizes = 0, parts(operations, REGISTER_PART)
    for number, size in enumerate(sizes):
        spoilt = case is not None and number == 0
        history = case.part(seed, size) if spoilt and case else forge_registers.healthy_registers(seed + number, size)
        _write_register_part(run_dir, seed, number, history)
        count += len(history)
    _manifest(run_dir, seed, REGISTERS, case).with_changes(segments=len(sizes)).save(run_dir)
    return count


def _write_register_part(run_dir: Path, seed: int, number: int, history: Sequence[RegisterOperation]) -> None:
    """Write one segment, with its own registers and processes."""
    header = SegmentHeader(f"forged-{seed}", number)
    rows: list[tuple[int, int, RegisterInvocation | RegisterCompletion]] = []
    for place, one in enumerate(_one_at_a_time(history)):
        process = one.process + number * PART_PROCESSES
        begun, name = one.invoked + ORIGIN, one.register if number == 0 else f"{one.register} of part {number}"
        asked = RegisterInvocation(one.f, process, 0, begun, begun, name, one.value, one.expected)
        rows.append((begun, 2 * place + 1, asked))
        if one.completed is not None:
            ended = one.completed + ORIGIN
            answer = RegisterCompletion(
                process, one.type, ended, one.found, one.version, one.refused, one.error  # type: ignore[arg-type]
            )  # fmt: skip
            rows.append((ended, 2 * place, answer))
    with HistoryWriter(segment_path(run_dir, number), header) as writer:
        for _, _, row in sorted(rows, key=lambda each: each[:2]):
            if isinstance(row, RegisterInvocation):
                writer.invoke(row)
            else:
                writer.complete(row)


def _one_at_a_time(history: Sequence[RegisterOperation]) -> list[RegisterOperation]:
    """Return the same operations; one that begins while its process is busy moves to a fresh process."""
    free: dict[int, float] = {}
    fresh, made = PART_PROCESSES // 2, []
    for one in sorted(history, key=lambda each: (each.invoked, each.completed or each.invoked)):
        if free.get(one.process, -1) >= one.invoked:
            fresh += 1
            one = replace(one, process=fresh)
        free[one.process] = float("inf") if one.completed is None or one.type == "info" else one.completed
        made.append(one)
    return made


# Transactions and groups ----------------------------------------------------------------------------------------------


def _write_table(
    kind: str, healthy: Callable[[int, int], pa.Table], table: Callable[[Any], pa.Table]
) -> Callable[[Path, int, int, Case | None], int]:
    """Return a function that writes the table of a kind beside a history without operations on logs."""

    def write(run_dir: Path, seed: int, operations: int, case: Case | None) -> int:
        made = healthy(seed, operations) if case is None else table(case.part(seed, operations))
        forge_run(run_dir, [], seed=seed)
        manifest = _manifest(run_dir, seed, kind, case)
        write_kind(run_dir, kind, _since_origin(made), run_id=manifest.run_id)
        manifest.save(run_dir)
        return made.num_rows

    return write


def _since_origin(table: pa.Table) -> pa.Table:
    for name in ("invoked", "completed") if "invoked" in table.schema.names else ():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), pc.add(table[name], ORIGIN))
    return table


def _generations(operations: int) -> int:
    """The number of generations of a group in about so many operations."""
    return max(6, operations // 25)


def _sized_group(seed: int, operations: int) -> forge_groups.History:
    return forge_groups.healthy_group(seed, _generations(operations))


def _sized_log(seed: int, operations: int) -> forge_log_transactions.History:
    return forge_log_transactions.healthy_log(seed, max(40, round(operations * 0.85)))


def _replica_table(replicas: forge_replicas.Replicas) -> pa.Table:
    return replica_table((one, {}) for one in replicas)


def _control_table(plane: forge_replicas.ControlPlane) -> pa.Table:
    return control_table(plane.quorum, plane.logs, plane.records, plane.events)


def _sized_replicas(seed: int, operations: int) -> forge_replicas.Replicas:
    return forge_replicas.healthy_replicas(seed, max(5, operations))


def _sized_control(seed: int, operations: int) -> forge_replicas.ControlPlane:
    return forge_replicas.healthy_control(seed, max(5, operations))


FAMILIES: Final[Mapping[str, Family]] = {
    LOG: Family(
        LOG,
        forge.healthy,
        _cases(forge.INJECTIONS, forge.NEAR_MISSES, forge.healthy, _log_part),
        lambda history: checked_log(history).anomalies,
        _write_log,
        exact=False,
    ),
    REGISTERS: Family(
        REGISTERS,
        forge_registers.healthy_registers,
        tuple(_register_cases()),
        lambda history: check_registers(register_table(history)).anomalies,
        _write_registers,
    ),
    LIST_APPEND: Family(
        LIST_APPEND,
        forge_cycles.healthy_transactions,
        _cases(
            forge_cycles.INJECTIONS,
            forge_cycles.NEAR_MISSES,
            forge_cycles.healthy_transactions,
            forge_cycles.healthy_transactions,
        ),
        lambda history: check_list_append(table_of(history)).anomalies,
        _write_table(LIST_APPEND, healthy_table, table_of),
    ),
    TRANSACTIONAL_LOG: Family(
        TRANSACTIONAL_LOG,
        forge_log_transactions.healthy_log,
        _cases(
            forge_log_transactions.INJECTIONS,
            forge_log_transactions.NEAR_MISSES,
            forge_log_transactions.healthy_log,
            _sized_log,
        ),
        lambda history: check_transactional_log(forge_log_transactions.log_table(history)).counts,
        _write_table(
            TRANSACTIONAL_LOG,
            lambda seed, operations: forge_log_transactions.log_table(_sized_log(seed, operations)),
            forge_log_transactions.log_table,
        ),
    ),
    GROUPS: Family(
        GROUPS,
        forge_groups.healthy_group,
        _cases(forge_groups.INJECTIONS, forge_groups.NEAR_MISSES, forge_groups.healthy_group, _sized_group),
        lambda history: check_groups(forge_groups.group_table(history)).counts,
        _write_table(
            GROUPS,
            lambda seed, operations: forge_groups.group_table(_sized_group(seed, operations)),
            forge_groups.group_table,
        ),
    ),
    REPLICAS: Family(
        REPLICAS,
        forge_replicas.healthy_replicas,
        _cases(
            forge_replicas.REPLICA_INJECTIONS,
            forge_replicas.REPLICA_NEAR_MISSES,
            forge_replicas.healthy_replicas,
            _sized_replicas,
        ),
        lambda history: check_further(REPLICAS, _replica_table(history), {}).anomalies,
        _write_table(
            REPLICAS, lambda seed, operations: _replica_table(_sized_replicas(seed, operations)), _replica_table
        ),
    ),
    CONTROL_PLANE: Family(
        CONTROL_PLANE,
        forge_replicas.healthy_control,
        _cases(
            forge_replicas.CONTROL_INJECTIONS,
            forge_replicas.CONTROL_NEAR_MISSES,
            forge_replicas.healthy_control,
            _sized_control,
        ),
        lambda plane: check_further(CONTROL_PLANE, _control_table(plane), {}).anomalies,
        _write_table(
            CONTROL_PLANE, lambda seed, operations: _control_table(_sized_control(seed, operations)), _control_table
        ),
        exact=False,
    ),
}
"""By kind of history."""

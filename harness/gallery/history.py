"""Histories of the gallery: a minimal one from an entry's file, and that of a reproduction, each as a run."""

from __future__ import annotations

import heapq
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

from squall.harness.gallery.core.clients import Sent
from squall.harness.gallery.core.entry import Arm, ArmName, Entry, Operation
from squall.harness.gallery.core.observations import Marked, Position, Read
from squall.results.checkers.registers.declaration import REGISTER_CHECK
from squall.results.history.manifest import SYSTEM, Expected, Manifest, TopicFacts
from squall.results.history.segments import (
    ABSENT,
    ACKS_ALL,
    EventWriter,
    FaultWindow,
    HistoryWriter,
    RegisterCompletion,
    RegisterInvocation,
    SegmentHeader,
    segment_path,
)
from squall.results.synthetic.forge import ORIGIN, Forged, write_operations

MILLISECOND: Final = 1_000_000
SENDER, READER = 0, 1
SESSION: Final = 0
FIRST_OF_POSITIONS: Final = 1_000_000
"""Processes of operations on positions are numbered from here."""


def write_minimal(run_dir: Path, entry: Entry, arm: ArmName) -> None:
    """Write an entry's minimal history as a run."""
    listed = entry.minimal.broken if arm == "broken" else entry.minimal.twin
    of_logs = [one for one in listed if one.register_name is None]
    operations = [_forged(one, entry.idempotent) for one in of_logs]
    topics = {one.topic: 1 + max(o.partition for o in of_logs if o.topic == one.topic) for one in of_logs}
    positions = [_position(one) for one in listed if one.register_name is not None]
    write_run(run_dir, entry.arm(arm), operations, topics=topics, faults=(), positions=positions, fault_free=True)


def write_run(
    run_dir: Path,
    arm: Arm,
    operations: Sequence[Forged],
    *,
    topics: dict[str, int],
    faults: Sequence[FaultWindow],
    positions: Sequence[Position] = (),
    began: int = 0,
    fault_free: bool = False,
    trouble: tuple[str, ...] = (),
    findings: tuple[str, ...] = (),
    started: str = "",
    load_ended: int | None = None,
) -> None:
    """Write operations and faults as a run that any check can read. Times are in ns since the load began.

    Without `load_ended` the load ends with its last send. The times of `positions` count from `began`.
    """
    run_id = str(uuid.uuid4())
    write_operations(segment_path(run_dir, 0), list(operations), SegmentHeader(run_id, 0, acks=ACKS_ALL))
    if positions:
        _write_positions(run_dir, run_id, positions, began)
    writer = EventWriter.faults(run_dir)
    for window in faults:
        writer.write(window)
    writer.close()
    last_send = max((one.completed or one.invoked for one in operations if one.f == "send"), default=0)
    _manifest(arm, run_id).with_changes(
        topics={name: TopicFacts(partitions=count, replication_factor=1) for name, count in topics.items()},
        started=started,
        load_started=ORIGIN,
        load_ended=ORIGIN + (last_send if load_ended is None else load_ended),
        completed=True,
        segments=2 if positions else 1,
        checks=(*(("log",) if topics else ()), *((REGISTER_CHECK.name,) if positions else ())),
        fault_free=fault_free,
        faults_planned=0 if fault_free else len(faults),
        min_acknowledged=1,
        final_read="; ".join(("every record, up to the markers", *findings)),
        trouble=trouble,
    ).save(run_dir)


def write_not_reproduced(run_dir: Path, arm: Arm, trouble: str, started: str) -> None:
    """Write the manifest of a reproduction that did not happen: it has no history, and is never judged."""
    _manifest(arm, str(uuid.uuid4())).with_changes(trouble=(trouble,), started=started).save(run_dir)


def scenario_of(entry: str, arm: str) -> str:
    """The scenario's name of an entry's run."""
    return f"gallery-{entry}-{arm}"


def _manifest(arm: Arm, run_id: str) -> Manifest:
    """What a run states of its arm."""
    entry = arm.entry
    return Manifest(
        run_id=run_id,
        scenario=scenario_of(entry.name, arm.name),
        suite=f"suites/gallery/{entry.name}.yaml",
        seed=0,
        description=f"{entry.title}: {arm.words}",
        topics={},
        command=f"squall gallery --verify {f'--table {entry.name} --cell {arm.name}' if arm.is_cell else entry.name}",
        expect=Expected(verdict=arm.expects, anomalies=(entry.anomaly,) if arm.expects == "invalid" else ()),
        workload={"name": "gallery"},
        options={SYSTEM: f"{arm.system.name} {arm.system.version}"},
        versions={"client": arm.client.words},
    )


def operations_of(
    sent: Iterable[Sent], marked: Iterable[Marked], reads: Iterable[Read], *, began: int, idempotent: bool
) -> list[Forged]:
    """The operations of a reproduction. `began` is when the load began, on the clock of their times."""
    processes = _Processes()
    operations = [
        Forged(
            "send",
            processes.of(one),
            SENDER,
            one.invoked - began,
            one.completed - began,
            one.type,
            one.partition,
            one.value,
            one.offset,
            error=one.error,
            idempotent=idempotent,
            topic=one.topic,
        )
        for one in sorted(sent, key=lambda one: one.invoked)
    ]
    operations += [
        Forged(
            "marker",
            processes.fresh(),
            READER,
            one.invoked - began,
            one.completed - began,
            partition=one.partition,
            value=one.value,
            offset=one.offset,
            idempotent=False,
            topic=one.topic,
        )
        for one in marked
    ]
    readers: dict[tuple[str, int], int] = {}
    for one in reads:
        process = readers.setdefault((one.topic, one.partition), processes.fresh())
        times = one.invoked - began, one.completed - began
        operations.append(
            Forged(
                "final_poll",
                process,
                READER,
                *times,
                partition=one.partition,
                run=one.records,
                session=SESSION,
                topic=one.topic,
            )
        )
    return operations


def _write_positions(run_dir: Path, run_id: str, positions: Sequence[Position], began: int) -> None:
    """Write committed positions of groups as registers, each operation by a process of its own."""
    rows: list[tuple[int, int, RegisterInvocation | RegisterCompletion]] = []
    for number, one in enumerate(positions):
        process, begun = FIRST_OF_POSITIONS + number, one.invoked - began + ORIGIN
        written = one.offset if one.f == "write" else None
        rows.append((begun, 1, RegisterInvocation(one.f, process, READER, begun, begun, one.name, written)))
        if one.completed is not None:
            ended = one.completed - began + ORIGIN
            found = one.offset if one.f == "read" and one.offset >= 0 else ABSENT if one.f == "read" else None
            rows.append((ended, 0, RegisterCompletion(process, one.type, ended, found)))
    with HistoryWriter(segment_path(run_dir, 1), SegmentHeader(run_id, 1)) as writer:
        for _, _, row in sorted(rows, key=lambda row: row[:2]):
            if isinstance(row, RegisterInvocation):
                writer.invoke(row)
            else:
                writer.complete(row)


class _Processes:
    """Numbers for processes: one has one operation open at a time, and none after one of unknown outcome."""

    def __init__(self) -> None:
        self._made = 0
        self._free: list[tuple[int, int]] = []
        """When each process is free again, and its number."""

    def fresh(self) -> int:
        self._made += 1
        return self._made

    def of(self, one: Sent) -> int:
        process = heapq.heappop(self._free)[1] if self._free and self._free[0][0] < one.invoked else self.fresh()
        if one.type != "info":
            heapq.heappush(self._free, (one.completed, process))
        return process


def _position(one: Operation) -> Position:
    assert one.register_name is not None and one.value is not None
    begun, ended = one.time
    f: Literal["read", "write"] = "read" if one.f == "read" else "write"
    completed = None if ended is None else ended * MILLISECOND
    return Position(one.register_name, f, begun * MILLISECOND, completed, one.value, one.type)


def _forged(one: Operation, idempotent: bool) -> Forged:
    begun, ended = one.time
    return Forged(
        one.f,
        one.process,
        SENDER if one.f == "send" else READER,
        begun * MILLISECOND,
        None if ended is None else ended * MILLISECOND,
        one.type,
        one.partition,
        one.value,
        one.offset,
        run=one.records,
        session=SESSION if one.records else None,
        idempotent=idempotent if one.f == "send" else False,
        topic=one.topic,
    )

"""Write an imported history as a run, with the names of what became a number."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from squall.results.history.manifest import Imported, Manifest, TopicFacts
from squall.results.history.operation_tables import write_kind
from squall.results.history.rows import Completion, Invocation
from squall.results.history.segments import EventWriter, HistoryWriter, SegmentHeader, segment_path
from squall.results.importing.faults import fault_windows
from squall.results.importing.kafka import is_of_logs, map_logs
from squall.results.importing.lists import is_of_lists, map_lists, map_strings
from squall.results.importing.mapped import Mapped
from squall.results.importing.reading import ForeignHistory, read_history
from squall.results.importing.registers import KV, is_of_registers, map_keys, map_registers

TOOLS: Final = ("jepsen", "elle", "porcupine")
NAMES_FILE: Final = "imported-names.jsonl"


@dataclass(frozen=True)
class Import:
    """What was imported, for people."""

    mapped: Mapped
    history: ForeignHistory
    faults: int
    manifest: Manifest


def mapped_history(tool: str, history: ForeignHistory, *, initial: Any = None) -> Mapped:
    """Map a tool's history. Raises ForeignTrouble for a kind that no check judges."""
    if tool == "porcupine" and {one.f for one in history.operations} <= {"get", "put", "append"}:
        appends = any(one.f == "append" for one in history.operations)
        puts = next((one for one in history.operations if one.f == "put"), None)
        if appends and puts is not None:
            raise history.trouble(
                puts.line,
                "puts and appends in one history have no check",
                f"histories of {' and '.join(KV)} are judged as registers, those of get and append as lists",
            )
        return map_strings(history) if appends else map_keys(history)
    if tool != "elle" and is_of_registers(history):
        return map_registers(history, refusals=tool == "porcupine", initial=initial)
    if tool == "jepsen" and is_of_logs(history):
        return map_logs(history)
    if tool != "porcupine" and is_of_lists(history):
        return map_lists(history)
    first = history.operations[0] if history.operations else None
    known = {
        "jepsen": "jepsen.tests.kafka (send, poll, txn), registers (read, write, cas), list-append",
        "elle": "list-append: [[:append k v] [:r k list]]",
        "porcupine": "registers (read, write, cas), and keys (get with put, or get with append)",
    }[tool]
    what = "has no client operations" if first is None else f"operations such as :f {first.f!r} are not mapped"
    raise history.trouble(first.line if first else None, what, f"of {tool} are judged: {known}")


def import_history(tool: str, file: Path, run_dir: Path, *, model: str | None, initial: Any, command: str) -> Import:
    """Read a file and write it as a run into a directory, which exists and is empty.

    Raises ForeignTrouble before anything is written.
    """
    history = read_history(file)
    mapped = mapped_history(tool, history, initial=initial)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    manifest = _manifest(tool, file, digest, history, mapped, model, command)
    header = SegmentHeader(manifest.run_id, 0)
    with HistoryWriter(segment_path(run_dir, 0), header) as writer:
        for row in _in_order(mapped):
            if isinstance(row, Invocation):
                writer.invoke(row)
            else:
                writer.complete(row)
    for name, table in mapped.tables.items():
        write_kind(run_dir, name, table, run_id=manifest.run_id)
    windows = list(fault_windows(history))
    faults = EventWriter.faults(run_dir)
    for window in windows:
        faults.write(window)
    faults.close()
    _write_names(run_dir, history, mapped)
    manifest.save(run_dir)
    return Import(mapped, history, len(windows), manifest)


def _manifest(
    tool: str, file: Path, digest: str, history: ForeignHistory, mapped: Mapped, model: str | None, command: str
) -> Manifest:
    times = [time for one in history.operations for time in (one.invoked, one.completed) if time is not None]
    return Manifest(
        run_id=f"imported-{digest[:16]}",
        scenario=f"imported-{tool}",
        seed=0,
        description=f"{tool} history {file.name}: {mapped.what}",
        topics={name: TopicFacts(partitions=1) for name in mapped.topics},
        command=command,
        load_started=min(times),
        load_ended=max(times),
        completed=True,
        segments=1,
        checks=mapped.checks,
        min_acknowledged=1,
        final_read="imported",
        workload={"name": "imported", **({"model": model} if model else {})},
        imported=Imported(
            tool=tool,
            file=str(file),
            sha256=digest,
            notation=history.notation,
            mapping=f"{mapped.kind}: {mapped.what}",
            operations=len(history.operations),
            times="as stated" if history.timed else "none stated: the order of lines counts",
            unknown=mapped.unknown,
        ),
    )


def _in_order(mapped: Mapped) -> list[Invocation | Completion]:
    """Return all rows by time.

    Of two rows at the same time a completion comes first, unless its operation took no time.
    """
    rows: list[tuple[int, int, int, Invocation | Completion]] = []
    for place, (begun, ended) in enumerate(mapped.pairs):
        rows.append((begun.invoked, 1, place, begun))
        if ended is not None:
            rows.append((ended.completed, 0 if ended.completed > begun.invoked else 2, place, ended))
    return [row for *_, row in sorted(rows, key=lambda one: one[:3])]


def _write_names(run_dir: Path, history: ForeignHistory, mapped: Mapped) -> None:
    """Write a line for each key, value or process whose number is not its name."""
    lines = [
        msgspec.json.encode({"what": what, "number": number, "name": name}) + b"\n"
        for what, given in (*mapped.names.items(), ("process", tuple(history.processes.items())))
        for number, name in given
        if str(number) != name
    ]
    (run_dir / NAMES_FILE).write_bytes(b"".join(lines))

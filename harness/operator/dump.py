"""`log dump`, `metadata dump`, `snapshot dump`: print and verify a node's files without any node.

Files are read by memory map, so that a segment of a gigabyte costs only its batches' headers. Files of a running node
may be read: what is appended meanwhile is not seen, and a last batch that is only partly written is reported as a torn
write, as recovery would find it after a crash at that moment.

The exit status is 0 if everything is whole and 1 if there is a problem, which is printed with its file, byte and
offset. `log_content` defines what counts as a problem.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from squall.harness.errors import UsageError
from squall.harness.operator.log_content import (
    FoundBatch,
    LogWalk,
    Places,
    Problem,
    epoch_checkpoint_problems,
    index_problems,
    time_index_problems,
)
from squall.harness.operator.metadata_content import Decoded, decoded
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.records import BatchHeader, Record

Write = Callable[[str], None]
FAILED = 1
SHOWN_BYTES = 120
_SEGMENT_NAME = re.compile(r"(\d{20})\.log$")
_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint$")
EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
METADATA_DIRECTORY = "__cluster_metadata-0"


@dataclass(frozen=True)
class DumpOptions:
    """What to show. `names` and `topic_ids` select metadata records; offsets select records and batches."""

    records: bool = False
    as_json: bool = False
    only_problems: bool = False
    first: int | None = None
    last: int | None = None
    names: tuple[str, ...] = ()

    def wants(self, first: int, last: int) -> bool:
        """Return whether a batch of these offsets is to be shown."""
        below = self.first is not None and last < self.first
        return not (below or (self.last is not None and first > self.last))


@dataclass
class Tally:
    """Counts for the last line and the exit status."""

    files: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    notes: int = 0
    undecoded: int = 0
    problems: list[tuple[str, Problem]] = field(default_factory=list)

    def verdict(self) -> str:
        """Return `2 files, 10 batches, 91 records, 8412 bytes: no problem`."""
        counted = [(self.files, "file"), (self.batches, "batch"), (self.records, "record"), (self.bytes, "byte")]
        said = ", ".join(plural(count, what) for count, what in counted)
        odd = f", {plural(self.notes, 'note')}" if self.notes else ""
        odd += f", {plural(self.undecoded, 'record')} not known here" if self.undecoded else ""
        return f"{said}{odd}: {plural(len(self.problems), 'problem') if self.problems else 'no problem'}"


def plural(count: int, what: str) -> str:
    """Return `1 batch`, `2 batches`."""
    ending = "" if count == 1 else "es" if what.endswith("ch") else "s"
    return f"{count} {what}{ending}"


def dump_log(path: Path, options: DumpOptions, write: Write) -> int:
    """Print every batch of a segment, or of every segment below a directory; with `records`, their records."""
    tally = Tally()
    for directory, segments in logs_below(path):
        _Printer(options, tally, write, _batch_line, _record_line).log(directory, segments, path.is_dir())
    return finish(tally, options, write)


def dump_metadata(path: Path, options: DumpOptions, write: Write) -> int:
    """Print every record of `__cluster_metadata` by name and fields."""
    tally = Tally()
    for directory, segments in metadata_logs_below(path):
        _Printer(options, tally, write, None, _metadata_line).log(directory, segments, path.is_dir())
    return finish(tally, options, write)


def dump_snapshot(path: Path, options: DumpOptions, write: Write) -> int:
    """Print every record of a snapshot; check that it begins with a header and ends with a footer (SN-02)."""
    tally = Tally()
    for file in snapshots_below(path):
        _Printer(options, tally, write, None, _metadata_line).snapshot(file)
    return finish(tally, options, write)


def finish(tally: Tally, options: DumpOptions, write: Write) -> int:
    """Print the last line, or object. Return the exit status."""
    if options.as_json:
        write(json.dumps({"summary": _summary(tally)}))
    else:
        write(tally.verdict())
    return FAILED if tally.problems else 0


def _summary(tally: Tally) -> dict[str, Any]:
    counts = {name: getattr(tally, name) for name in ("files", "batches", "records", "bytes", "notes", "undecoded")}
    return {**counts, "problems": [problem_as_json(name, one) for name, one in tally.problems]}


def problem_as_json(file: str, problem: Problem) -> dict[str, Any]:
    return {"file": file, "position": problem.position, "offset": problem.offset, "problem": problem.what}


# -- which files ---------------------------------------------------------------------------------------------------


def logs_below(path: Path) -> list[tuple[Path, list[Path]]]:
    """Return directories and their segments: for a file, a log's directory, or a data directory. Raises UsageError."""
    if path.is_file():
        if not _SEGMENT_NAME.search(path.name):
            remedy = "a segment is called by its first offset in twenty digits, such as 00000000000000000000.log"
            raise UsageError(f"{path}: {path.name!r} is not the name of a segment", remedy=remedy)
        return [(path.parent, [path])]
    _must_be_there(path)
    by_directory: dict[Path, list[Path]] = {}
    for file in sorted(path.rglob("*.log")):
        if _SEGMENT_NAME.search(file.name):
            by_directory.setdefault(file.parent, []).append(file)
    if not by_directory:
        remedy = "name a segment, the directory of a log (such as orders-0), or a node's data directory"
        raise UsageError(f"{path}: there is no segment (*.log of twenty digits) in it or below", remedy=remedy)
    return sorted(by_directory.items())


def metadata_logs_below(path: Path) -> list[tuple[Path, list[Path]]]:
    """Return the same for `__cluster_metadata` only, if a data directory also holds other logs. Raises UsageError."""
    found = logs_below(path)
    named = [one for one in found if one[0].name == METADATA_DIRECTORY]
    if not named and len(found) > 1:
        raise UsageError(f"{path}: there is no directory {METADATA_DIRECTORY} in it or below")
    return named or found


def snapshots_below(path: Path) -> list[Path]:
    """Return the named snapshot, or those of a directory. Raises UsageError."""
    if path.is_file():
        return [path]
    _must_be_there(path)
    found = sorted(path.rglob("*.checkpoint"))
    if not found:
        remedy = "snapshots are called OFFSET-EPOCH.checkpoint and lie in the directory __cluster_metadata-0"
        raise UsageError(f"{path}: there is no snapshot in it or below", remedy=remedy)
    return found


def _must_be_there(path: Path) -> None:
    if not path.exists():
        raise UsageError(f"{path}: there is no such file or directory")


@contextmanager
def content_of(file: Path) -> Iterator[memoryview]:
    """Map the bytes of a file. Raises UsageError if it may not be read."""
    try:
        with file.open("rb") as opened:
            if file.stat().st_size == 0:
                yield memoryview(b"")
                return
            # Batches keep views into the map; the map is closed with the last of them.
            yield memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as trouble:
        raise UsageError(f"{file}: {trouble.strerror or trouble}") from trouble


# -- walking and printing ------------------------------------------------------------------------------------------

RecordLine = Callable[[FoundBatch, BatchHeader, Record], tuple[str, dict[str, Any], Decoded | None]]


@dataclass
class _Printer:
    """Walks through files, prints what the options select, and counts."""

    options: DumpOptions
    tally: Tally
    write: Write
    batch_line: Callable[[FoundBatch, BatchHeader], tuple[str, dict[str, Any]]] | None
    record_line: RecordLine

    def log(self, directory: Path, segments: Iterable[Path], whole: bool) -> None:
        """Print all segments of one log, in order; `whole` if the path is the directory and not one file."""
        walk = LogWalk()
        start = None
        for file in segments:
            first = int(file.stem)
            start = first if start is None else start
            self._title(file)
            with content_of(file) as content:
                places = self._batches(file, walk.segment(content, first_offset=first), first)
            self._beside(file, places)
        checkpoint = directory / EPOCH_CHECKPOINT
        if whole and checkpoint.is_file():
            for problem in epoch_checkpoint_problems(checkpoint.read_text(), walk.epoch_starts, start or 0):
                self._problem(checkpoint, problem)

    def snapshot(self, file: Path) -> None:
        """Print one snapshot, with its header and footer."""
        self._title(file)
        named = _SNAPSHOT_NAME.search(file.name)
        ends: list[str] = []
        with content_of(file) as content:
            size = len(content)
            found = list(LogWalk().segment(content, first_offset=0))
            self._batches(file, iter(found), 0)
        for one in (found[0], found[-1]) if found else ():
            ends.append(_only_control(one))
        for where, wanted in enumerate(("SnapshotHeader", "SnapshotFooter")):
            if len(ends) <= where or ends[where] != wanted:
                said = f"a snapshot {'begins' if where == 0 else 'ends'} with a {wanted} record; this one does not"
                self._problem(file, Problem(0 if where == 0 else size, None, said))
        if named is not None:
            wrong = [one for one in found if one.header is not None and one.header.leader_epoch != int(named[2])]
            for one in wrong[:1]:
                epoch = one.header.leader_epoch if one.header is not None else -1
                said = f"a batch of epoch {epoch} in a snapshot whose name says epoch {int(named[2])}"
                self._problem(file, Problem(one.position, None, said))

    def _title(self, file: Path) -> None:
        self.tally.files += 1
        if not self.options.as_json and not self.options.only_problems:
            self.write(str(file))

    def _batches(self, file: Path, walked: Iterable[FoundBatch], first: int) -> Places:
        places: dict[int, int] = {}
        end = first
        for found in walked:
            self.tally.notes += len(found.notes)
            if found.header is not None:
                self.tally.batches += 1
                self.tally.records += max(0, found.header.count)
                self.tally.bytes += found.header.size
                places[found.position] = found.header.base_offset
                end = found.header.next_offset
                self._show(file, found, found.header)
            for note in found.notes:
                self._tell(f"  note: {note}", {"file": str(file), "position": found.position, "note": note})
            for problem in found.problems:
                self._problem(file, problem)
        return Places(first, places, end)

    def _show(self, file: Path, found: FoundBatch, header: BatchHeader) -> None:
        if not self.options.wants(header.base_offset, header.last_offset):
            return
        if self.batch_line is not None:
            self._tell(*self.batch_line(found, header))
        if self.batch_line is not None and not self.options.records:
            return
        try:
            records = found.records()
        except ProtocolError:
            return  # reported as a problem or a note of the batch
        for record in records:
            if self.options.wants(record.offset, record.offset):
                self._record(file, found, header, record)

    def _record(self, file: Path, found: FoundBatch, header: BatchHeader, record: Record) -> None:
        line, as_json, read = self.record_line(found, header, record)
        if read is not None:
            self.tally.undecoded += read.unknown is not None
            if read.is_malformed:
                self._problem(file, Problem(found.position, record.offset, f"{read.name}: {read.unknown}"))
            if self.options.names and read.name not in self.options.names:
                return
        self._tell(line, as_json)

    def _beside(self, file: Path, places: Places) -> None:
        for ending, check in ((".index", index_problems), (".timeindex", time_index_problems)):
            index = file.with_suffix(ending)
            if index.is_file():
                for problem in check(index.read_bytes(), places):
                    self._problem(index, problem)

    def _problem(self, file: Path, problem: Problem) -> None:
        self.tally.problems.append((str(file), problem))
        where = "" if problem.offset is None else f", offset {problem.offset}"
        line = f"  PROBLEM {file.name} at byte {problem.position}{where}: {problem.what}"
        if not self.options.as_json:
            self.write(line)

    def _tell(self, line: str, as_json: dict[str, Any]) -> None:
        if not self.options.only_problems:
            self.write(json.dumps(as_json) if self.options.as_json else line)


def _only_control(found: FoundBatch) -> str:
    """Return the name of the control record that a batch consists of; empty if it is another batch."""
    if found.header is None or not found.header.is_control:
        return ""
    try:
        records = found.records()
    except ProtocolError:
        return ""
    return decoded(records[0], is_control=True).name if records else ""


# -- lines ---------------------------------------------------------------------------------------------------------


def _batch_line(found: FoundBatch, header: BatchHeader) -> tuple[str, dict[str, Any]]:
    facts = {
        "position": found.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "leader_epoch": header.leader_epoch,
        "size": header.size,
        "compression": found.codec,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "crc": header.crc,
        "valid": not found.problems,
    }
    line = (
        f"  batch {header.base_offset}..{header.last_offset} epoch {header.leader_epoch} count {header.count} "
        f"at {found.position} size {header.size} time {header.max_timestamp} crc {header.crc:08x}"
    )
    if header.compression:
        line += f" {found.codec}"
    if header.has_producer:
        line += f" producer {header.producer_id}/{header.producer_epoch} sequence {header.base_sequence}"
    flags = [("transactional", header.is_transactional), ("control", header.is_control)]
    return line + "".join(f" {name}" for name, is_so in flags if is_so), {"batch": facts}


def _record_line(found: FoundBatch, header: BatchHeader, record: Record) -> tuple[str, dict[str, Any], Decoded | None]:
    facts: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    if header.is_control:
        control = decoded(record, is_control=True)
        facts |= {"control": control.name, "fields": control.fields}
        return f"    {record.offset} {control.described()}", {"record": facts}, None
    facts |= {"key": _text(record.key), "value": _text(record.value)}
    facts["headers"] = {name: _text(value) for name, value in record.headers}
    said = f"    {record.offset} key {_quoted(record.key)} value {_quoted(record.value)}"
    if record.headers:
        said += " headers " + " ".join(f"{name}={_quoted(value)}" for name, value in record.headers)
    return said, {"record": facts}, None


def _metadata_line(
    found: FoundBatch, header: BatchHeader, record: Record
) -> tuple[str, dict[str, Any], Decoded | None]:
    read = decoded(record, is_control=header.is_control)
    facts: dict[str, Any] = {
        "offset": record.offset,
        "epoch": header.leader_epoch,
        "type": read.name,
        "version": read.version,
        "fields": read.fields,
    }
    if read.unknown is not None:
        facts["unknown"] = read.unknown
    return f"  {record.offset} epoch {header.leader_epoch} {read.described()}", {"record": facts}, read


def _text(value: bytes | None) -> str | None:
    """Return text unchanged; other bytes in hexadecimal, marked as such."""
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    return text if text.isprintable() else f"0x{value.hex()}"


def _quoted(value: bytes | None) -> str:
    text = _text(value)
    if text is None:
        return "-"
    shown = text if len(text) <= SHOWN_BYTES else f"{text[:SHOWN_BYTES]}… ({len(value or b'')} bytes)"
    return shown if text.startswith("0x") else f"'{shown}'"

"""Write and read segments and event files: the history in progress, with no heavy dependency.

A *segment* is one file of JSON lines written by one process: first a header, then two lines per operation, its
invocation and its completion, in the order in which they occurred. The invocation is handed to the operating system
before the operation begins and the completion when it arrives, so that an operation still open when its process dies is
open in the history as well (HX-03). What `flush` has handed over survives `kill -9` of the writer, but not a power
failure of its host; the reader tolerates and counts a torn last line. `rows.py` defines the lines. A writer that ends
in good order seals its segment with a checksum, so that a file that was damaged or cut off later is detected.

    history/segment-000.jsonl     operations, one segment per load worker
    faults.jsonl                  the nemesis: the whole state of a fault, each time it changes
    cluster.jsonl                 what was seen of the cluster: leaders, active controller, ISR

Lines are arrays, so that a row costs two or three microseconds to write. `results/history/history.py` turns the
segments into tables; a load worker imports only this module and `rows.py`, and they need only msgspec.

Times are nanoseconds of the writer's monotonic clock. Segments of several hosts have different clocks; the header of
each states how far its clock is from the control process's, and how uncertain that is.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

import msgspec

from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.rows import (
    ABSENT,
    ACKS_ALL,
    FUNCTIONS,
    REGISTER_FUNCTIONS,
    SCHEMA_VERSION,
    TYPES,
    Completion,
    CompletionRow,
    Invocation,
    InvocationRow,
    RegisterCompletion,
    RegisterInvocation,
    Row,
    SegmentEnd,
    SegmentHeader,
    Sum,
    end_of,
)

__all__ = [
    "ABSENT",
    "ACKS_ALL",
    "CLUSTER_FILE",
    "FAULTS_FILE",
    "FUNCTIONS",
    "REGISTER_FUNCTIONS",
    "SCHEMA_VERSION",
    "SEGMENTS_FOLDER",
    "TYPES",
    "ClusterObservation",
    "CompletionRow",
    "EventWriter",
    "FaultWindow",
    "HistoryWriter",
    "IllFormedHistory",
    "InvocationRow",
    "RegisterCompletion",
    "RegisterInvocation",
    "Segment",
    "SegmentHeader",
    "adopt_segment",
    "complete_lines",
    "open_segment",
    "read_cluster",
    "read_faults",
    "read_segment",
    "read_watched",
    "segment_path",
]

SEGMENTS_FOLDER: Final = "history"
FAULTS_FILE: Final = "faults.jsonl"
CLUSTER_FILE: Final = "cluster.jsonl"

BUFFER_BYTES: Final = 1 << 16
FLUSH_NANOSECONDS: Final = 200_000_000


class FaultWindow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault: from when to when it held, on which targets, and the evidence of it (HX-04).

    The whole state is written again each time a fact about the fault becomes known; the last line of an `id` counts.
    `took` says whether evidence showed that the fault took effect, `undone` whether evidence showed that it was healed;
    None means that this was not examined yet. The evidence is a sentence each, for people. `shown` and `ended` are the
    times when the evidence had arrived (or was given up): that of the fault, and that of its end.
    """

    id: str
    fault: str
    targets: tuple[str, ...]
    summary: str
    injected: int | None = None
    healed: int | None = None
    took: bool | None = None
    undone: bool | None = None
    before: str = ""
    during: str = ""
    after: str = ""
    trouble: str = ""
    shown: int | None = None
    ended: int | None = None

    @property
    def name(self) -> str:
        """The name of the fault in verdicts and plots: `isolate b2`."""
        return f"{self.fault} {', '.join(self.targets)}".strip()


class ClusterObservation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change observed in the cluster: a new leader, a new active controller, another ISR.

    `watched` states that the cluster was polled repeatedly from `since` to `time`: a change that is not reported for
    that interval did not occur. `unclean` states that the leader of an unclean election has begun leader epoch `epoch`:
    from `offset` on, its log is another one.
    """

    time: int
    kind: Literal["leader", "controller", "in_sync", "watched", "unclean"]
    since: int | None = None
    node: str | None = None
    topic: str | None = None
    partition: int | None = None
    epoch: int | None = None
    nodes: tuple[str, ...] = ()
    offset: int | None = None


def segment_path(run_dir: Path | str, segment: int) -> Path:
    """The path of a load worker's segment within its run."""
    return Path(run_dir) / SEGMENTS_FOLDER / f"segment-{segment:03d}.jsonl"


def segment_number(path: Path) -> int:
    """The worker number of a segment, by its name."""
    return int(path.stem.removeprefix("segment-"))


class HistoryWriter:
    """Writes one segment. Buffers up to `BUFFER_BYTES` or 0.2 s of rows; `flush` hands them to the operating system.

    A caller that acts on an invocation flushes before (`harness/scenario/interpreter.py` does): what the operating
    system holds survives a kill. Not for several threads. Costs two to three microseconds per row.
    """

    def __init__(self, path: Path | str, header: SegmentHeader) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.rows = 0
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._encoder = msgspec.json.Encoder()
        self._buffer = bytearray()
        self._flushed_at = time.monotonic_ns()
        self._sum = Sum()
        self._write(header.sealed())
        self.flush()
        self._sum = Sum()  # counts only what follows the header

    def invoke(self, row: Invocation) -> None:
        """Record that an operation begins."""
        self._write(row)

    def complete(self, row: Completion) -> None:
        """Record that the open operation of `row.process` ends."""
        self._write(row)
        self.rows += 1

    def _write(self, row: msgspec.Struct) -> None:
        buffer = self._buffer
        self._encoder.encode_into(row, buffer, -1)
        buffer += b"\n"
        if len(buffer) >= BUFFER_BYTES or time.monotonic_ns() - self._flushed_at >= FLUSH_NANOSECONDS:
            self.flush()

    def flush(self) -> None:
        """Hand everything written so far to the operating system: it survives the death of this process."""
        self._flushed_at = time.monotonic_ns()
        if not self._buffer:
            return
        written = 0
        try:
            with memoryview(self._buffer) as view:
                while written < len(view):
                    written += os.write(self._file, view[written:])
        finally:  # a disk may become full half-way and have room later: nothing is written twice
            self._sum.add(self._buffer[:written])
            del self._buffer[:written]

    def close(self) -> None:
        """Seal, flush, fsync, close. Calling it again does nothing."""
        if self._file < 0:
            return
        self.flush()
        self._write(self._sum.end)
        self.flush()
        os.fsync(self._file)
        os.close(self._file)
        self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EventWriter:
    """Appends fault windows, observations or samples to their file, each line handed to the system at once."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    @classmethod
    def faults(cls, run_dir: Path | str) -> EventWriter:
        return cls(Path(run_dir) / FAULTS_FILE)

    @classmethod
    def cluster(cls, run_dir: Path | str) -> EventWriter:
        return cls(Path(run_dir) / CLUSTER_FILE)

    def write(self, row: msgspec.Struct) -> None:
        """Append a line. Raises OSError; the file then ends where it ended before, and accepts further lines."""
        line = msgspec.json.encode(row) + b"\n"
        before = os.fstat(self._file).st_size
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError:
            os.ftruncate(self._file, before)
            raise

    def close(self) -> None:
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1


def complete_lines(path: Path) -> tuple[list[bytes], int]:
    """Return the whole lines of a file, and how many torn ones were left off its end (0 or 1)."""
    try:
        content = path.read_bytes()
    except OSError as trouble:
        raise IllFormedHistory(path, None, f"cannot be read: {trouble.strerror}") from trouble
    whole, newline, torn = content.rpartition(b"\n")
    return (whole.split(b"\n") if newline else []), int(bool(torn))


def adopt_segment(source: Path, target: Path, clock_offset: int, clock_error: int) -> None:
    """Move a segment that was fetched from another host into its place, whole or not at all.

    The clock offset is known better at the end than when the header was written, so the header is rewritten. A torn,
    damaged or missing header is left for the reader to report.
    """
    draft = target.with_suffix(".new")
    with source.open("rb") as fetched, draft.open("wb") as adopted:
        first = fetched.readline()
        try:
            header = _HEADER.decode(first)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            adopted.write(first)
        else:
            if header.is_whole:
                header = msgspec.structs.replace(header, clock_offset=clock_offset, clock_error=clock_error)
                first = msgspec.json.encode(header if header.digest is None else header.sealed()) + b"\n"
            adopted.write(first)
        shutil.copyfileobj(fetched, adopted)
        adopted.flush()
        os.fsync(adopted.fileno())
    draft.replace(target)


_HEADER: Final = msgspec.json.Decoder(SegmentHeader)
_ROW: Final = msgspec.json.Decoder(InvocationRow | CompletionRow | RegisterInvocation | RegisterCompletion)
_END: Final = msgspec.json.Decoder(SegmentEnd)
_END_START: Final = b'["e",'


@dataclass(frozen=True)
class Segment:
    """A segment as it was found.

    `torn` counts torn last lines (0 or 1); it is `cut_off` if its writer did not end it. `lines` are its rows, encoded,
    from line 2 of the file on.
    """

    path: Path
    header: SegmentHeader
    lines: list[bytes]
    torn: int
    cut_off: bool

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield each row with its line number. Raises IllFormedHistory at a line that is no row."""
        for number, line in enumerate(self.lines, 2):
            if line.startswith(_END_START):
                raise IllFormedHistory(self.path, number, "ends the segment, but more follows; lines were added to it")
            try:
                yield number, _ROW.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
                raise IllFormedHistory(self.path, number, f"is not a row of a history: {trouble}") from trouble


def open_segment(path: Path) -> Segment:
    """Read a segment. Raises IllFormedHistory if it has no header, or is not what its writer wrote."""
    lines, torn = complete_lines(path)
    if not lines:
        raise IllFormedHistory(path, 1, "is empty; a segment starts with a header")
    try:
        header = _HEADER.decode(lines[0])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise IllFormedHistory(path, 1, f"is not the header of a segment: {trouble}") from trouble
    if header.schema != SCHEMA_VERSION:
        raise IllFormedHistory(path, 1, f"has schema {header.schema}; this version reads {SCHEMA_VERSION}")
    if not header.is_whole:
        raise IllFormedHistory(path, 1, "is not the header that was written: its check sum is another")
    if len(lines) == 1 or not lines[-1].startswith(_END_START):
        return Segment(path, header, lines[1:], torn, cut_off=header.digest is not None)
    segment = Segment(path, header, lines[1:-1], torn, cut_off=False)
    _require_whole(segment, lines[-1])
    return segment


def _require_whole(segment: Segment, last: bytes) -> None:
    """Require that the last line agrees with the rows. Raises IllFormedHistory."""
    path, number = segment.path, len(segment.lines) + 2
    try:
        told = _END.decode(last)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise IllFormedHistory(path, number, f"is not the end of a segment: {trouble}") from trouble
    found = end_of(segment.lines)
    if found == told:
        return
    for _ in segment.rows():  # a line that is no row raises the most precise error
        pass
    if told.lines != found.lines:
        problem = f"the segment had {told.lines} lines when it was closed, and has {found.lines}"
    else:
        problem = "the segment is not what was written: its check sum is another"
    raise IllFormedHistory(path, number, f"{problem}; the file was damaged or changed afterwards")


def read_segment(path: Path) -> tuple[SegmentHeader, Iterator[tuple[int, Row]], int]:
    """Return the header, the rows with their line numbers, and the number of torn lines.

    Raises IllFormedHistory for a line that is no row; the iterator raises it when it reaches the line.
    """
    segment = open_segment(path)
    return segment.header, segment.rows(), segment.torn


def read_faults(run_dir: Path | str) -> list[FaultWindow]:
    """Return the faults of a run, the last known state of each, in order of injection; none if there is no file."""
    latest: dict[str, FaultWindow] = {}
    for window in _read_events(Path(run_dir) / FAULTS_FILE, FaultWindow):
        latest[window.id] = window
    return sorted(latest.values(), key=lambda one: (one.injected is None, one.injected or 0))


def read_cluster(run_dir: Path | str) -> list[ClusterObservation]:
    """Return the observed changes of the cluster, in order of time."""
    told = _read_events(Path(run_dir) / CLUSTER_FILE, ClusterObservation)
    return sorted((one for one in told if one.kind != "watched"), key=lambda one: one.time)


def read_watched(run_dir: Path | str) -> list[tuple[int, int]]:
    """Return the intervals in which the cluster was observed, in order of time."""
    told = _read_events(Path(run_dir) / CLUSTER_FILE, ClusterObservation)
    return sorted((one.since, one.time) for one in told if one.kind == "watched" and one.since is not None)


Event = TypeVar("Event", FaultWindow, ClusterObservation)


def _read_events(path: Path, kind: type[Event]) -> list[Event]:
    if not path.exists():
        return []
    decoder = msgspec.json.Decoder(kind)
    events = []
    for number, line in enumerate(complete_lines(path)[0], 1):
        try:
            events.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
            raise IllFormedHistory(path, number, f"is not a {kind.__name__}: {trouble}") from trouble
    return events

"""Parse the bytes of a log and find everything that is wrong with them: batches and their records. No I/O.

Segments of topics, of `__cluster_metadata` and snapshots (`*.checkpoint`) all consist of record batches of format 2, in
Squall and in Kafka; so one walk serves all of them:

    for found in walk(content, first_offset=base_offset_of_name):
        found.header, found.position, found.problems

A *problem* is something that no healthy log has:

* bytes that are no batch: a torn tail, zeros, another format; a wrong CRC-32C;
* offsets that go back (a batch begins before the previous one ends, or before the offset in the file's name), a batch
  that claims more records than it has room for, records whose offsets leave their batch;
* leader epochs that go back: a log's epochs only grow;
* index entries that do not lead to a batch; an epoch checkpoint that contradicts the batches.

A *note* is only reported: gaps between offsets, which compaction leaves and nothing else should. After bytes that are
no batch the start of the next batch is unknown, so the walk ends there, as recovery does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from squall.nodes.protocol.compression import CodecMissing
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.records import (
    HEADER_SIZE,
    MAGIC,
    PREFIX_SIZE,
    BatchHeader,
    Buffer,
    Record,
    crc_ok,
    parse_records,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONTROL_RECORDS = {
    0: "Abort",
    1: "Commit",
    2: "LeaderChange",
    3: "SnapshotHeader",
    4: "SnapshotFooter",
    5: "KRaftVersion",
    6: "KRaftVoters",
}
"""Kinds of control records, by the second number of their key."""

_MAGIC_AT = 16
_INDEX_ENTRY = struct.Struct(">Ii")
_TIME_ENTRY = struct.Struct(">qI")


@dataclass(frozen=True)
class Problem:
    """An error and its place. `offset` is that of the nearest batch, None where there is none."""

    position: int
    offset: int | None
    what: str


@dataclass(frozen=True)
class FoundBatch:
    """One batch at its position. `header` is None for bytes that are no batch; then nothing comes after it."""

    position: int
    header: BatchHeader | None
    content: memoryview
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def codec(self) -> str:
        """The name of the compression."""
        number = 0 if self.header is None else self.header.compression
        return CODECS[number] if number < len(CODECS) else f"codec {number}"

    def records(self) -> list[Record]:
        """Return the records. Raises ProtocolError if they cannot be read."""
        return parse_records(self.content)


@dataclass
class LogWalk:
    """The state of a walk from batch to batch; may continue from segment to segment of a log."""

    next_offset: int | None = None
    epoch: int = -1
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    """Where each leader epoch begins, as in `leader-epoch-checkpoint`."""

    def segment(self, content: Buffer, *, first_offset: int | None = None, open_batches: bool = True) -> Walked:
        """Walk through a segment, whose name says `first_offset`. With `open_batches`, examine the records, too."""
        if first_offset is not None and self.next_offset is not None and first_offset < self.next_offset:
            said = f"the segment begins with offset {first_offset}, before the end of the last one, {self.next_offset}"
            yield FoundBatch(0, None, memoryview(b""), (Problem(0, first_offset, said),))
        expected = self.next_offset if first_offset is None else max(first_offset, self.next_offset or 0)
        self.next_offset = expected
        view, position = memoryview(content), 0
        while position < len(view):
            found = self._batch(view, position, open_batches)
            yield found
            if found.header is None:
                return
            position += found.header.size

    def _batch(self, view: memoryview, position: int, open_batches: bool) -> FoundBatch:
        no_batch = why_no_batch(view, position)
        if no_batch is not None:
            return FoundBatch(position, None, view[position:], (Problem(position, self.next_offset, no_batch),))
        header = BatchHeader.read(view, position)
        content = view[position : position + header.size]
        said = [*self._order(header), *_fields(header)]
        if not crc_ok(content):
            said.append(f"the CRC-32C is not {header.crc:08x}, as the batch says")
        notes = self._gap(header)
        if open_batches and not said:
            try:
                said.extend(_record_problems(header, content))
            except CodecMissing as missing:
                notes = (*notes, str(missing))
        self._remember(header)
        return FoundBatch(
            position, header, content, tuple(Problem(position, header.base_offset, one) for one in said), notes
        )

    def _order(self, header: BatchHeader) -> Iterator[str]:
        if self.next_offset is not None and header.base_offset < self.next_offset:
            yield f"offset {header.base_offset} where at least {self.next_offset} was due"
        if header.leader_epoch < self.epoch:
            yield f"leader epoch {header.leader_epoch} after epoch {self.epoch}"

    def _gap(self, header: BatchHeader) -> tuple[str, ...]:
        if self.next_offset is None or header.base_offset <= self.next_offset:
            return ()
        return (f"offsets {self.next_offset} to {header.base_offset - 1} are not there",)

    def _remember(self, header: BatchHeader) -> None:
        if header.leader_epoch > self.epoch:
            self.epoch_starts.append((header.leader_epoch, header.base_offset))
        self.epoch = max(self.epoch, header.leader_epoch)
        self.next_offset = max(header.next_offset, self.next_offset or 0)


Walked = Iterator[FoundBatch]


def walk(content: Buffer, *, first_offset: int | None = None, open_batches: bool = True) -> Walked:
    """Yield every batch of one segment with its problems."""
    return LogWalk().segment(content, first_offset=first_offset, open_batches=open_batches)


def why_no_batch(view: memoryview, position: int) -> str | None:
    """Return why no batch can be read at a position; None if one can."""
    left = len(view) - position
    if not any(view[position : position + HEADER_SIZE]):
        return f"{left} bytes that begin with zeros where a batch should be"
    if left < HEADER_SIZE:
        return f"{left} bytes are left, less than the {HEADER_SIZE} of a batch's header: a torn write"
    magic = view[position + _MAGIC_AT]
    if magic != MAGIC:
        return f"format {magic} where only {MAGIC} is understood"
    length = int.from_bytes(view[position + 8 : position + PREFIX_SIZE], "big", signed=True)
    if length < HEADER_SIZE - PREFIX_SIZE:
        return f"a batch of length {length}, shorter than its header"
    if PREFIX_SIZE + length > left:
        return f"a batch of {PREFIX_SIZE + length} bytes of which {left} are there: a torn write"
    return None


def _fields(header: BatchHeader) -> Iterator[str]:
    if header.last_offset_delta < 0 or header.count < 0:
        yield f"last offset delta {header.last_offset_delta} and {header.count} records"
    elif header.count > header.last_offset_delta + 1:
        yield f"{header.count} records in offsets {header.base_offset} to {header.last_offset}"


def _record_problems(header: BatchHeader, content: memoryview) -> Iterator[str]:
    try:
        records = parse_records(content)
    except CodecMissing:
        raise
    except ProtocolError as trouble:
        yield f"its records cannot be read: {trouble}"
        return
    before = header.base_offset - 1
    for record in records:
        if not before < record.offset <= header.last_offset:
            yield f"a record of offset {record.offset} after {before}, in a batch that ends with {header.last_offset}"
            return
        before = record.offset


# -- what lies beside a segment ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """Where the batches of a segment begin, to check its indexes against."""

    base_offset: int
    by_position: dict[int, int]
    """Base offset of the batch at each position."""
    next_offset: int


def index_problems(content: bytes, places: Places) -> list[Problem]:
    """Find problems of an `.index`: each entry must lead to a batch that begins at or before its offset.

    Kafka allocates the index of an active segment in advance; zeros after the first entry are unused space.
    """
    found, before = [], -1
    for number in range(len(content) // _INDEX_ENTRY.size):
        relative, position = _INDEX_ENTRY.unpack_from(content, number * _INDEX_ENTRY.size)
        if (relative, position) == (0, 0) and number:
            break
        offset, at = places.base_offset + relative, number * _INDEX_ENTRY.size
        if relative == 0 and position == 0 and not places.by_position:
            continue
        if position not in places.by_position:
            found.append(Problem(at, offset, f"index entry {number} leads to byte {position}, where no batch begins"))
        elif places.by_position[position] > offset or offset >= places.next_offset:
            begins = places.by_position[position]
            said = f"index entry {number} names offset {offset} for the batch that begins with {begins}"
            found.append(Problem(at, offset, said))
        if offset < before:
            found.append(Problem(at, offset, f"index entry {number} goes back from offset {before} to {offset}"))
        before = offset
    return found


def time_index_problems(content: bytes, places: Places) -> list[Problem]:
    """Find problems of a `.timeindex`: timestamps and offsets must grow and offsets lie in the segment."""
    found: list[Problem] = []
    before = (-1, -1)
    for number in range(len(content) // _TIME_ENTRY.size):
        timestamp, relative = _TIME_ENTRY.unpack_from(content, number * _TIME_ENTRY.size)
        if (timestamp, relative) == (0, 0) and number:
            break
        offset, at = places.base_offset + relative, number * _TIME_ENTRY.size
        if timestamp <= 0 and not relative:
            continue
        if offset >= max(places.next_offset, places.base_offset + 1):
            found.append(Problem(at, offset, f"time index entry {number} names offset {offset}, beyond the segment"))
        if (timestamp, offset) < before:
            found.append(Problem(at, offset, f"time index entry {number} goes back"))
        before = (timestamp, offset)
    return found


def epoch_checkpoint_problems(text: str, starts: Sequence[tuple[int, int]], log_start: int) -> list[Problem]:
    """Find problems of a `leader-epoch-checkpoint` against the first offsets of each epoch in the batches.

    An epoch may have an entry and no batch (its leader wrote nothing), and the first entries of a log whose beginning
    was deleted begin where the log does.
    """
    try:
        lines = [tuple(int(word) for word in line.split()) for line in text.split("\n")[2:] if line.strip()]
        entries = {line[0]: line[1] for line in lines}
    except (ValueError, IndexError):
        return [Problem(0, None, "the epoch checkpoint has a line that is not an epoch and an offset")]
    found = []
    for epoch, start in starts:
        said = entries.get(epoch)
        if said is None:
            found.append(Problem(0, start, f"the epoch checkpoint lacks epoch {epoch}, which begins with {start}"))
        elif max(said, log_start) != start:
            found.append(Problem(0, start, f"the epoch checkpoint has epoch {epoch} begin with {said}, not {start}"))
    return found

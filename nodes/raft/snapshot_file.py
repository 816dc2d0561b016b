"""The content of a snapshot: record batches, as in a log, between a header and a footer (KIP-630).

    control batch   SnapshotHeader, with the time of the last record that the snapshot includes
    control batch   KRaftVersion, Voters: the quorum's own records, if there are any
    data batches    the records that make the image, offsets from 0 on without a gap
    control batch   SnapshotFooter

A snapshot has its own offsets; the epoch of its batches is that of the snapshot. A file is *whole* if its batches
follow one another without a gap, every checksum is right, the header is first and the footer last with nothing behind
it. Only a whole file is loaded (SN-02): a truncated file has no footer.

Files are read in pieces, so that a large one is never held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from squall.nodes.ports import Disk, File
from squall.nodes.protocol.compiler import decode, encode_bytes
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.records import (
    HEADER_SIZE,
    BatchHeader,
    Record,
    build_batch,
    control_key,
    control_kind,
    crc_ok,
    parse_records,
    patch,
)
from squall.nodes.protocol.schema import Message, int16, int64, message
from squall.nodes.protocol.value_batches import build_value_batch, parse_values
from squall.nodes.storage.errors import CorruptFile, on_disk

SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 3, 4
"""The kinds of the control records that open and close a snapshot."""
READ_BYTES = 1 << 20
SYNC_BYTES = 4 << 20
"""Bytes written between two syncs: one sync at the end of a large file would take long."""


@message(flexible=0)
class SnapshotHeaderRecord(Message):
    version: int = int16()
    last_contained_log_timestamp: int = int64()


@message(flexible=0)
class SnapshotFooterRecord(Message):
    version: int = int16()


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """One of the quorum's own records: its kind (5 KRaftVersion, 6 Voters) and its encoded value."""

    kind: int
    value: bytes


@dataclass(frozen=True, slots=True)
class SnapshotBatch:
    """One batch of a snapshot: record values in a data batch, else control records."""

    header: BatchHeader
    values: tuple[bytes, ...]
    control: tuple[ControlRecord, ...]


# -- writing -------------------------------------------------------------------------------------------------------


class SnapshotContent:
    """Writes the batches of one snapshot to a file, in order. It is not durable before `end` has returned."""

    def __init__(self, file: File, path: str, epoch: int, timestamp_ms: int, control: Sequence[ControlRecord]) -> None:
        self._file = file
        self._path = path
        self._epoch = epoch
        self._timestamp_ms = timestamp_ms
        self._offset = 0
        self._unsynced = 0
        opening = SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)
        self._append_control([ControlRecord(SNAPSHOT_HEADER, encode_bytes(opening, 0))])
        if control:
            self._append_control(control)

    def append(self, values: Sequence[bytes]) -> None:
        """Append one batch of record values."""
        self._append(build_value_batch(values, self._timestamp_ms), len(values))

    def end(self) -> None:
        """Append the footer and make everything durable."""
        self._append_control([ControlRecord(SNAPSHOT_FOOTER, encode_bytes(SnapshotFooterRecord(), 0))])
        self._sync()

    def _append_control(self, control: Sequence[ControlRecord]) -> None:
        records = [Record(key=control_key(one.kind), value=one.value) for one in control]
        self._append(build_batch(records, timestamp=self._timestamp_ms, control=True), len(records))

    def _append(self, batch: bytearray, count: int) -> None:
        patch(batch, self._offset, self._epoch)
        with on_disk(self._path, "append"):
            self._file.append(batch)
        self._offset += count
        self._unsynced += len(batch)
        if self._unsynced >= SYNC_BYTES:
            self._sync()

    def _sync(self) -> None:
        with on_disk(self._path, "sync"):
            self._file.sync()
        self._unsynced = 0


# -- reading -------------------------------------------------------------------------------------------------------


def read_batches(disk: Disk, path: str, block_bytes: int = READ_BYTES) -> Iterator[SnapshotBatch]:
    """Yield the batches of a snapshot in order, including the header's and the footer's.

    The file is read in blocks of `block_bytes`, or of a whole batch if that is larger.

    Raises CorruptFile at the first defect, at the latest at the end.
    """
    before: SnapshotBatch | None = None
    closed = False
    for header, batch in _sound_batches(disk, path, block_bytes):
        found = _opened(path, header, batch)
        kinds = [one.kind for one in found.control]
        if before is None and kinds != [SNAPSHOT_HEADER]:
            raise _corrupt(path, "it does not begin with a snapshot header")
        if before is not None and SNAPSHOT_HEADER in kinds:
            raise _corrupt(path, f"a second snapshot header at offset {header.base_offset}")
        if closed:
            raise _corrupt(path, f"something follows the footer, at offset {header.base_offset}")
        closed = SNAPSHOT_FOOTER in kinds
        before = found
        yield found
    if not closed:
        raise _corrupt(path, "it has no footer, so it was never finished")


def check_whole(disk: Disk, path: str) -> None:
    """Verify everything except the records. Raises CorruptFile."""
    first, last = True, False
    for header, batch in _sound_batches(disk, path):
        if last:
            raise _corrupt(path, f"something follows the footer, at offset {header.base_offset}")
        kinds = _kinds(path, batch) if header.is_control else []
        if first and kinds != [SNAPSHOT_HEADER]:
            raise _corrupt(path, "it does not begin with a snapshot header")
        first, last = False, SNAPSHOT_FOOTER in kinds
    if not last:
        raise _corrupt(path, "it has no footer, so it was never finished")


def read_timestamp(disk: Disk, path: str) -> int:
    """The time of the last record that a snapshot includes. Raises CorruptFile."""
    for batch in read_batches(disk, path):
        opening = decode(SnapshotHeaderRecord, 0, batch.control[0].value)
        assert isinstance(opening, SnapshotHeaderRecord)
        return opening.last_contained_log_timestamp
    raise _corrupt(path, "it is empty")


def _sound_batches(disk: Disk, path: str, block_bytes: int = READ_BYTES) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield header and content of each batch, verifying its checksum and that it continues the one before.

    The file is open only while a block is read. Loading a large snapshot takes many turns. Meanwhile others read the
    file, and retention may remove it in favour of a newer one, which is then loaded instead.
    """
    size, block = _block(disk, path, 0, block_bytes)
    position = block_at = offset = 0
    epoch: int | None = None
    while position < size:
        start = position - block_at
        header = _header(path, block, start) if len(block) - start >= HEADER_SIZE else None
        if header is None or len(block) - start < header.size:
            wanted = max(block_bytes, HEADER_SIZE if header is None else header.size)
            if size - position < HEADER_SIZE or (header is not None and position + header.size > size):
                raise _corrupt(path, f"it is cut off at byte {size}")
            block_at, (_, block) = position, _block(disk, path, position, wanted)
            continue
        batch = block[start : start + header.size]
        if header.base_offset != offset or header.last_offset_delta != header.count - 1 or header.count <= 0:
            raise _corrupt(path, f"the batch at byte {position} has offset {header.base_offset}, expected {offset}")
        if header.leader_epoch != epoch and epoch is not None:  # no checksum covers it
            raise _corrupt(path, f"the batch at byte {position} is of epoch {header.leader_epoch}, not {epoch}")
        epoch = header.leader_epoch
        if not crc_ok(batch):
            raise _corrupt(path, f"the sum of the batch at byte {position} is wrong")
        yield header, batch
        position += header.size
        offset = header.next_offset


def _block(disk: Disk, path: str, position: int, wanted: int) -> tuple[int, memoryview]:
    """Return the size of a file, and up to `wanted` bytes of it. Raises DiskFailure."""
    with on_disk(path, "read the file"):
        file = disk.open(path)
        try:
            size = file.size()
            return size, memoryview(file.read(position, min(wanted, size - position)))
        finally:
            file.close()


def _header(path: str, block: memoryview, start: int) -> BatchHeader:
    try:
        return BatchHeader.read(block, start)
    except ProtocolError as trouble:
        raise _corrupt(path, str(trouble)) from trouble


def _opened(path: str, header: BatchHeader, batch: memoryview) -> SnapshotBatch:
    try:
        if not header.is_control:
            return SnapshotBatch(header, parse_values(batch), ())
        control = tuple(ControlRecord(control_kind(one.key), bytes(one.value or b"")) for one in parse_records(batch))
        return SnapshotBatch(header, (), control)
    except ProtocolError as trouble:
        raise _corrupt(path, f"the batch at offset {header.base_offset}: {trouble}") from trouble


def _kinds(path: str, batch: memoryview) -> list[int]:
    try:
        return [control_kind(one.key) for one in parse_records(batch)]
    except ProtocolError as trouble:
        raise _corrupt(path, str(trouble)) from trouble


def _corrupt(path: str, problem: str) -> CorruptFile:
    return CorruptFile(f"{path}: {problem}; remove the file, an older snapshot or the log then takes its place")

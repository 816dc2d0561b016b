"""The snapshots of one replica of the metadata log, as files beside the log's segments (SN-01..04, rule 39).

A snapshot replaces everything in the log below its *end offset*, whose last record was written in its *epoch*; the two
are its id and its name, `%020d-%010d.checkpoint`. It is created in three steps, made here or downloaded:

    %020d-%010d.checkpoint.part     written and synced; it is not used, and a start removes it
    rename, fsync of the directory  from now on it exists, whole, after any crash
    the log may begin later         only then, and never later than the oldest kept snapshot

`Snapshots` lists the existing ones. At the start the newest is verified, and if it is damaged the next older one. A
damaged snapshot is reported in the node's log, left on the disk for people, and not used. Older ones are read when
needed.

This module does not decide which snapshot may be made: `RaftReplica` ensures that none passes the high watermark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from squall.nodes.ports import Disk, File, Trace
from squall.nodes.raft.snapshot_file import (
    READ_BYTES,
    ControlRecord,
    SnapshotBatch,
    SnapshotContent,
    check_whole,
    read_batches,
    read_timestamp,
)
from squall.nodes.storage.checkpoints import join, remove_if_there
from squall.nodes.storage.errors import CorruptFile, on_disk

SUFFIX = ".checkpoint"
PART = ".part"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint(\.part)?")


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """Everything below `end_offset`, whose last record was written in `epoch`."""

    end_offset: int
    epoch: int

    @property
    def name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"

    def __str__(self) -> str:
        return f"{self.end_offset}-{self.epoch}"


class SnapshotNotFound(Exception):
    """The snapshot does not exist here, or no longer."""


class PositionOutOfRange(Exception):
    """A position that is not within the snapshot."""


class _Part:
    """An unfinished file. `_finished` puts it in place, `abandon` removes it."""

    def __init__(self, snapshots: Snapshots, snapshot_id: SnapshotId) -> None:
        self.id = snapshot_id
        self._snapshots = snapshots
        self._path = snapshots.path(snapshot_id) + PART
        self._file: File | None = snapshots.new_file(self._path)

    @property
    def file(self) -> File:
        assert self._file is not None, f"{self._path} is closed"
        return self._file

    @property
    def size(self) -> int:
        return self.file.size()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _finished(self) -> None:
        self._close()
        self._snapshots.put_in_place(self.id)

    def abandon(self) -> None:
        """Discard the file."""
        if self._file is not None:
            self._close()
            self._snapshots.remove_part(self.id)


class SnapshotWriter(_Part):
    """A snapshot made here: `append` batches of record values, then `finish`."""

    def __init__(
        self, snapshots: Snapshots, snapshot_id: SnapshotId, timestamp_ms: int, control: Sequence[ControlRecord]
    ) -> None:
        super().__init__(snapshots, snapshot_id)
        self._content = SnapshotContent(self.file, self._path, snapshot_id.epoch, timestamp_ms, control)

    def append(self, values: Sequence[bytes]) -> None:
        self._content.append(values)

    def finish(self) -> None:
        """Finish the snapshot: durable and in place on return."""
        self._content.end()
        self._finished()


class SnapshotReceiver(_Part):
    """A downloaded snapshot: its bytes in order, from position 0 on."""

    def append(self, content: bytes | bytearray | memoryview) -> None:
        with on_disk(self._path, "append"):
            self.file.append(content)

    def finish(self) -> None:
        """Verify the snapshot and put it in place. Raises CorruptFile; then it is deleted."""
        with on_disk(self._path, "sync"):
            self.file.sync()
        self._close()  # it is opened again to be read
        try:
            self._snapshots.check_part(self.id)
        except CorruptFile:
            self._snapshots.remove_part(self.id)
            raise
        self._finished()


class Snapshots:
    """See the module. `notices` are lines for the node's log."""

    def __init__(self, disk: Disk, directory: str, *, node_id: int, trace: Trace) -> None:
        self.notices: list[str] = []
        self._disk = disk
        self._directory = directory
        self._node = node_id
        self._trace = trace
        self._ids = self._found()

    def _found(self) -> list[SnapshotId]:
        """The snapshots on the disk, oldest first, without unfinished ones and damaged newest ones."""
        found: list[SnapshotId] = []
        for name in self._disk.list(self._directory):
            matched = _NAME.fullmatch(name)
            if matched is None:
                continue
            if matched[3]:
                remove_if_there(self._disk, join(self._directory, name))
            else:
                found.append(SnapshotId(int(matched[1]), int(matched[2])))
        found.sort()
        while found and not self._is_whole(found[-1]):
            found.pop()
        return found

    def _is_whole(self, snapshot_id: SnapshotId) -> bool:
        try:
            check_whole(self._disk, self.path(snapshot_id))
        except CorruptFile as trouble:
            self.notices.append(f"node {self._node}: skipping a damaged snapshot: {trouble}")
            self._trace.event("snapshot_skipped", node=self._node, end=snapshot_id.end_offset, epoch=snapshot_id.epoch)
            return False
        return True

    # -- what is here -----------------------------------------------------------------------------------------

    @property
    def ids(self) -> tuple[SnapshotId, ...]:
        """Oldest first."""
        return tuple(self._ids)

    @property
    def latest(self) -> SnapshotId | None:
        return self._ids[-1] if self._ids else None

    @property
    def oldest(self) -> SnapshotId | None:
        return self._ids[0] if self._ids else None

    @property
    def size(self) -> int:
        """Bytes of all snapshots."""
        return sum(self.size_of(one) for one in self._ids)

    def path(self, snapshot_id: SnapshotId) -> str:
        return join(self._directory, snapshot_id.name)

    def size_of(self, snapshot_id: SnapshotId) -> int:
        return self.read(snapshot_id, 0, 0)[0]

    def timestamp_of(self, snapshot_id: SnapshotId) -> int:
        """The time of the last record that the snapshot includes. Raises CorruptFile."""
        return read_timestamp(self._disk, self.path(snapshot_id))

    def batches(self, snapshot_id: SnapshotId, block_bytes: int = READ_BYTES) -> Iterator[SnapshotBatch]:
        """The batches of a snapshot, read in blocks of `block_bytes` or more. Raises CorruptFile during iteration."""
        return read_batches(self._disk, self.path(snapshot_id), block_bytes)

    def control_records(self, snapshot_id: SnapshotId) -> list[ControlRecord]:
        """The quorum's own records in it, which precede those of the image; without header and footer."""
        found: list[ControlRecord] = []
        for position, batch in enumerate(self.batches(snapshot_id)):
            if batch.values:
                break
            found += batch.control if position else ()
        return [one for one in found if one.kind > 4]

    def read(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of the file, and bytes of it. Raises SnapshotNotFound, PositionOutOfRange."""
        if snapshot_id not in self._ids:
            raise SnapshotNotFound(str(snapshot_id))
        path = self.path(snapshot_id)
        with on_disk(path, "read the file"):
            file = self._disk.open(path)
            try:
                size = file.size()
                if not 0 <= position < max(size, 1):
                    raise PositionOutOfRange(f"{position} of {size}")
                return size, file.read(position, min(max_bytes, size - position)) if max_bytes > 0 else b""
            finally:
                file.close()

    # -- creating ---------------------------------------------------------------------------------------------

    def create(
        self, snapshot_id: SnapshotId, timestamp_ms: int, control: Sequence[ControlRecord] = ()
    ) -> SnapshotWriter:
        """Begin a snapshot made here."""
        self._trace.event("snapshot_begun", node=self._node, end=snapshot_id.end_offset, epoch=snapshot_id.epoch)
        return SnapshotWriter(self, snapshot_id, timestamp_ms, control)

    def receive(self, snapshot_id: SnapshotId) -> SnapshotReceiver:
        """Begin a download."""
        return SnapshotReceiver(self, snapshot_id)

    def new_file(self, path: str) -> File:
        with on_disk(path, "create the file"):
            file = self._disk.open(path, create=True)
            file.truncate(0)
            return file

    def check_part(self, snapshot_id: SnapshotId) -> None:
        check_whole(self._disk, self.path(snapshot_id) + PART)

    def remove_part(self, snapshot_id: SnapshotId) -> None:
        remove_if_there(self._disk, self.path(snapshot_id) + PART)

    def put_in_place(self, snapshot_id: SnapshotId) -> None:
        """Give a whole and synced part its final name, durably."""
        path = self.path(snapshot_id)
        with on_disk(path, "rename the snapshot"):
            self._disk.rename(path + PART, path)
            self._disk.sync_directory(self._directory)
        self._ids = sorted([*(one for one in self._ids if one != snapshot_id), snapshot_id])
        self._trace.event("snapshot", node=self._node, end=snapshot_id.end_offset, epoch=snapshot_id.epoch)

    # -- removing ---------------------------------------------------------------------------------------------

    def remove_before(self, end_offset: int) -> None:
        """Remove the snapshots that end below an offset, damaged ones too; durable on return."""
        going = [one for one in self._on_disk() if one.end_offset < end_offset]
        self._ids = [one for one in self._ids if one.end_offset >= end_offset]
        for one in going:
            remove_if_there(self._disk, self.path(one))
        if going:
            with on_disk(self._directory, "sync the directory"):
                self._disk.sync_directory(self._directory)

    def _on_disk(self) -> list[SnapshotId]:
        matches = (_NAME.fullmatch(name) for name in self._disk.list(self._directory))
        return [SnapshotId(int(one[1]), int(one[2])) for one in matches if one is not None and not one[3]]

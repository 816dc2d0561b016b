"""One segment of a log: a file of whole record batches, and the indexes that find an offset in it.

Two indexes lead to a byte position. The *sparse* index has an entry for about every `index_interval_bytes`. It is kept
in memory, written beside the segment when the segment is sealed (`%020d.index`, as Kafka does: pairs of four bytes, the
last offset of a batch relative to the segment's first and the position where that batch begins), and rebuilt from the
batches when missing. The *dense* index holds every one of the last few thousand appended batches, so that followers and
consumers at the tail, which is nearly all reading, find their position by bisection and cost one pread.

A third index leads from a timestamp to an offset (`time_index.py`, `%020d.timeindex`), also with an entry for about
every `index_interval_bytes`. Look-ups by time use it, and retention, which needs the largest timestamp.

An index is only a hint about where batches begin: losing one costs time, never records. It is not synced, so an index
file that is found is used only if it fits the segment. Of a sealed segment, one that does not fit is written anew.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.ports import Disk, File
from squall.nodes.storage.checkpoints import join, read_whole, remove_if_there
from squall.nodes.storage.errors import DiskFailure, on_disk
from squall.nodes.storage.time_index import NO_TIMESTAMP, TimeIndex

HEADER_SIZE = 61
"""Bytes of a version 2 batch header; a batch is never shorter."""

_LENGTH_FIELD_END = 12
_PLACE = struct.Struct(">qi11xi8xq")
"""Base offset, length, last offset delta and largest timestamp of a batch header."""

_MAX_TIMESTAMP = struct.Struct(">35xq")
_WALK_BLOCK = 1 << 16
_DENSE_MAX = 8192
_NEVER = 1 << 63


class BatchPosition(NamedTuple):
    """Position of one batch in its segment. `end` is the position after it."""

    base_offset: int
    last_offset: int
    position: int
    end: int
    max_timestamp: int


def log_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def index_name(base_offset: int) -> str:
    return f"{base_offset:020d}.index"


def time_index_name(base_offset: int) -> str:
    return f"{base_offset:020d}.timeindex"


class Segment:
    """Batches from `base_offset` up to `next_offset`, in one file of `size` bytes.

    Invariants: positions and offsets of both indexes increase; the dense index, if not empty, covers the file without a
    gap from its first entry to the end.

    OSErrors are raised as DiskFailure, which names the file.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        index_interval: int,
        *,
        create: bool,
        buggify: Buggify = OFF,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._path = join(directory, log_name(base_offset))
        self._index_interval = index_interval
        self._buggify = buggify
        self._sparse_offsets = array("q")
        self._sparse_positions = array("q")
        self._indexed_to = 0
        self._dense_offsets = array("q")
        self._dense_positions = array("q")
        self._times = TimeIndex()
        self._max_timestamp: int | None = NO_TIMESTAMP
        """None if not yet determined (`_measure_times`); then the time index is behind as well."""
        self._offset_of_max = base_offset
        self.base_offset = base_offset
        if create:
            self._remove_indexes()
        with on_disk(self._path, "create the segment" if create else "open the segment"):
            self.file: File = disk.open(self._path, create=create)
        self.size = self.file.size()
        self.next_offset = base_offset
        self.first_timestamp = _NEVER
        """The largest timestamp of the first batch, from which `segment.ms` is measured."""
        self.dirty = create

    # -- growing and shrinking ------------------------------------------------------------------------------------

    def write(self, batches: bytes | bytearray | memoryview) -> None:
        """Write whole batches at the end; `note` each afterwards. Raises DiskFailure; then nothing has changed."""
        if self._max_timestamp is None:
            self._measure_times()
        try:
            self.file.append(batches)
        except OSError as error:
            self._cut_file(self.size)
            raise DiskFailure(self._path, "append", error) from error

    def note(self, base_offset: int, last_offset: int, max_timestamp: int, size: int) -> None:
        """Account for the next batch in the file: just written, or read again during recovery."""
        position = self.size
        dense = self._dense_offsets
        if len(dense) >= _DENSE_MAX:
            del dense[: _DENSE_MAX // 2], self._dense_positions[: _DENSE_MAX // 2]
        dense.append(base_offset)
        self._dense_positions.append(position)
        if self._max_timestamp is not None and max_timestamp > self._max_timestamp:
            self._max_timestamp, self._offset_of_max = max_timestamp, last_offset
        if position >= self._indexed_to and not self._buggify.happens("index-entry-omitted"):
            self._add_sparse(last_offset, position, size)
            if self._max_timestamp is not None:
                self._times.add(self._max_timestamp, self._offset_of_max)
        self.size = position + size
        self.next_offset = last_offset + 1
        if not position:
            self.begin(max_timestamp)
        self.dirty = True

    def begin(self, max_timestamp: int) -> None:
        """The first batch has this largest timestamp, or will have it: it is about to be written."""
        self.first_timestamp = max_timestamp if max_timestamp >= 0 else _NEVER

    def _add_sparse(self, last_offset: int, position: int, size: int) -> None:
        self._sparse_offsets.append(last_offset)
        self._sparse_positions.append(position)
        self._indexed_to = position + max(size, self._index_interval)

    def _cut_file(self, size: int) -> None:
        """Drop a torn tail. If even that fails, the next opening of the log drops it."""
        try:
            self.file.truncate(size)
        except OSError:
            self.dirty = True

    def forget(self) -> None:
        """Empty the indexes and the count, keeping the file: recovery then calls `note` for each batch it finds."""
        for values in (self._sparse_offsets, self._sparse_positions, self._dense_offsets, self._dense_positions):
            del values[:]
        self._indexed_to = 0
        self._times.clear()
        self._max_timestamp = NO_TIMESTAMP
        self.first_timestamp = _NEVER
        self.size = 0
        self.next_offset = self.base_offset

    def truncate(self, offset: int) -> None:
        """Truncate durably, so that no offset at or above `offset` is left. A spanning batch is removed as a whole.

        Durably, because a power loss must not undo the truncation when other records already follow it elsewhere.
        """
        place = self.find(offset)
        if place is None:
            return
        self._remove_indexes()
        self.cut(place.position)
        self._cut_indexes(place.position)
        self.size = place.position
        self.next_offset = place.base_offset
        self._times.cut(place.base_offset)
        self._max_timestamp = None if self.size else NO_TIMESTAMP
        if not self.size:
            self.first_timestamp = _NEVER
        self.sync()

    def cut(self, size: int) -> None:
        """Truncate the file to a size."""
        with on_disk(self._path, "truncate"):
            self.file.truncate(size)
        self.dirty = True

    def _remove_indexes(self) -> None:
        for name in (index_name(self.base_offset), time_index_name(self.base_offset)):
            remove_if_there(self._disk, join(self._directory, name))

    def _cut_indexes(self, position: int) -> None:
        for offsets, positions in (
            (self._sparse_offsets, self._sparse_positions),
            (self._dense_offsets, self._dense_positions),
        ):
            keep = bisect_left(positions, position)
            del offsets[keep:], positions[keep:]
        self._indexed_to = self._sparse_positions[-1] + self._index_interval if self._sparse_positions else 0

    # -- finding --------------------------------------------------------------------------------------------------

    def find(self, offset: int) -> BatchPosition | None:
        """The first batch that holds `offset` or follows it; None if the segment ends before."""
        if offset >= self.next_offset:
            return None
        for place in self.places(self._floor(offset)):
            if place.last_offset >= offset:
                return place
        return None

    def _floor(self, offset: int) -> int:
        """The position of an indexed batch at or before the batch that holds `offset`."""
        dense = self._dense_offsets
        if dense and dense[0] <= offset:
            return self._dense_positions[bisect_right(dense, offset) - 1]
        at = bisect_right(self._sparse_offsets, offset) - 1
        return self._sparse_positions[at] if at >= 0 else 0

    def position_of(self, offset: int) -> int:
        """Position of the batch that holds `offset`; the end of the file if the segment ends before."""
        if offset >= self.next_offset:
            return self.size
        dense = self._dense_offsets
        if dense and dense[0] <= offset:
            return self._dense_positions[bisect_right(dense, offset) - 1]
        place = self.find(offset)
        return self.size if place is None else place.position

    def boundary_at_or_before(self, limit: int) -> int:
        """The last position not above `limit` at which a batch begins, or the end of the file."""
        if limit >= self.size:
            return self.size
        dense = self._dense_positions
        if dense and dense[0] <= limit:
            return dense[bisect_right(dense, limit) - 1]
        at = bisect_right(self._sparse_positions, limit) - 1
        boundary = self._sparse_positions[at] if at >= 0 else 0
        for place in self.places(boundary):
            if place.end > limit:
                return place.position
        return self.size

    def end_of_batch_at(self, position: int) -> int:
        """The position after the batch that begins at `position`."""
        dense = self._dense_positions
        if dense and dense[0] <= position:
            following = bisect_right(dense, position)
            return dense[following] if following < len(dense) else self.size
        return next(self.places(position)).end

    def places(self, position: int, limit: int | None = None) -> Iterator[BatchPosition]:
        """Yield the batches from a batch's beginning to `limit` (default: the size), reading headers only.

        Stops early where the bytes cannot be a batch; this occurs only during recovery.
        """
        end = self.size if limit is None else limit
        block, block_at = b"", position
        while position + HEADER_SIZE <= end:
            if position + HEADER_SIZE > block_at + len(block):
                block, block_at = self.read(position, min(_WALK_BLOCK, end - position)), position
                if len(block) < HEADER_SIZE:
                    return
            base_offset, length, delta, timestamp = _PLACE.unpack_from(block, position - block_at)
            following = position + _LENGTH_FIELD_END + length
            if following < position + HEADER_SIZE or following > end or delta < 0:
                return
            yield BatchPosition(base_offset, base_offset + delta, position, following, timestamp)
            position = following

    def max_timestamp(self) -> int:
        """The largest timestamp of any batch, -1 if there is none. After opening, the first call determines it."""
        if self._max_timestamp is None:
            self._measure_times()
        assert self._max_timestamp is not None
        return self._max_timestamp

    def _measure_times(self) -> None:
        """Extend the time index from its last entry to the segment's end, and set the largest timestamp."""
        largest, offset = self._times.last or (NO_TIMESTAMP, self.base_offset)
        begin = self.position_of(offset) if len(self._times) else 0
        indexed_to = begin + self._index_interval if len(self._times) else 0
        for place in self.places(begin):
            if place.max_timestamp > largest:
                largest, offset = place.max_timestamp, place.last_offset
            if place.position >= indexed_to:
                self._times.add(largest, offset)
                indexed_to = place.position + self._index_interval
        self._max_timestamp, self._offset_of_max = largest, offset

    def not_older(self, timestamp: int, offset: int) -> Iterator[BatchPosition]:
        """Yield the batches with a record of this time or later, from the batch that holds `offset` on."""
        if self.max_timestamp() < timestamp:
            return
        floor = self._times.floor(timestamp)
        begin = self.position_of(max(offset, self.base_offset if floor is None else floor))
        for place in self.places(begin):
            if place.max_timestamp >= timestamp:
                yield place

    # -- files ----------------------------------------------------------------------------------------------------

    def load(self) -> bool:
        """Trust the file (closed cleanly, or known to be on the disk): load its indexes, find its end.

        Return whether both indexes were there and fit the file. If not, they are built from it (`write_index`).
        """
        begin = self._load_index()
        for place in self.places(begin or 0):
            if place.position >= self._indexed_to:
                self._add_sparse(place.last_offset, place.position, place.end - place.position)
            self.next_offset = place.last_offset + 1
        self._max_timestamp = None if self.size else NO_TIMESTAMP
        fits = begin is not None
        if self.size:
            fits = self._load_time_index() and fits
            first = int(_MAX_TIMESTAMP.unpack(self.read(0, _MAX_TIMESTAMP.size))[0])
            self.first_timestamp = first if first >= 0 else _NEVER
        self.dirty = False
        return fits

    def _load_index(self) -> int | None:
        """Load the index file; return the position from which to read batch headers, None if it does not fit."""
        content = read_whole(self._disk, join(self._directory, index_name(self.base_offset)))
        if content is None or len(content) % 8:
            return None
        numbers = struct.unpack(f">{len(content) // 4}I", content)
        offsets, positions = numbers[0::2], numbers[1::2]
        pairs = zip(zip(offsets, positions, strict=True), zip(offsets[1:], positions[1:], strict=True), strict=False)
        if not positions or positions[-1] >= self.size or any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairs):
            return None
        last = next(self.places(positions[-1]), None)
        if last is None or last.last_offset != self.base_offset + offsets[-1]:
            return None
        self._sparse_offsets.extend(self.base_offset + offset for offset in offsets)
        self._sparse_positions.extend(positions)
        self._indexed_to = positions[-1] + self._index_interval
        return positions[-1]

    def _load_time_index(self) -> bool:
        """Load the time index; return whether it fits. Missing entries are determined on first use."""
        content = read_whole(self._disk, join(self._directory, time_index_name(self.base_offset)))
        if content is None or not self._times.decode(content, self.base_offset, self.next_offset):
            return False
        last = self._times.last
        if last is None:
            return True
        place = self.find(last[1])
        if place is None or (place.max_timestamp, place.last_offset) != last:
            self._times.clear()
            return False
        if place.end == self.size:
            self._max_timestamp, self._offset_of_max = last
        return True

    def write_index(self) -> None:
        """Write both indexes beside the segment, and in the time index the largest timestamp.

        Not synced: they are only hints.
        """
        self._times.add(self.max_timestamp(), self._offset_of_max)
        pairs = zip(self._sparse_offsets, self._sparse_positions, strict=True)
        numbers = [number for offset, position in pairs for number in (offset - self.base_offset, position)]
        self._write_beside(index_name(self.base_offset), struct.pack(f">{len(numbers)}I", *numbers))
        self._write_beside(time_index_name(self.base_offset), self._times.encode(self.base_offset))

    def _write_beside(self, name: str, content: bytes) -> None:
        path = join(self._directory, name)
        with on_disk(path, "write the index"):
            file = self._disk.open(path, create=True)
            try:
                file.truncate(0)
                file.append(content)
            finally:
                file.close()

    def read(self, position: int, length: int) -> bytes:
        """Return bytes of the file; fewer than `length` only at its end."""
        try:
            return self.file.read(position, length)
        except OSError as error:
            raise DiskFailure(self._path, "read", error) from error

    def sync(self) -> None:
        if self.dirty:
            with on_disk(self._path, "sync"):
                self.file.sync()
            self.dirty = False

    def close(self) -> None:
        self.file.close()

    def delete(self) -> None:
        """Remove the segment's files, the indexes first: an index must not outlive what it describes."""
        self.file.close()
        self._remove_indexes()
        remove_if_there(self._disk, self._path)

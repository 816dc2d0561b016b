"""One segment of a log: a file of whole record batches, and the ways to find an offset in it.

Two indexes lead to a byte position. The *sparse* index has an entry for about every `index_interval_bytes`; it is
kept in memory, written beside the segment (`%020d.index`, pairs of four bytes: offset relative to the segment's
first, position of the batch that begins there) when the segment is sealed, and rebuilt from the batches when missing.
The *dense* index knows every one of the last few thousand batches appended, so that followers and consumers at the
tail, which is nearly all reading, find their place by bisection and cost one pread.

An index is only a hint about where batches begin: losing one costs time, never records.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from squall.nodes.ports import Disk, File
from squall.nodes.storage.checkpoints import join, read_whole, remove_if_there

HEADER_SIZE = 61
"""Bytes of a version 2 batch header; a batch is never shorter."""

_LENGTH_FIELD_END = 12
_PLACE = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta of a batch header."""

_MAX_TIMESTAMP = struct.Struct(">35xq")
_WALK_BLOCK = 1 << 16
_DENSE_MAX = 8192
_NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class Place:
    """Where one batch stands in its segment. `end` is the position after it."""

    base_offset: int
    last_offset: int
    position: int
    end: int


def log_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def index_name(base_offset: int) -> str:
    return f"{base_offset:020d}.index"


class Segment:
    """Batches from `base_offset` up to `next_offset`, in one file of `size` bytes.

    Invariants: positions and offsets of both indexes increase; the dense index, if not empty, covers the file without
    a gap from its first entry to the end.
    """

    def __init__(self, disk: Disk, directory: str, base_offset: int, index_interval: int, *, create: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._path = join(directory, log_name(base_offset))
        self._index_interval = index_interval
        self._sparse_offsets = array("q")
        self._sparse_positions = array("q")
        self._indexed_to = 0
        self._dense_offsets = array("q")
        self._dense_positions = array("q")
        self._max_timestamp: int | None = _NO_TIMESTAMP
        self.base_offset = base_offset
        self.file: File = disk.open(self._path, create=create)
        self.size = self.file.size()
        self.next_offset = base_offset
        self.dirty = create

    # -- growing and shrinking ------------------------------------------------------------------------------------

    def write(self, batches: bytes | bytearray | memoryview) -> None:
        """Write whole batches at the end; `note` each afterwards. Raises OSError; then nothing has changed."""
        try:
            self.file.append(batches)
        except OSError:
            self._cut_file(self.size)
            raise

    def note(self, base_offset: int, last_offset: int, max_timestamp: int, size: int) -> None:
        """Account for the next batch in the file: just written, or met again while recovering."""
        position = self.size
        dense = self._dense_offsets
        if len(dense) >= _DENSE_MAX:
            del dense[: _DENSE_MAX // 2], self._dense_positions[: _DENSE_MAX // 2]
        dense.append(base_offset)
        self._dense_positions.append(position)
        if position >= self._indexed_to:
            self._add_sparse(base_offset, position, size)
        self.size = position + size
        self.next_offset = last_offset + 1
        if self._max_timestamp is not None and max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
        self.dirty = True

    def _add_sparse(self, base_offset: int, position: int, size: int) -> None:
        self._sparse_offsets.append(base_offset)
        self._sparse_positions.append(position)
        self._indexed_to = position + max(size, self._index_interval)

    def _cut_file(self, size: int) -> None:
        """Drop a torn tail. If even that fails, the next opening of the log will."""
        try:
            self.file.truncate(size)
        except OSError:
            self.dirty = True

    def forget(self) -> None:
        """Empty the indexes and the count, keeping the file: recovery is about to `note` what it finds."""
        for values in (self._sparse_offsets, self._sparse_positions, self._dense_offsets, self._dense_positions):
            del values[:]
        self._indexed_to = 0
        self._max_timestamp = _NO_TIMESTAMP
        self.size = 0
        self.next_offset = self.base_offset

    def truncate(self, offset: int) -> None:
        """Cut so that no offset at or above `offset` is left. A batch that spans it goes as a whole."""
        place = self.find(offset)
        if place is None:
            return
        remove_if_there(self._disk, join(self._directory, index_name(self.base_offset)))
        self.file.truncate(place.position)
        self._cut_indexes(place.position)
        self.size = place.position
        self.next_offset = place.base_offset
        self._max_timestamp = None if self.size else _NO_TIMESTAMP
        self.dirty = True

    def _cut_indexes(self, position: int) -> None:
        for offsets, positions in (
            (self._sparse_offsets, self._sparse_positions),
            (self._dense_offsets, self._dense_positions),
        ):
            keep = bisect_left(positions, position)
            del offsets[keep:], positions[keep:]
        self._indexed_to = self._sparse_positions[-1] + self._index_interval if self._sparse_positions else 0

    # -- finding --------------------------------------------------------------------------------------------------

    def find(self, offset: int) -> Place | None:
        """The first batch that holds `offset` or follows it; None if the segment ends before."""
        if offset >= self.next_offset:
            return None
        for place in self.places(self._floor(offset)):
            if place.last_offset >= offset:
                return place
        return None

    def _floor(self, offset: int) -> int:
        """The position of an indexed batch at or before the one that holds `offset`."""
        dense = self._dense_offsets
        if dense and dense[0] <= offset:
            return self._dense_positions[bisect_right(dense, offset) - 1]
        at = bisect_right(self._sparse_offsets, offset) - 1
        return self._sparse_positions[at] if at >= 0 else 0

    def position_of(self, offset: int) -> int:
        """Where the batch begins that holds `offset`; the end of the file if the segment ends before."""
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

    def places(self, position: int, limit: int | None = None) -> Iterator[Place]:
        """The batches from a batch's beginning to `limit` (the size), reading headers only.

        Stops early where the bytes cannot be a batch; only recovery meets such.
        """
        end = self.size if limit is None else limit
        block, block_at = b"", position
        while position + HEADER_SIZE <= end:
            if position + HEADER_SIZE > block_at + len(block):
                block, block_at = self.file.read(position, min(_WALK_BLOCK, end - position)), position
                if len(block) < HEADER_SIZE:
                    return
            base_offset, length, delta = _PLACE.unpack_from(block, position - block_at)
            following = position + _LENGTH_FIELD_END + length
            if following < position + HEADER_SIZE or following > end or delta < 0:
                return
            yield Place(base_offset, base_offset + delta, position, following)
            position = following

    def max_timestamp(self) -> int:
        """The largest timestamp of any batch. Not kept on disk: after opening it is measured when first asked."""
        if self._max_timestamp is None:
            self._max_timestamp = max(
                (_MAX_TIMESTAMP.unpack(self.file.read(place.position, 43))[0] for place in self.places(0)),
                default=_NO_TIMESTAMP,
            )
        return self._max_timestamp

    # -- files ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Trust the file (it was closed cleanly): load its index, or rebuild it, and find its end."""
        start = self._load_index()
        self._max_timestamp = None if self.size else _NO_TIMESTAMP
        for place in self.places(start):
            if place.position >= self._indexed_to:
                self._add_sparse(place.base_offset, place.position, place.end - place.position)
            self.next_offset = place.last_offset + 1
        self.dirty = False

    def _load_index(self) -> int:
        """Take the index file if it fits the segment; the position to walk on from."""
        content = read_whole(self._disk, join(self._directory, index_name(self.base_offset)))
        if content is None or len(content) % 8:
            return 0
        numbers = struct.unpack(f">{len(content) // 4}I", content)
        offsets, positions = numbers[0::2], numbers[1::2]
        pairs = zip(zip(offsets, positions, strict=True), zip(offsets[1:], positions[1:], strict=True), strict=False)
        if not positions or positions[-1] >= self.size or any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairs):
            return 0
        self._sparse_offsets.extend(self.base_offset + offset for offset in offsets)
        self._sparse_positions.extend(positions)
        self._indexed_to = positions[-1] + self._index_interval
        return positions[-1]

    def write_index(self) -> None:
        """Write the sparse index beside the segment. Not synced: it is only a hint."""
        path = join(self._directory, index_name(self.base_offset))
        pairs = zip(self._sparse_offsets, self._sparse_positions, strict=True)
        numbers = [number for offset, position in pairs for number in (offset - self.base_offset, position)]
        file = self._disk.open(path, create=True)
        try:
            file.truncate(0)
            file.append(struct.pack(f">{len(numbers)}I", *numbers))
        finally:
            file.close()

    def sync(self) -> None:
        if self.dirty:
            self.file.sync()
            self.dirty = False

    def close(self) -> None:
        self.file.close()

    def delete(self) -> None:
        self.file.close()
        remove_if_there(self._disk, self._path)
        remove_if_there(self._disk, join(self._directory, index_name(self.base_offset)))

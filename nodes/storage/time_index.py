"""The time index of one segment: bounds the search for a timestamp, in Kafka's format.

An entry (timestamp, last offset of a batch) states that this batch has this largest timestamp, and that no earlier
batch has one as large. Both increase from entry to entry. So a look-up by time begins with the batch of the last entry
that is not younger than the requested time, and the segment's largest timestamp is that of the last entry or of a later
batch.

On the disk (`%020d.timeindex`): timestamp in eight bytes, offset relative to the segment's first in four, as in Kafka,
whose tools read it. The file is not synced. A power loss may leave only a prefix of it, which is as correct as the
whole: timestamps after its last entry are read from the batches (`segment.py`).
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right

_ENTRY = struct.Struct(">qI")
NO_TIMESTAMP = -1


class TimeIndex:
    """See the module. Offsets in this class are log offsets, not relative ones."""

    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("q")

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry, None if there is none."""
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else None

    def add(self, timestamp: int, last_offset: int) -> None:
        """Add an entry unless its timestamp is at most the last one's."""
        if timestamp > (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            self._timestamps.append(timestamp)
            self._offsets.append(last_offset)

    def floor(self, timestamp: int) -> int | None:
        """Last offset of a batch before which no batch has this timestamp or a larger one; None: begin anywhere."""
        at = bisect_right(self._timestamps, timestamp) - 1
        return self._offsets[at] if at >= 0 else None

    def cut(self, offset: int) -> None:
        """Forget the entries of batches that end at or above an offset."""
        keep = bisect_left(self._offsets, offset)
        del self._timestamps[keep:], self._offsets[keep:]

    def clear(self) -> None:
        del self._timestamps[:], self._offsets[:]

    def encode(self, base_offset: int) -> bytes:
        return b"".join(
            _ENTRY.pack(timestamp, offset - base_offset)
            for timestamp, offset in zip(self._timestamps, self._offsets, strict=True)
        )

    def decode(self, content: bytes, base_offset: int, next_offset: int) -> bool:
        """Load the entries of a file; False and none if they cannot be those of a segment up to `next_offset`."""
        self.clear()
        if len(content) % _ENTRY.size:
            return False
        before = (NO_TIMESTAMP, base_offset - 1)
        for timestamp, relative in _ENTRY.iter_unpack(content):
            offset = base_offset + relative
            if timestamp <= before[0] or offset <= before[1] or offset >= next_offset:
                self.clear()
                return False
            self._timestamps.append(timestamp)
            self._offsets.append(offset)
            before = (timestamp, offset)
        return True

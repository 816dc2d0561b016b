"""The time index of one segment: how far back a timestamp can possibly be, in Kafka's format.

An entry (timestamp, last offset of a batch) says: this batch has this largest timestamp, and no batch before it has one
as large. Both grow from entry to entry. A look-up by time therefore begins with the batch of the last entry that is not
younger than what is looked for, and the largest timestamp of the segment is that of the last entry or of a batch that
follows it.

On the disk (`%020d.timeindex`): timestamp in eight bytes, offset relative to the segment's first in four, as in Kafka,
whose tools read it. The file is not synced. A beginning of it is all that may be left after a power loss, and a
beginning is as true as the whole: what follows its last entry is found in the batches (`segment.py`).
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right

_ENTRY = struct.Struct(">qI")
NO_TIMESTAMP = -1


class TimeIndex:
    """See the module. Offsets here are those of the log, not relative ones."""

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
        """Add an entry if it says anything new: its timestamp is larger than all before."""
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
        """Take the entries of a file; False, and none, if they cannot be those of a segment up to `next_offset`."""
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

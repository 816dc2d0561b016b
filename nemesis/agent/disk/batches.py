"""Finds which offsets lie where in a log segment, to say what a disk has lost.

A segment is a file `TOPIC-PARTITION/%020d.log` of consecutive batches. Of a header only this is read: base offset
(bytes 0 to 7), length of what follows byte 11 (8 to 11), magic (16, always 2) and last offset delta (23 to 26).
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

HEADER_BYTES = 27
_PLACE = struct.Struct(">qi4xb6xi")
_SEGMENT = re.compile(r"(?:.*/)?([^/]+-\d+)/\d{20}\.log")
_LENGTH_FIELD_END = 12
_MAGIC = 2

Offsets = tuple[int, int]


def log_of(name: str) -> str | None:
    """The topic-partition to which this segment file belongs; None if it is no segment."""
    found = _SEGMENT.fullmatch(name)
    return found[1] if found else None


def offsets_beyond(path: Path, kept: int) -> Offsets | None:
    """The first offset outside the first `kept` bytes, and the one after the last offset of all."""
    first, after = None, 0
    with path.open("rb") as file:
        position, end = 0, path.stat().st_size
        while position + HEADER_BYTES <= end:
            file.seek(position)
            base, length, magic, last_delta = _PLACE.unpack(file.read(HEADER_BYTES))
            position += _LENGTH_FIELD_END + length
            if magic != _MAGIC or length <= 0 or position > end:
                break
            if first is None and position > kept:
                first = base
            after = base + last_delta + 1
    return None if first is None else (first, after)


def joined(one: Offsets | None, other: Offsets) -> Offsets:
    """What two segments of the same log have lost together."""
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))

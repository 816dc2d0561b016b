"""Compare the files beside a log with its batches: offset index, time index, leader epochs, producers' snapshots.

A node reads these files when it starts. A wrong one then makes it skip records, truncate too little or too much, or
append a batch twice, long after the mistake. `digest.py` therefore compares them with the batches while both are there.
The laws hold for our nodes and for Apache Kafka:

* offset index: an entry (offset, position) names a position where a batch begins, at or before that offset. Otherwise a
  reader who begins there misses what it looks for.
* time index: an entry (timestamp, offset) names an offset of the segment. No batch before it is younger, and the batch
  that holds it is no older. Otherwise a search by time passes over a record.
* leader epochs: the last entry that begins at or before a batch names the batch's epoch (DP-13). An entry may be
  missing for batches below a raised log start, and in the last segment, whose batches are read again after a crash.
* producers' snapshot: what it states to be a producer's last batch is a batch of that producer (DP-05), as long as the
  log holds it.

Only sealed segments count: the last one's files are written when it is sealed. Indexes are not synced, so that a power
loss may leave anything of them. A node then checks whether the last entry fits and otherwise ignores the file
(`storage/segment.py`); such a file is no contradiction. A missing file is none either.

Pure functions: content in, a sentence out, or None. A file that is written while it is read may contradict for a
moment: the caller reads again.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from squall.nodes.protocol.crc import crc32c

_INDEX_ENTRY: Final = struct.Struct(">Ii")
_TIME_ENTRY: Final = struct.Struct(">qI")
_SNAPSHOT_HEAD: Final = struct.Struct(">HI")
"""Version, and the CRC-32C of all that follows."""
_SNAPSHOT_COUNT: Final = struct.Struct(">i")
_SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, last offset - first offset, timestamp, coordinator epoch, first
offset of the transaction under way."""
_SNAPSHOT_VERSION: Final = 1
_NO_TIMESTAMP: Final = -1


class Place(NamedTuple):
    """One batch of a segment; its position is in bytes from the segment's beginning."""

    base_offset: int
    last_offset: int
    position: int
    size: int
    max_timestamp: int

    @property
    def end(self) -> int:
        """The position after it."""
        return self.position + self.size


class Produced(NamedTuple):
    """What a batch states of its producer; `producer_id` -1 without one."""

    last_offset: int
    producer_id: int
    producer_epoch: int
    last_sequence: int


def offset_index_problem(content: bytes, base_offset: int, places: Sequence[Place]) -> str | None:
    """Return how the offset index of a sealed segment contradicts its batches; None if it does not."""
    if len(content) % _INDEX_ENTRY.size:
        return None
    entries = [(base_offset + offset, position) for offset, position in _INDEX_ENTRY.iter_unpack(content)]
    begins = {place.position: place.base_offset for place in places}
    if not _increases(entries) or not _leads_to(begins, *entries[-1]):
        return None  # no node uses it
    for offset, position in entries:
        if not _leads_to(begins, offset, position):
            there = f"the batch at {begins[position]}" if position in begins else "no batch"
            return f"leads from offset {offset} to position {position}, where {there} begins"
    if entries[-1][0] > places[-1].last_offset:
        return f"has an entry for offset {entries[-1][0]}, and the segment ends with {places[-1].last_offset}"
    return None


def _increases(entries: Sequence[tuple[int, int]]) -> bool:
    """Whether there are entries, and both numbers increase from each to the next."""
    ascending = all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(entries))
    return bool(entries) and ascending


def _leads_to(begins: dict[int, int], offset: int, position: int) -> bool:
    return begins.get(position, offset + 1) <= offset


def time_index_problem(content: bytes, base_offset: int, places: Sequence[Place]) -> str | None:
    """Return how the time index of a sealed segment contradicts its batches; None if it does not."""
    if len(content) % _TIME_ENTRY.size:
        return None
    entries = [(timestamp, base_offset + offset) for timestamp, offset in _TIME_ENTRY.iter_unpack(content)]
    times = _Times(places)
    if not _increases(entries) or times.problem(*entries[-1]) is not None:
        return None  # no node uses it
    return next((problem for one in entries if (problem := times.problem(*one)) is not None), None)


class _Times:
    """The largest timestamps of a segment's batches."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places
        self._largest_before = list(accumulate((one.max_timestamp for one in places), max, initial=_NO_TIMESTAMP))
        """By the number of a batch."""

    def problem(self, timestamp: int, offset: int) -> str | None:
        """Return how an entry contradicts the batches; None if it does not."""
        at = bisect_left(self._places, offset, key=lambda place: place.last_offset)
        if at == len(self._places):
            return f"has an entry for offset {offset}, and the segment ends before"
        holding = self._places[at]
        if holding.base_offset <= offset and holding.max_timestamp < timestamp:
            return (
                f"says that offset {offset} has time {timestamp}, and the batch at {holding.base_offset} is of "
                f"{holding.max_timestamp} at most"
            )
        if self._largest_before[at] > timestamp:
            return (
                f"says that nothing before offset {offset} is younger than {timestamp}, and a batch before it is of "
                f"{self._largest_before[at]}"
            )
        return None


def epochs_problem(
    entries: Sequence[Sequence[int]], batches: Sequence[tuple[int, int]], *, from_the_start: bool
) -> str | None:
    """Return how leader epochs contradict batches, each given as base offset and leader epoch; None if they do not.

    `from_the_start`: the first entry may not begin after the first batch.
    """
    epochs, starts = [one[0] for one in entries], [one[1] for one in entries]
    for base, epoch in batches:
        at = bisect_right(starts, base) - 1
        if epoch < 0 or (at < 0 and not from_the_start):
            continue
        if at < 0 or epochs[at] != epoch:
            named = f"names epoch {epochs[at]}" if at >= 0 else "names no epoch"
            return f"{named} for offset {base}, where a batch of epoch {epoch} begins"
    return None


def producers_problem(content: bytes, batches: Sequence[Produced]) -> str | None:
    """Return how a producers' snapshot contradicts the log's batches; None if it does not, or is damaged.

    A control batch may have raised a producer's epoch after its last batch.
    """
    if len(content) < _SNAPSHOT_HEAD.size + _SNAPSHOT_COUNT.size:
        return None
    version, stored = _SNAPSHOT_HEAD.unpack_from(content)
    body = content[_SNAPSHOT_HEAD.size :]
    (count,) = _SNAPSHOT_COUNT.unpack_from(body)
    end = _SNAPSHOT_COUNT.size + count * _SNAPSHOT_ENTRY.size
    if version != _SNAPSHOT_VERSION or crc32c(body) != stored or not 0 <= end <= len(body):
        return None
    for producer, epoch, sequence, offset, *_ in _SNAPSHOT_ENTRY.iter_unpack(body[_SNAPSHOT_COUNT.size : end]):
        at = bisect_left(batches, offset, key=lambda batch: batch.last_offset)
        if sequence < 0 or at == len(batches) or batches[at].last_offset != offset:
            continue
        found = batches[at]
        if found.producer_id != producer or found.producer_epoch > epoch or found.last_sequence != sequence:
            return (
                f"says that producer {producer} of epoch {epoch} ended with sequence {sequence} at offset {offset}, "
                f"where a batch of producer {found.producer_id}, epoch {found.producer_epoch}, ends with sequence "
                f"{found.last_sequence}"
            )
    return None

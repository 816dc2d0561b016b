"""Check whether a history is well-formed: each operation recorded once, each process with one at a time.

Pure functions over columns, for any share of a history. `ended` is when an operation ended, `NEVER` for one of unknown
outcome: nothing may follow it in its process. Operations of a process are ordered by invocation, then by id; each must
have ended when the next begins, and an instant at which one ends and the next begins is no overlap.

Two passes. `suspects` is quick: if no two operations overlap, the n-th end comes before the start after the n-th, and
for that starts and ends can be sorted separately, as plain numbers that begin with the process. It counts an operation
that ends as it begins as one of half a nanosecond, so that it hides no overlap around it; hence it may suspect two that
begin together and legally follow each other. `first_overlap` is exact, and is for suspects.

Memory. `portions` cuts what must be examined together into shares that fit, however it is distributed: if more than a
share's size is read, the share becomes narrower, and the rest is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

NEVER: Final = int(np.iinfo(np.int64).max)
WORD_BITS: Final = 63
SEGMENT_BITS: Final = 40
"""The number of low bits of an id that number it within its segment (`joining.py`)."""
MOST_FLAGS: Final = 8
"""So many bytes per id."""
REPEATED, BACKWARDS, OVERLAPPING = range(3)
"""The rules, in the order in which a breach of them is reported."""


class Breach(msgspec.Struct, frozen=True, order=True):
    """A row that breaks a rule. The least breach is reported: the first rule, and there the first in `key`."""

    rule: int
    key: tuple[int, ...]
    row: int
    problem: str


def repeated(op_id: int, row: int) -> Breach:
    """A breach: `row` is the second with that id."""
    return Breach(REPEATED, (op_id,), row, f"operation {op_id} is recorded twice")


def backwards(process: int, row: int) -> Breach:
    problem = f"time runs backwards within process {process}: completed before it was invoked"
    return Breach(BACKWARDS, (row,), row, problem)


def overlapping(process: int, invoked: int, op_id: int, row: int) -> Breach:
    return Breach(OVERLAPPING, (process, invoked, op_id), row, f"process {process} has two outstanding operations")


def least_repeated(ids: Ints) -> int | None:
    """The least number that occurs twice. Overwrites the array."""
    if _are_all_others(ids):
        return None
    ids.sort()
    twice = np.flatnonzero(ids[1:] == ids[:-1])
    return int(ids[twice[0]]) if len(twice) else None


def _are_all_others(ids: Ints) -> bool:
    """Whether all ids differ; False if that cannot be decided with a flag per id, because they are spread too thinly.

    Ids are numbers within segments, nearly without gaps.
    """
    if len(ids) == 0:
        return True
    segment, number = ids >> SEGMENT_BITS, ids & ((1 << SEGMENT_BITS) - 1)
    first, least = int(segment.min()), int(number.min())
    width = int(number.max()) - least + 1
    flags = (int(segment.max()) - first + 1) * width
    if flags > MOST_FLAGS * len(ids):
        return False
    segment -= first
    segment *= width
    segment += number
    segment -= least
    seen = np.zeros(flags, np.bool_)
    seen[segment] = True
    return int(np.count_nonzero(seen)) == len(ids)


def suspects(process: Ints, invoked: Ints, ended: Ints, since: int = -NEVER) -> Ints:
    """Return processes that may have had two operations at once, in ascending order; no other had.

    No operation may end before it begins. What was before `since` is left out, except what had not ended then.
    Overwrites the arrays.
    """
    if len(process) == 0:
        return process
    least, since, until = int(process.min()), max(since, int(invoked.min())), min(int(invoked.max()) + 1, NEVER)
    bits = (2 * (until - since) + 1).bit_length()
    if (int(process.max()) - least).bit_length() + bits > WORD_BITS:
        return np.unique(process)
    instant = ended == invoked
    process -= least
    process <<= bits
    for times in (invoked, ended):
        np.clip(times, since, until, out=times)
        times -= since
        times <<= 1
    ended += instant
    for times in (invoked, ended):
        times |= process
        times.sort()
    return np.unique(invoked[1:][ended[:-1] > invoked[1:]] >> bits) + least


def first_overlap(process: Ints, invoked: Ints, ended: Ints, op_id: Ints) -> int | None:
    """The first operation, by process, invocation and id, that begins while the one before it has not ended."""
    order = np.lexsort((op_id, invoked, process))
    same = np.diff(process[order]) == 0
    wrong = np.flatnonzero(same & (invoked[order][1:] < ended[order][:-1]))
    return int(order[wrong[0] + 1]) if len(wrong) else None


# Shares that fit ------------------------------------------------------------------------------------------------------


Columns = tuple[Ints, ...]
Read = Callable[[int, int], Iterator[Columns]]
"""Reads, from where to where, pieces of the columns that must be examined together.

The first column is the key by which they are cut first. A piece may have keys below the range, which then belong to
every share from there on.
"""


@dataclass(frozen=True)
class Portion:
    """What must be examined together from `low` to `high`."""

    low: int
    high: int
    columns: Columns


def portions(read: Read, columns: int, low: int, high: int, most: int) -> Iterator[Portion]:
    """Yield everything from `low` to `high` in ascending portions of at most about `most` rows."""
    while low <= high:
        held = _Held(columns, low, high, most)
        for piece in read(low, high):
            held.add(piece)
        yield Portion(low, held.high, held.columns)
        low = held.high + 1


class _Held:
    """What was read of a portion, which becomes narrower whenever that is too much."""

    def __init__(self, columns: int, low: int, high: int, most: int) -> None:
        self.low = low
        self.high = high
        self.most = most
        self._rows = 0
        self._room = [np.empty(0, np.int64) for _ in range(columns)]

    @property
    def columns(self) -> Columns:
        return tuple(one[: self._rows] for one in self._room)

    def add(self, piece: Columns) -> None:
        start, end = self._rows, self._rows + len(piece[0])
        self._make_room(end)
        for room, column in zip(self._room, piece, strict=True):
            room[start:end] = column
        self._keep(start, self._room[0][start:end] <= self.high)
        if self._rows > self.most:
            self._narrow()

    def _make_room(self, rows: int) -> None:
        """Allocate generously: memory that is never written costs nothing."""
        if rows > len(self._room[0]):
            held = self.columns
            self._room = [np.empty(max(2 * rows, self.most), np.int64) for _ in held]
            for room, column in zip(self._room, held, strict=True):
                room[: self._rows] = column

    def _keep(self, start: int, wanted: npt.NDArray[np.bool_]) -> None:
        """Keep only the wanted rows from `start` on."""
        count = int(wanted.sum())
        if count < len(wanted):
            for room in self._room:
                room[start : start + count] = room[start : start + len(wanted)][wanted]
        self._rows = start + count

    def _narrow(self) -> None:
        """Leave the upper half of what begins here to a later portion.

        Does nothing if most of what is held reaches over `low` from before: it would only have to be held again.
        """
        keys = self._room[0][: self._rows]
        own = keys[keys >= self.low]
        if 2 * len(own) > len(keys):
            middle = int(np.partition(own, len(own) // 2)[len(own) // 2])
            self.high = max(middle - 1, self.low)
            self._keep(0, keys <= self.high)

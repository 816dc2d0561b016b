"""Count over time, in sums that add up: operations by how they ended, latencies, errors.

A task counts one topic-partition; the tables of a run show all of them together (`tables.py`). Counts of tasks that are
carried out one after the other in one place are added up there before they travel (`Aggregator`): what the control
process receives then grows with the number of places and the length of the run, and not with the topic-partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
HELD: Final = 32
"""How many counts are held until they are added up at once."""


class Tally(msgspec.Struct, frozen=True, array_like=True):
    """How often some integers occurred: the integers, ascending, and a count for each.

    Both are arrays of int64 as bytes, which add nothing to the size when they travel.
    """

    keys: bytes = b""
    counts: bytes = b""

    @classmethod
    def of(cls, keys: Ints, counts: Ints) -> Tally:
        """Make a tally from ascending numbers and their counts."""
        return cls(keys.astype(np.int64).tobytes(), counts.astype(np.int64).tobytes())

    @classmethod
    def sum(cls, tallies: Sequence[Tally]) -> Tally:
        keys = np.frombuffer(b"".join(one.keys for one in tallies), np.int64)
        counts = np.frombuffer(b"".join(one.counts for one in tallies), np.int64)
        if len(tallies) < 2 or not len(keys):
            return cls(keys.tobytes(), counts.tobytes())
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        first = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
        return cls.of(keys[first], np.add.reduceat(counts, first))

    @property
    def arrays(self) -> tuple[Ints, Ints]:
        """Numbers and counts."""
        return np.frombuffer(self.keys, np.int64), np.frombuffer(self.counts, np.int64)


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """The counts of one topic-partition, or of several of one run.

    `throughput` counts operations by the bucket, `f` and `type` with which they ended, `latencies` acknowledged sends
    by bucket and class of latency; `errors` are bucket, `f`, error, and how often. `checkers/kernels/series.py` defines
    how several numbers are packed into one.
    """

    throughput: Tally = Tally()
    latencies: Tally = Tally()
    errors: tuple[tuple[int, int, str, int], ...] = ()

    @classmethod
    def sum(cls, counts: Sequence[Counts]) -> Counts:
        errors: Counter[tuple[int, int, str]] = Counter()
        for one in counts:
            for bucket, f, said, count in one.errors:
                errors[bucket, f, said] += count
        return cls(
            Tally.sum([one.throughput for one in counts]),
            Tally.sum([one.latencies for one in counts]),
            tuple((*what, count) for what, count in sorted(errors.items())),
        )


class Aggregator:
    """Adds up counts that arrive one after the other, in bounded memory."""

    def __init__(self) -> None:
        self._held: list[Counts] = []

    def add(self, counts: Counts) -> None:
        self._held.append(counts)
        if len(self._held) == HELD:
            self._held = [Counts.sum(self._held)]

    @property
    def counts(self) -> Counts:
        """The sum of all counts that were added."""
        return Counts.sum(self._held)

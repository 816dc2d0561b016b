"""Find the values that registers held: who wrote and met each, and what replaced it.

The rules of zones (`zones.py`) rest on values being unique: what an operation met then identifies the operation it came
after. Values are numbered here over all registers at once, so that every question is an array look-up.

Changes of unknown outcome count as *effective* if their value was met: by a read, a refusal, or an effective
compare-and-set, which makes this transitive. Others explain nothing and forbid nothing: they are left out. A register
in which one value may have been written twice, or where a refusal does not state what it met, is *ambiguous*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from squall.results.checkers.registers.operations import CAS, FAIL, INFO, NONE, OK, WRITE, Flags, Ints, Registers

NOBODY: Final = -1
INITIAL: Final = -2
"""The writer of the initial value of a register."""


@dataclass(frozen=True)
class Values:
    """By value: its register, its writer, and the failed operation that tried to write it.

    By row: the value that was written (`put`), met without changing it (`seen`), or replaced (`expected`); -1 for none.
    """

    register: Ints
    writer: Ints
    failed: Ints
    put: Ints
    seen: Ints
    expected: Ints
    effective: Flags
    ambiguous: Flags

    @classmethod
    def of(cls, operations: Registers, initial: int) -> Values:
        """Number the values; `initial` is the first value of every register."""
        registers = len(operations.names)
        puts = np.flatnonzero((operations.f == WRITE) | (operations.f == CAS))
        sees = np.flatnonzero(operations.observes)
        expects = np.flatnonzero((operations.f == CAS) & (operations.type != FAIL))
        register = np.concatenate(
            (
                operations.register[puts],
                operations.register[sees],
                operations.register[expects],
                np.arange(registers, dtype=np.int64),
            )
        )
        content = np.concatenate(
            (
                operations.value[puts],
                operations.found[sees],
                operations.expected[expects],
                np.full(registers, initial, np.int64),
            )
        )
        codes, distinct = pd.factorize(content)
        number, pairs = pd.factorize(register * max(1, len(distinct)) + codes)
        number = number.astype(np.int64)
        put, seen, expected = (np.full(len(operations), NOBODY, np.int64) for _ in range(3))
        first, second, third = np.cumsum([len(puts), len(sees), len(expects)])
        put[puts], seen[sees], expected[expects] = number[:first], number[first:second], number[second:third]
        begin = number[third:]

        count = len(pairs)
        changes = np.flatnonzero(operations.changes)
        writer, failed = np.full(count, NOBODY, np.int64), np.full(count, NOBODY, np.int64)
        writer[put[changes]] = changes
        vain = puts[operations.type[puts] == FAIL]
        failed[put[vain]] = vain
        twice = np.bincount(put[changes], minlength=count)
        twice[begin] += 1
        ambiguous = np.zeros(registers, np.bool_)
        of_value = np.asarray(pairs, dtype=np.int64) // max(1, len(distinct))
        ambiguous[of_value[twice > 1]] = True
        ambiguous[operations.register[operations.is_refusal & (operations.found == NONE)]] = True
        writer[begin] = np.where(writer[begin] == NOBODY, INITIAL, writer[begin])
        effective = _effective(operations, writer, seen, expected)
        return cls(of_value, writer, failed, put, seen, expected, effective, ambiguous)


def with_evidence(operations: Registers, values: Values, rows: tuple[int, ...]) -> tuple[int, ...]:
    """Add to each change of unknown outcome in `rows` an operation that met its value: proof that it took effect."""
    shown = list(rows)
    for row in shown:  # grows in the loop, since an added row may be of unknown outcome itself
        if operations.type[row] != INFO:
            continue
        seen = np.flatnonzero(operations.observes & (values.seen == values.put[row]))
        replaced = np.flatnonzero(values.effective & (values.expected == values.put[row]))
        certain = replaced[operations.type[replaced] == OK]
        met = [*seen.tolist(), *certain.tolist(), *replaced.tolist()]
        shown += [one for one in met[:1] if not set(shown) & {*seen.tolist(), *certain.tolist(), one}]
    return tuple(shown)


def _effective(operations: Registers, writer: Ints, seen: Ints, expected: Ints) -> Flags:
    """Changes that took effect: acknowledged ones, and those whose value was met."""
    effective = operations.changes & (operations.type == OK)
    met = np.zeros(len(writer), np.bool_)
    met[seen[seen >= 0]] = True
    met[expected[effective & (operations.f == CAS)]] = True
    frontier = np.flatnonzero(met)
    while len(frontier):
        rows = writer[frontier]
        rows = rows[rows >= 0]
        rows = rows[(operations.type[rows] == INFO) & ~effective[rows]]
        effective[rows] = True
        frontier = np.unique(expected[rows[operations.f[rows] == CAS]])
        frontier = frontier[~met[frontier]]
        met[frontier] = True
    return effective


@dataclass(frozen=True)
class Chains:
    """Which compare-and-set made which value of which: each value's root and its number of steps from it.

    `doubled` are pairs (as two rows of an array) of compare-and-sets that both replaced the same value; the later of
    each pair is treated as the start of a separate chain, as is one that met a value that was never written. `circular`
    are values whose chain has no beginning.
    """

    root: Ints
    depth: Ints
    previous: Ints
    doubled: Ints
    circular: Ints

    @classmethod
    def of(cls, operations: Registers, values: Values, used: Flags) -> Chains:
        """Build the chains of the `used` rows."""
        count = len(values.register)
        swaps = np.flatnonzero(used & (operations.f == CAS))
        swaps = swaps[values.writer[values.expected[swaps]] != NOBODY]
        order = swaps[np.lexsort((operations.invoked[swaps], values.expected[swaps]))]
        same = np.concatenate((np.zeros(1, np.bool_), np.diff(values.expected[order]) == 0))[: len(order)]
        again = np.flatnonzero(same)
        doubled = np.stack((order[again - 1], order[again]))
        swaps = order[~same]
        previous = np.full(count, NOBODY, np.int64)
        previous[values.put[swaps]] = values.expected[swaps]
        root = np.where(previous >= 0, previous, np.arange(count))
        depth = (previous >= 0).astype(np.int64)
        links = np.flatnonzero(previous >= 0)
        for _ in range(len(links).bit_length() + 1):  # each round doubles how far a value has looked back
            before = root[links]
            reach = depth[links] + depth[before]
            ahead = root[before]
            if np.array_equal(ahead, before):
                break
            depth[links], root[links] = reach, ahead
        circular = links[previous[root[links]] >= 0]
        return cls(root, depth, previous, doubled, circular)

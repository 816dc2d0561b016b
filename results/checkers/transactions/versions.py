"""Find version orders by reads: the order in which each key's elements were appended, and contradictions.

The order of a key is its longest read. Every other read must be a prefix of it, since one list grew into the other; the
comparison runs over all elements at once. Anomalies that lists alone show are found here:

phantom_element     an element that was never appended to this key
G1a                 an element of a transaction that was certainly aborted
duplicate_element   an element twice in one list
incompatible_order  a read that is no prefix of the longest, if none of the above explains it

A key with one of the last two has no reliable order: it takes no part in dependencies. A transaction of unknown outcome
is *effective*, that is committed, as soon as a committed transaction read one of its elements; the others of unknown
outcome may never have taken effect, and cause no anomaly. Reads of transactions that are not known to be committed do
not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from squall.results.checkers.kernels.operations import FAIL, OK, Flags, Ints
from squall.results.checkers.transactions.columns import Transactions, UnusableTransactions

CHUNK: Final = 1 << 21
WITNESSES: Final = 8


@dataclass(frozen=True)
class Contradiction:
    """One instance: the micro-operations (by number) that prove it, and the element it is about, if it is about one."""

    anomaly: str
    micros: tuple[int, ...]
    element: int | None = None


@dataclass(frozen=True)
class Contradictions:
    """The number of instances of one anomaly, and the first few."""

    anomaly: str
    total: int
    instances: tuple[Contradiction, ...]


@dataclass(frozen=True)
class Versions:
    """The places of all orders lie one after another: those of key k from `first[k]` to `first[k + 1]`.

    `writer` is the append (by number of micro-operation) at each place, -1 for a phantom; `place` the place of each
    micro-operation's append, -1 if it was never read. `reads` are the committed reads, `usable` the keys with an order.
    """

    first: Ints
    longest: Ints
    writer: Ints
    place: Ints
    reads: Ints
    usable: Flags
    effective: Flags
    contradictions: tuple[Contradictions, ...]


def versions(transactions: Transactions) -> Versions:
    """Find the orders of all keys. Raises UnusableTransactions if an element was appended twice."""
    finder = _Finder(transactions)
    reads = np.flatnonzero((transactions.length >= 0) & (transactions.type[transactions.owner] == OK))
    longest = _longest(transactions, reads)
    odd = reads[~_beginnings(transactions, reads, longest)]
    shown = longest[longest >= 0]
    lists = _Lists(transactions, np.concatenate((shown, odd)), finder)
    lengths = np.where(longest >= 0, transactions.length[longest], 0)
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    writer = lists.writer[: int(first[-1])]
    place = np.full(len(transactions.owner), -1, np.int64)
    known = np.flatnonzero(writer >= 0)[::-1]  # of an element that is there twice, the first place counts
    place[writer[known]] = known
    effective = transactions.type == OK
    seen = transactions.owner[lists.writer[lists.writer >= 0]]
    effective[seen[transactions.type[seen] != FAIL]] = True
    contradictions, usable = _judged(transactions, lists, longest, len(shown))
    return Versions(first, longest, writer, place, reads, usable, effective, contradictions)


class _Finder:
    """Finds the append that wrote an element of a key."""

    def __init__(self, transactions: Transactions) -> None:
        appends = np.flatnonzero(transactions.is_append)
        self.distinct = np.unique(transactions.element[appends])
        packed = self._packed(transactions.key[appends], transactions.element[appends])
        order = np.argsort(packed, kind="stable")
        self.appends, self.packed = appends[order], packed[order]
        twice = np.flatnonzero(np.diff(self.packed) == 0)
        if len(twice):
            one = self.appends[twice[0]]
            raise UnusableTransactions(
                f"element {transactions.element[one]} was appended twice to key "
                f"{transactions.key_names[transactions.key[one]]}; elements must be unique within their key"
            )

    def _packed(self, key: Ints, element: Ints) -> Ints:
        rank = np.searchsorted(self.distinct, element)
        return key * (len(self.distinct) + 1) + rank

    def writers(self, key: Ints, element: Ints) -> Ints:
        """The append of each element to its key, -1 if there is none."""
        if len(self.appends) == 0 or len(key) == 0:
            return np.full(len(key), -1, np.int64)
        rank = np.minimum(np.searchsorted(self.distinct, element), len(self.distinct) - 1)
        packed = key * (len(self.distinct) + 1) + rank
        at = np.minimum(np.searchsorted(self.packed, packed), len(self.packed) - 1)
        found = (self.packed[at] == packed) & (self.distinct[rank] == element)
        return np.where(found, self.appends[at], -1)


class _Lists:
    """Some reads, with every element's writer."""

    def __init__(self, transactions: Transactions, reads: Ints, finder: _Finder) -> None:
        self.reads = reads
        sizes = transactions.length[reads]
        self.read = np.repeat(np.arange(len(reads)), sizes)
        self.element = transactions.elements[spread(transactions.start[reads], sizes)]
        self.key = transactions.key[reads][self.read]
        self.writer = finder.writers(self.key, self.element)

    def repeated(self) -> Flags:
        """By read: whether it shows an element twice."""
        order = np.lexsort((self.element, self.read))
        same = (np.diff(self.element[order]) == 0) & (np.diff(self.read[order]) == 0)
        flags = np.zeros(len(self.reads), np.bool_)
        flags[self.read[order[1:][same]]] = True
        return flags


def spread(starts: Ints, sizes: Ints) -> Ints:
    """The numbers from each start on, as many as its size, one after another."""
    total = int(sizes.sum())
    shift = starts - (np.cumsum(sizes) - sizes)
    return np.repeat(shift, sizes) + np.arange(total)


def _longest(transactions: Transactions, reads: Ints) -> Ints:
    """By key: its longest committed read, the earliest of several; -1 for a key without reads."""
    most = np.full(len(transactions.key_names), -1, np.int64)
    np.maximum.at(most, transactions.key[reads], transactions.length[reads])
    full = reads[transactions.length[reads] == most[transactions.key[reads]]][::-1]
    chosen = np.full(len(most), -1, np.int64)
    chosen[transactions.key[full]] = full
    return chosen


def _beginnings(transactions: Transactions, reads: Ints, longest: Ints) -> Flags:
    """By read: whether it is a prefix of the longest read of its key."""
    agrees = np.ones(len(reads), np.bool_)
    sizes = transactions.length[reads]
    ends = np.cumsum(sizes)
    begun = 0
    while begun < len(reads):
        before = int(ends[begun - 1]) if begun else 0
        stop = max(begun + 1, int(np.searchsorted(ends, before + CHUNK, side="right")))
        part = reads[begun:stop]
        width = sizes[begun:stop]
        at = spread(transactions.start[part], width)
        away = transactions.start[longest[transactions.key[part]]] - transactions.start[part]
        differ = transactions.elements[at] != transactions.elements[at + np.repeat(away, width)]
        if differ.any():
            agrees[begun + np.repeat(np.arange(len(part)), width)[differ]] = False
        begun = stop
    return agrees


def _judged(
    transactions: Transactions, lists: _Lists, longest: Ints, shown: int
) -> tuple[tuple[Contradictions, ...], Flags]:
    """Find contradictions, and the keys that have an order. The first `shown` lists are the longest of their keys."""
    unknown = lists.writer < 0
    aborted = ~unknown & (transactions.type[transactions.owner[lists.writer]] == FAIL)
    repeated = lists.repeated()
    explained = repeated.copy()
    explained[lists.read[unknown | aborted]] = True
    suspect = np.zeros(len(longest), np.bool_)  # keys whose longest read is itself in doubt
    suspect[transactions.key[lists.reads[:shown][explained[:shown]]]] = True
    keys = transactions.key[lists.reads]
    incompatible = ~explained & ~suspect[keys]
    incompatible[:shown] = False
    usable = np.ones(len(longest), np.bool_)
    usable[keys[shown:]] = False
    usable[keys[repeated]] = False
    found = [
        _of_elements("phantom_element", transactions, lists, unknown),
        _of_elements("G1a", transactions, lists, aborted),
        _of_reads("duplicate_element", lists.reads[repeated], longest, transactions),
        _of_reads("incompatible_order", lists.reads[incompatible], longest, transactions),
    ]
    return tuple(one for one in found if one.total), usable


def _of_elements(anomaly: str, transactions: Transactions, lists: _Lists, flags: Flags) -> Contradictions:
    """Collect contradictions by element; each counts once, however many reads show it."""
    at = np.flatnonzero(flags)
    order = at[np.lexsort((lists.element[at], lists.key[at]))]
    again = (np.diff(lists.key[order]) == 0) & (np.diff(lists.element[order]) == 0)
    at = np.sort(order[~np.concatenate((np.zeros(1, np.bool_), again))[: len(order)]])
    instances = []
    for one in at[:WITNESSES]:
        read, writer = int(lists.reads[lists.read[one]]), int(lists.writer[one])
        micros = (read,) if writer < 0 else (writer, read)
        instances.append(Contradiction(anomaly, micros, int(lists.element[one])))
    return Contradictions(anomaly, len(at), tuple(instances))


def _of_reads(anomaly: str, reads: Ints, longest: Ints, transactions: Transactions) -> Contradictions:
    instances = []
    for read in np.unique(reads)[:WITNESSES].tolist():
        other = int(longest[transactions.key[read]])
        instances.append(Contradiction(anomaly, (read,) if other == read else (other, read)))
    return Contradictions(anomaly, len(np.unique(reads)), tuple(instances))

"""Find the edges between transactions by the orders of keys, and contradictions that need no cycle.

ww  consecutive elements of a key: the earlier one's transaction comes first
wr  the last element of a read: its transaction comes before the reader
rw  the element after a read: the reader comes before that element's transaction
process  a process's next transaction comes after the one that had ended

An element that an effective transaction appended and that was never read lies after all that were read: its transaction
comes after that of the last element read, and after every transaction that read the whole list. This finds a lost
append: a transaction that began after the append had been acknowledged, and did not see it, closes a cycle in real
time. If such elements and readers are too many to connect one by one, some are left out and `complete` says so.

Only a transaction's *external* reads count, those before its own appends to the key. A read that does not show its own
appends as it must is `internal`, and so is a list that has two of them in another order than they were made in; a read
that ends in the middle of what another transaction appended is `G1b`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from squall.results.checkers.kernels.operations import OK, Flags, Ints
from squall.results.checkers.transactions.columns import Transactions
from squall.results.checkers.transactions.versions import (
    WITNESSES,
    Contradiction,
    Contradictions,
    Versions,
    spread,
)

WW: Final = 0
WR: Final = 1
RW: Final = 2
PROCESS: Final = 3
REALTIME: Final = 4

UNREAD_EDGES: Final = 4_000_000
"""The most edges from readers to elements that were never read."""
INSTANT_EDGES: Final = 4_000_000
"""The most edges between transactions of one process of which several took no time, at one instant."""


@dataclass(frozen=True)
class Edges:
    """Edges from one transaction to another.

    `append` is the append that makes the edge (ww, rw: the target's; wr: the source's), -1 for an order of time.
    """

    source: Ints
    target: Ints
    kind: Ints
    append: Ints

    def __len__(self) -> int:
        return len(self.source)

    def select(self, flags: Flags | Ints) -> Edges:
        return Edges(self.source[flags], self.target[flags], self.kind[flags], self.append[flags])


@dataclass(frozen=True)
class Dependencies:
    """All edges but those of real time. `left_out` are sentences about those for which there were too many."""

    edges: Edges
    contradictions: tuple[Contradictions, ...]
    left_out: tuple[str, ...]


def joined(parts: list[Edges]) -> Edges:
    """Join several sets of edges, without those from a transaction to itself."""
    source = np.concatenate([one.source for one in parts])
    target = np.concatenate([one.target for one in parts])
    kind = np.concatenate([one.kind for one in parts])
    append = np.concatenate([one.append for one in parts])
    return Edges(source, target, kind, append).select(source != target)


def dependencies(transactions: Transactions, orders: Versions) -> Dependencies:
    """Return the edges of a history, and reads that contradict their own transaction or show part of another."""
    own = _OwnOperations(transactions, orders)
    keep = orders.usable[transactions.key[orders.reads]] & ~own.after_append[orders.reads] & ~own.wrong[orders.reads]
    external = orders.reads[keep]
    midst = _intermediate(transactions, orders, external, own)
    from_midst, external = external[midst], external[~midst]
    chain = _Chain(transactions, orders)
    unread, complete = _unread(transactions, orders, external, chain)
    effective = orders.effective[transactions.by_process]
    process, in_order = process_order(
        transactions.by_process[effective], transactions.process, transactions.asked, transactions.answered
    )
    edges = joined([chain.writes(), *chain.reads(external), unread, process])
    found = [own.contradictions(), _as_intermediate(orders, transactions, from_midst)]
    left_out = () if complete else ("too many elements were never read; let the workload read every key at its end",)
    return Dependencies(edges, tuple(one for one in found if one.total), (*left_out, *in_order))


def edges_of(source: Ints, target: Ints, kind: int, append: Ints | None = None) -> Edges:
    """Make edges of one kind."""
    made = np.full(len(source), -1, np.int64) if append is None else append
    return Edges(source, target, np.full(len(source), kind, np.int64), made)


class _Chain:
    """The places of all usable keys whose writer is effective, in order; every edge is between neighbours here."""

    def __init__(self, transactions: Transactions, orders: Versions) -> None:
        self.transactions, self.orders = transactions, orders
        key = np.repeat(np.arange(len(orders.first) - 1), np.diff(orders.first))
        known = orders.writer >= 0
        keep = known & orders.usable[key]
        keep &= orders.effective[transactions.owner[orders.writer]]
        self.at = np.flatnonzero(keep)
        self.key = key[self.at]
        self.append = orders.writer[self.at]
        self.owner = transactions.owner[self.append]
        # by place: the number of kept places before it
        self.before: Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)))

    def writes(self) -> Edges:
        same = np.flatnonzero(np.diff(self.key) == 0)
        return edges_of(self.owner[same], self.owner[same + 1], WW, self.append[same + 1])

    def reads(self, reads: Ints) -> list[Edges]:
        """Make wr edges from the last element of each read, and rw edges to the next."""
        keys = self.transactions.key[reads]
        end = self.orders.first[keys] + self.transactions.length[reads]
        following = self.before[end]
        last = following - 1
        by = self.transactions.owner[reads]
        if len(self.at) == 0:
            return []
        whole = end > self.orders.first[keys]
        exact = whole & (last >= 0) & (self.at[last] == end - 1)
        has_next = (following < len(self.at)) & (self.key[np.minimum(following, len(self.at) - 1)] == keys)
        after = following[has_next]
        return [
            edges_of(self.owner[last[exact]], by[exact], WR, self.append[last[exact]]),
            edges_of(by[has_next], self.owner[after], RW, self.append[after]),
        ]

    def lasts(self, keys: Ints) -> tuple[Ints, Ints]:
        """Return those of some keys that have an element, and the place of the last of each in this chain."""
        stop = self.before[self.orders.first[keys + 1]]
        start = self.before[self.orders.first[keys]]
        some = stop > start
        return keys[some], stop[some] - 1


def _unread(transactions: Transactions, orders: Versions, external: Ints, chain: _Chain) -> tuple[Edges, bool]:
    """Make edges to appends that were never read: from the last element read, and from readers of the whole list."""
    appends = np.flatnonzero(transactions.is_append & (orders.place < 0))
    keys = transactions.key[appends]
    keep = orders.effective[transactions.owner[appends]] & orders.usable[keys] & (orders.longest[keys] >= 0)
    appends, keys = appends[keep], keys[keep]
    order = np.argsort(keys, kind="stable")
    appends, keys = appends[order], keys[order]
    full = external[transactions.length[external] == np.diff(orders.first)[transactions.key[external]]]
    sources, kinds, source_keys = transactions.owner[full], np.full(len(full), RW), transactions.key[full]
    ending, last = chain.lasts(np.unique(keys))
    sources = np.concatenate((sources, chain.owner[last]))
    kinds = np.concatenate((kinds, np.full(len(last), WW)))
    source_keys = np.concatenate((source_keys, ending))
    begin = np.searchsorted(keys, source_keys)
    sizes = np.searchsorted(keys, source_keys, side="right") - begin
    allowed = np.cumsum(sizes) <= UNREAD_EDGES
    complete = bool(allowed.all())
    sources, kinds, begin, sizes = sources[allowed], kinds[allowed], begin[allowed], sizes[allowed]
    target = appends[spread(begin, sizes)]
    edges = Edges(np.repeat(sources, sizes), transactions.owner[target], np.repeat(kinds, sizes), target)
    return edges, complete


def process_order(by_process: Ints, process: Ints, asked: Ints, answered: Ints) -> tuple[Edges, tuple[str, ...]]:
    """Make edges from each transaction of a process to its next, if the first had ended by then.

    Also returns what was left out. `by_process` has those that count, by process, invocation and completion.
    Transactions of a process that took no time, all at one instant, have no order among themselves: each comes after
    all of the instant before, and before the next.
    """
    first, second = by_process[:-1], by_process[1:]
    same = process[first] == process[second]
    apart = ~same | (asked[first] < asked[second]) | (answered[first] < answered[second])
    if apart.all():
        return edges_of(first[same], second[same], PROCESS), ()
    begin = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(apart) + 1))  # of each instant
    size = np.diff(np.concatenate((begin, np.array([len(by_process)]))))
    before = np.flatnonzero(process[by_process[begin[:-1]]] == process[by_process[begin[1:]]])
    allowed = np.cumsum(np.maximum(0, size[before] * size[before + 1] - 1)) <= INSTANT_EDGES  # one edge exists anyway
    left_out = () if allowed.all() else ("too many transactions of a process took no time, at one instant",)
    before = before[allowed]
    source_at = spread(begin[before], size[before])
    following = np.repeat(before + 1, size[before])
    target_at = spread(begin[following], size[following])
    source = np.repeat(by_process[source_at], size[following])
    return edges_of(source, by_process[target_at], PROCESS), left_out


def _intermediate(transactions: Transactions, orders: Versions, external: Ints, own: _OwnOperations) -> Flags:
    """By external read: whether it ends in an append after which the same transaction appended to the key again."""
    key, length = transactions.key[external], transactions.length[external]
    midst = np.zeros(len(external), np.bool_)
    some = np.flatnonzero(length > 0)
    writer = orders.writer[orders.first[key[some]] + length[some] - 1]
    foreign = (writer >= 0) & (transactions.owner[writer] != transactions.owner[external[some]])
    foreign &= orders.effective[transactions.owner[writer]]
    midst[some] = foreign & own.followed[writer]
    return midst


def _as_intermediate(orders: Versions, transactions: Transactions, reads: Ints) -> Contradictions:
    ends = orders.first[transactions.key[reads]] + transactions.length[reads] - 1
    instances = tuple(
        Contradiction("G1b", (int(orders.writer[end]), int(read)), int(transactions.element[orders.writer[end]]))
        for read, end in zip(reads[:WITNESSES], ends[:WITNESSES], strict=True)
    )
    return Contradictions("G1b", len(reads), instances)


class _OwnOperations:
    """Several operations of one transaction on one key: what the later ones must see of the earlier.

    `after_append` flags operations after an own append to the key, `followed` appends before another own append,
    `wrong` operations that contradict earlier ones, `overtaken` appends whose place in the list is before an earlier
    one's. `order` holds the operations concerned, grouped by transaction and key, in the transaction's order.
    """

    def __init__(self, transactions: Transactions, orders: Versions) -> None:
        self.transactions, self.orders = transactions, orders
        group = transactions.owner * max(1, len(transactions.key_names)) + transactions.key
        order = np.argsort(group, kind="stable")
        ordered = group[order]
        same = np.diff(ordered) == 0
        several = np.zeros(len(order), np.bool_)
        several[1:] |= same
        several[:-1] |= same
        self.order = order[several]
        self.group = ordered[several]
        self.begins = np.concatenate((np.ones(1, np.bool_), np.diff(self.group) != 0))[: len(self.group)]
        appends = transactions.is_append[self.order].astype(np.int64)
        self.done = _running(appends, self.begins)  # own appends before each
        total = len(transactions.owner)
        self.after_append = np.zeros(total, np.bool_)
        self.after_append[self.order[self.done > 0]] = True
        self.followed = np.zeros(total, np.bool_)
        self.followed[self.order[(appends > 0) & (self._left(appends) > 0)]] = True
        self.bad, self.base = self._mismatches()
        self.wrong = np.zeros(total, np.bool_)
        self.wrong[self.bad] = True
        self.earlier, self.overtaken = self._misplaced()

    def _left(self, appends: Ints) -> Ints:
        """The number of own appends to the key after each operation."""
        number = np.cumsum(self.begins) - 1
        totals = np.bincount(number, weights=appends).astype(np.int64) if len(number) else number
        return totals[number] - self.done - appends

    def contradictions(self) -> Contradictions:
        """Operations that do not continue what the transaction itself had read and appended.

        Appends in another order than the transaction made them are included, with the read that shows it.
        """
        pairs = zip(self.base[:WITNESSES].tolist(), self.bad[:WITNESSES].tolist(), strict=True)
        instances = [Contradiction("internal", pair) for pair in pairs]
        shown = self.orders.longest[self.transactions.key[self.overtaken]]
        turned = zip(self.earlier[:WITNESSES], self.overtaken[:WITNESSES], shown[:WITNESSES], strict=True)
        for first, second, reads in turned:
            micros = (int(first), int(second), int(reads))
            instances.append(Contradiction("internal", micros, int(self.transactions.element[second])))
        return Contradictions("internal", len(self.bad) + len(self.overtaken), tuple(instances[:WITNESSES]))

    def _misplaced(self) -> tuple[Ints, Ints]:
        """Appends whose place in the list is before that of an earlier append of their transaction: that one, and they.

        If the transaction itself read that list, its read is what is wrong.
        """
        transactions, orders = self.transactions, self.orders
        keep = transactions.is_append[self.order] & (orders.place[self.order] >= 0)
        keep &= orders.effective[transactions.owner[self.order]] & orders.usable[transactions.key[self.order]]
        keep &= ~self.wrong[self.order]
        appends, group = self.order[keep], self.group[keep]
        turned = (np.diff(group) == 0) & (np.diff(orders.place[appends]) < 0)
        earlier, overtaken = appends[:-1][turned], appends[1:][turned]
        reader = transactions.owner[orders.longest[transactions.key[overtaken]]]
        by_others = reader != transactions.owner[overtaken]
        return earlier[by_others], overtaken[by_others]

    def _mismatches(self) -> tuple[Ints, Ints]:
        """Operations that contradict the transaction itself, and for each the earlier one that shows it."""
        transactions = self.transactions
        micro = self.order
        committed = transactions.type[transactions.owner[micro]] == OK
        known = committed & (transactions.length[micro] >= 0)
        base = _latest(np.where(known, np.arange(len(micro)), -1), self.begins)  # the known read before each
        has_base = base >= 0
        expected = np.where(has_base, transactions.length[micro[base]] + self.done - self.done[base], self.done)
        length = transactions.length[micro]
        wrong = known & np.where(has_base, length != expected, length < expected)
        wrong |= known & ~wrong & self._content_differs(base, known & ~wrong)
        early = committed & has_base & transactions.is_append[micro] & self._shown_before(base)
        at = np.flatnonzero(wrong | early)
        previous = np.where(has_base[at], base[at], np.maximum(at - 1, 0))
        return micro[at], micro[previous]

    def _content_differs(self, base: Ints, among: Flags) -> Flags:
        """By operation: whether a read of the right length has other elements than it must have."""
        differs = np.zeros(len(self.order), np.bool_)
        transactions, micro = self.transactions, self.order
        rows = np.flatnonzero(among)
        since = np.where(base[rows] >= 0, self.done[base[rows]], 0)
        sizes = self.done[rows] - since
        start_of_group = np.maximum.accumulate(np.where(self.begins, np.arange(len(micro)), 0))
        appends = np.flatnonzero(transactions.is_append[micro])
        first_append = np.searchsorted(appends, start_of_group[rows])
        picked = appends[spread(first_append + since, sizes)] if len(rows) else rows
        reader = np.repeat(rows, sizes)
        at = transactions.length[micro[reader]] - self.done[reader] + self.done[picked]
        shown = transactions.elements[transactions.start[micro[reader]] + at] if len(reader) else reader
        differs[reader[shown != transactions.element[micro[picked]]]] = True
        doubtful = rows[(base[rows] >= 0) & ~self.orders.usable[transactions.key[micro[rows]]]]
        for row in doubtful.tolist():
            before = transactions.list_of(int(micro[base[row]]))
            differs[row] |= transactions.list_of(int(micro[row]))[: len(before)] != before
        return differs

    def _shown_before(self, base: Ints) -> Flags:
        """By append: whether the transaction had read its element before it appended it."""
        transactions, micro = self.transactions, self.order
        at = self.orders.place[micro] - self.orders.first[transactions.key[micro]]
        usable = self.orders.usable[transactions.key[micro]]
        shown = usable & (self.orders.place[micro] >= 0) & (at < transactions.length[micro[base]])
        for row in np.flatnonzero(~usable & (base >= 0) & transactions.is_append[micro]).tolist():
            shown[row] = int(transactions.element[micro[row]]) in transactions.list_of(int(micro[base[row]]))
        return shown


def _running(flags: Ints, begins: Flags) -> Ints:
    """How many flags were set before each element since its group began."""
    before = np.cumsum(flags) - flags
    return before - np.maximum.accumulate(np.where(begins, before, 0)) if len(flags) else flags


def _latest(numbers: Ints, begins: Flags) -> Ints:
    """The last number other than -1 before each element within its group, -1 if there is none."""
    if len(numbers) == 0:
        return numbers
    latest = np.maximum.accumulate(np.concatenate((np.array([-1]), numbers[:-1])))
    start = np.maximum.accumulate(np.where(begins, np.arange(len(numbers)), 0))
    return np.where(latest >= start, latest, -1)

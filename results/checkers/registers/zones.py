"""Check linearizability of registers whose values are unique, exactly and in O(n log n).

Every value has one writer, so each operation belongs to one *cluster*: a value, its writer and all operations that met
it. Compare-and-sets link values into chains, and a chain is one cluster: nothing comes between `cas(a→b)` and what it
met. Within a cluster the order is given: a writer before those that met its value, those before the one that replaced
it. Between clusters only time decides. Let S be the latest invocation in a cluster and F its earliest completion. If F
of A lies before S of B, some operation of A precedes some operation of B, so that A as a whole comes before B. A
register is linearizable if and only if

    order   no operation of a cluster had ended before one began that must come before it, and
    zones   no two clusters come before each other.

Clusters with F < S are *forward* zones [F, S]: their value certainly was there all that time. The others are *backward*
zones [S, F]: one instant in it is enough. Two clusters precede each other if and only if two forward zones overlap, or
a backward zone lies strictly within a forward one. Longer cycles of clusters always contain such a pair, because "F of
A before S of B" compares numbers. This is Gibbons and Korach's theorem (1997); that a chain of compare-and-sets may
stand for a value is our addition, tested against a search of all orders.

All registers are checked at once in arrays; the cost does not depend on how many operations run at a time. What an
earlier rule finds is removed for the later ones, so that one defect has one name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from squall.results.checkers.registers.findings import WITNESSES, RegisterFinding, RegisterFindings
from squall.results.checkers.registers.operations import CAS, NEVER, NONE, OK, Flags, Ints, Registers
from squall.results.checkers.registers.values import INITIAL, NOBODY, Chains, Values

LONGEST_CHAIN_SHOWN: Final = 8


@dataclass(frozen=True)
class Clusters:
    """The clusters of all registers: latest invocation, earliest completion, how often a value of it was met."""

    which: Ints
    register: Ints
    latest_start: Ints
    earliest_end: Ints
    met: Ints

    @property
    def forward(self) -> Flags:
        return self.earliest_end < self.latest_start


@dataclass(frozen=True)
class Members:
    """The rows that state something, each with the value that it concerns, and that value's cluster (its root)."""

    row: Ints
    value: Ints
    cluster: Ints

    def of(self, cluster: int) -> Ints:
        return self.row[self.cluster == cluster]


@dataclass(frozen=True)
class OutOfOrder:
    """Pairs of rows of one chain: `second` had ended before `first` began, which comes earlier in the chain."""

    first: Ints
    second: Ints
    cluster: Ints

    def only(self, which: Flags) -> OutOfOrder:
        return OutOfOrder(self.first[which], self.second[which], self.cluster[which])


class Zones:
    """The rules over some operations. `members`, `chains` and `clusters` are what is left after the first rules."""

    def __init__(self, operations: Registers, values: Values) -> None:
        self.operations = operations
        self.values = values
        self.findings = RegisterFindings()
        met_nothing = self._provenance()
        usable = (values.effective | operations.observes) & ~met_nothing
        usable &= ~values.ambiguous[operations.register] & ~self._contradictions()
        self.chains = Chains.of(operations, values, usable & values.effective)
        self._doubled()
        usable &= ~self._circular()
        usable &= ~self._future_reads(usable)
        rows = np.flatnonzero(usable)
        value = np.where(values.effective[rows], values.put[rows], values.seen[rows])
        self.members = Members(rows, value, self.chains.root[value])
        self.clusters = self._clusters()
        self._between_clusters(self._order_within_chains())

    # What was met ---------------------------------------------------------------------------------------------------

    def _provenance(self) -> Flags:
        """Check that everything met was written by an operation that did not fail. Returns observations that break
        this.
        """
        operations, values = self.operations, self.values
        met = np.where(operations.observes, values.seen, values.expected)
        certain = (operations.type == OK) | ~values.ambiguous[operations.register]
        relevant = operations.observes | (values.effective & (operations.f == CAS) & certain)
        rows = np.flatnonzero(relevant)
        orphan = rows[values.writer[met[rows]] == NOBODY]
        failed = values.failed[met[orphan]]
        for anomaly, these in (
            ("register_phantom", orphan[failed == NOBODY]),
            ("register_aborted_read", orphan[failed != NOBODY]),
        ):
            found = []
            for row in these[:WITNESSES].tolist():
                writer = int(values.failed[met[row]])
                rows_shown = (row,) if writer == NOBODY else (writer, row)
                found.append(RegisterFinding(anomaly, int(operations.register[row]), rows_shown))
            self.findings.add(anomaly, len(these), operations.register[these].tolist(), found)
        wrong = np.zeros(len(operations), np.bool_)
        wrong[orphan] = True
        return wrong & operations.observes

    def _contradictions(self) -> Flags:
        """Check that no compare-and-set was refused although the register held what it expected."""
        wrong = self.operations.is_false_refusal
        rows = np.flatnonzero(wrong).tolist()
        self._report("register_false_refusal", [(row,) for row in rows])
        return wrong

    def _doubled(self) -> None:
        """Check that no two compare-and-sets replaced the same value."""
        register = self.operations.register
        earlier, later = self.chains.doubled
        found = [
            RegisterFinding("register_double_cas", int(register[one]), self._with_writer(int(one), int(two)))
            for one, two in zip(earlier[:WITNESSES], later, strict=False)
        ]
        self.findings.add("register_double_cas", len(later), register[later].tolist(), found)

    def _with_writer(self, earlier: int, later: int) -> tuple[int, ...]:
        writer = int(self.values.writer[self.values.expected[earlier]])
        return (earlier, later) if writer < 0 or writer in (earlier, later) else (writer, earlier, later)

    def _circular(self) -> Flags:
        """Check that compare-and-sets do not build on each other in a cycle. Returns all rows of such registers."""
        values, circular = self.values, self.chains.circular
        registers = np.unique(values.register[circular])
        found = []
        for register in registers[:WITNESSES].tolist():
            inside = [int(values.writer[one]) for one in circular if values.register[one] == register]
            found.append(RegisterFinding("nonlinearizable_register", register, tuple(inside[:LONGEST_CHAIN_SHOWN])))
        self.findings.add("nonlinearizable_register", len(registers), registers.tolist(), found)
        wrong = np.zeros(len(self.operations.names), np.bool_)
        wrong[registers] = True
        return wrong[self.operations.register]

    def _future_reads(self, usable: Flags) -> Flags:
        """Check that nothing was read before its write had begun. Returns the reads that break this."""
        operations, values = self.operations, self.values
        rows = np.flatnonzero(usable & operations.observes)
        writer = values.writer[values.seen[rows]]
        written = writer >= 0  # neither the initial value nor one that nobody wrote
        rows, writer = rows[written], writer[written]
        early = rows[operations.completed[rows] < operations.invoked[writer]]
        pairs = [(row, int(values.writer[values.seen[row]])) for row in early.tolist()]
        self._report("register_future_read", [(writer, row) for row, writer in pairs], pairs)
        wrong = np.zeros(len(operations), np.bool_)
        wrong[early] = True
        return wrong

    def _report(self, anomaly: str, rows: list[tuple[int, ...]], orders: list[tuple[int, int]] | None = None) -> None:
        """Report one finding per tuple of rows; `orders` gives the pair in real time that each rests on."""
        register = self.operations.register
        found = [
            RegisterFinding(anomaly, int(register[these[0]]), these, (orders[place],) if orders else ())
            for place, these in enumerate(rows[:WITNESSES])
        ]
        self.findings.add(anomaly, len(rows), [int(register[these[0]]) for these in rows], found)

    # Within chains --------------------------------------------------------------------------------------------------

    def _order_within_chains(self) -> OutOfOrder:
        """Check that in a chain nothing had ended before something began that must come before it."""
        members, operations = self.members, self.operations
        linked = np.zeros(len(self.values.register), np.bool_)
        linked[self.chains.root[self.chains.depth > 0]] = True
        inside = np.flatnonzero(linked[members.cluster])
        row, cluster = members.row[inside], members.cluster[inside]
        place = 2 * self.chains.depth[members.value[inside]] + operations.observes[row]
        order = np.argsort(cluster * (2 + place.max(initial=0)) + place, kind="stable")
        row, cluster, place = row[order], cluster[order], place[order]
        latest = _latest_before(cluster, place, operations.invoked[row])
        known = np.flatnonzero(latest >= 0)
        late = known[operations.completed[row[known]] < operations.invoked[row[latest[known]]]]
        late = late[np.unique(latest[late], return_index=True)[1]]  # once each, against the nearest in the chain
        wrong = OutOfOrder(row[latest[late]], row[late], cluster[late])
        early = ~operations.observes[wrong.first]
        self._report_chains("register_future_read", wrong, early)
        return wrong.only(~early)

    def _report_chains(self, anomaly: str, wrong: OutOfOrder, which: Flags) -> None:
        register = self.operations.register
        pairs = list(zip(wrong.first[which].tolist(), wrong.second[which].tolist(), strict=True))
        found = [
            RegisterFinding(anomaly, int(register[one]), tuple(self._path(one, two)), ((two, one),))
            for one, two in pairs[:WITNESSES]
        ]
        self.findings.add(anomaly, len(pairs), register[wrong.first[which]].tolist(), found)

    def _never_met(self, rows: Ints) -> Flags:
        """Changes whose value was never met."""
        operations, values = self.operations, self.values
        met = np.bincount(values.seen[operations.observes], minlength=len(values.register))
        met += np.bincount(values.expected[values.effective & (operations.f == CAS)], minlength=len(met))
        return ~operations.observes[rows] & (met[values.put[rows]] == 0)

    def linked(self, one: int, other: int) -> tuple[int, ...]:
        """Two rows of a cluster and the writers between them."""
        first, last = sorted((one, other), key=lambda row: self.chains.depth[self._value(row)])
        return tuple(self._path(first, last))

    def _path(self, first: int, second: int) -> Iterator[int]:
        """Two rows of a chain and the writers between them, from the earlier value to the later."""
        values, chains = self.values, self.chains
        upper, lower = self._value(first), self._value(second)
        steps: list[int] = []
        at = lower
        while at >= 0 and chains.depth[at] >= chains.depth[upper] and len(steps) < LONGEST_CHAIN_SHOWN:
            if values.writer[at] >= 0:
                steps.append(int(values.writer[at]))
            at = int(chains.previous[at])
        yield from dict.fromkeys([*reversed(steps), first, second])

    def _value(self, row: int) -> int:
        return int(self.values.put[row] if self.values.effective[row] else self.values.seen[row])

    # Between clusters -----------------------------------------------------------------------------------------------

    def _clusters(self) -> Clusters:
        members, operations, values = self.members, self.operations, self.values
        count = len(values.register)
        start, end = np.full(count, NONE, np.int64), np.full(count, NEVER, np.int64)
        np.maximum.at(start, members.cluster, operations.invoked[members.row])
        np.minimum.at(end, members.cluster, operations.completed[members.row])
        end[values.writer == INITIAL] = NONE
        met = np.bincount(members.cluster[operations.observes[members.row]], minlength=count)
        met += np.bincount(self.chains.root[self.chains.depth > 0], minlength=count)
        used = np.zeros(count, np.bool_)
        used[members.cluster] = True
        used[values.put[self.chains.doubled[1]]] = False  # these have findings already
        which = np.flatnonzero(used)
        order = np.lexsort((end[which], values.register[which]))
        which = which[order]
        return Clusters(which, values.register[which], start[which], end[which], met[which])

    def _between_clusters(self, stale: OutOfOrder) -> None:
        """Check that no two clusters precede each other, and that nothing met in a chain had been replaced (`stale`).

        A write counts as lost if its value was never met, and only if no other finding shows that a read was merely
        late: an operation that meets an old value passes over all later ones, whether or not they were seen.
        """
        clusters = self.clusters
        around, within = (np.concatenate(both) for both in zip(self._overlaps(), self._enclosed(), strict=True))
        unseen = clusters.met[within] == 0
        unseen_in_chain = self._never_met(stale.second)
        late = np.zeros(len(self.values.register), np.bool_)
        late[clusters.which[around[~unseen]]] = True
        late[stale.cluster[~unseen_in_chain]] = True
        self._report_chains("stale_register_read", stale, ~unseen_in_chain)
        self._report_chains("lost_register_write", stale, unseen_in_chain & ~late[stale.cluster])
        self._report_clusters("stale_register_read", around[~unseen], within[~unseen])
        lost = unseen & ~late[clusters.which[around]]
        self._report_clusters("lost_register_write", around[lost], within[lost])

    def _overlaps(self) -> tuple[Ints, Ints]:
        """Pairs of forward zones that overlap; each with its neighbour, which is enough to find all registers."""
        clusters = self.clusters
        forward = np.flatnonzero(clusters.forward)
        after, before = forward[1:], forward[:-1]
        overlap = (clusters.register[after] == clusters.register[before]) & (
            clusters.earliest_end[after] < clusters.latest_start[before]
        )
        return before[overlap], after[overlap]

    def _enclosed(self) -> tuple[Ints, Ints]:
        """Pairs of a forward zone and a backward zone strictly within it."""
        clusters = self.clusters
        forward, backward = np.flatnonzero(clusters.forward), np.flatnonzero(~clusters.forward)
        last = np.searchsorted(forward, backward) - 1
        backward, around = backward[last >= 0], forward[last[last >= 0]]
        within = (
            (clusters.register[backward] == clusters.register[around])
            & (clusters.earliest_end[around] < clusters.latest_start[backward])
            & (clusters.earliest_end[backward] < clusters.latest_start[around])
        )
        return around[within], backward[within]

    def _report_clusters(self, anomaly: str, these: Ints, those: Ints) -> None:
        found = [
            self._conflict(anomaly, this, that)
            for this, that in zip(these[:WITNESSES].tolist(), those[:WITNESSES].tolist(), strict=True)
        ]
        self.findings.add(anomaly, len(these), self.clusters.register[these].tolist(), found)

    def _conflict(self, anomaly: str, this: int, that: int) -> RegisterFinding:
        """The operations by which each of two clusters comes before the other, and the writers of their values."""
        register = int(self.clusters.register[this])
        start, other_start = self._start(this, that), self._start(that, this)
        end, other_end = self._end(this, start, other_start), self._end(that, other_start, start)
        rows = (*self._between(end, start), *self._between(other_end, other_start))
        orders = [(one, two) for one, two in ((end, other_start), (other_end, start)) if one is not None]
        return RegisterFinding(anomaly, register, tuple(dict.fromkeys(rows)), tuple(orders))

    def _start(self, place: int, other: int) -> int:
        """An operation of a cluster that began after one of the other had ended, as early in its chain as possible."""
        members = self.members.of(int(self.clusters.which[place]))
        members = members[self.operations.invoked[members] > self.clusters.earliest_end[other]]
        return min(members.tolist(), key=self._step)

    def _end(self, place: int, start: int, other_start: int) -> int | None:
        """An operation of a cluster that had ended before the other's began; None for an initial value.

        It is as near as possible to the cluster's `start` in its chain, and the writer, which is shown in any case,
        rather than an operation that met its value.
        """
        if self.values.writer[self.clusters.which[place]] == INITIAL:
            return None
        members = self.members.of(int(self.clusters.which[place]))
        members = members[self.operations.completed[members] < self.operations.invoked[other_start]]
        depth = self._step(start) // 2
        return min(members.tolist(), key=lambda row: (abs(self._step(row) // 2 - depth), self._step(row) % 2, row))

    def _step(self, row: int) -> int:
        """The position of an operation in its chain: each value's writer, then those that met it."""
        return 2 * int(self.chains.depth[self._value(row)]) + int(self.operations.observes[row])

    def _between(self, end: int | None, start: int) -> tuple[int, ...]:
        """Two rows of a cluster and the writers between them; all writers up to `start` if there is no `end`."""
        if end is not None:
            return self.linked(end, start)
        at, writers = self._value(start), [start]
        while at >= 0 and len(writers) <= LONGEST_CHAIN_SHOWN:
            writers += [int(self.values.writer[at])] if self.values.writer[at] >= 0 else []
            at = int(self.chains.previous[at])
        return tuple(reversed(writers))


def _latest_before(group: Ints, place: Ints, time: Ints) -> Ints:
    """For each row, sorted by group and place: the row of its group in an earlier place that has the latest time.

    -1 if there is none.
    """
    ranks = np.empty(len(time), np.int64)
    by_time = np.argsort(time, kind="stable")
    ranks[by_time] = np.arange(len(time))
    numbered = np.cumsum(np.concatenate((np.zeros(1, np.int64), np.diff(group) != 0)))[: len(group)]
    highest = np.maximum.accumulate(numbered * len(time) + ranks)
    fresh = np.concatenate((np.ones(1, np.bool_), (np.diff(group) != 0) | (np.diff(place) != 0)))
    start = np.maximum.accumulate(np.where(fresh, np.arange(len(time)), 0))
    earlier = start - 1
    sound = (earlier >= 0) & (group[np.maximum(earlier, 0)] == group)
    return np.where(sound, by_time[highest[np.maximum(earlier, 0)] % len(time)], -1)

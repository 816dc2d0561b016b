"""Check versions of registers: they agree with the values, and follow time.

A response with a version says more than one with only the value: values that were replaced without being read are in
order nevertheless. Versions grow with every change. So, for registers with unique values,

    agreement   a version stands for one value, and a value that was put there once has one version;
    order       along a chain of compare-and-sets versions grow, no other version lies between those of a chain,
                and of two clusters the one with the lower version comes first, regardless of time.

With the clusters of `zones.py` the last rule makes the check exact: a register is linearizable, with its versions, if
and only if "F of A before S of B" and "A has a lower version than B" together have no cycle. Let no two clusters
precede each other, and let time agree with versions wherever two are known. A cycle that is left goes from a version up
to a higher one (or the same) and back through clusters X without versions (of unanswered writes that only a
compare-and-set met). A backward zone X adds nothing: what precedes it also precedes everything that follows it. Of two
forward zones one lies wholly before the other, so that one X is enough; and versions are a line, so that one way up is.
What remains is

    around  no forward zone without a version comes after one of a higher version and before one of a lower.

Versions are compared, not counted: there is always room for a cluster without a version between two with. All of this
is O(n log n), in arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from squall.results.checkers.registers.findings import WITNESSES, RegisterFinding, RegisterFindings
from squall.results.checkers.registers.operations import NEVER, NONE, Flags, Ints, Registers
from squall.results.checkers.registers.values import INITIAL, NOBODY, Values
from squall.results.checkers.registers.zones import Clusters, Zones


def stated_versions(operations: Registers, values: Values) -> tuple[Ints, Ints]:
    """Return the rows that state the version of a value, and that value: the one they met, or the one they wrote."""
    changed = operations.changes & (operations.version != NONE)
    met = operations.observes & (operations.version != NONE)
    rows = np.flatnonzero(changed | met)
    return rows, np.where(changed[rows], values.put[rows], values.seen[rows])


def check_agreement(operations: Registers, values: Values, findings: RegisterFindings) -> None:
    """Check that no version stands for two values, and in a register of unique values no value has two versions."""
    rows, value = stated_versions(operations, values)
    if len(rows) == 0:
        return
    rows, value = rows[value != NOBODY], value[value != NOBODY]
    codes, distinct = pd.factorize(operations.version[rows])
    versions, _ = pd.factorize(operations.register[rows] * len(distinct) + codes)
    versions = versions.astype(np.int64)
    _disagreement(operations, rows, versions, value, np.ones(len(rows), np.bool_), findings)
    unique = ~values.ambiguous[operations.register[rows]]
    _disagreement(operations, rows, value, versions, unique, findings)


def _disagreement(
    operations: Registers, rows: Ints, one: Ints, other: Ints, considered: Flags, findings: RegisterFindings
) -> None:
    """Report each number in `one` that occurs with several in `other`."""
    count = int(one.max(initial=-1)) + 1
    least, most = np.full(count, NEVER, np.int64), np.full(count, NOBODY, np.int64)
    np.minimum.at(least, one, other)
    np.maximum.at(most, one, other)
    considered = considered & (least != most)[one]
    rows, one, other = rows[considered], one[considered], other[considered]
    order = np.lexsort((other, one))
    rows, one, other = rows[order], one[order], other[order]
    twice = np.flatnonzero((np.diff(one) == 0) & (np.diff(other) != 0))
    found = [
        RegisterFinding(
            "register_version_conflict", int(operations.register[rows[at]]), (int(rows[at]), int(rows[at + 1]))
        )
        for at in twice[:WITNESSES].tolist()
    ]
    findings.add("register_version_conflict", len(twice), operations.register[rows[twice]].tolist(), found)


def check_order(zones: Zones, findings: RegisterFindings) -> None:
    """Check that versions follow chains and time, in registers without other findings."""
    operations, values = zones.operations, zones.values
    sound = np.ones(len(operations.names), np.bool_)
    sound[list(findings.registers)] = False
    rows, value = stated_versions(operations, values)
    used = np.zeros(len(operations), np.bool_)
    used[zones.members.row] = True
    kept = used[rows] & sound[operations.register[rows]]
    rows, value = rows[kept], value[kept]
    if len(rows) == 0:
        return
    version = np.full(len(values.register), NONE, np.int64)
    version[value] = operations.version[rows]
    told = np.full(len(values.register), NOBODY, np.int64)
    told[value] = rows
    known = np.flatnonzero(version != NONE)
    order = known[np.lexsort((version[known], values.register[known]))]
    _Order(zones, findings, version, told, order).check()


class _Order:
    """The rules of order; `order` are the values of known version, by register and version."""

    def __init__(self, zones: Zones, findings: RegisterFindings, version: Ints, told: Ints, order: Ints) -> None:
        self.zones = zones
        self.findings = findings
        self.version = version
        self.told = told
        self.order = order

    def check(self) -> None:
        self._along_chains()
        self._in_time()
        self._around_unknown_versions()

    def _along_chains(self) -> None:
        """Check that, in order of versions, each chain of a register is one stretch and its depth grows."""
        chains, register = self.zones.chains, self.zones.values.register
        order = self.order
        root, depth = chains.root[order], chains.depth[order]
        left = (root[1:] != root[:-1]) | (register[order[1:]] != register[order[:-1]])
        backwards = ~left & (depth[1:] < depth[:-1])
        stretches = np.flatnonzero(np.concatenate((np.ones(1, np.bool_), left)))
        seen = pd.Series(root[stretches]).duplicated().to_numpy()
        places = np.flatnonzero(backwards)
        self._regress(order[places + 1], order[places], order[places])
        again = stretches[seen]
        by_root = np.lexsort((np.arange(len(order)), root))
        before = np.full(len(order), NOBODY, np.int64)
        before[by_root[1:]] = by_root[:-1]  # the last one of the same chain, if there is one
        self._regress(order[before[again]], order[again], order[again - 1])

    def _regress(self, ones: Ints, others: Ints, between: Ints) -> None:
        """Report values of one chain, in pairs, whose versions contradict it, with a value whose version shows that."""
        register = self.zones.values.register
        found = []
        for one, other, third in zip(ones[:WITNESSES], others, between, strict=False):
            chain = self.zones.linked(int(self.told[one]), int(self.told[other]))
            rows = tuple(dict.fromkeys((*chain, int(self.told[third]))))
            found.append(RegisterFinding("register_version_regress", int(register[one]), rows))
        self.findings.add("register_version_regress", len(ones), register[ones].tolist(), found)

    def _in_time(self) -> None:
        """Check that nothing of a lower version begins after something of a higher version has ended."""
        clusters, chains = self.zones.clusters, self.zones.chains
        low = np.full(len(self.version), NONE, np.int64)
        lowest_last = self.order[::-1]
        low[chains.root[lowest_last]] = self.version[lowest_last]
        self.teller = np.full(len(self.version), NOBODY, np.int64)
        self.teller[chains.root[lowest_last]] = self.told[lowest_last]
        self.low = low[clusters.which]
        flagged = np.zeros(len(self.zones.operations.names), np.bool_)
        flagged[list(self.findings.registers)] = True
        kept = np.flatnonzero((self.low != NONE) & ~flagged[clusters.register])
        kept = kept[np.lexsort((self.low[kept], clusters.register[kept]))]
        register, start, end = clusters.register[kept], clusters.latest_start[kept], clusters.earliest_end[kept]
        ranks = np.empty(len(kept), np.int64)
        by_start = np.argsort(start, kind="stable")
        ranks[by_start] = np.arange(len(kept))
        highest = np.maximum.accumulate(register * len(kept) + ranks)
        earlier = by_start[highest[:-1] % max(1, len(kept))]
        wrong = np.flatnonzero((register[1:] == register[earlier]) & (end[1:] < start[earlier]))
        self._out_of_time(kept[earlier[wrong]], kept[wrong + 1])

    def _out_of_time(self, low: Ints, high: Ints) -> None:
        """Report pairs of clusters: an operation of the lower version began after one of the higher had ended."""
        if len(low) == 0:
            return
        zones, operations, which = self.zones, self.zones.operations, self.zones.clusters.which
        members = zones.members
        by_start = np.lexsort((operations.invoked[members.row], members.cluster))
        last, last_change = (np.full(len(self.version), NOBODY, np.int64) for _ in range(2))
        last[members.cluster[by_start]] = members.row[by_start]  # of several, the last assignment stays
        changes = by_start[operations.changes[members.row[by_start]]]
        last_change[members.cluster[changes]] = members.row[changes]
        change = last_change[which[low]]
        given = (change != NOBODY) & (operations.invoked[change] > zones.clusters.earliest_end[high])
        second = np.where(given, change, last[which[low]])
        named = np.isin(zones.clusters.register[low], zones.clusters.register[low[given]])
        for anomaly, these in (
            ("stale_register_read", np.flatnonzero(~named)),
            ("register_version_regress", np.flatnonzero(given)),
        ):
            found = [
                self._late(anomaly, int(second[at]), int(which[low[at]]), int(which[high[at]]))
                for at in these[:WITNESSES].tolist()
            ]
            registers = operations.register[second[these]].tolist()
            self.findings.add(anomaly, len(these), registers, found)

    def _late(self, anomaly: str, second: int, low: int, high: int) -> RegisterFinding:
        operations, zones = self.zones.operations, self.zones
        register = int(operations.register[second])
        teller = int(self.teller[high])
        told = zones.linked(int(self.teller[low]), second)
        if zones.values.writer[high] == INITIAL:  # the initial value was there before all operations
            return RegisterFinding(anomaly, register, tuple(dict.fromkeys((teller, *told))))
        early = zones.members.of(high)
        first = int(early[np.argmin(operations.completed[early])])
        rows = (*zones.linked(teller, first), *told)
        return RegisterFinding(anomaly, register, tuple(dict.fromkeys(rows)), ((first, second),))

    def _around_unknown_versions(self) -> None:
        """Check that no cluster without a version comes after one of a higher version and before one of a lower."""
        clusters, findings = self.zones.clusters, self.findings
        sound = np.ones(len(self.zones.operations.names), np.bool_)
        sound[list(findings.registers)] = False
        known = np.flatnonzero((self.low != NONE) & sound[clusters.register])
        known = known[np.lexsort((self.low[known], clusters.register[known]))]
        unknown = np.flatnonzero((self.low == NONE) & sound[clusters.register] & clusters.forward)
        which, lower, higher = enclosing(
            Spans.of(clusters, known), Spans.of(clusters, unknown), len(self.zones.operations.names)
        )
        which, lower, higher = unknown[which], known[lower], known[higher]
        found = [
            self._circle(int(one), int(low), int(high))
            for one, low, high in zip(which[:WITNESSES], lower, higher, strict=False)
        ]
        findings.add("nonlinearizable_register", len(which), clusters.register[which].tolist(), found)

    def _circle(self, unknown: int, low: int, high: int) -> RegisterFinding:
        """The high, the unknown and the low cluster in the order of time, and the versions that contradict it."""
        zones, operations, which = self.zones, self.zones.operations, self.zones.clusters.which
        first, middle, last = (zones.members.of(int(which[one])) for one in (high, unknown, low))
        ended = int(first[np.argmin(operations.completed[first])])
        begun = int(middle[np.argmax(operations.invoked[middle])])
        ended_then = int(middle[np.argmin(operations.completed[middle])])
        begun_last = int(last[np.argmax(operations.invoked[last])])
        rows = (
            *zones.linked(int(self.teller[which[high]]), ended),
            *zones.linked(begun, ended_then),
            *zones.linked(int(self.teller[which[low]]), begun_last),
        )
        pairs = ((which[high], ended, begun), (which[unknown], ended_then, begun_last))
        orders = tuple((one, other) for value, one, other in pairs if zones.values.writer[value] != INITIAL)
        register = int(operations.register[begun])
        return RegisterFinding("nonlinearizable_register", register, tuple(dict.fromkeys(rows)), orders)


@dataclass(frozen=True)
class Spans:
    """S and F of some clusters, with their registers."""

    register: Ints
    latest_start: Ints
    earliest_end: Ints

    @classmethod
    def of(cls, clusters: Clusters, these: Ints) -> Spans:
        return cls(clusters.register[these], clusters.latest_start[these], clusters.earliest_end[these])


def enclosing(known: Spans, unknown: Spans, registers: int) -> tuple[Ints, Ints, Ints]:
    """Forward clusters of unknown version between a cluster of a higher or equal version and one of a lower.

    Returns which of `unknown`, and the lower and the higher of `known`, which is sorted by register and version. Among
    the clusters of a register up to a version, the latest S grows with the version; among those from a version on, the
    earliest F does. So the lowest that comes after, and the highest that comes before, are found by bisection.
    """
    moments, ranks = np.unique(
        np.concatenate((known.latest_start, known.earliest_end, unknown.latest_start, unknown.earliest_end)),
        return_inverse=True,
    )
    start, end, late, early = np.split(ranks, np.cumsum([len(known.register)] * 2 + [len(unknown.register)]))
    base, own = known.register * len(moments), unknown.register * len(moments)
    latest_start = np.maximum.accumulate(base + start)
    earliest_end = np.minimum.accumulate((base + end)[::-1])[::-1]
    lower = np.searchsorted(latest_start, own + early, side="right")
    higher = np.searchsorted(earliest_end, own + late, side="left") - 1
    register = np.append(known.register, registers)  # a sentinel: beyond the last there is none
    wrong = (lower <= higher) & (register[lower] == unknown.register) & (register[higher] == unknown.register)
    which = np.flatnonzero(wrong)
    return which, lower[which], higher[which]

"""Inject cycles of transactions, as rings, into healthy list-append histories.

A ring consists of transactions on separate keys, each of which comes before the next for a chosen reason (ww, wr or
rw), and the last before the first. If all of them run at the same time, dependencies alone close the cycle. If the last
had ended before the first began, only the order within a process or real time closes it, and the dependencies are a
chain. The near-miss of a ring is the chain: the same transactions where nothing closes the cycle.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from squall.results.synthetic.forge_transactions import MILLISECOND, ForgedTransaction, Micro, append, read

History = list[ForgedTransaction]
Injection = Callable[[History, random.Random], History]
Reason = str
FRESH: Final = 1_000_000_000
"""Keys, processes and elements from here on are used by injections only."""
FAMILIES: Final = ("G0", "G1c", "G-single", "G2")


class Ring:
    """Transactions each of which comes before the next for a reason; `close` also ties the last to the first.

    `apart` lets the last end before the first begins; the others overlap with both.
    """

    def __init__(self, history: History, rng: random.Random, reasons: Sequence[Reason], *, close: bool) -> None:
        self.rng = rng
        self.moment = rng.randrange(max(1, max(one.invoked for one in history)))
        count = len(reasons) if close else len(reasons) + 1
        self.operations: list[list[Micro]] = [[] for _ in range(count)]
        self.seen: list[Micro] = []
        for number, reason in enumerate(reasons):
            self._tie(number, (number + 1) % count, reason, FRESH + number)
        for operations in self.operations:
            rng.shuffle(operations)

    def _tie(self, source: int, target: int, reason: Reason, key: int) -> None:
        first, second = 2 * key, 2 * key + 1
        if reason == "ww":
            self.operations[source].append(append(key, first))
            self.operations[target].append(append(key, second))
            self.seen.append(read(key, first, second))
        elif reason == "wr":
            self.operations[source].append(append(key, first))
            self.operations[target].append(read(key, first))
        else:
            self.operations[source].append(read(key))
            self.operations[target].append(append(key, second))
            if self.rng.random() < 0.5:
                self.seen.append(read(key, second))

    def at_once(self) -> History:
        """Return the history in which all transactions run at the same time."""
        return self._with_observer([self._at(number, 0, 20) for number in range(len(self.operations))])

    def apart(self, *, same_process: bool) -> History:
        """Return the history in which the last ended before the first began, in one process or in two."""
        last = len(self.operations) - 1
        made = [self._at(number, 0, 20) for number in range(1, last)]
        first, end = self._at(0, 12, 20), self._at(last, 0, 8)
        if same_process:
            first = replace(first, process=end.process)
        return self._with_observer([first, *made, end])

    def almost_apart(self) -> History:
        """Return the history in which the last ended just as the first began."""
        last = len(self.operations) - 1
        made = [self._at(number, 0, 20) for number in range(1, last)]
        return self._with_observer([self._at(0, 10, 20), *made, self._at(last, 0, 10)])

    def _at(self, number: int, begin: int, end: int) -> ForgedTransaction:
        begun, ended = (self.moment + place * MILLISECOND for place in (begin, end))
        return ForgedTransaction(FRESH + number, begun, ended, tuple(self.operations[number]))

    def _with_observer(self, made: History) -> History:
        """Add a transaction that reads afterwards what the others appended."""
        begun = self.moment + 40 * MILLISECOND
        seen = tuple(self.seen) or (read(FRESH - 1),)
        return [*made, ForgedTransaction(FRESH + 900, begun, begun + MILLISECOND, seen)]


def _reasons(rng: random.Random, family: str, edges: int) -> list[Reason]:
    """Choose the reasons for the edges of a cycle of some family, in random order."""
    if family == "G0":
        return ["ww"] * edges
    if family == "G1c":
        chosen = ["wr", *rng.choices(("ww", "wr"), k=edges - 1)]
    elif family == "G-single":
        chosen = ["rw", *rng.choices(("ww", "wr"), k=edges - 1)]
    else:
        chosen = ["rw", "rw", *rng.choices(("ww", "wr", "rw"), k=edges - 2)]
    rng.shuffle(chosen)
    return chosen


def _edges(rng: random.Random, family: str, least: int) -> int:
    return rng.randrange(max(least, 2 if family == "G2" else 1), 5)


def at_once(family: str) -> Injection:
    """Inject a ring that dependencies alone close."""

    def inject(history: History, rng: random.Random) -> History:
        reasons = _reasons(rng, family, _edges(rng, family, 2))
        return [*history, *Ring(history, rng, reasons, close=True).at_once()]

    return inject


def apart(family: str, *, same_process: bool) -> Injection:
    """Inject a chain that only the order within a process, or only real time, closes."""

    def inject(history: History, rng: random.Random) -> History:
        reasons = _reasons(rng, family, _edges(rng, family, 1))
        return [*history, *Ring(history, rng, reasons, close=False).apart(same_process=same_process)]

    return inject


def chain(family: str) -> Injection:
    """Inject a chain: the same transactions at the same time, but nothing closes the cycle."""

    def inject(history: History, rng: random.Random) -> History:
        reasons = _reasons(rng, family, _edges(rng, family, 1))
        return [*history, *Ring(history, rng, reasons, close=False).at_once()]

    return inject


def almost(family: str) -> Injection:
    """Inject a chain whose last transaction overlaps with the first by the least possible time."""

    def inject(history: History, rng: random.Random) -> History:
        reasons = _reasons(rng, family, _edges(rng, family, 1))
        return [*history, *Ring(history, rng, reasons, close=False).almost_apart()]

    return inject

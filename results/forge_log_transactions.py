"""Forged histories of a transactional log: healthy ones from a seed, each anomaly, and its legal near-misses.

The healthy log has a few topic-partitions, to which transactions send while others are open, so that their records
lie interleaved. Some are aborted, some of unknown outcome; consumers of committed records get whatever lies below the
first open transaction. A final read takes everything.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from squall.results.checks.kernels.operations import FAIL, INFO, OK
from squall.results.checks.transactions.log_rules import LOG_SCHEMA

PARTITIONS: Final = 3
FRESH: Final = 1 << 40
READER: Final = 90
FINAL_READER: Final = 91
"""Processes that only read. Those that write are 1 to 4, and each that is retired is followed by one a hundred on."""


@dataclass(frozen=True)
class Sent:
    """A record that a transaction sent; the offset is None where nobody told it."""

    partition: int
    value: int
    offset: int | None = None


@dataclass(frozen=True)
class Delivered:
    """A record that a poll delivered; `run` numbers the polls of a transaction."""

    partition: int
    offset: int
    value: int
    run: int = 0


@dataclass(frozen=True)
class LogTransaction:
    """A transaction, or a plain poll (which is one that sends nothing). `completed` None stays open. A `final` read
    covers `final_partitions`, or, if it does not say, those of which it was delivered something.
    """

    process: int
    invoked: int
    completed: int | None
    sent: tuple[Sent, ...] = ()
    polled: tuple[Delivered, ...] = ()
    type: int = OK
    committed_only: bool = True
    final: bool = False
    final_partitions: tuple[int, ...] | None = None
    clock_error: int = 0


History = list[LogTransaction]
Injection = Callable[[History, random.Random], History]


def log_table(history: Sequence[LogTransaction]) -> pa.Table:
    """The columns of some transactions."""
    return pa.table(
        {
            "op_id": list(range(len(history))),
            "process": [one.process for one in history],
            "type": [one.type for one in history],
            "invoked": [one.invoked for one in history],
            "completed": [one.completed for one in history],
            "clock_error": [one.clock_error for one in history],
            "committed_only": [one.committed_only for one in history],
            "final": [one.final for one in history],
            "final_partitions": [one.final_partitions for one in history],
            "sent_partition": [[sent.partition for sent in one.sent] for one in history],
            "sent_value": [[sent.value for sent in one.sent] for one in history],
            "sent_offset": [[sent.offset for sent in one.sent] for one in history],
            "polled_run": [[record.run for record in one.polled] for one in history],
            "polled_partition": [[record.partition for record in one.polled] for one in history],
            "polled_offset": [[record.offset for record in one.polled] for one in history],
            "polled_value": [[record.value for record in one.polled] for one in history],
        },
        schema=LOG_SCHEMA,
    )


class _Log:
    """A correct transactional log, step by step in time."""

    def __init__(self, seed: int, transactions: int) -> None:
        self.rng = random.Random(f"log/{seed}")
        self.records: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]  # (value, transaction)
        self.decided: dict[int, int] = {}  # transaction: its outcome
        self.history: History = []
        self.now = 0
        self._run(transactions)

    def _tick(self) -> int:
        self.now += self.rng.randrange(1, 5)
        return self.now

    def _run(self, transactions: int) -> None:
        cursors = [0] * PARTITIONS
        open_ones: dict[int, tuple[int, list[Sent]]] = {}
        begun = 0
        process_of: dict[int, int] = {}
        while begun < transactions or open_ones:
            chance = self.rng.random()
            if begun < transactions and len(open_ones) < 4 and chance < 0.35:
                free = [slot for slot in range(4) if slot not in open_ones]
                open_ones[self.rng.choice(free)] = (self._tick(), [])
                begun += 1
            elif open_ones and chance < 0.8:
                self._send(*self.rng.choice(list(open_ones.items())))
            elif open_ones and chance < 0.95:
                slot = self.rng.choice(list(open_ones))
                self._end(slot, *open_ones.pop(slot), process_of)
            else:
                self._poll(cursors)
        self._poll([0] * PARTITIONS, final=True)

    def _send(self, slot: int, state: tuple[int, list[Sent]]) -> None:
        partition = self.rng.randrange(PARTITIONS)
        value = (len(self.history) << 16) + slot * 4096 + len(state[1]) + 1
        offset = len(self.records[partition])
        self.records[partition].append((value, state[0]))
        state[1].append(Sent(partition, value, offset))

    def _end(self, slot: int, begun: int, sent: list[Sent], process_of: dict[int, int]) -> None:
        outcome = self.rng.choices((OK, FAIL, INFO), (8, 2, 1))[0]
        landed = outcome == OK or (outcome == INFO and self.rng.random() < 0.5)
        self._tick()
        for partition in {one.partition for one in sent}:
            self.records[partition].append((0, begun))  # the marker that ends it takes an offset
        self.decided[begun] = OK if landed else FAIL
        process = process_of.setdefault(slot, slot + 1)
        if outcome == INFO:
            process_of[slot] = process + 100
        known = tuple(replace(one, offset=None) if outcome == INFO else one for one in sent)
        ended = None if outcome == INFO else self._tick()
        self.history.append(LogTransaction(process, begun, ended, known, type=outcome))

    def _poll(self, cursors: list[int], *, final: bool = False) -> None:
        began = self._tick()
        polled = []
        for partition, records in enumerate(self.records):
            stable = next((at for at, (_, who) in enumerate(records) if who not in self.decided), len(records))
            end = stable if final else min(stable, cursors[partition] + self.rng.randrange(1, 9))
            for offset in range(cursors[partition], end):
                value, who = records[offset]
                if value and self.decided[who] == OK:
                    polled.append(Delivered(partition, offset, value))
            cursors[partition] = max(cursors[partition], end)
        self._tick()
        process, covered = (FINAL_READER, tuple(range(PARTITIONS))) if final else (READER, None)
        self.history.append(
            LogTransaction(process, began, self._tick(), (), tuple(polled), final=final, final_partitions=covered)
        )


def healthy_log(seed: int, transactions: int = 40) -> History:
    """The history of a correct transactional log. Begins are distinct, which names transactions within it."""
    return _Log(seed, transactions).history


def _end_of(history: History) -> int:
    return max(one.completed or one.invoked for one in history) + 1


def _written(history: History, rng: random.Random, kind: int = OK) -> LogTransaction:
    """A transaction with a record that the final read shows."""
    shown = {record.value for one in history if one.final for record in one.polled}
    some = [one for one in history if one.type == kind and any(sent.value in shown for sent in one.sent)]
    return rng.choice(some)


def _swap(history: History, old: LogTransaction, new: LogTransaction) -> History:
    return [new if one is old else one for one in history]


def _without(history: History, value: int) -> History:
    """Nobody is delivered a value."""
    return [replace(one, polled=tuple(record for record in one.polled if record.value != value)) for one in history]


def _aborted(history: History, rng: random.Random) -> History:
    one = _written(history, rng)
    return _swap(history, one, replace(one, type=FAIL))


def _phantom(history: History, rng: random.Random) -> History:
    one = _written(history, rng)
    shown = {record.value for other in history if other.final for record in other.polled}
    sent = next(sent for sent in one.sent if sent.value in shown)
    return _swap(history, one, replace(one, sent=tuple(each for each in one.sent if each is not sent)))


def _lost(history: History, rng: random.Random) -> History:
    """A record of a committed transaction is delivered to nobody."""
    return _without(history, rng.choice(_written(history, rng).sent).value)


def _torn(history: History, rng: random.Random) -> History:
    """Of a transaction of unknown outcome one record is delivered, the other is not."""
    end = _end_of(history)
    final = next(one for one in history if one.final)
    sent = (Sent(0, FRESH), Sent(1, FRESH + 1))
    torn = LogTransaction(50, rng.randrange(end), None, sent, type=INFO)
    reader = LogTransaction(51, end, end + 1, (), (Delivered(0, FRESH, FRESH),))
    again = replace(final, process=52, invoked=end + 2, completed=end + 3)
    again = replace(again, polled=(*final.polled, Delivered(0, FRESH, FRESH), Delivered(1, FRESH - 1, FRESH + 9)))
    other = LogTransaction(53, 1, end, (Sent(1, FRESH + 9, FRESH - 1),))
    return [*history, torn, reader, other, again]


def _precommitted(history: History, rng: random.Random) -> History:
    one = _written(history, rng)
    sent = rng.choice(one.sent)
    record = Delivered(sent.partition, sent.offset or 0, sent.value)
    return _swap(history, one, replace(one, polled=(record,)))


def _pair(moment: int, first: tuple[int, int], second: tuple[int, int], same: bool) -> History:
    """Two transactions, each of which was delivered a record of the other."""
    low = LogTransaction(60, moment + first[0], moment + first[1], (Sent(7, FRESH, 0),), (Delivered(8, 0, FRESH + 1),))
    high = LogTransaction(
        60 if same else 61, moment + second[0], moment + second[1], (Sent(8, FRESH + 1, 0),), (Delivered(7, 0, FRESH),)
    )
    return [low, high]


def _circle(history: History, rng: random.Random) -> History:
    return [*history, *_pair(rng.randrange(_end_of(history)), (0, 10), (5, 15), False)]


def _from_the_future(history: History, rng: random.Random) -> History:
    """A record is delivered before the transaction that sent it began."""
    moment = rng.randrange(_end_of(history))
    low, high = _pair(moment, (0, 10), (20, 30), False)
    return [*history, low, replace(high, polled=())]


def _session_from_the_future(history: History, rng: random.Random) -> History:
    moment = rng.randrange(_end_of(history))
    low, high = _pair(moment, (0, 10), (20, 30), True)
    return [*history, low, replace(high, polled=())]


INJECTIONS: Final[dict[str, tuple[str, Injection]]] = {
    "aborted transaction read": ("aborted_read", _aborted),
    "record nobody sent": ("phantom", _phantom),
    "committed record lost": ("lost_write", _lost),
    "torn transaction": ("lost_write", _torn),
    "own record read": ("precommitted_read", _precommitted),
    "each read the other": ("G1c", _circle),
    "record from the future": ("G1c-realtime", _from_the_future),
    "record from the process's future": ("G1c-process", _session_from_the_future),
}


def _uncommitted_reader(history: History, rng: random.Random) -> History:
    """Who reads uncommitted records may see those of aborted transactions, and its own."""
    spoilt = _aborted(history, rng)
    return [replace(one, committed_only=False) if one.type == OK and not one.sent else one for one in spoilt]


def _unknown_unseen(history: History, rng: random.Random) -> History:
    """A transaction of unknown outcome of which nothing was ever delivered."""
    sent = (Sent(0, FRESH, 2), Sent(1, FRESH + 1, 3))
    return [*history, LogTransaction(50, rng.randrange(_end_of(history)), None, sent, type=INFO)]


def _committed_after_the_final_read(history: History, rng: random.Random) -> History:
    end = _end_of(history)
    return [*history, LogTransaction(50, end, end + 5, (Sent(0, FRESH, FRESH),))]


def _one_way(history: History, rng: random.Random) -> History:
    """One transaction was delivered a record of another that ran at the same time."""
    low, high = _pair(rng.randrange(_end_of(history)), (0, 10), (5, 15), False)
    return [*history, replace(low, polled=()), high]


def _barely_at_once(history: History, rng: random.Random) -> History:
    """A record of a transaction that began just when its reader ended."""
    low, high = _pair(rng.randrange(_end_of(history)), (0, 10), (10, 20), False)
    return [*history, low, replace(high, polled=())]


NEAR_MISSES: Final[dict[str, Injection]] = {
    "a reader of uncommitted records": _uncommitted_reader,
    "a transaction of unknown outcome nobody saw": _unknown_unseen,
    "a commit after the final read": _committed_after_the_final_read,
    "one transaction reads another": _one_way,
    "a record of a transaction that began as its reader ended": _barely_at_once,
}

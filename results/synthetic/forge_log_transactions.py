"""Forge histories of a transactional log: healthy ones, each anomaly, and its legal near-misses.

The healthy log has a few topic-partitions, to which transactions send while others are open, so that their records
interleave. Some are aborted, some of unknown outcome; consumers of committed records receive what lies below the first
open transaction. A final read takes everything.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from squall.results.checkers.kernels.operations import FAIL, INFO, OK
from squall.results.history.table_schemas import LOG_SCHEMA

PARTITIONS: Final = 3
FRESH: Final = 1 << 40
READER: Final = 90
FINAL_READER: Final = 91
"""Processes that only read. Those that write are 1 to 4; one that is retired is replaced by that number plus a hundred.
"""


@dataclass(frozen=True)
class Sent:
    """A record that a transaction sent; the offset is None if no response stated it."""

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
    """A transaction, or a plain poll (a transaction that sends nothing).

    With `completed` None it has no completion. A `final` read covers `final_partitions`, or, if these are None, the
    topic-partitions of which it was delivered a record.
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
    session: int | None = None


History = list[LogTransaction]
Injection = Callable[[History, random.Random], History]


def log_table(history: Sequence[LogTransaction]) -> pa.Table:
    """Return the columns of some transactions."""
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
            "session": [one.session for one in history],
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
    """Return the history of a correct transactional log. Invocation times are distinct: they identify transactions."""
    return _Log(seed, transactions).history


def _end_of(history: History) -> int:
    return max(one.completed or one.invoked for one in history) + 1


def _written(history: History, rng: random.Random, kind: int = OK) -> LogTransaction:
    """Choose a transaction with a record that the final read shows."""
    shown = {record.value for one in history if one.final for record in one.polled}
    some = [one for one in history if one.type == kind and any(sent.value in shown for sent in one.sent)]
    return rng.choice(some)


def _swap(history: History, old: LogTransaction, new: LogTransaction) -> History:
    return [new if one is old else one for one in history]


def _without(history: History, value: int) -> History:
    """Remove a value from every poll."""
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
    """A record of a committed transaction is never delivered."""
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


# The laws of a log, on topic-partitions that no other transaction uses ------------------------------------------------

LONE: Final = 7
"""The first topic-partition that no healthy transaction uses."""
ANOTHER: Final = 93
"""A process that only reads, as `FINAL_READER` does."""


def _sends(process: int, begun: int, ended: int | None, *sent: Sent) -> LogTransaction:
    return LogTransaction(process, begun, ended, sent, type=INFO if ended is None else OK)


def _final(process: int, begun: int, *records: Delivered, covers: tuple[int, ...] = (LONE,)) -> LogTransaction:
    return LogTransaction(process, begun, begun + 1, (), records, final=True, final_partitions=covers)


def _busiest(history: History) -> tuple[Delivered, ...]:
    """Return the records of the final read in the topic-partition of which it has most."""
    (final,) = (one for one in history if one.final)
    here = [tuple(record for record in final.polled if record.partition == number) for number in range(PARTITIONS)]
    return max(here, key=lambda records: len(records))


def _read_again(history: History, *runs: tuple[Delivered, ...], session: int | None = None) -> History:
    """Add polls by one process, one after the other."""
    end = _end_of(history)
    polls = [
        LogTransaction(ANOTHER, end + 10 * at, end + 10 * at + 5, (), records, session=session)
        for at, records in enumerate(runs)
    ]
    return [*history, *polls]


def _final_reads_disagree(history: History, rng: random.Random, *, elsewhere: bool = False) -> History:
    """A second final read has the value of a transaction of unknown outcome in place of another value."""
    (final,) = (one for one in history if one.final)
    here = _busiest(history)
    spoilt = rng.choice(here)
    end = _end_of(history)
    other = replace(spoilt, value=FRESH, offset=here[-1].offset + 50 if elsewhere else spoilt.offset)
    kept = tuple(record for record in final.polled if elsewhere or record != spoilt)
    again = replace(final, process=ANOTHER, invoked=end, completed=end + 1, polled=(*kept, other))
    again = replace(again, polled=tuple(sorted(again.polled, key=lambda record: (record.partition, record.offset))))
    return [*history, _sends(50, 0, None, Sent(spoilt.partition, FRESH)), again]


def _unknown_at_anothers_offset(history: History, rng: random.Random, *, shown: bool = True) -> History:
    """The stated offset of an unknown transaction is that of a committed one; another of its records is delivered."""
    end = _end_of(history)
    unknown = _sends(50, rng.randrange(end), None, Sent(LONE, FRESH, 0), Sent(LONE + 1, FRESH + 1))
    committed = _sends(51, rng.randrange(end), end, Sent(LONE, FRESH + 2, 0))
    proof = LogTransaction(52, end, end + 1, (), (Delivered(LONE + 1, 5, FRESH + 1),) if shown else ())
    return [*history, unknown, committed, proof]


def _unknown_read_elsewhere(history: History, rng: random.Random, *, told: int = 3) -> History:
    """Every reader has a record of an unknown transaction at another offset than the stated one."""
    end = _end_of(history)
    unknown = _sends(50, rng.randrange(end), None, Sent(LONE, FRESH, told))
    return [*history, unknown, _final(51, end, Delivered(LONE, 1, FRESH)), _final(52, end, Delivered(LONE, 1, FRESH))]


def _replaced(history: History, rng: random.Random) -> History:
    """Every reader has another value at the offset of a committed record."""
    spoilt = rng.choice(_written(history, rng).sent)
    lost = next(record for one in history if one.final for record in one.polled if record.value == spoilt.value)
    other = replace(lost, value=FRESH)
    changed = [replace(one, polled=tuple(other if each == lost else each for each in one.polled)) for one in history]
    return [*changed, _sends(50, 0, None, Sent(lost.partition, FRESH))]


def _two_in_turn(history: History, rng: random.Random, first: int, second: int, *, same: bool = False) -> History:
    """Two transactions one after the other, with their stated offsets; a final read has both."""
    end = _end_of(history)
    begun = rng.randrange(end)
    early = _sends(60, begun, begun + 10, Sent(LONE, FRESH, first))
    late = _sends(60 if same else 61, begun + (10 if same else 11), begun + 20, Sent(LONE, FRESH + 1, second))
    records = sorted((Delivered(LONE, first, FRESH), Delivered(LONE, second, FRESH + 1)), key=lambda one: one.offset)
    return [*history, early, late, _final(62, end + 30, *records)]


def _below_what_was_read(history: History, rng: random.Random, *, offset: int = 4) -> History:
    """A transaction begins after a record was read; its own record lies at `offset`."""
    end = _end_of(history)
    begun = rng.randrange(end)
    unknown, read = _sends(60, begun, None, Sent(LONE, FRESH)), Delivered(LONE, 5, FRESH)
    poll = LogTransaction(61, begun + 1, begun + 5, (), (read,))
    late = _sends(62, begun + 6, begun + 9, Sent(LONE, FRESH + 1, offset))
    records = sorted((read, Delivered(LONE, offset, FRESH + 1)), key=lambda one: one.offset)
    return [*history, unknown, poll, late, _final(63, end + 30, *records)]


def _within(history: History, rng: random.Random, first: int, second: int) -> History:
    """Two records of one transaction of unknown outcome, with their stated offsets."""
    sent = (Sent(LONE, FRESH, first), Sent(LONE, FRESH + 1, second))
    return [*history, _sends(60, rng.randrange(_end_of(history)), None, *sent)]


def _skipping(history: History, rng: random.Random, *, polls: int = 1, session: int | None = None) -> History:
    """One poll or two polls leave out a record between others that they deliver."""
    here = _busiest(history)
    at = rng.randrange(1, len(here) - 1)
    runs = (here[:at] + here[at + 1 :],) if polls == 1 else (here[:at], here[at + 1 :])
    return _read_again(history, *runs, session=session)


def _turned(history: History, rng: random.Random, *, polls: int = 1, session: int | None = None) -> History:
    """Two neighbouring records delivered in the wrong order, by one poll or by two."""
    here = _busiest(history)
    at = rng.randrange(len(here) - 1)
    runs = ((here[at + 1], here[at]),) if polls == 1 else ((here[at + 1],), (here[at],))
    return _read_again(history, *runs, session=session)


INJECTIONS: Final[dict[str, tuple[str, Injection]]] = {
    "aborted transaction read": ("aborted_read", _aborted),
    "record nobody sent": ("phantom", _phantom),
    "committed record lost": ("lost_write", _lost),
    "torn transaction": ("lost_write", _torn),
    "own record read": ("precommitted_read", _precommitted),
    "each read the other": ("G1c", _circle),
    "record from the future": ("G1c-realtime", _from_the_future),
    "record from the process's future": ("G1c-process", _session_from_the_future),
    "final reads disagree": ("inconsistent_offset", _final_reads_disagree),
    "unknown transaction at another's offset": ("inconsistent_offset", _unknown_at_anothers_offset),
    "unknown transaction read elsewhere": ("duplicate", _unknown_read_elsewhere),
    "committed record replaced": ("lost_write", _replaced),
    "later transaction below an earlier one": ("rt_order", partial(_two_in_turn, first=5, second=4)),
    "transaction below what was read": ("future_read", _below_what_was_read),
    "sends of an unknown transaction turned": ("nonmonotonic_send", partial(_within, first=5, second=4)),
    "transactions of a process turned": ("nonmonotonic_send", partial(_two_in_turn, first=5, second=4, same=True)),
    "record left out by a poll": ("int_poll_skip", _skipping),
    "record left out by a session": ("poll_skip", partial(_skipping, polls=2, session=1)),
    "poll goes back": ("int_nonmonotonic", _turned),
    "session goes back": ("nonmonotonic_poll", partial(_turned, polls=2, session=1)),
}


def _uncommitted_reader(history: History, rng: random.Random) -> History:
    """A reader of uncommitted records may see those of aborted transactions, and its own."""
    spoilt = _aborted(history, rng)
    return [replace(one, committed_only=False) if one.type == OK and not one.sent else one for one in spoilt]


def _unknown_unseen(history: History, rng: random.Random) -> History:
    """A transaction of unknown outcome of which no record was ever delivered."""
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
    "a final read that has more than another": partial(_final_reads_disagree, elsewhere=True),
    "an unknown transaction at another's offset nobody saw": partial(_unknown_at_anothers_offset, shown=False),
    "an unknown transaction read where it was told": partial(_unknown_read_elsewhere, told=1),
    "a later transaction above an earlier one": partial(_two_in_turn, first=4, second=5),
    "a transaction above what was read": partial(_below_what_was_read, offset=6),
    "sends of an unknown transaction in order": partial(_within, first=4, second=6),
    "transactions of a process in order": partial(_two_in_turn, first=4, second=5, same=True),
    "polls of no known session": partial(_skipping, polls=2),
    "polls of no known session that go back": partial(_turned, polls=2),
}

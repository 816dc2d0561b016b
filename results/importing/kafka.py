"""Map the histories of `jepsen.tests.kafka`: sends and polls of logs, alone or within transactions.

    [:send k v → [offset v]]                        a send to the topic-partition that k is
    [:poll → {k [[offset v] …], …}]                 a poll, one per key that delivered something
    :assign, :subscribe                             a new session of the process; after `:subscribe`, and in an
                                                    operation with a `:rebalance-log`, polls are not held to continue
                                                    each other
    :assign with `:seek-to-beginning? true`         what the process polls from then on is a final read
    :crash, :debug-topic-partitions                 no operation on a log

A history in which no operation has more than one micro-operation is one of logs. Otherwise each operation is a
transaction.

Final reads. A final read of a topic-partition is complete if it reaches the last acknowledged offset: that record is
the marker. Otherwise it is unknown what was lost beyond, and the verdict is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from squall.results.history.operation_tables import TRANSACTIONAL_LOG
from squall.results.history.rows import TYPES, CompletionRow, InvocationRow
from squall.results.history.table_schemas import LOG_SCHEMA
from squall.results.importing.edn import Keyword, shown
from squall.results.importing.mapped import Mapped, Pair
from squall.results.importing.numbering import Numbering, Order
from squall.results.importing.reading import ForeignHistory, Operation

ON_LOGS: Final = ("send", "poll", "txn")
NO_OPERATIONS: Final = ("crash", "debug-topic-partitions", "assign", "subscribe")
PLAIN: Final = 1 << 32
PLAIN_KEY: Final = 1 << 20
"""Integers from 0 up to these stand for themselves, as values and as keys."""


@dataclass(frozen=True)
class Send:
    """A record that was sent; the offset is None if no response stated it."""

    partition: int
    value: int
    offset: int | None


@dataclass(frozen=True)
class Poll:
    """What a poll delivered of each topic-partition: offsets and values."""

    delivered: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]


@dataclass(frozen=True)
class Did:
    """What one operation did, in its order.

    `session` is None if polls need not continue each other. `sought` means that the process reads from the beginning
    since an assignment, which `reading` numbers.
    """

    one: Operation
    micros: tuple[Send | Poll, ...]
    session: int | None
    sought: bool
    reading: int
    rebalanced: bool

    @property
    def sends(self) -> list[Send]:
        return [each for each in self.micros if isinstance(each, Send)]

    @property
    def polls(self) -> list[Poll]:
        return [each for each in self.micros if isinstance(each, Poll)]


@dataclass
class _Names:
    """Maps keys and values of any type to numbers. In JSON the keys of a poll are strings, even if sends' are not."""

    notation: str
    keys: Numbering = field(default_factory=lambda: Numbering(PLAIN_KEY))
    topics: dict[int, str] = field(default_factory=dict)
    values: defaultdict[int, Numbering] = field(default_factory=lambda: defaultdict(lambda: Numbering(PLAIN)))

    def key(self, key: Any) -> int:
        if (
            self.notation == "JSON"
            and isinstance(key, str)
            and not isinstance(key, Keyword)
            and key.lstrip("-").isdecimal()
        ):
            key = int(key)
        number = self.keys.of(key)
        if number not in self.topics:
            plain = shown(key).strip(':"')
            self.topics[number] = shown(key) if plain in self.topics.values() else plain
        return number

    def value(self, partition: int, value: Any) -> int:
        return self.values[partition].of(value)


def is_of_logs(history: ForeignHistory) -> bool:
    """Whether operations send to logs or poll them."""
    for one in history.operations:
        if one.f in ON_LOGS and isinstance(one.value, tuple) and one.value and isinstance(one.value[0], tuple):
            return str(one.value[0][0]).removeprefix(":") in ("send", "poll")
    return False


def map_logs(history: ForeignHistory) -> Mapped:
    """Map a history of logs. Raises ForeignTrouble."""
    names = _Names(history.notation)
    done = list(_done(history, names))
    last = _last_acknowledged(done)
    whole = _whole_readings(done, last)
    given = [
        (partition << 33 | number, f"{name} of {names.topics[partition]}")
        for partition, numbering in names.values.items()
        for number, name in numbering.given()
    ]
    facts = {"partition": tuple(names.keys.given()), "value": tuple(given)}
    if any(len(one.micros) > 1 for one in done):
        table = _transactions(done, whole)
        what = "a topic-partition per key, a transaction per operation"
        unknown = () if whole else ("no final read came to the last acknowledged record of any topic-partition",)
        return Mapped(
            TRANSACTIONAL_LOG,
            what,
            (TRANSACTIONAL_LOG,),
            tables={TRANSACTIONAL_LOG: table},
            names=facts,
            unknown=unknown,
        )
    rows = tuple(_rows(done, last, names.topics))
    return Mapped("log", "a topic per key", ("log",), rows, topics=tuple(names.topics.values()), names=facts)


# What operations did --------------------------------------------------------------------------------------------------


def _done(history: ForeignHistory, names: _Names) -> Iterator[Did]:
    sessions: dict[int, int] = {}
    subscribed: dict[int, bool] = {}
    sought: dict[int, bool] = {}
    count = 0
    for one in sorted(history.operations, key=lambda each: (each.invoked, each.line)):
        process = one.process
        if one.f in ("assign", "subscribe"):
            count += 1
            sessions[process], subscribed[process] = count, one.f == "subscribe" or one.type != "ok"
            sought[process] = one.f == "assign" and one.type == "ok" and one.more.get("seek-to-beginning?") is True
            continue
        if one.f in NO_OPERATIONS:
            continue
        if one.f not in ON_LOGS:
            known = ", ".join((*ON_LOGS, *NO_OPERATIONS))
            raise history.trouble(one.line, f":f {one.f!r} is not a function of a log", f"there are {known}")
        micros = tuple(_micros(history, one, names))
        rebalanced = bool(one.more.get("rebalance-log"))
        stated = process in sessions and not subscribed[process] and not rebalanced
        reading = sessions.get(process, 0)
        yield Did(one, micros, reading if stated else None, sought.get(process, False), reading, rebalanced)
        polled = any(isinstance(each, Poll) for each in micros) or one.f != "send"
        if process in sessions and polled and (one.type != "ok" or rebalanced):
            count += 1
            sessions[process], sought[process] = count, False


def _micros(history: ForeignHistory, one: Operation, names: _Names) -> Iterator[Send | Poll]:
    """Yield what was sent, with the facts of the completion, and what was polled."""
    answered = isinstance(one.answer, tuple) and all(isinstance(each, tuple) for each in one.answer)
    source, line = (one.answer, one.end_line) if answered else (one.value, one.line)
    if not isinstance(source, tuple) or not all(isinstance(each, tuple) and each for each in source):
        problem = f"the value {shown(source)} is not a list of micro-operations"
        raise history.trouble(line, problem, "such as [[:send 5 [0 1]] [:poll {6 [[0 7]]}]]")
    for each in source:
        name = str(each[0]).removeprefix(":")
        if name == "send" and len(each) == 3:
            partition = names.key(each[1])
            offset, value = each[2] if answered and _is_placed(each[2]) else (None, each[2])
            yield Send(partition, names.value(partition, value), offset)
        elif name == "poll" and len(each) <= 2:
            yield _poll(history, line, each[1] if len(each) == 2 else None, names)
        else:
            problem = f"{shown(each)} is not a micro-operation of a log"
            raise history.trouble(line, problem, "there are [:send k v], [:send k [offset v]], [:poll] and [:poll {…}]")


def _is_placed(value: Any) -> bool:
    """Whether the value is an offset, which may be nil, with a value."""
    return isinstance(value, tuple) and len(value) == 2 and (value[0] is None or _is_offset(value[0]))


def _is_offset(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _poll(history: ForeignHistory, line: int | None, told: Any, names: _Names) -> Poll:
    if told is None:
        return Poll(())
    if not isinstance(told, dict):
        raise history.trouble(line, f"a poll of {shown(told)}", "a poll delivers {key [[offset value] …]}")
    delivered = []
    for key, records in told.items():
        partition = names.key(key)
        if not isinstance(records, tuple) or not all(
            isinstance(each, tuple) and len(each) == 2 and _is_offset(each[0]) for each in records
        ):
            problem = f"a poll of key {shown(key)} delivers {shown(records)[:80]}"
            raise history.trouble(line, problem, "records are [offset value], the offset a whole number from 0")
        delivered.append((partition, tuple((offset, names.value(partition, value)) for offset, value in records)))
    return Poll(tuple(delivered))


# Final reads ----------------------------------------------------------------------------------------------------------


def _last_acknowledged(done: list[Did]) -> dict[int, tuple[int, int]]:
    """By topic-partition: the highest acknowledged offset, and its value."""
    last: dict[int, tuple[int, int]] = {}
    for one in done:
        if one.one.type == "ok":
            for each in one.sends:
                if each.offset is not None:
                    last[each.partition] = max(last.get(each.partition, (-1, -1)), (each.offset, each.value))
    return last


def _whole_readings(done: list[Did], last: dict[int, tuple[int, int]]) -> dict[int, tuple[int, ...]]:
    """By reading from the beginning: the topic-partitions that it read completely.

    It read to the last acknowledged record, and the topic-partition has no committed record of unknown offset.
    """
    nowhere = {each.partition for one in done if one.one.type == "ok" for each in one.sends if each.offset is None}
    reached: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for one in done:
        if one.sought and one.one.type == "ok":
            for poll in one.polls:
                for partition, records in poll.delivered:
                    furthest = max((offset for offset, _ in records), default=-1)
                    reached[one.reading][partition] = max(furthest, reached[one.reading].get(partition, -1))
    whole = {
        reading: tuple(
            partition
            for partition, offset in ends.items()
            if partition in last and offset >= last[partition][0] and partition not in nowhere
        )
        for reading, ends in reached.items()
    }
    return {reading: partitions for reading, partitions in whole.items() if partitions}


# Logs -----------------------------------------------------------------------------------------------------------------


def _rows(done: list[Did], last: dict[int, tuple[int, int]], topics: dict[int, str]) -> Iterator[Pair]:
    """Yield the rows of logs: one per operation and topic-partition, each with its own process."""
    numbers = Order()
    sequences: defaultdict[int, int] = defaultdict(int)
    clients = Order()
    for one in done:
        client = clients.of(one.one.process)
        for send in one.sends:
            sequences[client] += 1
            process = numbers.of((one.one.process, send.partition))
            marks = last.get(send.partition) == (send.offset, send.value) and one.one.type == "ok"
            yield _send(one, send, topics[send.partition], process, client, sequences[client], marks=marks)
        for poll in one.polls:
            for partition, records in poll.delivered:
                runs = [(each,) for each in records] if one.rebalanced else [records]
                for at, run in enumerate(runs):
                    process = numbers.of((one.one.process, partition, at))
                    yield from _poll_rows(one, topics[partition], run, process, client, at)


def _send(one: Did, send: Send, topic: str, process: int, client: int, sequence: int, *, marks: bool) -> Pair:
    did = one.one
    f = "marker" if marks else "send"
    begun = InvocationRow(f, process, client, did.invoked, did.invoked, topic, 0, send.value)
    if did.completed is None:
        return begun, None
    offset = send.offset if did.type == "ok" else None
    return begun, CompletionRow(process, did.type, did.completed, offset=offset, sequence=sequence)


def _poll_rows(
    one: Did, topic: str, run: tuple[tuple[int, int], ...], process: int, client: int, at: int
) -> Iterator[Pair]:
    did = one.one
    if did.completed is None or not run:
        return
    final = one.sought and did.type == "ok"
    session = one.session if one.session is not None else (1 << 30) + did.line + (at << 24)
    f = "final_poll" if final else "poll"
    begun = InvocationRow(f, process, client, did.invoked, did.invoked, topic, 0)
    offsets, values = tuple(offset for offset, _ in run), tuple(value for _, value in run)
    yield begun, CompletionRow(process, "ok", did.completed, offsets=offsets, values=values, session=session)


# Transactions ---------------------------------------------------------------------------------------------------------


def _transactions(done: list[Did], whole: dict[int, tuple[int, ...]]) -> pa.Table:
    rows = []
    for number, one in enumerate(done):
        runs = _runs(one)
        final = one.sought and not one.sends and one.reading in whole and one.one.type == "ok"
        rows.append(
            {
                "op_id": number,
                "process": one.one.process,
                "type": TYPES[one.one.type],
                "invoked": one.one.invoked,
                "completed": one.one.completed,
                "clock_error": 0,
                "committed_only": True,
                "final": final,
                "final_partitions": list(whole[one.reading]) if final else None,
                "sent_partition": [each.partition for each in one.sends],
                "sent_value": [_unique(each.partition, each.value) for each in one.sends],
                "sent_offset": [each.offset for each in one.sends],
                "polled_run": [run for run, *_ in runs],
                "polled_partition": [partition for _, partition, _, _ in runs],
                "polled_offset": [offset for _, _, offset, _ in runs],
                "polled_value": [_unique(partition, value) for _, partition, _, value in runs],
                "session": one.session,
            }
        )
    return pa.Table.from_pylist(rows, schema=LOG_SCHEMA)


def _runs(one: Did) -> list[tuple[int, int, int, int]]:
    """Return poll, topic-partition, offset and value of each delivered record.

    Each record counts as its own poll if there was a rebalance.
    """
    every = [
        (number, partition, offset, value)
        for number, poll in enumerate(one.polls)
        for partition, records in poll.delivered
        for offset, value in records
    ]
    return [(at, *each[1:]) for at, each in enumerate(every)] if one.rebalanced else every


def _unique(partition: int, value: int) -> int:
    """Make a value that is unique per key unique among all keys."""
    return partition << 33 | value

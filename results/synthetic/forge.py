"""Forge histories: healthy ones from a seed, and the same with an injected anomaly or its near-miss.

These are the checkers' negative controls (HX-08): a checker that never fires proves nothing. A forge writes real
segments through the real writer, so that a forged run goes the whole way to a verdict.

The healthy history is that of one correct log per topic-partition. Sends take effect in some order; some of unknown
outcome are appended and some are not. Consumers poll at different positions. A marker and a final read close the
history.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from squall.results.history.manifest import Expected, Manifest, TopicFacts
from squall.results.history.segments import (
    ACKS_ALL,
    ClusterObservation,
    CompletionRow,
    EventWriter,
    FaultWindow,
    HistoryWriter,
    InvocationRow,
    SegmentHeader,
    segment_path,
)

MILLISECOND: Final = 1_000_000
ORIGIN: Final = 1_000_000 * MILLISECOND
EPOCH: Final = 3
"""The leader epoch of every forged record."""


@dataclass(frozen=True)
class Forged:
    """One operation with its completion (none if `completed` is None). Times in ns since the load began."""

    f: str
    process: int
    client: int
    invoked: int
    completed: int | None
    type: str = "ok"
    partition: int = 0
    value: int | None = None
    offset: int | None = None
    run: tuple[tuple[int, int], ...] = ()
    sequence: int | None = None
    session: int | None = None
    leader_epoch: int | None = None
    acks: int = ACKS_ALL
    idempotent: bool = True
    high_watermark: int | None = None
    log_start: int | None = None
    error: str | None = None
    topic: str = "events"
    node: int | None = None


@dataclass
class Forge:
    """Makes one healthy log of `sends` sends, about two in a hundred of unknown outcome."""

    seed: int
    sends: int = 200
    partition: int = 0
    producers: int = 3
    processes: int = 4
    consumers: int = 2
    spacing: int = 2 * MILLISECOND
    operations: list[Forged] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.seed}/{self.partition}")
        self.log: list[tuple[int, int]] = []  # (value, time from which it can be read), by offset
        self.next_process = 1000 * (self.partition + 1)
        self._produce()
        self._consume()
        self._finish()

    def _fresh(self) -> int:
        self.next_process += 1
        return self.next_process

    def _produce(self) -> None:
        """Make sends: one after the other per process; each takes effect between invocation and completion."""
        landed: list[tuple[int, Forged]] = []
        sequences = dict.fromkeys(range(self.producers), 0)
        workers = [(self._fresh(), number % self.producers) for number in range(self.producers * self.processes)]
        free_at = [self.rng.randrange(5 * MILLISECOND) for _ in workers]
        last_effect = dict.fromkeys(range(self.producers), 0)
        counters = dict.fromkeys(range(len(workers)), 0)
        for _ in range(self.sends):
            slot = min(range(len(workers)), key=free_at.__getitem__)
            process, client = workers[slot]
            counters[slot] += 1
            sequences[client] += 1
            invoked = free_at[slot]
            effect = max(invoked + self.rng.randrange(1, 8 * MILLISECOND), last_effect[client] + 1)
            completed = effect + self.rng.randrange(1, 6 * MILLISECOND)
            one = Forged(
                "send",
                process,
                client,
                invoked,
                completed,
                partition=self.partition,
                value=process << 40 | counters[slot],
                sequence=sequences[client],
            )
            free_at[slot] = completed + self.rng.randrange(1, self.spacing)
            fate = self.rng.random()
            if fate < 0.02:
                one = replace(one, type="info", error="request_timed_out")
                workers[slot] = (self._fresh(), client)
                counters[slot] = 0
            elif fate < 0.03:
                one = replace(one, type="fail", error="not_enough_replicas")
            if one.type == "ok" or (one.type == "info" and self.rng.random() < 0.5):
                last_effect[client] = effect
                landed.append((effect, one))
            else:
                self.operations.append(one)
        for offset, (effect, one) in enumerate(sorted(landed, key=lambda pair: pair[0])):
            assert one.value is not None
            self.log.append((one.value, effect))
            self.operations.append(replace(one, offset=offset) if one.type == "ok" else one)

    @property
    def ended(self) -> int:
        return max((one.completed or one.invoked for one in self.operations), default=0)

    def _readable(self, moment: int) -> int:
        """The log end that a reader sees at a moment; it lags behind the latest appends."""
        return bisect_left(self.log, moment, key=lambda record: record[1])

    def _consume(self) -> None:
        until = self.ended
        for consumer in range(self.consumers):
            client, process, cursor, now = 100 + consumer, self._fresh(), 0, 0
            while now < until:
                now += self.rng.randrange(1, 20 * MILLISECOND)
                moment = now + self.rng.randrange(1, 3 * MILLISECOND)
                end = min(self._readable(moment), cursor + self.rng.randrange(1, 30))
                run = self._run(cursor, end)
                done = moment + self.rng.randrange(1, 2 * MILLISECOND)
                self.operations.append(self._poll("poll", process, client, now, done, run))
                cursor, now = max(cursor, end), done

    def _finish(self) -> None:
        start = self.ended + 10 * MILLISECOND
        process, offset = self._fresh(), len(self.log)
        value = process << 40 | 1
        self.log.append((value, start + MILLISECOND))
        self.operations.append(
            Forged(
                "marker",
                process,
                200,
                start,
                start + 2 * MILLISECOND,
                partition=self.partition,
                value=value,
                offset=offset,
            )
        )
        reader, cursor, now = self._fresh(), 0, start + 3 * MILLISECOND
        while cursor < len(self.log):
            end = min(len(self.log), cursor + self.rng.randrange(1, 100))
            run = self._run(cursor, end)
            self.operations.append(self._poll("final_poll", reader, 201, now, now + MILLISECOND, run))
            cursor, now = end, now + 2 * MILLISECOND

    def _run(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        return tuple((offset, self.log[offset][0]) for offset in range(start, max(start, end)))

    def _poll(
        self, f: str, process: int, client: int, invoked: int, completed: int, run: tuple[tuple[int, int], ...]
    ) -> Forged:
        return Forged(
            f, process, client, invoked, completed, partition=self.partition, run=run, session=0, leader_epoch=EPOCH
        )


def healthy(seed: int, sends: int = 200, partition: int = 0) -> list[Forged]:
    """Return the history of a correct log."""
    return Forge(seed, sends, partition).operations


# Anomalies ------------------------------------------------------------------------------------------------------------

Injection = Callable[[list[Forged], random.Random], list[Forged]]


def _acked(history: list[Forged], rng: random.Random, low: float = 0.2, high: float = 0.8) -> Forged:
    """Choose an acknowledged send from the middle of the log."""
    sends = sorted((one for one in history if one.f == "send" and one.type == "ok"), key=lambda one: one.offset or 0)
    return sends[rng.randrange(int(len(sends) * low), int(len(sends) * high))]


def _swap(history: list[Forged], old: Forged, new: Forged) -> list[Forged]:
    return [new if one is old else one for one in history]


def _without(history: list[Forged], offset: int, f: tuple[str, ...] = ("poll", "final_poll")) -> list[Forged]:
    """Remove this offset from every poll."""
    return [
        replace(one, run=tuple(record for record in one.run if record[0] != offset)) if one.f in f else one
        for one in history
    ]


def _with_value(history: list[Forged], offset: int, value: int) -> list[Forged]:
    """Let every poll deliver another value at this offset."""
    return [replace(one, run=tuple((at, value if at == offset else old) for at, old in one.run)) for one in history]


def _lost(history: list[Forged], rng: random.Random) -> list[Forged]:
    return _without(history, _acked(history, rng).offset or 0)


def _lost_after_read(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Consumers read the record, but the final log does not have it."""
    return _without(history, _acked(history, rng).offset or 0, ("final_poll",))


def _lost_replaced(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A record of unknown outcome is at the offset of the acknowledged one."""
    send = _acked(history, rng)
    value = 77 << 40 | 1
    other = Forged("send", 77, 50, send.invoked, None, "info", send.partition, value=value)
    return [*_with_value(history, send.offset or 0, value), other]


def _lost_tail(history: list[Forged], rng: random.Random) -> list[Forged]:
    """The last twenty records before the marker were truncated; the marker took their place."""
    marker = next(one for one in history if one.f == "marker")
    assert marker.offset is not None and marker.value is not None
    first = marker.offset - 20
    cut = [
        replace(one, run=tuple(record for record in one.run if record[0] < first)) if one.run else one
        for one in history
    ]
    cut = [replace(one, offset=first) if one.f == "marker" else one for one in cut]
    last = max((one for one in cut if one.f == "final_poll"), key=lambda one: one.invoked)
    run = tuple(record for record in last.run if record[0] < first)
    return _swap(cut, last, replace(last, run=(*run, (first, marker.value))))


def _phantom(history: list[Forged], rng: random.Random) -> list[Forged]:
    return _forget(history, _acked(history, rng))


def _forget(history: list[Forged], send: Forged) -> list[Forged]:
    return [one for one in history if one is not send]


def _aborted(history: list[Forged], rng: random.Random) -> list[Forged]:
    send = _acked(history, rng)
    return _swap(history, send, replace(send, type="fail", offset=None, error="not_enough_replicas"))


def _inconsistent(history: list[Forged], rng: random.Random) -> list[Forged]:
    """One consumer received another value than all others."""
    send = _acked(history, rng)
    offset, value = send.offset or 0, 78 << 40 | 1
    poll = next(one for one in history if one.f == "poll" and any(at == offset for at, _ in one.run))
    run = tuple((at, value if at == offset else old) for at, old in poll.run)
    other = Forged("send", 78, 51, send.invoked, None, "info", send.partition, value=value)
    return [*_swap(history, poll, replace(poll, run=run)), other]


def _duplicate(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A retry was appended again: an acknowledged value is also at the offset of an unacknowledged record."""
    send = _acked(history, rng)
    landed = {value: at for one in history if one.f == "final_poll" for at, value in one.run}
    info = next((one for one in history if one.type == "info" and one.value in landed), None)
    if info is not None and info.value is not None and send.value is not None:
        return _with_value(history, landed[info.value], send.value)
    assert send.value is not None
    return _at_the_end(history, send.value)


def _at_the_end(history: list[Forged], value: int) -> list[Forged]:
    """Append one more record to the final read."""
    last = max((one for one in history if one.f == "final_poll"), key=lambda one: one.invoked)
    return _swap(history, last, replace(last, run=(*last.run, (last.run[-1][0] + 1, value))))


def _early_copy(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Without idempotence there may be copies; this one precedes records whose sends ended before its send began."""
    landed = {value: at for one in history if one.f == "final_poll" for at, value in one.run}
    early = next(one for one in history if one.f == "send" and one.value in landed and landed[one.value] > 20)
    assert early.value is not None and early.completed is not None
    done = early.completed
    late = max((one for one in history if one.f == "send" and one.type == "ok"), key=lambda one: one.invoked)
    assert late.value is not None and late.invoked > done
    place = landed[early.value] - 5
    gone = [
        one for one in history if one.value is None or one.value != next(v for v, at in landed.items() if at == place)
    ]
    return [replace(one, idempotent=False) for one in _with_value(gone, place, late.value)]


def _moved_without_idempotence(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A record is missing at its acknowledged offset; a copy at the end is no excuse."""
    send = _acked(history, rng)
    assert send.value is not None
    copied = _at_the_end(_without(history, send.offset or 0), send.value)
    return [replace(one, idempotent=False) for one in copied]


def _replaced_below_log_start(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Retention has moved the log start offset; below it, another value was read than was acknowledged."""
    send = _acked(history, rng)
    value, start = 77 << 40 | 1, (send.offset or 0) + 1
    other = Forged("send", 77, 50, send.invoked, None, "info", send.partition, value=value)
    return [*_cut_below(_with_value(history, send.offset or 0, value), start), other]


def _unplaced_out_of_order(history: list[Forged], rng: random.Random) -> list[Forged]:
    """The same as `_nonmonotonic_send`, but acknowledgements carry no offset."""
    broken = _nonmonotonic_send(history, rng)
    return [replace(one, offset=None) if one.f == "send" and one.client == 0 else one for one in broken]


def _rt_swap(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Swap two sends, one of which ended before the other began, for every reader."""
    first = _acked(history, rng, 0.2, 0.5)
    assert first.completed is not None
    done = first.completed
    second = min(
        (one for one in history if one.f == "send" and one.type == "ok" and one.invoked > done),
        key=lambda one: one.invoked,
    )
    assert first.offset is not None and second.offset is not None and first.value is not None
    assert second.value is not None
    swapped = _swap(history, first, replace(first, offset=second.offset))
    swapped = _swap(swapped, second, replace(second, offset=first.offset))
    exchange = {first.offset: second.value, second.offset: first.value}
    return [replace(one, run=tuple((at, exchange.get(at, value)) for at, value in one.run)) for one in swapped]


def _future(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A poll completed before the send of the record it delivered was invoked."""
    send = _acked(history, rng)
    polls = [one for one in history if one.f == "poll" and any(at == send.offset for at, _ in one.run)]
    poll = polls[0]
    early = send.invoked - 2
    return [
        *_swap(history, poll, replace(poll, run=())),
        replace(poll, process=79, client=79, invoked=early - 10, completed=early),
    ]


def _skip_in_poll(history: list[Forged], rng: random.Random) -> list[Forged]:
    poll = rng.choice([one for one in history if one.f == "poll" and len(one.run) >= 3])
    gap = rng.randrange(1, len(poll.run) - 1)
    return _swap(history, poll, replace(poll, run=poll.run[:gap] + poll.run[gap + 1 :]))


def _skip_poll(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A poll in the middle of a session was dropped, so the session passed over its records."""
    client = 100
    polls = [one for one in history if one.f == "poll" and one.client == client and one.run]
    gone = polls[rng.randrange(1, len(polls) - 1)]
    return _swap(history, gone, replace(gone, run=()))


def _nonmonotonic_poll(history: list[Forged], rng: random.Random) -> list[Forged]:
    polls = [one for one in history if one.f == "poll" and one.client == 100 and one.run]
    place = rng.randrange(1, len(polls))
    return _swap(history, polls[place], replace(polls[place], run=polls[place - 1].run + polls[place].run))


def _backwards_in_poll(history: list[Forged], rng: random.Random) -> list[Forged]:
    poll = rng.choice([one for one in history if one.f == "poll" and len(one.run) >= 2])
    return _swap(history, poll, replace(poll, run=(poll.run[1], poll.run[0], *poll.run[2:])))


def _nonmonotonic_send(history: list[Forged], rng: random.Random) -> list[Forged]:
    """The sequence numbers of a client are in the opposite order of the offsets."""
    sends = sorted(
        (one for one in history if one.f == "send" and one.type == "ok" and one.client == 0),
        key=lambda one: one.sequence or 0,
    )
    place = rng.randrange(len(sends) - 1)
    first, second = sends[place], sends[place + 1]
    swapped = _swap(history, first, replace(first, sequence=second.sequence))
    return _swap(swapped, second, replace(second, sequence=first.sequence))


def _list_offsets(history: list[Forged], rng: random.Random, below: int) -> list[Forged]:
    """Add a list_offsets after an acknowledgement, whose response is `below` less than the least legal one."""
    send = _acked(history, rng)
    assert send.completed is not None and send.offset is not None
    moment = send.completed + 1
    seen = [
        max(at for at, _ in one.run)
        for one in history
        if one.run and one.completed is not None and one.completed < moment
    ]
    acked = [
        one.offset
        for one in history
        if one.f == "send" and one.type == "ok" and one.completed is not None and one.completed < moment
    ]
    least = max([at for at in acked if at is not None] + seen) + 1
    end, place = least - below, send.partition
    ask = Forged("list_offsets", 90, 90, moment, moment + 1, partition=place, high_watermark=end, leader_epoch=EPOCH)
    return [*history, ask]


def _stale(history: list[Forged], rng: random.Random) -> list[Forged]:
    """The next leader states a log end below what its predecessor acknowledged.

    It leads until the end of the run, so the marker was appended by it.
    """
    broken = _list_offsets(history, rng, 1 + rng.randrange(3))
    last = max((one for one in broken if one.f == "final_poll"), key=lambda one: one.invoked)
    ended = _swap(broken[:-1], last, replace(last, leader_epoch=EPOCH + 1))
    return [*ended, replace(broken[-1], leader_epoch=EPOCH + 1)]


def _regress(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Two requests one after the other: the second response is smaller, and below no acknowledged record."""
    first = _list_offsets(history, rng, -3)[-1]
    assert first.high_watermark is not None and first.completed is not None
    second = replace(
        first,
        process=91,
        client=91,
        invoked=first.completed + 1,
        completed=first.completed + 2,
        high_watermark=first.high_watermark - 1,
    )
    return [*history, first, second]


def _stating(history: list[Forged], rng: random.Random, above: int, after: int) -> list[Forged]:
    """A poll that delivers nothing ends `after` before a send begins.

    It states an end `above` the lowest offset of the acknowledged sends that begin later.
    """
    send = _acked(history, rng)
    moment = send.invoked - after
    later = (one for one in history if one.f == "send" and one.type == "ok" and one.invoked > moment)
    end = above + min(one.offset for one in later if one.offset is not None)
    told = Forged("poll", 95, 95, moment - 1, moment, partition=send.partition, high_watermark=end, log_start=0)
    return [*history, told]


def _end_ahead(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A high watermark covered an offset that was given to a later send."""
    return _stating(history, rng, 1 + rng.randrange(3), 1)


def _start_ahead(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Retention removed what was not committed yet, and the replica said so."""
    *others, told = _stating(history, rng, -3, 1)
    return [*others, replace(told, log_start=(told.high_watermark or 0) + 1)]


def _deleting(history: list[Forged], rng: random.Random, after: int) -> list[Forged]:
    """A node answers a DeleteRecords of all that it has, `after` before it is polled for the last of it."""
    send = _acked(history, rng)
    last = max(one.completed or 0 for one in history) + 10
    offset, value = send.offset or 0, send.value or 0
    place = send.partition
    told = Forged(
        "delete_records", 96, 96, last - after - 1, last - after, partition=place, log_start=offset + 1, node=1
    )
    read = Forged("poll", 97, 97, last, last + 1, partition=place, run=((offset, value),), session=0, node=1)
    return [*_cut_below(history, offset + 1), told, read]


def _deleted_read(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A node delivers what it has said is deleted."""
    return _deleting(history, rng, 1)


INJECTIONS: Final[dict[str, tuple[str, Injection]]] = {
    "lost": ("lost_write", _lost),
    "lost after read": ("lost_write", _lost_after_read),
    "lost and replaced": ("lost_write", _lost_replaced),
    "lost tail": ("lost_write", _lost_tail),
    "phantom": ("phantom", _phantom),
    "aborted read": ("aborted_read", _aborted),
    "inconsistent": ("inconsistent_offset", _inconsistent),
    "duplicate": ("duplicate", _duplicate),
    "real-time swap": ("rt_order", _rt_swap),
    "future read": ("future_read", _future),
    "skip in a poll": ("int_poll_skip", _skip_in_poll),
    "skipped poll": ("poll_skip", _skip_poll),
    "went back": ("nonmonotonic_poll", _nonmonotonic_poll),
    "backwards in a poll": ("int_nonmonotonic", _backwards_in_poll),
    "sends out of order": ("nonmonotonic_send", _nonmonotonic_send),
    "stale log end": ("stale_read", _stale),
    "log end went back": ("hw_regress", _regress),
    "high watermark ahead of a later send": ("hw_ahead", _end_ahead),
    "log start ahead of its high watermark": ("log_start_ahead", _start_ahead),
    "deleted and delivered": ("deleted_read", _deleted_read),
    "early copy": ("rt_order", _early_copy),
    "gone from its place": ("lost_write", _moved_without_idempotence),
    "replaced below the log's start": ("inconsistent_offset", _replaced_below_log_start),
    "sends out of order as only reads show": ("nonmonotonic_send", _unplaced_out_of_order),
}
"""The injections by name: the anomaly that each must raise, and the function that injects it."""


def _info_unseen(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A send of unknown outcome that is never read."""
    return [*history, Forged("send", 80, 60, 5, None, "info", value=80 << 40 | 1)]


def _duplicate_not_idempotent(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Without idempotence a retry may be appended twice, at any time after its send began."""
    send = _acked(history, rng)
    assert send.value is not None
    return [replace(one, idempotent=False) for one in _at_the_end(history, send.value)]


def _duplicate_after_removal(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A replica that begins after a record does not know its producer; as a later leader it accepts the retry."""
    send = _acked(history, rng)
    assert send.value is not None and send.offset is not None
    again = _cut_below(_at_the_end(history, send.value), send.offset + 1)
    last = max((one for one in again if one.f == "final_poll"), key=lambda one: one.invoked)
    return _swap(again, last, replace(last, leader_epoch=(last.leader_epoch or 0) + 1))


def _lost_acks_one(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Under acks=1 an acknowledgement guarantees nothing."""
    send = _acked(history, rng)
    return _swap(_without(history, send.offset or 0), send, replace(send, acks=1))


def _gap_nobody_saw(history: list[Forged], rng: random.Random) -> list[Forged]:
    """An offset that holds no record, such as that of a control record."""
    send = _acked(history, rng)
    return _forget(_without(history, send.offset or 0), send)


def _went_back_in_new_session(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A consumer in a new session may go back."""
    broken = _nonmonotonic_poll(history, rng)
    changed = next(one for one in broken if one.f == "poll" and one.client == 100 and one not in history)
    return [replace(one, session=1) if one.client == 100 and one.invoked >= changed.invoked else one for one in broken]


def _list_offsets_just_right(history: list[Forged], rng: random.Random) -> list[Forged]:
    return _list_offsets(history, rng, 0)


def _stale_of_a_deposed_leader(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A deposed leader that was cut off before its successor took these records."""
    broken = _stale(history, rng)
    return [*broken[:-1], replace(broken[-1], leader_epoch=EPOCH - 1)]


def _stale_of_the_leader_that_appended(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A deposed leader that appended the record and was cut off before its successor committed it.

    All records whose sends began once the record or a later one was known are the successor's.
    """
    broken = _stale(history, rng)
    end, begun = broken[-1].high_watermark or 0, {one.value: one.invoked for one in history}
    known = min(
        one.completed
        for one in history
        if one.completed is not None and max([one.offset or 0, *(at for at, _ in one.run)]) >= end
    )
    return [
        *(
            replace(one, leader_epoch=EPOCH + 1) if any(begun.get(value, 0) > known for _, value in one.run) else one
            for one in broken[:-1]
        ),
        replace(broken[-1], leader_epoch=EPOCH),
    ]


def _stale_of_a_leader_without_records(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A leader between the two that committed nothing: it may never have had its successor's records."""
    broken = _stale(history, rng)
    return [
        *(replace(one, leader_epoch=EPOCH + 2) if one.leader_epoch == EPOCH + 1 else one for one in broken[:-1]),
        broken[-1],
    ]


def _stale_under_an_unknown_epoch(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Some clients report no leader epoch: whether that leader had to know cannot be decided."""
    broken = _stale(history, rng)
    return [*broken[:-1], replace(broken[-1], leader_epoch=None)]


def _unplaced_in_order(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Acknowledgements need not carry an offset."""
    return [replace(one, offset=None) if one.f == "send" and one.client == 0 else one for one in history]


def _passed_below_log_start(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A consumer that lags behind retention continues at the log start offset; others had read the records between."""
    broken = _skip_poll(history, rng)
    on = next(one for one in broken if one.client == 100 and one.run and one.run[0][0] > _end_before(broken, one))
    return _cut_below(broken, on.run[0][0])


def _end_before(history: list[Forged], poll: Forged) -> int:
    """The position that a consumer's session had reached before one of its polls."""
    earlier = (one for one in history if one.client == poll.client and one.run and one.invoked < poll.invoked)
    return max((one.run[-1][0] + 1 for one in earlier), default=poll.run[0][0])


def _below_log_start(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Retention has moved the log start offset; records below it may be deleted."""
    return _cut_below(history, (_acked(history, rng).offset or 0) + 1)


def _cut_below(history: list[Forged], start: int) -> list[Forged]:
    """The final read begins at the log start offset `start`."""
    return [
        replace(one, run=tuple(record for record in one.run if record[0] >= start), log_start=start)
        if one.f == "final_poll"
        else one
        for one in history
    ]


def _end_just_below(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A high watermark that is the offset of the next send: all below it is committed."""
    return _stating(history, rng, 0, 1)


def _start_at_the_end(history: list[Forged], rng: random.Random) -> list[Forged]:
    """Retention may remove everything that is committed."""
    *others, told = _stating(history, rng, -3, 1)
    ended = _cut_below(others, told.high_watermark or 0)
    return [*ended, replace(told, log_start=told.high_watermark)]


def _deleted_meanwhile(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A poll that was under way when the deletion was answered may deliver what it deleted."""
    return _deleting(history, rng, 0)


def _deleted_elsewhere(history: list[Forged], rng: random.Random) -> list[Forged]:
    """A node that was fenced when another answered the deletion may still have the records."""
    *others, read = _deleting(history, rng, 1)
    return [*others, replace(read, node=2)]


NEAR_MISSES: Final[dict[str, Injection]] = {
    "a send of unknown outcome nobody reads": _info_unseen,
    "a duplicate of a producer without idempotence": _duplicate_not_idempotent,
    "a retry of a record that was removed before a later leader began": _duplicate_after_removal,
    "a record lost under acks=1": _lost_acks_one,
    "an offset without a record": _gap_nobody_saw,
    "going back in a new session": _went_back_in_new_session,
    "a log end that is just right": _list_offsets_just_right,
    "a high watermark at the offset of a later send": _end_just_below,
    "a log that starts at its high watermark": _start_at_the_end,
    "a deleted record in a poll under way": _deleted_meanwhile,
    "a deleted record of a node that did not answer the deletion": _deleted_elsewhere,
    "a stale log end of a deposed leader": _stale_of_a_deposed_leader,
    "a stale log end of a deposed leader that appended the record": _stale_of_the_leader_that_appended,
    "a stale log end of a leader of whom no record is": _stale_of_a_leader_without_records,
    "a stale log end under an unknown epoch": _stale_under_an_unknown_epoch,
    "records below the log's start": _below_log_start,
    "passing over records below the log's start": _passed_below_log_start,
    "acknowledgements that do not say where": _unplaced_in_order,
}
"""Legal histories that resemble an anomaly, by name."""


# Runs -----------------------------------------------------------------------------------------------------------------


def rows_of(operations: list[Forged]) -> list[InvocationRow | CompletionRow]:
    """Return the rows of a segment, in order of time as a real writer would write them."""
    rows: list[tuple[int, int, InvocationRow | CompletionRow]] = []
    for number, one in enumerate(operations):
        rows.append((one.invoked, 2 * number + 1, _invocation(one)))
        if one.completed is not None:
            rows.append((one.completed, 2 * number, _completion(one)))
    rows.sort(key=lambda row: row[:2])
    return [row for _, _, row in rows]


def write_operations(path: Path, operations: list[Forged], header: SegmentHeader) -> None:
    """Write operations as one segment."""
    with HistoryWriter(path, header) as writer:
        for row in rows_of(operations):
            if isinstance(row, InvocationRow):
                writer.invoke(row)
            else:
                writer.complete(row)


def _invocation(one: Forged) -> InvocationRow:
    return InvocationRow(
        one.f,
        one.process,
        one.client,
        one.invoked + ORIGIN,
        one.invoked + ORIGIN,
        one.topic,
        one.partition,
        one.value,
        one.acks,
        one.idempotent,
    )


def _completion(one: Forged) -> CompletionRow:
    assert one.completed is not None
    return CompletionRow(
        one.process,
        one.type,  # type: ignore[arg-type]
        one.completed + ORIGIN,
        one.offset,
        tuple(at for at, _ in one.run),
        tuple(value for _, value in one.run),
        one.error,
        sequence=one.sequence,
        session=one.session,
        leader_epoch=one.leader_epoch,
        high_watermark=one.high_watermark,
        log_start=one.log_start,
        node=one.node,
    )


def forge_run(
    run_dir: Path,
    operations: list[Forged],
    *,
    seed: int = 1,
    scenario: str = "forged",
    faults: tuple[FaultWindow, ...] = (),
    cluster: tuple[ClusterObservation, ...] = (),
    **manifest: object,
) -> Path:
    """Write a whole run: manifest, one segment, faults. `manifest` overrides fields of the manifest."""
    partitions = 1 + max((one.partition for one in operations), default=0)
    ended = max((one.completed or one.invoked for one in operations if one.f == "send"), default=0)
    Manifest(
        run_id=f"forged-{seed}",
        scenario=scenario,
        seed=seed,
        topics={"events": TopicFacts(partitions=partitions)},
        load_started=ORIGIN,
        load_ended=ORIGIN + ended,
        completed=True,
        segments=1,
        fault_free=not faults,
        faults_planned=len(faults),
        min_acknowledged=1,
        final_read="complete",
        command=f"squall forge OUT --seed {seed}",
        expect=Expected(),
    ).with_changes(**manifest).save(run_dir)
    write_operations(segment_path(run_dir, 0), operations, SegmentHeader(f"forged-{seed}", 0))
    for row_writer, rows in ((EventWriter.faults, faults), (EventWriter.cluster, cluster)):
        writer = row_writer(run_dir)
        for row in rows:
            writer.write(row)
        writer.close()
    return run_dir

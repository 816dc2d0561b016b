"""R0, R1 and L against a search that tries every order: they must agree on thousands of small histories.

The search knows nothing of intervals and keys: a history is that of a correct log if its operations can be put in
one order that respects real time, in which every append lands above all earlier ones and every read returns a
gap-free piece of what is there then. Sends of unknown outcome may take effect at any time or never.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from squall.results.checkers.log.result import PartitionResult
from squall.results.history.segments import ACKS_ALL
from squall.results.synthetic.forge import Forged

Check = Callable[..., PartitionResult]
HISTORIES = 800
ALL = 1_000_000
UNREAD = -2


def linearizable(history: list[Forged]) -> bool:
    operations = [one for one in history if one.type != "fail"]
    shown = {(at, value) for one in history for at, value in one.run}

    def must(one: Forged) -> bool:
        return one.type == "ok"

    def places(one: Forged) -> list[int]:
        """Where an append may land: where it was acknowledged, or wherever a read shows its value."""
        if one.offset is not None:
            return [one.offset]
        return sorted({at for at, value in shown if value == one.value})

    def search(done: frozenset[int], log: tuple[tuple[int, int], ...], floor: int) -> bool:
        left = [index for index in range(len(operations)) if index not in done]
        if not any(must(operations[index]) for index in left):
            return True
        ends = [operations[index].completed for index in left if must(operations[index])]
        first_end = min(end for end in ends if end is not None)
        for index in left:
            one = operations[index]
            if one.invoked > first_end:
                continue
            if one.f == "send":
                for at in places(one):
                    assert one.value is not None
                    if at >= floor and search(done | {index}, (*log, (at, one.value)), at + 1):
                        return True
            elif one.f == "list_offsets":
                end = one.high_watermark or 0
                if floor <= end and search(done | {index}, log, end):
                    return True
            elif readable(one, log) and search(done | {index}, log, floor):
                return True
        return False

    return search(frozenset(), (), 0)


def readable(poll: Forged, log: tuple[tuple[int, int], ...]) -> bool:
    """Whether a poll's run is a gap-free piece of the log."""
    if not poll.run:
        return True
    return contains(log, poll.run)


def contains(log: tuple[tuple[int, int], ...], run: tuple[tuple[int, int], ...]) -> bool:
    return any(log[start : start + len(run)] == run for start in range(len(log)))


def random_history(rng: random.Random) -> list[Forged]:
    """A few operations of a log that is mostly correct, with times and answers disturbed."""
    sends = rng.randrange(1, 5)
    values = [process << 40 | 1 for process in range(1, sends + 1)]
    order = rng.sample(range(sends), sends)
    history = []
    log: list[tuple[int, int]] = []
    for place, index in enumerate(order):
        invoked = 10 * place + rng.randrange(0, 14)
        kind = rng.choices(("ok", "info", "fail"), (8, 2, 1))[0]
        landed = kind == "ok" or (kind == "info" and rng.random() < 0.5)
        offset = len(log)
        if landed:
            log.append((offset, values[index]))
        completed = None if kind == "info" else invoked + rng.randrange(1, 14)
        answer = offset if kind == "ok" else None
        if answer is not None and rng.random() < 0.06:
            answer = rng.randrange(0, sends)
        history.append(Forged("send", index + 1, index, invoked, completed, kind, value=values[index], offset=answer))
    for number in range(rng.randrange(0, 4)):
        invoked = rng.randrange(0, 10 * sends + 10)
        completed = invoked + rng.randrange(1, 12)
        if rng.random() < 0.3:
            end = rng.randrange(0, len(log) + 1)
            history.append(Forged("list_offsets", 100 + number, 100 + number, invoked, completed, high_watermark=end))
            continue
        start = rng.randrange(0, len(log) + 1)
        run = log[start : start + rng.randrange(0, 4)]
        if run and rng.random() < 0.08:
            run[rng.randrange(len(run))] = (run[0][0], rng.choice(values))
        history.append(Forged("poll", 100 + number, 100 + number, invoked, completed, run=tuple(run), session=0))
    return history


@dataclass(frozen=True)
class Effect:
    """What some operation does to the log, or says of it, and when it has done so at the latest."""

    f: str
    invoked: int
    ended: float
    offset: int = -1
    run: tuple[tuple[int, int], ...] = ()


def effects_of(history: list[Forged]) -> list[tuple[Effect, ...]] | None:
    """Of each acknowledgement, read and copy of a record what it may have been: one of several. None if no log can have
    been like that.

    A send may have put copies of its record wherever reads show it; one that is idempotent, in one place at most. Acks
    of all replicas say that it lies at an offset, or somewhere: then each of the copies may be the one, and so may one
    that nobody read, where there is an offset below of which nothing is known. (Neither the rules nor this search ask
    whether there was room for it there at that time.)
    """
    sends = {one.value: one for one in history if one.f == "send"}
    held: dict[int, int] = {}
    places: dict[int, set[int]] = {value: set() for value in sends if value is not None}
    for at, value in {record for one in history for record in one.run}:
        if value not in sends or sends[value].type == "fail" or held.setdefault(at, value) != value:
            return None
        places[value].add(at)
    found: list[tuple[Effect, ...]] = []
    for value, one in sends.items():
        if one.type == "fail":
            continue
        assert value is not None
        copies, promised = places[value], one.type == "ok" and one.acks == ACKS_ALL
        if promised and one.offset is not None:
            if held.setdefault(one.offset, value) != value:
                return None
            copies.add(one.offset)
        if one.idempotent and len(copies) > 1:
            return None
        for at in sorted(copies):
            due = one.completed if promised and one.offset == at and one.completed is not None else math.inf
            found.append((Effect("copy", one.invoked, due, at),))
    for value, one in sends.items():
        if one.type == "ok" and one.acks == ACKS_ALL and one.offset is None:
            assert value is not None and one.completed is not None
            copies = places[value]
            room = not copies or (not one.idempotent and any(at not in held for at in range(min(copies))))
            unseen = (Effect("unseen", one.invoked, one.completed),) if room else ()
            found.append((*(Effect("there", one.invoked, one.completed, at) for at in sorted(copies)), *unseen))
    for one in history:
        if one.completed is not None and (one.f == "list_offsets" or (one.f == "poll" and one.run)):
            found.append((Effect(one.f, one.invoked, one.completed, one.high_watermark or 0, one.run),))
    return found


def possible(history: list[Forged]) -> bool:
    """Whether some log can have been like that: the search of `linearizable`, of logs with copies and all kinds of
    acknowledgements.
    """
    effects = effects_of(history)
    if effects is None:
        return False
    tried: set[tuple[frozenset[int], int, frozenset[int]]] = set()
    values = {at: value for one in history for at, value in one.run}

    def search(done: frozenset[int], floor: int, lying: frozenset[int]) -> bool:
        left = [index for index in range(len(effects)) if index not in done]
        first_end = min((effects[index][0].ended for index in left), default=math.inf)
        if first_end == math.inf:
            return True
        if (done, floor, lying) in tried:
            return False
        tried.add((done, floor, lying))
        log = tuple((at, values.get(at, UNREAD)) for at in sorted(lying))
        for index in left:
            for one in effects[index]:
                if one.invoked > first_end:
                    continue
                after = done | {index}
                if one.f == "copy":
                    if one.offset >= floor and search(after, one.offset + 1, lying | {one.offset}):
                        return True
                elif one.f == "there":
                    if one.offset in lying and search(after, floor, lying):
                        return True
                elif one.f == "unseen":
                    if search(after, floor, lying):
                        return True
                elif one.f == "list_offsets":
                    if floor <= one.offset and search(after, one.offset, lying):
                        return True
                elif contains(log, one.run) and search(after, floor, lying):
                    return True
        return False

    return search(frozenset(), 0, frozenset())


def random_history_with_copies(rng: random.Random) -> list[Forged]:
    """The same as `random_history`, but some producers are not idempotent and may have appended a record again before
    or after, some ask for acknowledgements by the leader alone, and some acknowledgements do not say where.
    """
    sends = rng.randrange(1, 5)
    values = [process << 40 | 1 for process in range(1, sends + 1)]
    history, log, late = [], [], []
    for place, index in enumerate(rng.sample(range(sends), sends)):
        invoked = 10 * place + rng.randrange(0, 14)
        kind = rng.choices(("ok", "info", "fail"), (8, 2, 1))[0]
        idempotent = rng.random() < 0.4
        acks = ACKS_ALL if idempotent or rng.random() < 0.7 else 1
        completed = None if kind == "info" else invoked + rng.randrange(1, 14)
        answer = None
        if kind == "ok" or (kind == "info" and rng.random() < 0.5):
            log += [values[index]] * (1 + (not idempotent and rng.random() < 0.25))
            answer = len(log) - 1 if kind == "ok" and rng.random() < 0.9 else None
            late += [values[index]] * (not idempotent and rng.random() < 0.25)
        if late and rng.random() < 0.5:
            log.append(late.pop())
        if answer is not None and rng.random() < 0.08:
            answer = rng.randrange(0, len(log) + 1)
        send = Forged("send", index + 1, index, invoked, completed, kind, value=values[index], offset=answer)
        history.append(replace(send, idempotent=idempotent, acks=acks))
    return [*history, *random_reads(rng, list(enumerate(log + late)), 10 * sends + 10, values)]


def random_reads(rng: random.Random, log: list[tuple[int, int]], until: int, values: list[int]) -> Iterator[Forged]:
    for process in range(100, 100 + rng.randrange(0, 4)):
        invoked = rng.randrange(0, until)
        one = Forged("list_offsets", process, process, invoked, invoked + rng.randrange(1, 12))
        if rng.random() < 0.3:
            yield replace(one, high_watermark=rng.randrange(0, len(log) + 1))
            continue
        start = rng.randrange(0, len(log) + 1)
        run = log[start : start + rng.randrange(0, 5)]
        if run and rng.random() < 0.08:
            run[rng.randrange(len(run))] = (run[0][0], rng.choice(values))
        yield replace(one, f="poll", run=tuple(run), session=0)


def agree(
    check: Check,
    seeds: range,
    made: Callable[[random.Random], list[Forged]] = random_history,
    is_right: Callable[[list[Forged]], bool] = linearizable,
) -> int:
    """How many histories of some seeds are valid, by the search and by the rules."""
    valid = 0
    for seed in seeds:
        history = made(random.Random(seed))
        expected = is_right(history)
        found = check(history, linearizable_reads=True).anomalies
        assert (not found) == expected, f"seed {seed}: the search says {expected}, the rules {found}: {history}"
        valid += expected
    return valid


def test_the_rules_agree_with_a_search_through_all_orders(check: Check) -> None:
    valid = agree(check, range(HISTORIES))
    assert HISTORIES // 5 < valid < HISTORIES * 4 // 5, f"{valid} of {HISTORIES} are valid: too lopsided to mean much"


def test_they_agree_where_there_are_copies_and_acknowledgements_of_all_kinds(check: Check) -> None:
    valid = agree(check, range(HISTORIES), random_history_with_copies, possible)
    assert HISTORIES // 5 < valid < HISTORIES * 4 // 5, f"{valid} of {HISTORIES} are valid: too lopsided to mean much"


def test_both_searches_agree_where_there_are_none() -> None:
    for seed in range(HISTORIES):
        history = random_history(random.Random(seed))
        assert possible(history) == linearizable(history), f"seed {seed}: {history}"


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_they_agree_on_a_hundred_thousand_histories_with_copies(check: Check, part: int) -> None:
    size = ALL // 100
    agree(check, range(HISTORIES + part * size, HISTORIES + (part + 1) * size), random_history_with_copies, possible)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_they_agree_on_a_million_histories(check: Check, part: int) -> None:
    size = ALL // 10
    valid = agree(check, range(HISTORIES + part * size, HISTORIES + (part + 1) * size))
    assert size // 5 < valid < size * 4 // 5, f"{valid} of {size} are valid: too lopsided to mean much"

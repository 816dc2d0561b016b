"""A search through all serial orders: what it means for transactions to be serializable, without graphs or versions.

It knows only this: transactions happen one after another; each appends to lists and reads them whole; one that was
committed must have read what the lists were then; one of unknown outcome may have happened or not; one that was
aborted has not. If sessions count, a process's transactions come in its own order; if real time counts, whatever had
ended before something else began comes before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from squall.results.checkers.kernels.operations import FAIL, INFO, OK
from squall.results.history.table_schemas import APPEND
from squall.results.synthetic.forge_transactions import ForgedTransaction, Micro, append, read

Lists = dict[int, tuple[int, ...]]


Before = Callable[[ForgedTransaction, ForgedTransaction], bool]


def anything_goes(first: ForgedTransaction, second: ForgedTransaction) -> bool:
    return False


def in_session(first: ForgedTransaction, second: ForgedTransaction) -> bool:
    """Two that took no time at the same instant have no order."""
    if (first.invoked, first.completed) == (second.invoked, second.completed):
        return False
    return first.process == second.process and first.completed is not None and first.completed <= second.invoked


def in_real_time(first: ForgedTransaction, second: ForgedTransaction) -> bool:
    return in_session(first, second) or (first.completed is not None and first.completed < second.invoked)


MODELS: dict[str, Before] = {
    "serializable": anything_goes,
    "strong-session-serializable": in_session,
    "strict-serializable": in_real_time,
}


def serializable(history: Sequence[ForgedTransaction], before: Before) -> bool:
    """Whether some serial order explains everything that committed transactions read."""
    possible = [one for one in history if one.type != FAIL]

    def search(left: list[ForgedTransaction], lists: Lists) -> bool:
        if not any(one.type == OK for one in left):
            return True
        for one in left:
            others = [other for other in left if other is not one]
            if any(before(other, one) for other in others if other.type == OK):
                continue
            after = applied(one, lists)
            if after is not None and search(others, after):
                return True
        return False

    return search(possible, {})


def applied(one: ForgedTransaction, lists: Lists) -> Lists | None:
    """The lists after a transaction, or None if it cannot have read what it read."""
    lists = dict(lists)
    for micro in one.operations:
        there = lists.get(micro.key, ())
        if micro.f == APPEND:
            lists[micro.key] = (*there, micro.element)
        elif one.type == OK and micro.read is not None and micro.read != there:
            return None
    return lists


def random_history(rng: random.Random, most: int = 5) -> list[ForgedTransaction]:
    """A few transactions whose operations are carried out in an order that is serial to some degree, with some reads
    from old states or disturbed. Times overlap here and there, and need not fit.
    """
    count = rng.randrange(2, most + 1)
    keys = rng.randrange(1, 4)
    plans = [[(rng.random() < 0.5, rng.randrange(keys)) for _ in range(rng.randrange(1, 4))] for _ in range(count)]
    kinds = [rng.choices((OK, INFO, FAIL), (8, 2, 1))[0] for _ in plans]
    landed = [kind == OK or (kind == INFO and rng.random() < 0.6) for kind in kinds]
    done: list[list[Micro]] = [[] for _ in plans]
    states: dict[int, list[tuple[int, ...]]] = {key: [()] for key in range(keys)}
    element = 0
    for who, (appends, key) in _interleaved(rng, plans):
        lists = states[key]
        if appends:
            element += 1
            done[who].append(append(key, element))
            before = [micro.element for micro in done[who][:-1] if micro.f == APPEND and micro.key == key]
            if before and lists[-1][-1:] == (before[-1],) and rng.random() < 0.1:  # an own one lands behind it
                lists[-1] = (*lists[-1][:-1], element, before[-1])
            elif landed[who] and rng.random() > 0.02:
                lists.append((*lists[-1], element))
            continue
        shown = lists[-1] if rng.random() > 0.2 else rng.choice(lists)
        done[who].append(read(key, *_disturbed(rng, shown, element)) if kinds[who] == OK else Micro(1, key))
    history = []
    now = 0
    instants = rng.random() < 0.3  # many take no time
    free: dict[int, int] = {}  # processes, and since when each has nothing to do
    for who, operations in enumerate(done):
        now += 0 if instants and rng.random() < 0.7 else rng.randrange(0, 12)
        took = 0 if instants and rng.random() < 0.6 else rng.randrange(1, 20)
        ended = None if kinds[who] == INFO else now + took
        idle = [process for process, since in free.items() if since <= now]
        process = rng.choice(idle) if idle and rng.random() < 0.7 else who
        free[process] = 1 << 60 if ended is None else ended
        history.append(ForgedTransaction(process, now, ended, tuple(operations), kinds[who]))
    if rng.random() < 0.3:
        rng.shuffle(history)
    return history


def _interleaved(rng: random.Random, plans: list[list[tuple[bool, int]]]) -> list[tuple[int, tuple[bool, int]]]:
    """All operations, of one transaction after another, with some drawn forward."""
    steps = [(who, step) for who, plan in enumerate(plans) for step in plan]
    if rng.random() < 0.75:
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(steps))
            to = rng.randrange(len(steps))
            low = [place for place, one in enumerate(steps) if one[0] == steps[at][0]]
            bounds = [place for place in low if place < at], [place for place in low if place > at]
            least = max(bounds[0], default=-1) + 1
            most = min(bounds[1], default=len(steps)) - 1
            steps.insert(min(max(to, least), most), steps.pop(at))
    return steps


def _disturbed(rng: random.Random, shown: tuple[int, ...], last: int) -> tuple[int, ...]:
    chance = rng.random()
    if chance < 0.04 and len(shown) > 1:
        return (*shown[:-2], shown[-1], shown[-2])
    if chance < 0.05:
        return (*shown, rng.randrange(1, last + 3))
    if chance < 0.06 and shown:
        return shown[:-1]
    return shown

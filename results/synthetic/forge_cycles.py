"""Inject anomalies and legal near-misses into healthy list-append histories.

`INJECTIONS` names what can be injected and the one anomaly that it must raise, with no other; `NEAR_MISSES` must raise
none. All are pure functions of a history and a random generator; `forge_rings.py` makes the cycles.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from squall.results.checkers.kernels.operations import FAIL, INFO, OK
from squall.results.history.table_schemas import APPEND, READ
from squall.results.synthetic.forge_rings import FAMILIES, FRESH, History, Injection, almost, apart, at_once, chain
from squall.results.synthetic.forge_transactions import (
    MILLISECOND,
    ForgedTransaction,
    Micro,
    append,
    healthy_table,
    read,
    transactions_of,
)


def healthy_transactions(seed: int, transactions: int = 120) -> History:
    """Make a healthy history as plain transactions, for injections to change."""
    return transactions_of(healthy_table(seed, transactions))


# Lists that are wrong without a cycle ---------------------------------------------------------------------------------


Place = tuple[int, int]
"""A transaction, and an operation in it."""


def _reads_of(history: History, least: int) -> list[Place]:
    """Committed reads of at least `least` elements, each the only operation of its transaction on its key."""
    return [
        (at, number)
        for at, one in enumerate(history)
        if one.type == OK
        for number, micro in enumerate(one.operations)
        if micro.f == READ and len(micro.read or ()) >= least and _is_alone(one, number)
    ]


def _is_alone(one: ForgedTransaction, number: int) -> bool:
    """Whether no other operation of the transaction concerns the key."""
    return sum(micro.key == one.operations[number].key for micro in one.operations) == 1


def _with_read(history: History, place: Place, shown: tuple[int, ...]) -> History:
    at, number = place
    one = history[at]
    changed = replace(one.operations[number], read=shown)
    operations = (*one.operations[:number], changed, *one.operations[number + 1 :])
    return [*history[:at], replace(one, operations=operations), *history[at + 1 :]]


def _another_shows_as_much(history: History, place: Place) -> bool:
    """Whether another transaction read as much of the same key."""
    key, length = history[place[0]].operations[place[1]].key, len(_shown(history, place))
    return any(
        micro.key == key and len(micro.read or ()) >= length
        for at, one in enumerate(history)
        if at != place[0] and one.type == OK
        for micro in one.operations
    )


def _shown(history: History, place: Place) -> tuple[int, ...]:
    return history[place[0]].operations[place[1]].read or ()


def _swapped(history: History, rng: random.Random) -> History:
    """Swap two elements in one of two reads that show both; in a single read the swapped order might be correct."""
    place = rng.choice([place for place in _reads_of(history, 2) if _another_shows_as_much(history, place)])
    *begin, first, second = _shown(history, place)
    return _with_read(history, place, (*begin, second, first))


def _doubled(history: History, rng: random.Random) -> History:
    place = rng.choice(_reads_of(history, 1))
    shown = _shown(history, place)
    at = rng.randrange(len(shown))
    return _with_read(history, place, (*shown, shown[at]))


def _phantom(history: History, rng: random.Random) -> History:
    place = rng.choice(_reads_of(history, 0))
    return _with_read(history, place, (*_shown(history, place), FRESH))


def _elements_read(history: History) -> set[tuple[int, int]]:
    return {
        (micro.key, element)
        for one in history
        if one.type == OK
        for micro in one.operations
        for element in micro.read or ()
    }


def _read_by_others(history: History, one: ForgedTransaction) -> bool:
    seen = _elements_read([other for other in history if other is not one])
    return any((micro.key, micro.element) in seen for micro in one.operations if micro.f == APPEND)


def _aborted(history: History, rng: random.Random) -> History:
    """A transaction whose elements others read turns out to have been aborted."""
    at = rng.choice([at for at, one in enumerate(history) if one.type == OK and _read_by_others(history, one)])
    return [*history[:at], _without_reads(history[at], FAIL), *history[at + 1 :]]


def _without_reads(one: ForgedTransaction, kind: int) -> ForgedTransaction:
    operations = tuple(replace(micro, read=None) for micro in one.operations)
    return replace(one, type=kind, operations=operations, completed=None if kind == INFO else one.completed)


def _moment(history: History, rng: random.Random) -> int:
    return rng.randrange(max(one.invoked for one in history))


def _add(history: History, *made: tuple[int, int, int, tuple[Micro, ...]]) -> History:
    """Add committed transactions: process, invocation, completion, operations."""
    return [*history, *(ForgedTransaction(FRESH + who, begun, ended, does) for who, begun, ended, does in made)]


def _midst(history: History, rng: random.Random) -> History:
    """A transaction appended two elements; another read the first without the second."""
    now = _moment(history, rng)
    writes = (append(FRESH, 1), append(FRESH, 2))
    return _add(
        history,
        (1, now, now + 20 * MILLISECOND, writes),
        (2, now + 5 * MILLISECOND, now + 15 * MILLISECOND, (read(FRESH, 1),)),
        (3, now + 30 * MILLISECOND, now + 40 * MILLISECOND, (read(FRESH, 1, 2),)),
    )


def _forgets_itself(history: History, rng: random.Random) -> History:
    """A transaction does not see its own append, or sees less than it had seen before."""
    now = _moment(history, rng)
    contradictions = (
        (append(FRESH, 1), read(FRESH)),
        (append(FRESH, 1), append(FRESH, 2), read(FRESH, 1)),
        (read(FRESH), append(FRESH, 1), append(FRESH, 2), read(FRESH, 2)),
        (append(FRESH + 1, 7), read(FRESH + 1, 7), read(FRESH + 1)),
        (read(FRESH, 1), append(FRESH, 1)),
    )
    return _add(history, (1, now, now + 20 * MILLISECOND, rng.choice(contradictions)))


# Well-known anomalies -------------------------------------------------------------------------------------------------


def _lost_append(history: History, rng: random.Random) -> History:
    """An append was acknowledged; every later list lacks it."""
    now = _moment(history, rng)
    return _add(
        history,
        (1, now, now + 10 * MILLISECOND, (append(FRESH, 1),)),
        (2, now + 20 * MILLISECOND, now + 30 * MILLISECOND, (append(FRESH, 2),)),
        (3, now + 40 * MILLISECOND, now + 50 * MILLISECOND, (read(FRESH, 2),)),
    )


def _stale_read(history: History, rng: random.Random) -> History:
    """A read that began after an append had been acknowledged does not show it."""
    now = _moment(history, rng)
    later = rng.choice(((), ((3, now + 40 * MILLISECOND, now + 50 * MILLISECOND, (read(FRESH, 1),)),)))
    return _add(
        history,
        (1, now, now + 10 * MILLISECOND, (append(FRESH, 1),)),
        (2, now + 20 * MILLISECOND, now + 30 * MILLISECOND, (read(FRESH),)),
        *later,
    )


def _lost_update(history: History, rng: random.Random) -> History:
    """Two transactions read the same state and both append."""
    now = _moment(history, rng)
    return _add(
        history,
        (1, now, now + 20 * MILLISECOND, (read(FRESH), append(FRESH, 1))),
        (2, now, now + 20 * MILLISECOND, (read(FRESH), append(FRESH, 2))),
        (3, now + 40 * MILLISECOND, now + 50 * MILLISECOND, (read(FRESH, 1, 2),)),
    )


def _write_skew(history: History, rng: random.Random) -> History:
    now = _moment(history, rng)
    return _add(
        history,
        (1, now, now + 20 * MILLISECOND, (read(FRESH), append(FRESH + 1, 1))),
        (2, now, now + 20 * MILLISECOND, (read(FRESH + 1), append(FRESH, 1))),
    )


def _long_fork(history: History, rng: random.Random) -> History:
    """Two readers see two appends in opposite orders."""
    now = _moment(history, rng)
    return _add(
        history,
        (1, now, now + 20 * MILLISECOND, (append(FRESH, 1),)),
        (2, now, now + 20 * MILLISECOND, (append(FRESH + 1, 1),)),
        (3, now, now + 20 * MILLISECOND, (read(FRESH, 1), read(FRESH + 1))),
        (4, now, now + 20 * MILLISECOND, (read(FRESH), read(FRESH + 1, 1))),
    )


def _forgetful_session(history: History, rng: random.Random) -> History:
    """A process does not see what it appended itself in its previous transaction."""
    now = _moment(history, rng)
    return _add(
        history,
        (1, now, now + 10 * MILLISECOND, (append(FRESH, 1),)),
        (1, now + 10 * MILLISECOND, now + 20 * MILLISECOND, (read(FRESH),)),
    )


INJECTIONS: Final[dict[str, tuple[str, Injection]]] = {
    **{f"{family} ring": (family, at_once(family)) for family in FAMILIES},
    **{
        f"{family} chain within a process": (f"{family}-process", apart(family, same_process=True))
        for family in FAMILIES
    },
    **{
        f"{family} chain in real time": (f"{family}-realtime", apart(family, same_process=False)) for family in FAMILIES
    },
    "aborted read": ("G1a", _aborted),
    "intermediate read": ("G1b", _midst),
    "contradicts itself": ("internal", _forgets_itself),
    "swapped elements": ("incompatible_order", _swapped),
    "doubled element": ("duplicate_element", _doubled),
    "element of nobody": ("phantom_element", _phantom),
    "lost append": ("G0-realtime", _lost_append),
    "stale read": ("G-single-realtime", _stale_read),
    "lost update": ("G-single", _lost_update),
    "write skew": ("G2", _write_skew),
    "long fork": ("G2", _long_fork),
    "session that forgets": ("G-single-process", _forgetful_session),
}
"""The injections by name: the anomaly that each must raise, and the function that injects it."""


def _unknown_unseen(history: History, rng: random.Random) -> History:
    """A transaction of unknown outcome whose elements were never read: it need not have taken effect."""
    now = _moment(history, rng)
    unseen = ForgedTransaction(FRESH + 9, now, None, (append(FRESH, 1), read(FRESH + 1)), INFO)
    return [*_add(history, (1, now + 20 * MILLISECOND, now + 30 * MILLISECOND, (read(FRESH),))), unseen]


def _unknown_late(history: History, rng: random.Random) -> History:
    """A transaction of unknown outcome that takes effect only after a read did not show it."""
    now = _moment(history, rng)
    late = ForgedTransaction(FRESH + 9, now, None, (append(FRESH, 1),), INFO)
    return [
        *_add(
            history,
            (1, now + 20 * MILLISECOND, now + 30 * MILLISECOND, (read(FRESH),)),
            (2, now + 40 * MILLISECOND, now + 50 * MILLISECOND, (read(FRESH, 1),)),
        ),
        late,
    ]


def _aborted_unseen(history: History, rng: random.Random) -> History:
    """An aborted transaction that read impossible elements, and whose own elements were never read."""
    now = _moment(history, rng)
    return [
        *history,
        ForgedTransaction(FRESH + 9, now, now + 10 * MILLISECOND, (append(FRESH, 1), read(FRESH, 9)), FAIL),
    ]


def _read_by_unknown(history: History, rng: random.Random) -> History:
    """A read of impossible elements, in a transaction that is not known to have committed."""
    now = _moment(history, rng)
    return [*history, ForgedTransaction(FRESH + 9, now, None, (append(FRESH + 1, 1), read(FRESH, 9)), INFO)]


def _own_midst(history: History, rng: random.Random) -> History:
    """A transaction sees its own appends one by one; others see all or none."""
    now = _moment(history, rng)
    return _add(
        history,
        (1, now, now + 20 * MILLISECOND, (append(FRESH, 1), read(FRESH, 1), append(FRESH, 2), read(FRESH, 1, 2))),
        (2, now, now + 20 * MILLISECOND, (read(FRESH),)),
        (3, now, now + 20 * MILLISECOND, (read(FRESH, 1, 2),)),
    )


def _stale_at_once(history: History, rng: random.Random) -> History:
    """A read that overlaps with an append need not show it."""
    now = _moment(history, rng)
    return _add(
        history,
        (1, now, now + 10 * MILLISECOND, (append(FRESH, 1),)),
        (2, now + 10 * MILLISECOND, now + 30 * MILLISECOND, (read(FRESH),)),
    )


def _appends_nobody_read(history: History, rng: random.Random) -> History:
    """Elements that were never read, one of them appended by a transaction that had read the whole list."""
    now = _moment(history, rng)
    return _add(
        history,
        (1, now, now + 10 * MILLISECOND, (append(FRESH, 1),)),
        (2, now + 20 * MILLISECOND, now + 30 * MILLISECOND, (read(FRESH, 1), append(FRESH, 2))),
        (3, now + 20 * MILLISECOND, now + 30 * MILLISECOND, (append(FRESH, 3),)),
        (4, now + 40 * MILLISECOND, now + 50 * MILLISECOND, (append(FRESH, 4),)),
    )


def _same_elements_elsewhere(history: History, rng: random.Random) -> History:
    """Elements are unique within a key, not among keys."""
    now = _moment(history, rng)
    return _add(
        history,
        (1, now, now + 10 * MILLISECOND, (append(FRESH, 1), append(FRESH + 1, 1))),
        (2, now + 20 * MILLISECOND, now + 30 * MILLISECOND, (read(FRESH, 1), read(FRESH + 1, 1))),
    )


NEAR_MISSES: Final[dict[str, Injection]] = {
    **{f"{family} chain at once": chain(family) for family in FAMILIES},
    **{f"{family} chain that just overlaps": almost(family) for family in FAMILIES},
    "a transaction of unknown outcome nobody saw": _unknown_unseen,
    "a transaction of unknown outcome that happens late": _unknown_late,
    "an aborted transaction nobody saw": _aborted_unseen,
    "nonsense read by a transaction of unknown outcome": _read_by_unknown,
    "own appends seen one by one": _own_midst,
    "a read beside an append": _stale_at_once,
    "appends nobody read": _appends_nobody_read,
    "the same element in two keys": _same_elements_elsewhere,
}
"""Legal histories that resemble an anomaly, by name."""

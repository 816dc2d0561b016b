"""A search through all orders, and small random histories: what the checks of registers are held against.

It knows nothing of zones, configurations or bits: a history is that of a register if its operations can be put in
one order that respects time, in which each says what is true when its turn comes. Changes of unknown outcome may
come at any time after they began, or never. Versions grow with every change; where nobody states the version
of a change, it is somewhere between its neighbours'.
"""

from __future__ import annotations

import random
from dataclasses import replace

from squall.results.checkers.registers.operations import ABSENT, RegisterOperation

LOWEST = -(1 << 60)


def linearizable(history: list[RegisterOperation], initial: int = ABSENT) -> bool:
    """Tries every order."""
    operations = [one for one in history if _says_something(one)]

    def go(left: tuple[RegisterOperation, ...], value: int | None, version: int | None, floor: int) -> bool:
        certain = [one for one in left if one.type != "info"]
        if not certain:
            return True
        first_end = min(one.completed for one in certain if one.completed is not None)
        for index, one in enumerate(left):
            if one.invoked > first_end:
                continue
            rest = left[:index] + left[index + 1 :]
            for after in _effects(one, value, version, floor):
                if go(rest, *after):
                    return True
        return False

    return go(tuple(operations), initial, None, LOWEST)


def _says_something(one: RegisterOperation) -> bool:
    if one.f == "read":
        return one.type == "ok" and one.found is not None
    return one.type != "fail" or (one.f == "cas" and one.refused)


def _effects(
    one: RegisterOperation, value: int | None, version: int | None, floor: int
) -> list[tuple[int | None, int | None, int]]:
    """What the register is after this operation, if it may come now: value, version if known, a bound below it."""
    if one.f == "read" or one.type == "fail":
        if one.found is not None and one.found != value:
            return []
        if one.type == "fail" and one.expected == value:
            return []
        stated = one.version if one.found is not None else None
        if stated is None:
            return [(value, version, floor)]
        if version is not None:
            return [(value, version, floor)] if version == stated else []
        return [(value, stated, stated)] if stated > floor else []
    if one.f == "cas" and one.expected != value:
        return []
    if one.type == "info" or one.version is None:
        return [(one.value, None, floor)]
    return [(one.value, one.version, one.version)] if one.version > floor else []


def random_history(rng: random.Random) -> list[RegisterOperation]:
    """Three to seven operations of up to four processes on a register that works, then up to three lies."""
    unique = rng.random() < 0.7
    versions = rng.choice(("none", "none", "all", "some"))
    blind = rng.random() < 0.25
    history: list[RegisterOperation] = []
    value, version = ABSENT, 0
    in_order = sorted(_plan(rng), key=lambda one: one[2])
    for fresh, (process, invoked, _, completed) in enumerate(in_order, 1):
        f = rng.choice(("read", "read", "write", "cas"))
        new = fresh if unique else rng.randrange(1, 4)
        kind = rng.choices(("ok", "info", "fail"), (8, 2, 1))[0]
        says_version = versions == "all" or (versions == "some" and rng.random() < 0.5)
        one = RegisterOperation(f, process, invoked, None if kind == "info" else completed, kind)
        happens = kind == "ok" or (kind == "info" and rng.random() < 0.6)
        if f == "read":
            if kind == "ok":
                one = replace(one, found=value, version=version if says_version else None)
        elif f == "write":
            one = replace(one, value=new)
            if happens:
                value, version = new, version + 1
        else:
            expected = value if rng.random() < 0.75 else rng.randrange(1, 1 + max(1, fresh))
            one = replace(one, value=new, expected=expected)
            if kind == "ok" and expected != value:
                told = None if blind else value
                one = replace(one, type="fail", refused=True, found=told)
                if told is not None and says_version:
                    one = replace(one, version=version)
            elif happens and expected == value:
                value, version = new, version + 1
        if f != "read" and one.type == "ok" and says_version:
            one = replace(one, version=version)
        history.append(one)
    for _ in range(rng.choice((0, 1, 2, 3))):
        lie(history, rng)
    rng.shuffle(history)
    return history


def _plan(rng: random.Random) -> list[tuple[int, int, int, int]]:
    """(process, invoked, effect, completed) with one operation at a time per process; ties included."""
    free = [rng.randrange(0, 6) for _ in range(rng.randrange(1, 5))]
    plan = []
    for number in range(rng.randrange(3, 8)):
        slot = rng.randrange(len(free))
        invoked = free[slot] + rng.randrange(0, 5)
        effect = invoked + rng.randrange(0, 7)
        completed = effect + rng.randrange(0, 7)
        plan.append((number, invoked, effect, completed))
        free[slot] = completed
    return plan


def lie(history: list[RegisterOperation], rng: random.Random) -> None:
    """One operation says something else than what was."""
    place = rng.randrange(len(history))
    one = history[place]
    others = [other.value for other in history if other.value is not None] + [ABSENT]
    kind = rng.randrange(4)
    if kind == 0 and one.found is not None:
        one = replace(one, found=rng.choice(others))
    elif kind == 1 and one.completed is not None:
        earlier = rng.randrange(0, one.invoked + 1)
        one = replace(one, invoked=earlier, completed=rng.randrange(earlier, one.completed + 1))
    elif kind == 2 and one.version is not None:
        one = replace(one, version=max(0, one.version + rng.choice((-2, -1, 1))))
    elif kind == 3 and one.f == "cas":
        one = replace(one, expected=rng.choice(others))
    history[place] = one

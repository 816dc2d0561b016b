"""R0, R1 and L against a search that tries every order: they must agree on thousands of small histories.

The search knows nothing of intervals and keys: a history is that of a correct log if its operations can be put in
one order that respects real time, in which every append lands above all earlier ones and every read returns a
gap-free piece of what is there then. Sends of unknown outcome may take effect at any time or never.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from squall.results.checks.result import PartitionResult
from squall.results.forge import Forged

Check = Callable[..., PartitionResult]
HISTORIES = 2000
ALL = 1_000_000


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
    return any(log[start : start + len(poll.run)] == poll.run for start in range(len(log)))


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


def agree(check: Check, seeds: range) -> int:
    """How many histories of some seeds are valid, by the search and by the rules."""
    valid = 0
    for seed in seeds:
        history = random_history(random.Random(seed))
        expected = linearizable(history)
        found = check(history, linearizable_reads=True).anomalies
        assert (not found) == expected, f"seed {seed}: the search says {expected}, the rules {found}: {history}"
        valid += expected
    return valid


def test_the_rules_agree_with_a_search_through_all_orders(check: Check) -> None:
    valid = agree(check, range(HISTORIES))
    assert HISTORIES // 5 < valid < HISTORIES * 4 // 5, f"{valid} of {HISTORIES} are valid: too lopsided to mean much"


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_they_agree_on_a_million_histories(check: Check, part: int) -> None:
    size = ALL // 10
    valid = agree(check, range(HISTORIES + part * size, HISTORIES + (part + 1) * size))
    assert size // 5 < valid < size * 4 // 5, f"{valid} of {size} are valid: too lopsided to mean much"

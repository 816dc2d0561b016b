"""Zones, versions and search against a search through all orders: they must agree on every small history."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest

from squall.results.checkers.registers.check import check_registers, steps_of
from squall.results.checkers.registers.operations import ABSENT, RegisterOperation, Registers, register_table
from squall.results.checkers.registers.search import search
from squall.results.checkers.registers.values import Values
from squall.results.checkers.registers.versions import Spans, enclosing
from squall.results.synthetic.forge_registers import RegisterForge
from tests.results.checkers.registers.oracle import lie, linearizable, random_history

HISTORIES = 4_000
ALL = 1_000_000
BATCH = 200


def disagreements(seeds: range) -> tuple[list[str], Counter[tuple[bool, bool]]]:
    """Histories of which the check or the search alone says something else than the search through all orders, and
    how many there were by verdict and by whether their values are unique. Many are checked at once, each as a register.
    """
    wrong, seen = [], Counter[tuple[bool, bool]]()
    for low in range(seeds.start, seeds.stop, BATCH):
        histories = [random_history(random.Random(seed)) for seed in range(low, min(low + BATCH, seeds.stop))]
        together = [replace(one, register=f"{place}") for place, history in enumerate(histories) for one in history]
        table = register_table(together)
        columns = Registers.from_table(table)
        bad = set(check_registers(table).wrong)
        ambiguous = Values.of(columns, ABSENT).ambiguous
        for place, history in enumerate(histories):
            expected = linearizable(history)
            rows = np.flatnonzero((columns.register == place) & columns.has_effect)
            checked = columns.names[place] not in bad
            searched = search(steps_of(columns, rows)).linearizable
            seen[expected, bool(ambiguous[place])] += 1
            if not checked == searched == expected:
                wrong.append(f"seed {low + place}: {expected=}, {checked=}, {searched=}: {history}")
    return wrong, seen


def assert_balanced(seen: Counter[tuple[bool, bool]]) -> None:
    """A test that sees only valid histories, or only one kind, says little."""
    total = seen.total()
    for invalid in (False, True):
        for ambiguous in (False, True):
            assert seen[not invalid, ambiguous] > total / 100, f"too lopsided to mean much: {seen}"


def test_the_check_and_the_search_agree_with_a_search_through_all_orders() -> None:
    wrong, seen = disagreements(range(HISTORIES))
    assert not wrong, "\n".join(wrong[:3])
    assert_balanced(seen)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_they_agree_on_a_million_histories(part: int) -> None:
    size = ALL // 10
    wrong, seen = disagreements(range(HISTORIES + part * size, HISTORIES + (part + 1) * size))
    assert not wrong, "\n".join(wrong[:3])
    assert_balanced(seen)


def named(history: list[RegisterOperation], register: str) -> list[RegisterOperation]:
    return [replace(one, register=register) for one in history]


def test_registers_do_not_influence_each_other() -> None:
    """Many registers checked at once have the anomalies that each has alone."""
    histories = {f"r{seed}": random_history(random.Random(seed)) for seed in range(300)}
    mixed = [one for name, history in histories.items() for one in named(history, name)]
    random.Random(1).shuffle(mixed)
    together = check_registers(register_table(mixed))
    alone: Counter[str] = Counter()
    for history in histories.values():
        alone.update(check_registers(register_table(history)).anomalies)
    assert together.anomalies == dict(alone)
    assert together.registers == len(histories)


def test_the_operations_of_a_witness_alone_cannot_be_put_in_order() -> None:
    """What a witness shows is proof: the history of nothing but its operations is wrong, for zones as for search."""
    seen = 0
    for seed in range(1500):
        history = random_history(random.Random(seed))
        result = check_registers(register_table(history))
        for witness in result.witnesses:
            if witness.held or witness.anomaly == "register_phantom":
                continue
            shown = {one.op_id: one for one in witness.operations}
            for first, second in witness.orders:
                assert (shown[first].completed or 0) < shown[second].invoked, f"seed {seed}: {witness}"
            alone = [one for number, one in enumerate(history) if number in shown]
            roots = {one.value for one in alone if one.f != "read"}
            rooted = [  # the first of a chain is shown without what it replaced
                replace(one, f="write", expected=None)
                if one.f == "cas" and not one.refused and one.expected not in roots | {ABSENT}
                else one
                for one in alone
            ]
            assert not linearizable(rooted), f"seed {seed}: {witness.anomaly}: {rooted}"
            seen += 1
    assert seen > 50


def test_zones_and_search_agree_on_longer_histories() -> None:
    """Too long to try every order: two ways that share nothing but the columns, on histories with a lie or two."""
    seen = Counter[bool]()
    for seed in range(400):
        rng = random.Random(seed)
        forged = RegisterForge(seed, 60, registers=1, processes=5, versions=seed % 2 == 0).history
        for _ in range(rng.randrange(3)):
            lie(forged, rng)
        table = register_table(forged)
        columns = Registers.from_table(table)
        checked = not check_registers(table).anomalies
        searched = search(steps_of(columns, np.flatnonzero(columns.has_effect))).linearizable
        assert checked == searched, f"seed {seed}: {checked=}, {searched=}"
        seen[checked] += 1
    assert min(seen.values()) > 80, f"too lopsided to mean much: {seen}"


def precedence(ends: list[int], starts: list[int], versions: list[int | None]) -> Callable[[int, int], bool]:
    def precedes(one: int, other: int) -> bool:
        low, high = versions[one], versions[other]
        return ends[one] < starts[other] or (low is not None and high is not None and low < high)

    return precedes


def test_of_clusters_without_versions_it_is_enough_to_look_at_each_alone() -> None:
    """The theorem of `versions.py`: if no two clusters precede each other, an order is missing only for a forward
    zone without a version between two that have versions."""
    seen = Counter[bool]()
    for seed in range(12_000):
        rng = random.Random(seed)
        # a zone without a version, one cluster about its beginning, one about its end, and up to two more
        starts = [rng.randrange(8, 12), rng.randrange(6), rng.randrange(4, 10)]
        ends = [rng.randrange(3, 6), rng.randrange(4, 11), rng.randrange(8, 14)]
        more = rng.randrange(3)
        starts += [rng.randrange(14) for _ in range(more)]
        ends += [rng.randrange(14) for _ in range(more)]
        count = len(ends)
        versions = [number if rng.random() < 0.7 else None for number in rng.sample(range(9), count)]
        versions[0] = None
        precedes = precedence(ends, starts, versions)
        if any(precedes(one, other) and precedes(other, one) for one, other in combinations(range(count), 2)):
            continue
        possible = any(
            not any(precedes(later, earlier) for place, earlier in enumerate(order) for later in order[place + 1 :])
            for order in permutations(range(count))
        )
        known = sorted((one for one in range(count) if versions[one] is not None), key=lambda one: versions[one] or 0)
        unknown = [one for one in range(count) if versions[one] is None and ends[one] < starts[one]]
        which, lower, higher = enclosing(spans(known, ends, starts), spans(unknown, ends, starts), 2)
        assert (len(which) == 0) == possible, f"seed {seed}: {ends} {starts} {versions}"
        for one, low, high in zip(which.tolist(), lower.tolist(), higher.tolist(), strict=True):
            assert precedes(known[high], unknown[one]) and precedes(unknown[one], known[low]), f"seed {seed}"
        seen[possible] += 1
    assert min(seen.values()) > 100, f"too lopsided to mean much: {seen}"


def spans(these: list[int], ends: list[int], starts: list[int]) -> Spans:
    register = np.ones(len(these), np.int64)
    late, early = (np.array([column[one] for one in these], np.int64) for column in (starts, ends))
    return Spans(register, late, early)

"""Zones, versions and search against a search through all orders: they must agree on every small history."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from squall.results.checks.registers.check import check_registers, steps_of
from squall.results.checks.registers.operations import ABSENT, RegisterOperation, Registers, register_table
from squall.results.checks.registers.search import search
from squall.results.checks.registers.values import Values
from tests.results.checks.registers.oracle import linearizable, random_history

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

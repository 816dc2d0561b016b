"""Every anomaly that can be forged, in many healthy histories, is found by its name; clean and nearly bad ones are not.

One row per injection. The full table (60 seeds each, 1 000 clean runs) is printed by

    pytest -s -m full tests/results/checks/test_every_anomaly.py
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from squall.results import forge, forge_cycles, forge_groups, forge_log_transactions, forge_registers
from squall.results.checks.anomalies import ANOMALIES
from squall.results.checks.groups import check_groups
from squall.results.checks.registers.check import check_registers
from squall.results.checks.registers.operations import register_table
from squall.results.checks.result import PartitionResult
from squall.results.checks.transactions.list_append import check_list_append
from squall.results.checks.transactions.log_rules import check_transactional_log
from squall.results.forge_transactions import table_of

Check = Callable[..., PartitionResult]
Found = dict[str, int]
A_FEW, MANY = 3, 60
CLEAN, MANY_CLEAN = 20, 1_000


@dataclass(frozen=True)
class Family:
    """Histories of one kind, each made from a seed. `exact`: an injection raises its anomaly and no other."""

    healthy: Callable[[int], Any]
    injections: Mapping[str, tuple[str, Callable[[int], Any]]]
    near_misses: Mapping[str, Callable[[int], Any]]
    found: Callable[[Check, Any], Found]
    exact: bool = True


def spoilt(healthy: Callable[[int], Any], change: Callable[[Any, random.Random], Any]) -> Callable[[int], Any]:
    """A healthy history of a seed, changed."""
    return lambda seed: change(healthy(seed), random.Random(seed))


def family_of(
    healthy: Callable[[int], Any],
    injections: Mapping[str, tuple[str, Callable[[Any, random.Random], Any]]],
    near_misses: Mapping[str, Callable[[Any, random.Random], Any]],
    found: Callable[[Check, Any], Found],
    *,
    exact: bool = True,
) -> Family:
    """A family whose injections change a healthy history."""
    return Family(
        healthy,
        {name: (anomaly, spoilt(healthy, change)) for name, (anomaly, change) in injections.items()},
        {name: spoilt(healthy, change) for name, change in near_misses.items()},
        found,
        exact,
    )


FAMILIES = {
    "log": family_of(
        forge.healthy,
        forge.INJECTIONS,
        forge.NEAR_MISSES,
        lambda check, history: check(history).anomalies,
        exact=False,
    ),
    "registers": Family(
        forge_registers.healthy_registers,
        {name: (case.anomaly, case.history) for name, case in forge_registers.REGISTER_INJECTIONS.items()},
        {name: case.history for name, case in forge_registers.REGISTER_NEAR_MISSES.items()},
        lambda check, history: check_registers(register_table(history)).anomalies,
    ),
    "list-append": family_of(
        forge_cycles.healthy_transactions,
        forge_cycles.INJECTIONS,
        forge_cycles.NEAR_MISSES,
        lambda check, history: check_list_append(table_of(history)).anomalies,
    ),
    "transactional log": family_of(
        forge_log_transactions.healthy_log,
        forge_log_transactions.INJECTIONS,
        forge_log_transactions.NEAR_MISSES,
        lambda check, history: check_transactional_log(forge_log_transactions.log_table(history)).counts,
    ),
    "consumer group": family_of(
        forge_groups.healthy_group,
        forge_groups.INJECTIONS,
        forge_groups.NEAR_MISSES,
        lambda check, history: check_groups(forge_groups.group_table(history)).counts,
    ),
}
EACH = [(family, name) for family, each in FAMILIES.items() for name in each.injections]
EACH_NEAR_MISS = [(family, name) for family, each in FAMILIES.items() for name in each.near_misses]


def hits(check: Check, kind: str, name: str, seeds: range) -> int:
    """In how many histories an injection is found by its name."""
    family = FAMILIES[kind]
    anomaly, history = family.injections[name]
    for seed in seeds:
        found = family.found(check, history(seed))
        assert anomaly in found, f"{kind}, {name}, seed {seed}: {found or 'nothing'} instead of {anomaly}"
        assert not family.exact or set(found) == {anomaly}, f"{kind}, {name}, seed {seed}: {found}"
    return len(seeds)


def alarms(check: Check, kind: str, name: str | None, seeds: range) -> int:
    """How many clean histories, or near-misses of one kind, raise anything: none may."""
    family = FAMILIES[kind]
    history = family.healthy if name is None else family.near_misses[name]
    for seed in seeds:
        found = family.found(check, history(seed))
        assert not found, f"{kind}, {name or 'clean'}, seed {seed}: {found}"
    return 0


def test_every_anomaly_of_the_registry_can_be_forged() -> None:
    forged = {FAMILIES[kind].injections[name][0] for kind, name in EACH}
    assert forged == set(ANOMALIES)
    assert len(forged) >= 24


@pytest.mark.parametrize(("kind", "name"), EACH)
def test_an_injected_anomaly_is_found_by_its_name(check: Check, kind: str, name: str) -> None:
    assert hits(check, kind, name, range(A_FEW)) == A_FEW


@pytest.mark.parametrize(("kind", "name"), EACH_NEAR_MISS)
def test_a_near_miss_raises_nothing(check: Check, kind: str, name: str) -> None:
    assert alarms(check, kind, name, range(A_FEW)) == 0


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_clean_history_raises_nothing(check: Check, kind: str) -> None:
    assert alarms(check, kind, None, range(CLEAN)) == 0


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_full_table(check: Check) -> None:
    rows = []
    for kind, name in EACH:
        anomaly = FAMILIES[kind].injections[name][0]
        rows.append(f"{kind:18} {name:38} {anomaly:26} {hits(check, kind, name, range(MANY)):4} of {MANY} found")
    for kind, name in EACH_NEAR_MISS:
        rows.append(f"{kind:18} {name:65} {alarms(check, kind, name, range(MANY)):4} of {MANY} flagged")
    for kind in FAMILIES:
        rows.append(f"{kind:18} {'clean':65} {alarms(check, kind, None, range(MANY_CLEAN)):4} of {MANY_CLEAN} flagged")
    print("", *rows, sep="\n")
    assert len({FAMILIES[kind].injections[name][0] for kind, name in EACH}) >= 24

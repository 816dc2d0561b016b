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

from squall.results import forge, forge_cycles, forge_groups, forge_log_transactions
from squall.results.checks.anomalies import ANOMALIES
from squall.results.checks.groups import check_groups
from squall.results.checks.result import PartitionResult
from squall.results.checks.transactions.anomalies import TRANSACTION_ANOMALIES
from squall.results.checks.transactions.list_append import check_list_append
from squall.results.checks.transactions.log_rules import check_transactional_log
from squall.results.forge_transactions import table_of

Check = Callable[..., PartitionResult]
Found = dict[str, int]
A_FEW, MANY = 3, 60
CLEAN, MANY_CLEAN = 20, 1_000


@dataclass(frozen=True)
class Family:
    """Histories of one kind. `exact` says that an injection raises its anomaly and no other."""

    healthy: Callable[[int], list[Any]]
    injections: Mapping[str, tuple[str, Callable[[Any, random.Random], Any]]]
    near_misses: Mapping[str, Callable[[Any, random.Random], Any]]
    found: Callable[[Check, list[Any]], Found]
    exact: bool = True


FAMILIES = {
    "log": Family(
        forge.healthy,
        forge.INJECTIONS,
        forge.NEAR_MISSES,
        lambda check, history: check(history).anomalies,
        exact=False,
    ),
    "list-append": Family(
        forge_cycles.healthy_transactions,
        forge_cycles.INJECTIONS,
        forge_cycles.NEAR_MISSES,
        lambda check, history: check_list_append(table_of(history)).anomalies,
    ),
    "transactional log": Family(
        forge_log_transactions.healthy_log,
        forge_log_transactions.INJECTIONS,
        forge_log_transactions.NEAR_MISSES,
        lambda check, history: check_transactional_log(forge_log_transactions.log_table(history)).counts,
    ),
    "consumer group": Family(
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
    anomaly, inject = family.injections[name]
    for seed in seeds:
        found = family.found(check, inject(family.healthy(seed), random.Random(seed)))
        assert anomaly in found, f"{kind}, {name}, seed {seed}: {found or 'nothing'} instead of {anomaly}"
        assert not family.exact or set(found) == {anomaly}, f"{kind}, {name}, seed {seed}: {found}"
    return len(seeds)


def alarms(check: Check, kind: str, name: str | None, seeds: range) -> int:
    """How many clean histories, or near-misses of one kind, raise anything: none may."""
    family = FAMILIES[kind]
    for seed in seeds:
        history = family.healthy(seed)
        if name is not None:
            history = family.near_misses[name](history, random.Random(seed))
        found = family.found(check, history)
        assert not found, f"{kind}, {name or 'clean'}, seed {seed}: {found}"
    return 0


def test_all_names_of_transactions_and_groups_can_be_forged() -> None:
    forged = {FAMILIES[kind].injections[name][0] for kind, name in EACH}
    assert forged <= set(ANOMALIES)
    assert {one.name for one in TRANSACTION_ANOMALIES} <= forged
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
        rows.append(f"{kind:18} {name:34} {anomaly:22} {hits(check, kind, name, range(MANY)):4} of {MANY} found")
    for kind, name in EACH_NEAR_MISS:
        rows.append(f"{kind:18} {name:57} {alarms(check, kind, name, range(MANY)):4} of {MANY} flagged")
    for kind in FAMILIES:
        rows.append(f"{kind:18} {'clean':57} {alarms(check, kind, None, range(MANY_CLEAN)):4} of {MANY_CLEAN} flagged")
    print("", *rows, sep="\n")
    assert len({FAMILIES[kind].injections[name][0] for kind, name in EACH}) >= 24

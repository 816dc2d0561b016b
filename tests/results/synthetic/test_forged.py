"""Forged histories: each anomaly put into many healthy ones is found, by its name; healthy ones stay clean."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.log.result import PartitionResult
from squall.results.synthetic.forge import INJECTIONS, NEAR_MISSES, healthy

Check = Callable[..., PartitionResult]
SEEDS = range(5)


@pytest.mark.parametrize("name", INJECTIONS)
def test_an_injected_anomaly_is_found_by_its_name(check: Check, name: str) -> None:
    anomaly, inject = INJECTIONS[name]
    for seed in SEEDS:
        found = check(inject(healthy(seed), random.Random(seed))).anomalies
        assert anomaly in found, f"seed {seed}: {found}"


def test_what_is_forged_has_a_name_in_the_registry() -> None:
    assert {anomaly for anomaly, _ in INJECTIONS.values()} <= set(ANOMALIES)


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_is_legal(check: Check, name: str) -> None:
    for seed in SEEDS:
        found = check(NEAR_MISSES[name](healthy(seed), random.Random(seed))).anomalies
        assert not found, f"seed {seed}: {found}"


def test_healthy_histories_have_no_anomaly(check: Check) -> None:
    for seed in range(40):
        result = check(healthy(seed, sends=120))
        assert not result.anomalies, f"seed {seed}: {result.anomalies}"
        assert result.final.complete

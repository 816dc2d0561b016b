"""Forged histories of registers: each anomaly is found by its name alone; healthy ones and near-misses are clean."""

from __future__ import annotations

import pytest

from squall.results.checkers.registers.anomalies import REGISTER_ANOMALIES
from squall.results.checkers.registers.check import check_registers
from squall.results.checkers.registers.operations import register_table
from squall.results.synthetic.forge_registers import REGISTER_INJECTIONS, REGISTER_NEAR_MISSES, healthy_registers

SEEDS = range(6)
ALL_SEEDS = range(60)


def assert_found(name: str, seeds: range) -> None:
    case = REGISTER_INJECTIONS[name]
    for seed in seeds:
        found = check_registers(register_table(case.history(seed))).anomalies
        assert set(found) == {case.anomaly}, f"seed {seed}: {found}"


def assert_legal(name: str, seeds: range) -> None:
    for seed in seeds:
        result = check_registers(register_table(REGISTER_NEAR_MISSES[name].history(seed)))
        assert result.verdict == "valid", f"seed {seed}: {result.anomalies} {result.undecided}"


def assert_clean(seeds: range, versions: bool, repeated: int) -> None:
    for seed in seeds:
        result = check_registers(register_table(healthy_registers(seed, versions=versions, repeated=repeated)))
        assert result.verdict == "valid", f"seed {seed}: {result.anomalies} {result.undecided}"
        assert result.checked > 150


@pytest.mark.parametrize("name", REGISTER_INJECTIONS)
def test_an_injected_anomaly_is_found_by_its_name_and_no_other(name: str) -> None:
    assert_found(name, SEEDS)


@pytest.mark.full
@pytest.mark.parametrize("name", REGISTER_INJECTIONS)
def test_it_is_found_in_sixty_histories(name: str) -> None:
    assert_found(name, ALL_SEEDS)


def test_every_anomaly_of_registers_can_be_forged() -> None:
    assert {case.anomaly for case in REGISTER_INJECTIONS.values()} == {one.name for one in REGISTER_ANOMALIES}


@pytest.mark.parametrize("name", REGISTER_NEAR_MISSES)
def test_a_near_miss_is_legal(name: str) -> None:
    assert_legal(name, SEEDS)


@pytest.mark.full
@pytest.mark.parametrize("name", REGISTER_NEAR_MISSES)
def test_it_is_legal_in_sixty_histories(name: str) -> None:
    assert_legal(name, ALL_SEEDS)


@pytest.mark.parametrize(("versions", "repeated"), [(False, 0), (True, 0), (False, 3), (True, 3)])
def test_healthy_histories_have_no_anomaly(versions: bool, repeated: int) -> None:
    assert_clean(range(15), versions, repeated)


@pytest.mark.full
@pytest.mark.parametrize(("versions", "repeated"), [(False, 0), (True, 0), (False, 3), (True, 3)])
def test_a_thousand_healthy_histories_have_no_anomaly(versions: bool, repeated: int) -> None:
    assert_clean(range(1000, 1250), versions, repeated)


def test_a_seed_makes_the_same_history_every_time() -> None:
    assert healthy_registers(7) == healthy_registers(7) != healthy_registers(8)

"""Samples are stratified, nested and stable under unrelated edits (HX-17)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from squall.harness.simulation.mutation.generation.mutation import Mutation
from squall.harness.simulation.mutation.generation.sampling import in_order, sample


def mutant(package: str, operator: str, number: int) -> Mutation:
    name = f"{package}.core:run:{operator}:{number}"
    return Mutation(name, f"squall.nodes.{package}.core", 1, operator, "run", 0, 1, "a", "b")


ALL = [
    *(mutant("raft", "boundary", number) for number in range(300)),
    *(mutant("raft", "constant", number) for number in range(100)),
    *(mutant("storage", "boundary", number) for number in range(200)),
]


def test_a_sample_holds_packages_and_operators_in_proportion() -> None:
    strata = Counter((one.package, one.operator) for one in sample(ALL, 60, 7))
    assert abs(strata["raft", "boundary"] - 30) <= 1
    assert abs(strata["raft", "constant"] - 10) <= 1
    assert abs(strata["storage", "boundary"] - 20) <= 1


def test_a_smaller_sample_is_the_beginning_of_a_larger_one() -> None:
    assert sample(ALL, 20, 7) == sample(ALL, 60, 7)[:20]


def test_the_seed_decides_the_sample() -> None:
    assert sample(ALL, 60, 7) == sample(ALL, 60, 7) != sample(ALL, 60, 8)


def test_an_edit_of_one_package_does_not_reorder_another() -> None:
    edited = [*ALL, mutant("storage", "boundary", 1000)]
    before = [one for one in in_order(ALL, 7) if one.package == "raft"]
    assert [one for one in in_order(edited, 7) if one.package == "raft"] == before
    moved = [replace(one, begin=one.begin + 9, line=4) for one in ALL]
    assert [one.id for one in in_order(moved, 7)] == [one.id for one in in_order(ALL, 7)]

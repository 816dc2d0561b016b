"""Every rule of the observer has a proof: nodes with a defect that it sees, that no other sees, and a near-miss."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from squall.harness.simulation.observer import catalogue
from squall.harness.simulation.run import run as simulation
from squall.harness.simulation.run.run import SimOptions, SimResult, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.nodes.mutants import MUTANTS
from tests.harness.simulation.observer.proofs import PARTS, PROOFS, Proof
from tests.harness.simulation.observer.test_against_history import BROKEN

HERE = Path(__file__).parent
PAGE = Path(__file__).resolve().parents[4] / "docs" / "simulation.md"
BY_RULE = [pytest.param(proof, id=proof.rule.__name__) for proof in PROOFS]
BY_RULE += [pytest.param(proof, id=f"{proof.rule.__name__}-{proof.name}") for proof in PARTS]
DEFECTS = [one for one in BY_RULE if not one.values[0].mutants]


def run(proof: Proof, settle: float | None = None) -> SimResult:
    scenario, _ = find_scenario(proof.scenario)
    if settle is not None:
        scenario = scenario.model_copy(update={"time": scenario.time.model_copy(update={"settle": settle})})
    return simulate(scenario, proof.seed, SimOptions(mutants=proof.mutants))


def row_of(proof: Proof) -> str:
    """The row of the table in docs/simulation.md."""
    defect = proof.defect if isinstance(proof.defect, str) else (proof.defect.__doc__ or "").rstrip(".")
    shown = f"mutant `{defect}`" if proof.mutants else defect[0].lower() + defect[1:]
    return f"| `{proof.rule.__name__}` | {proof.name} | {shown} | `{proof.scenario}` {proof.seed} |"


# -- the table is complete ----------------------------------------------------------------------------------------


def test_every_rule_has_one_proof() -> None:
    assert [proof.rule for proof in PROOFS] == list(catalogue.RULES)


@pytest.mark.parametrize("proof", BY_RULE)
def test_a_proof_names_an_invariant_a_defect_and_a_near_miss_that_exist(proof: Proof) -> None:
    assert proof.name in BROKEN
    assert set(proof.mutants) <= set(MUTANTS)
    file, _, test = proof.near_miss.partition("::")
    (path,) = HERE.rglob(f"{file}.py")
    source = ast.parse(path.read_text(encoding="utf-8"))
    assert test in {node.name for node in source.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("proof", BY_RULE)
def test_the_page_on_simulation_shows_the_proof(proof: Proof) -> None:
    assert f"\n{row_of(proof)}\n" in PAGE.read_text(encoding="utf-8")


# -- the proofs hold ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("proof", DEFECTS)
def test_the_rule_sees_the_defect(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    """The documented mutants are in test_matrix.py."""
    proof.put_in(monkeypatch)
    assert run(proof).broken == (proof.name,)


@pytest.mark.full
@pytest.mark.parametrize("proof", BY_RULE)
def test_without_the_rule_the_observer_sees_nothing(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    proof.put_in(monkeypatch)
    with_the_rule = run(proof)
    assert with_the_rule.broken == (proof.name,), with_the_rule.problem
    monkeypatch.setattr(catalogue, "RULES", tuple(one for one in catalogue.RULES if one is not proof.rule))
    monkeypatch.setattr(simulation, "READY_SECONDS", 5.0)  # what is stuck stays so, and costs much
    without = run(proof, settle=2.0)
    assert not set(without.broken) & set(BROKEN), without.problem

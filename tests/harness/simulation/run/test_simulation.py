"""Whole simulated runs: healthy nodes survive swarms of faults, and a seed replays bit for bit.

Single scenarios are in test_scenarios.py, seeded bugs in test_matrix.py.

CI runs a few seeds; `make test-full` and `squall simulate` run many. A failing seed is printed with its command.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from squall.harness.cli.simulation.simulate import told
from squall.harness.simulation.run.parallel import simulate_many
from squall.harness.simulation.run.run import SimOptions, SimResult, Simulation, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.results.history.manifest import Manifest

SUITES = Path(__file__).resolve().parents[4] / "suites"


def run(name: str, seed: int, *mutants: str) -> SimResult:
    scenario, _ = find_scenario(name, SUITES)
    return simulate(scenario, seed, SimOptions(mutants=mutants))


def explain(result: SimResult, name: str) -> str:
    return told(result, name, SimOptions())


@pytest.mark.parametrize("seed", [1, 2])
def test_healthy_nodes_survive_a_swarm_of_faults(seed: int) -> None:
    result = run("swarm", seed)
    assert result.verdict == "valid", explain(result, "swarm")
    assert result.counts["acknowledged"] > 1000


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_two_hundred_seeds_of_a_swarm_are_valid() -> None:
    scenario, _ = find_scenario("swarm", SUITES)
    wrong = [
        explain(result, "swarm")
        for result in simulate_many(scenario, range(1, 201), processes=2)
        if result.verdict != "valid"
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.full
def test_a_seed_replays_bit_for_bit_under_another_hash_seed() -> None:
    """Hash randomisation is the detector of hidden order (docs/simulation.md). The README's tour shows it in CI."""
    digests = []
    for hash_seed in ("0", "12345"):
        answer = subprocess.run(
            [sys.executable, "-m", "squall.harness.cli.main", "simulate", str(SUITES / "swarm.yaml"), "--seed", "5"],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        )
        digests.append(answer.stdout.rsplit("trace", 1)[1].strip())
    assert digests[0] == digests[1]
    assert len(digests[0]) == 32


def test_different_seeds_give_different_traces() -> None:
    assert run("two-hop-failover", 1, "ack-before-replication").digest != (
        run("two-hop-failover", 2, "ack-before-replication").digest
    )


def test_a_kept_run_states_when_it_began_its_suite_and_what_it_expects(tmp_path: Path) -> None:
    scenario, said = find_scenario(str(SUITES / "retention-behind.yaml"), only="retention-behind-log-start-past-hw")
    before = datetime.now(UTC).replace(microsecond=0)
    manifest = Manifest.load(Simulation(scenario, 7, SimOptions(said=said), tmp_path).save_manifest())
    assert before <= datetime.fromisoformat(manifest.started) <= datetime.now(UTC)
    assert manifest.suite == str(SUITES / "retention-behind.yaml")
    assert (manifest.expect.verdict, manifest.expect.anomalies) == (scenario.expect.verdict, scenario.expect.anomalies)
    assert manifest.expect.verdict == "invalid"


def test_runs_of_one_seed_have_one_id_and_those_of_other_scenarios_another(tmp_path: Path) -> None:
    """Rows of a lake replace those of the same id."""
    names = ("swarm", "swarm", "metadata", "data-plane")
    ids = [
        Simulation(find_scenario(name, SUITES)[0], 7, SimOptions(said=name), tmp_path / str(number)).run_id
        for number, name in enumerate(names)
    ]
    assert ids[0] == ids[1] and len(set(ids)) == 3

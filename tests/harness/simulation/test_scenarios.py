"""The project's scenarios in simulation: healthy nodes are valid in each of them, on every seed.

Two seeds in CI, twenty in `make test-full`. These are also the healthy twins of the mutants in test_matrix.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.simulation.command import told
from squall.harness.simulation.many import simulate_many
from squall.harness.simulation.run import SimOptions, simulate
from squall.harness.suite import Scenario, load_suite
from squall.results.history import History
from squall.results.segments import FUNCTIONS, TYPES

SUITES = Path(__file__).resolve().parents[3] / "suites"

# Made for hosts: many records in real time, which take long to simulate and find nothing that the others do not.
ON_HOSTS = {"baseline-quiet", "idle-nemesis", "partitions", "quickstart", "smoke"}
LONGEST_LOAD_SECONDS = 60


def is_for_simulation(scenario: Scenario) -> bool:
    """Whether it is about one kind of trouble, short, without mutants, and expected to be valid."""
    if scenario.expect.verdict != "valid" or scenario.cluster.mutants or scenario.swarm:
        return False
    return scenario.time.load <= LONGEST_LOAD_SECONDS and scenario.scenario not in ON_HOSTS


def healthy() -> list[Scenario]:
    found = [scenario for path in sorted(SUITES.glob("*.yaml")) for scenario in load_suite(path).scenarios]
    return [one for one in found if is_for_simulation(one)]


BY_NAME = [pytest.param(scenario, id=scenario.scenario) for scenario in healthy()]


def test_no_two_scenarios_have_the_same_name() -> None:
    """They are found by name alone."""
    names = [one.scenario for path in sorted(SUITES.glob("*.yaml")) for one in load_suite(path).scenarios]
    assert not [name for name in names if names.count(name) > 1]


def test_the_scenarios_of_issue_3_are_here() -> None:
    """P02, P03, P05, P11, P13, P15, P17 with its control, P18."""
    assert {
        "leader-kill-loop",
        "zombie-leader",
        "two-hop-failover",
        "metadata-starved-follower",
        "isr-limbo-shrink",
        "isr-limbo-expand",
        "wiped-disk-fast-rejoin",
        "fenced-follower-proposed",
        "last-replica-standing",
        "last-replica-standing-kill",
        "last-replica-standing-kill-elr-off",
        "failure-ladder-brokers",
        "failure-ladder-controllers",
    } <= {scenario.scenario for scenario in healthy()}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("scenario", BY_NAME)
def test_healthy_nodes_are_valid(scenario: Scenario, seed: int) -> None:
    found = simulate(scenario, seed)
    assert found.verdict == "valid", told(found, scenario.scenario, SimOptions())
    assert not [fault for fault in found.faults if " unproven " in fault]


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", BY_NAME)
def test_healthy_nodes_are_valid_on_twenty_seeds(scenario: Scenario) -> None:
    wrong = [one for one in simulate_many(scenario, range(1, 21), processes=2) if one.verdict != "valid"]
    assert not wrong, "\n".join(told(one, scenario.scenario, SimOptions()) for one in wrong)


def test_the_last_replica_without_elr_loses_what_it_had_not_synced() -> None:
    """N09: the documented limit of Kafka before KIP-966, and the reason why P17 means something."""
    (scenario,) = [
        one
        for one in load_suite(SUITES / "last-replica-standing.yaml").scenarios
        if one.scenario == "last-replica-standing-elr-off"
    ]
    found = simulate(scenario, 1)
    assert found.verdict == "invalid"
    assert set(found.broken) & {"ISR", "ELECT", "ACK"}, found.problem


def test_clients_delete_records_ask_for_log_ends_and_change_topics_beside_the_load(tmp_path: Path) -> None:
    """Issue 3: clients produce with retries and idempotence, fetch, and do admin operations."""
    scenario = Scenario.model_validate(
        {
            "scenario": "busy-clients",
            "cluster": {"topics": {"events": {"partitions": 2}}, "config": {"default.replication.factor": 3}},
            "workload": {
                "name": "log", "producers": 1, "consumers": 2, "rate": "40/s", "in_flight": 2,
                "list_offsets": 0.1, "delete_records": 0.05, "admin": "2/s",
            },
            "nemesis": [{"fault": "kill", "target": "leader of events/0", "at": "4s", "for": "2s"}],
            "time": {"load": "12s", "settle": "20s"},
            "min_acknowledged": 100,
        }
    )  # fmt: skip
    found = simulate(scenario, 1, SimOptions(keep=tmp_path))
    assert found.verdict == "valid", told(found, "busy-clients", SimOptions())
    table = History.load(tmp_path / "seed-1").table
    done = set(zip(table["f"].to_pylist(), table["type"].to_pylist(), strict=True))
    for name in ("list_offsets", "delete_records", "create_topic", "create_partitions", "delete_topic"):
        assert (FUNCTIONS[name], TYPES["ok"]) in done, name
    assert max(start or 0 for start in table["log_start"].to_pylist()) > 0, "no log began later"

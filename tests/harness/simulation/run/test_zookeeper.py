"""Clusters whose metadata is in ZooKeeper: valid under whatever a seed draws, with the broker of any other cluster.

One seed in CI, twelve in `make test-full`; hundreds by `squall simulate zookeeper --seeds 500`. The scenarios of
suites/zookeeper-controller.yaml run in test_scenarios.py, their mutants in test_matrix.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.cli.simulate import told
from squall.harness.scenario.suite import Scenario, load_suite
from squall.harness.simulation.run.run import SimOptions, Simulation, simulate
from squall.harness.simulation.swarm.drawing import draw_depositions, draw_swarm
from squall.harness.simulation.swarm.kinds import ENSEMBLE_KINDS
from squall.nodes.node.zookeeper_node import ZooKeeperNode

SUITES = Path(__file__).resolve().parents[4] / "suites"
(SWARM,) = load_suite(SUITES / "zookeeper.yaml").own


def shortened(scenario: Scenario, seconds: float) -> Scenario:
    return scenario.model_copy(update={"time": scenario.time.model_copy(update={"load": seconds})})


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 13))])
def test_acknowledged_records_survive_faults_of_brokers_network_and_ensemble(seed: int) -> None:
    """ZK-01 to ZK-08, ZK-11 to ZK-14, DA-04: the checks are those of any cluster."""
    scenario = shortened(SWARM, 15.0) if seed == 1 else SWARM
    found = simulate(scenario, seed)
    assert found.verdict == "valid", told(found, SWARM.scenario, SimOptions())
    assert found.counts["leader changes"] > 4 and found.counts["acknowledged"] > 100


def test_the_controller_is_a_broker_that_serves_clients(tmp_path: Path) -> None:
    """ZK-02: clients' requests and those of the controller go through the same node."""
    simulation = Simulation(shortened(SWARM, 2.0), 3, SimOptions(), tmp_path)
    served: dict[str, int] = {}

    def look(process: object) -> None:
        for name, one in simulation.world.processes.items():
            if isinstance(one.node, ZooKeeperNode) and one.node.is_active_controller:
                served[name] = max(served.get(name, 0), one.node.broker.traffic.total().produces)

    simulation.observer._on_images.append(lambda process, node: look(process))
    simulation.run()
    assert served and max(served.values()) > 0


def test_faults_of_the_ensemble_do_not_change_the_faults_of_a_seed() -> None:
    brokers = ("b1", "b2", "b3")
    plain = draw_swarm(5, brokers, brokers, 60.0)
    more = draw_swarm(5, brokers, brokers, 60.0, has_ensemble=True)
    assert [one for one in more if one.kind not in ENSEMBLE_KINDS] == plain
    drawn = {one.kind for seed in range(20) for one in draw_swarm(seed, brokers, brokers, 60.0, has_ensemble=True)}
    assert drawn >= set(ENSEMBLE_KINDS)


def test_depositions_come_while_a_broker_stops() -> None:
    """ZK-14."""
    faults = draw_depositions(1, ("b1", "b2", "b3"), 24.0)
    stops = [one.at for one in faults if one.kind == "restart-broker"]
    deposed = [one.at for one in faults if one.kind == "depose-controller"]
    assert len(stops) == len(deposed) > 5
    assert all(0 < after - before < 0.5 for before, after in zip(stops, deposed, strict=True))


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        ({"metadata": "zookeeper", "dynamic_voters": True}, "there is no quorum"),
        ({"metadata": "zookeeper", "combined": True}, "there is no quorum"),
        ({"metadata": "etcd"}, "quorum"),
    ],
)
def test_a_cluster_of_two_kinds_is_refused(cluster: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Scenario.model_validate({"scenario": "x", "cluster": cluster, "swarm": True})


def test_only_zookeepers_controllers_are_deposed() -> None:
    with pytest.raises(ValueError, match=r"set cluster\.metadata"):
        Scenario.model_validate({"scenario": "x", "swarm": "depositions"})

"""Clusters whose metadata is in ZooKeeper: valid under whatever a seed draws, with the broker of any other cluster.

One seed in CI, twelve in `make test-full`; hundreds by `squall simulate zookeeper --seeds 500`. The scenarios of
suites/zookeeper-controller.yaml run in test_scenarios.py, their mutants in test_matrix.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.cli.simulation.simulate import told
from squall.harness.scenario.cluster import await_whole, create_topics
from squall.harness.scenario.suite import Scenario, load_suite
from squall.harness.simulation.run.run import SimOptions, Simulation, simulate
from squall.harness.simulation.swarm.drawn.drawing import draw_depositions, draw_swarm
from squall.harness.simulation.swarm.drawn.kinds import ENSEMBLE_KINDS
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.zookeeper.znodes import (
    REASSIGN_PARTITIONS,
    Assignment,
    decode_topic,
    encode_reassignment,
    topic_path,
)
from squall.workloads.clients.common.client import Topic
from squall.workloads.clients.native.admin import NativeAdmin

SUITES = Path(__file__).resolve().parents[4] / "suites"
(SWARM,) = load_suite(SUITES / "zookeeper.yaml").own


def shortened(scenario: Scenario, seconds: float) -> Scenario:
    return scenario.model_copy(update={"time": scenario.time.model_copy(update={"load": seconds})})


MOVES = Scenario.model_validate(
    {
        "scenario": "moves-by-the-ensemble",
        "cluster": {
            "metadata": "zookeeper",
            "brokers": 4,
            "topics": {"events": {"partitions": 2, "replication_factor": 3, "min_insync_replicas": 2}},
            "config": {"replica.lag.time.max.ms": 2000, "replica.fetch.backoff.ms": 200},
        },
        "workload": {"name": "log", "producers": 2, "consumers": 2, "rate": "60/s", "acks": "all", "in_flight": 4},
        "nemesis": [
            {"fault": "slow-link", "target": "all brokers", "latency": "20ms", "at": "1s", "for": "3s"},
            {"fault": "kill", "target": "active controller", "at": "2050ms", "for": "8s"},
        ],
        "time": {"load": "25s", "settle": "30s"},
        "min_acknowledged": 300,
    }
)
ASKED_S = 2.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_moves_that_a_tool_writes_into_the_ensemble_are_carried_out(seed: int, tmp_path: Path) -> None:
    """RA-01 to RA-04: the controller dies in the midst of them, and its successor ends them and removes the znode."""
    simulation = Simulation(MOVES, seed, SimOptions(), tmp_path)
    ensemble = simulation.world.ensemble
    assert ensemble is not None
    before: dict[int, Assignment] = {}
    wanted: dict[int, tuple[int, ...]] = {}

    def ask() -> None:
        before.update(decode_topic("events", ensemble.tree.nodes[topic_path("events")].data).assignments)
        for number, one in before.items():
            (spare,) = {1, 2, 3, 4} - set(one.replicas)
            wanted[number] = (*one.replicas[1:], spare)
        moves = {("events", number): replicas for number, replicas in wanted.items()}
        ensemble.create(REASSIGN_PARTITIONS, encode_reassignment(moves))

    begin = simulation._load

    async def load() -> None:
        kernel = simulation.world.kernel
        kernel.at(kernel.now + round(ASKED_S * MICROSECONDS), ask)
        await begin()

    simulation._load = load  # type: ignore[method-assign]
    simulation.run()  # the observer raises for what is lost
    assert simulation.observer.cluster.counters.acknowledged > 300
    assert REASSIGN_PARTITIONS not in ensemble.tree.nodes
    after = decode_topic("events", ensemble.tree.nodes[topic_path("events")].data).assignments
    assert {number: one.replicas for number, one in after.items()} == wanted
    assert not any(one.adding or one.removing for one in after.values())


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 13))])
def test_acknowledged_records_survive_faults_of_brokers_network_and_ensemble(seed: int) -> None:
    """ZK-01 to ZK-08, ZK-11 to ZK-14, DA-04: the checks are those of any cluster."""
    scenario = shortened(SWARM, 15.0) if seed == 1 else SWARM
    found = simulate(scenario, seed)
    assert found.verdict == "valid", told(found, SWARM.scenario, SimOptions())
    assert found.counts["leader changes"] > 4 and found.counts["acknowledged"] > 100


@pytest.mark.parametrize(("name", "seed"), [("zookeeper-operations", 27), ("zookeeper", 6)])
def test_seeds_that_have_found_a_defect(name: str, seed: int) -> None:
    """Seeds that were INVALID once.

    27: a replica whose addition was cancelled joined the ISR before the leader knew of it. 6: a false alarm, DURABLE:
    the process died within a turn that had truncated records of an older epoch, where others were committed.
    """
    scenarios = [SWARM, *load_suite(SUITES / "zookeeper-controller.yaml").own]
    (scenario,) = (one for one in scenarios if one.scenario == name)
    found = simulate(scenario, seed)
    assert found.verdict == "valid", told(found, name, SimOptions())


def test_the_controller_is_zookeepers_main_client() -> None:
    """ZK-15: thirty topic-partitions are created, and a broker that leads dies; brokers register, and watch."""
    world = SimWorld(ClusterShape(0, 4, zookeeper=True), 1, topics={"events": 30})
    world.start()
    admin = NativeAdmin(world.connector(), world.bootstrap(), has_quorum=False)

    async def course() -> str:
        await await_whole(admin, 4, {}, 30.0)
        await create_topics(admin, (Topic("events", 30, 3),), 30.0)
        await await_whole(admin, 4, {"events": 30}, 30.0)
        active = await world.cluster.active_controller()
        assert active is not None
        victim = next(one for one in world.cluster.brokers if one != active)
        world.processes[victim].crash()
        await world.sleep(20.0)
        return active

    active = world.kernel.run_until_complete(course())
    node = world.processes[active].node
    assert isinstance(node, ZooKeeperNode) and node.is_active_controller and world.ensemble is not None
    asked = {session.id: session.asked for session in world.ensemble.sessions.values()}
    assert len(asked) == 4, asked
    of_controller = asked.pop(node.client.session.id)
    assert of_controller > sum(asked.values()), "the controller asks more than all other brokers together"
    world.switch_off()


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


def test_every_broker_names_the_controller_to_clients(tmp_path: Path) -> None:
    """ZK-01: faults on hosts that are aimed at the active controller go by what brokers say."""
    simulation = Simulation(shortened(SWARM, 2.0), 3, SimOptions(swarm=False), tmp_path)
    told: dict[str, set[int | None]] = {}

    def look(process: object) -> None:
        nodes = [one.node for one in simulation.world.processes.values() if isinstance(one.node, ZooKeeperNode)]
        active = [one.config.node_id for one in nodes if one.is_active_controller]
        if len(active) == 1 and len(nodes) == 3 and all(one.broker.is_serving for one in nodes):
            ids = {one.broker.observer.controller_id for one in nodes}
            told.setdefault("named" if ids == set(active) else "not named yet", set()).update(active)

    simulation.observer._on_images.append(lambda process, node: look(process))
    simulation.run()
    assert told["named"], told


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

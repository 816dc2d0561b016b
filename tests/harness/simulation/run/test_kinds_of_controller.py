"""DA-04: the data plane's scenarios and mutants under three kinds of controller: a quorum, ZooKeeper's, one in memory.

Under a quorum they run in test_scenarios.py and test_matrix.py; here they run, unmodified, under the two other kinds: a
sample in CI, chosen by a seed, and all of them in `make test-full`. Where the faults of a scenario name the controllers
of a quorum, suites/zookeeper-data-plane.yaml has a twin of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from squall.harness.cli.simulation.simulate import told
from squall.harness.errors import UsageError
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.matrix import TRIALS, Trial
from squall.harness.simulation.run.metadata_kinds import KINDS, Metadata, kind_of, refuse_kind, settings_under, why_not
from squall.harness.simulation.run.run import SimOptions, Simulation, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.world.memory.broker_node import MemoryBroker
from squall.harness.simulation.world.memory.controller_node import MemoryController
from squall.nodes.node.node import Node
from tests.harness.simulation.run.test_scenarios import HEALTHY, SUITES

NODES = Path(__file__).resolve().parents[4] / "nodes"
OTHER_KINDS: tuple[Metadata, ...] = ("zookeeper", "memory")
SAMPLED = 3
"""Of each kind, in CI."""
TWINS = {
    "fetch-epoch-unfenced": "zookeeper-starved-follower",
    "stale-fetch-appended": "zookeeper-late-fetch-answer",
    "isr-shrink-uncommitted": "zookeeper-isr-limbo",
}
"""Mutants whose scenario names controllers of a quorum, with the scenario that it is under ZooKeeper."""
NOT_UNDER_ZOOKEEPER = {
    "clean-mark-before-flush": "nothing reads the mark: brokers register without a previous epoch",
    "hw-advances-under-min-isr": "it is no bug there: the rule came with eligible leader replicas (KIP-966)",
    "isr-expand-ignored": "the leader writes the ISR itself, and no fault of a scenario holds the ensemble's answer",
    "older-metadata-applied": "states that are older end in RequestedMetadata, before they reach a replica",
}


def data_plane_mutants() -> set[str]:
    """The mutants whose code is in the data plane."""
    files = [path for floor in ("broker", "replication", "storage") for path in (NODES / floor).rglob("*.py")]
    return {name for path in files for name in re.findall(r'mutants\.has\(\s*"([a-z0-9-]+)"', path.read_text())}


def runs() -> list[tuple[Metadata, Scenario]]:
    """Every scenario that is short, healthy, and possible under another kind than its own."""
    return [(kind, one) for kind in OTHER_KINDS for one in HEALTHY if one.cluster.metadata == "quorum"
            if why_not(one, kind) is None]  # fmt: skip


def trials() -> list[tuple[Metadata, Trial, str]]:
    """Every mutant of the data plane under every other kind of controller, with its scenario there."""
    found: list[tuple[Metadata, Trial, str]] = []
    for kind in OTHER_KINDS:
        for trial in TRIALS:
            if trial.name in data_plane_mutants() and not (kind == "zookeeper" and trial.name in NOT_UNDER_ZOOKEEPER):
                twin = TWINS.get(trial.name, trial.scenario) if kind == "zookeeper" else trial.scenario
                found.append((kind, trial, twin))
    return found


def sampled(ids: list[str]) -> Iterator[tuple[int, pytest.MarkDecorator | None]]:
    """Numbers of the ids, with the mark of those that only `make test-full` runs."""
    chosen: set[str] = set()
    for kind in OTHER_KINDS:
        chosen.update(Random(4).sample([one for one in ids if one.startswith(kind)], SAMPLED))
    for number, one in enumerate(ids):
        yield number, None if one in chosen else pytest.mark.full


def parameters(values: list[tuple], ids: list[str]) -> list:
    return [
        pytest.param(*values[number], id=ids[number], marks=() if mark is None else (mark,))
        for number, mark in sampled(ids)
    ]


RUNS = parameters(runs(), [f"{kind}-{one.scenario}" for kind, one in runs()])
MUTATED = parameters(trials(), [f"{kind}-{trial.name}" for kind, trial, _ in trials()])


@pytest.mark.parametrize(("kind", "scenario"), RUNS)
def test_healthy_nodes_are_valid_under_another_kind_of_controller(kind: Metadata, scenario: Scenario) -> None:
    """DA-04."""
    options = SimOptions(metadata=kind)
    found = simulate(scenario, 1, options)
    assert found.verdict == "valid", told(found, scenario.scenario, options)
    assert not [fault for fault in found.faults if " unproven " in fault]


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["data-plane", "swarm"])
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_drawn_faults_leave_it_valid_under_another_kind_of_controller(kind: Metadata, name: str) -> None:
    """DA-04."""
    scenario, _ = find_scenario(name, SUITES)
    options = SimOptions(metadata=kind)
    found = simulate(scenario, 1, options)
    assert found.verdict == "valid", told(found, name, options)
    assert found.counts["leader changes"] > 3


@pytest.mark.parametrize(("kind", "trial", "scenario"), MUTATED)
def test_a_mutant_of_the_data_plane_is_caught_under_another_kind(kind: Metadata, trial: Trial, scenario: str) -> None:
    """DA-04, HX-08."""
    found_scenario, _ = find_scenario(scenario, SUITES)
    options = SimOptions(metadata=kind, mutants=trial.mutants)
    found = simulate(found_scenario, 1, options)
    assert trial.catches(found), f"{trial.name} was {found.verdict} {found.broken}: {found.problem}"


# -- which run where ------------------------------------------------------------------------------------------------


def test_every_mutant_of_the_data_plane_has_a_trial_or_a_reason_under_each_kind() -> None:
    assert data_plane_mutants() <= {trial.name for trial in TRIALS} and len(data_plane_mutants()) > 20
    assert set(NOT_UNDER_ZOOKEEPER) | set(TWINS) <= data_plane_mutants()
    for kind, trial, name in trials():
        scenario, _ = find_scenario(name, SUITES)
        assert why_not(scenario, kind) is None, f"{kind}, {trial.name}: {name}"


def test_half_of_the_data_planes_scenarios_run_under_zookeeper_and_most_with_one_in_memory() -> None:
    numbers = {kind: sum(one == kind for one, _ in runs()) for kind in OTHER_KINDS}
    assert numbers["zookeeper"] >= 17 and numbers["memory"] >= 35


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("split-vote-crash", "memory", "is about a quorum"),
        ("removed-voter-disruption", "memory", "voters"),
        ("isr-limbo-shrink", "zookeeper", "names the controllers"),
        ("last-replica-standing", "zookeeper", "eligible leader replicas"),
        ("zookeeper-late-isr", "memory", "ZooKeeper elects"),
    ],
)
def test_what_a_kind_lacks_is_refused_with_the_reason(name: str, kind: Metadata, why: str) -> None:
    scenario, _ = find_scenario(name, SUITES)
    with pytest.raises(UsageError, match=why):
        refuse_kind(scenario, kind)


def test_a_kind_of_controller_is_called_by_its_name() -> None:
    assert [kind_of(one) for one in KINDS] == list(KINDS)
    with pytest.raises(UsageError, match=r"--metadata zookeper.*did you mean"):
        kind_of("zookeper")


def test_a_silent_broker_is_given_up_after_the_same_time_under_each_kind() -> None:
    scenario, _ = find_scenario("leader-kill-loop", SUITES)
    before = scenario.cluster.config["broker.session.timeout.ms"]
    assert settings_under(scenario, "zookeeper")["zookeeper.session.timeout.ms"] == before
    assert settings_under(scenario, "memory") == dict(scenario.cluster.config)


# -- the controller in memory ---------------------------------------------------------------------------------------


DIES = Scenario.model_validate(
    {
        "scenario": "controller-in-memory-dies",
        "cluster": {"topics": {"events": {"partitions": 2}}, "config": {"broker.session.timeout.ms": 3000}},
        "workload": {"name": "log", "producers": 1, "consumers": 1, "rate": "40/s", "acks": "all"},
        "nemesis": [
            {"fault": "kill", "target": "active controller", "at": "3s", "for": "2s"},
            {"fault": "kill", "target": "leader of events/0", "at": "6s", "for": "6s"},
        ],
        "time": {"load": "16s", "settle": "20s"},
        "min_acknowledged": 100,
    }
)


def test_a_controller_in_memory_decides_without_any_replica_of_a_metadata_log(tmp_path: Path) -> None:
    """DA-04: a role, not Raft."""
    simulation = Simulation(DIES, 1, SimOptions(metadata="memory"), tmp_path)
    kinds: set[type] = set()
    simulation.observer._on_images.append(lambda process, node: kinds.add(type(node)))
    simulation.run()
    assert kinds == {MemoryController, MemoryBroker} and not issubclass(MemoryController, Node)
    assert simulation.world.memory is not None and simulation.world.memory.end_offset > 10
    assert simulation.world.processes["c1"].disk.files == 0


def test_a_controller_that_dies_goes_on_with_its_memory() -> None:
    found = simulate(DIES, 1, SimOptions(metadata="memory"))
    assert found.verdict == "valid", found.problem
    assert found.counts["elections"] == 2 and found.counts["leader changes"] > 2

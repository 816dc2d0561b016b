"""A simulated run judged as on hosts: by its history and by what its nodes left (HX-05, HX-06)."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.node_evidence import NO_LEADER, ControlTraces, write_node_tables
from squall.harness.simulation.run.run import SimOptions, Simulation, judged, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nodes.ports import NullTrace
from squall.results.check import verdict_of
from squall.results.history.operation_kinds import OF_NODES

SUITES = Path(__file__).resolve().parents[4] / "suites"
SHORT = "barren-epoch"


def scenario_of(name: str) -> Scenario:
    return find_scenario(name, SUITES)[0]


def test_a_healthy_run_without_a_judging_observer_has_the_same_trace_and_its_nodes_logs_are_judged(
    tmp_path: Path,
) -> None:
    scenario = scenario_of(SHORT)
    simulation = Simulation(scenario, 3, SimOptions(observed=False), tmp_path)
    simulation.run()
    assert judged(simulation)[0] == "valid"
    assert simulation.digest == simulate(scenario, 3).digest
    of_nodes = {one.check: one for one in verdict_of(tmp_path).further}
    assert {name for name, one in of_nodes.items() if one.holds and one.checked} == {*OF_NODES}


@pytest.mark.parametrize(
    ("scenario", "mutant", "expected"),
    [
        ("two-hop-failover", "truncate-to-hw", {"lost_write", "replica_lacks_committed"}),
        ("quorum-power-loss", "metadata-not-fsynced", {"metadata_replaced"}),
    ],
)
def test_a_bug_that_the_observer_would_have_stopped_is_found_at_the_end_in_history_or_logs(
    scenario: str, mutant: str, expected: set[str]
) -> None:
    result = simulate(scenario_of(scenario), 2, SimOptions(mutants=(mutant,), observed=False))
    assert result.verdict == "invalid"
    assert expected & {*result.broken}, result.broken


def test_a_run_waits_for_the_end_of_an_election_before_it_asks_what_is_committed() -> None:
    """In this seed the leader resigns as the last fault ends, and all topic-partitions are whole."""
    result = simulate(scenario_of("voter-crash-storm"), 70004, SimOptions(evidence=True))
    assert (result.verdict, result.problem) == ("valid", "")


def test_a_log_may_begin_later_where_an_administrator_deleted_records() -> None:
    """In this seed the next leader of its topic is elected uncleanly, and knows nothing of the deletion."""
    result = simulate(scenario_of("worlds"), 1003784, SimOptions(evidence=True))
    assert (result.verdict, result.problem) == ("valid", "")


def test_a_cluster_without_a_quorum_is_judged_by_its_history_alone() -> None:
    """What a quorum's logs must hold cannot be asked of ZooKeeper's nodes; that is no reason to know nothing."""
    result = simulate(scenario_of("zookeeper"), 1, SimOptions(observed=False, evidence=True))
    assert (result.verdict, result.problem) == ("valid", "")


class TestControlTraces:
    """What a node traces in a turn counts once the turn is over."""

    def world(self, traces: ControlTraces) -> SimWorld:
        return SimWorld(ClusterShape(), 1, topics={}, traced=traces.beside, on_iteration=traces.look)

    def test_every_process_begins_a_trace_and_its_leaders_are_in_it(self) -> None:
        traces = ControlTraces()
        world = self.world(traces)
        world.start()
        world.kernel.run_for(5_000_000)
        leader = next(
            place for place in world.places if (node := world.processes[place.name].node) and node.raft.is_leader
        )
        events = traces.of(leader.name, leader.node_id, 1)
        assert [one.event for one in events].count("node_started") == 1
        assert any(one.event == "state" and one.role == "leader" and one.incarnation == 1 for one in events)
        world.switch_off()

    def test_a_turn_in_which_the_process_dies_leaves_nothing(self) -> None:
        """On hosts lines are written after the turn: what a node never acted on accuses nobody."""
        traces = ControlTraces()
        world = self.world(traces)
        world.start()
        world.kernel.run_for(5_000_000)
        process = world.processes["c1"]
        before = len(traces.of("c1", 101, 1))
        tap = traces.beside("c1", NullTrace())
        tap.event("state", role="leader", epoch=99, node=101)
        process.crash()
        assert len(traces.of("c1", 101, 1)) == before
        tap.event("state", role="leader", epoch=99, node=101)
        process.start()
        world.kernel.run_for(1_000_000)
        assert any(one.epoch == 99 for one in traces.of("c1", 101, 2))
        world.switch_off()


def test_without_a_leader_of_the_quorum_the_reason_is_returned_and_no_table_is_written(tmp_path: Path) -> None:
    traces = ControlTraces()
    world = SimWorld(ClusterShape(), 1, topics={}, traced=traces.beside, on_iteration=traces.look)
    assert write_node_tables(world, scenario_of(SHORT), [], traces, tmp_path, "run") == NO_LEADER
    assert not list(tmp_path.iterdir())
    world.switch_off()

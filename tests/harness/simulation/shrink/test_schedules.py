"""Schedules: a run written down, saved, read and replayed; and simpler schedules that mean the same."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from squall.harness.errors import UsageError
from squall.harness.scenario.plan import refuse_without_schedule
from squall.harness.scenario.suite import Scenario, read_suite
from squall.harness.simulation.run.run import SimOptions, Simulation, simulate, what_broke
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.shrink import simplify
from squall.harness.simulation.shrink.schedule_file import reread, save, written
from squall.harness.simulation.shrink.schedule_recorder import (
    Recording,
    event_count,
    explicit_scenario,
    scheduled_faults,
    swarm_faults,
)
from squall.harness.simulation.shrink.shrink import NothingToShrink, record
from squall.harness.simulation.shrink.simplify import operations_of
from squall.harness.simulation.swarm.drawn.drawing import draw_swarm
from squall.harness.simulation.swarm.drawn.kinds import KINDS
from squall.harness.yaml_source import parse_yaml
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.workloads.log import LogWorkload
from tests.facts import naming

SUITES = Path(__file__).resolve().parents[4] / "suites"
MUTANT = SimOptions(mutants=("truncate-to-hw",))

SCHEDULE = """
scenario: some
cluster:
  topics: {events: {partitions: 3}, other: {partitions: 2}}
  config: {broker.session.timeout.ms: 3000}
workload:
  producers: 2
  consumers: 1
  in_flight: 2
  operations:
    - {at: 0.5, process: 3, send: events/1}
    - {at: 2.000001, process: 13, send: events/1}
    - {at: 2.25, process: 21, poll: events/1}
    - {at: 9.123456, process: 2, send: events/1}
nemesis:
  - {fault: kill, target: b2, at: 3.217s, for: 7.5s}
  - {fault: one-way, target: b1, to: c2, at: 9.5s, for: 120ms, direction: mute}
  - {fault: clock, target: c1, offset: -90s, at: 10s, for: 2s}
seeds: [7]
min_acknowledged: 1
time: {load: 30s}
expect: valid
"""


@pytest.fixture
def schedule() -> Scenario:
    return read_suite(parse_yaml(SCHEDULE, "some.yaml"), Path("some.yaml")).scenarios[0]


def all_simpler(scenario: Scenario) -> list[Scenario]:
    makers = (
        simplify.sooner, simplify.rounder, simplify.weaker, simplify.fewer_clients, simplify.fewer_topic_partitions,
        simplify.fewer_nodes, simplify.without_polls, simplify.around_faults,
    )  # fmt: skip
    return [simpler for maker in makers for simpler in maker(scenario)]


# --- files ---------------------------------------------------------------------------------------------------------


def test_a_schedule_comes_out_of_its_file_as_it_went_in(schedule: Scenario, tmp_path: Path) -> None:
    saved = save(schedule, tmp_path / "some.yaml", ("why it is kept",))
    assert saved == schedule
    text = (tmp_path / "some.yaml").read_text()
    assert text.startswith("# why it is kept\nformat: 1\n")
    assert "    - {at: 2.000001, process: 13, send: events/1}\n" in text
    assert "  - {fault: kill, target: b2, at: 3.217s, for: 7.5s}\n" in text


@pytest.mark.parametrize("change", [{"combined": True}, {"replication": "push"}])
def test_a_schedule_keeps_the_nodes_of_the_swarm_it_comes_from_and_no_hosts_run_it(
    schedule: Scenario, change: dict[str, object], tmp_path: Path
) -> None:
    """A drawn world may have combined nodes, or controllers that push."""
    found = schedule.model_copy(update={"cluster": schedule.cluster.model_copy(update=change)})
    saved = save(found, tmp_path / "some.yaml")
    assert saved == found
    with pytest.raises(UsageError, match=r"which only the simulation does; run: squall simulate .*some\.yaml"):
        refuse_without_schedule(tmp_path / "some.yaml", saved)


def test_a_file_of_another_format_is_refused(schedule: Scenario) -> None:
    text = written(schedule).replace("format: 1", "format: 2")
    with pytest.raises(Exception, match=r"some\.yaml:1: format: 2 is not one of 1"):
        read_suite(parse_yaml(text, "some.yaml"), Path("some.yaml"))


# --- simpler ones --------------------------------------------------------------------------------------------------


def test_every_simpler_schedule_can_be_saved_and_read(schedule: Scenario) -> None:
    simpler = all_simpler(schedule)
    assert len(simpler) > 20
    for one in simpler:
        read_suite(parse_yaml(written(one), "simpler.yaml"), Path("simpler.yaml"))
        assert reread(one) != schedule


def test_a_smaller_workload_sends_the_same_to_the_same_by_processes_that_it_has(schedule: Scenario) -> None:
    for smaller in simplify.fewer_clients(schedule):
        workload = LogWorkload(smaller.workload, smaller.topics)
        assert [one.topic_partition for one in operations_of(smaller)] == [("events", 1)] * 4
        assert all(workload.trouble_with(one) is None for one in operations_of(smaller))
        assert smaller.workload.in_flight * smaller.workload.producers < 4


def test_topic_partitions_that_nobody_uses_go_and_the_others_are_numbered_anew(schedule: Scenario) -> None:
    (smaller,) = simplify.fewer_topic_partitions(schedule)
    assert smaller.topics == {"events": 1}
    assert {one.topic_partition for one in operations_of(smaller)} == {("events", 0)}


def test_no_node_goes_that_a_fault_names(schedule: Scenario) -> None:
    assert not list(simplify.fewer_nodes(schedule))
    without_c2 = simplify.with_events(schedule, operations_of(schedule), (schedule.nemesis[0], schedule.nemesis[2]))
    assert [one.cluster.controllers for one in simplify.fewer_nodes(without_c2)] == [1]


def test_events_past_the_end_go_and_open_faults_end_with_the_load(schedule: Scenario) -> None:
    shorter = simplify.ending(schedule, 3.4)
    assert [one.at for one in operations_of(shorter)] == [0.5, 2.000001, 2.25]
    assert [fault.fault for fault in shorter.nemesis] == ["kill"]
    assert shorter.time.load == 5
    assert shorter.nemesis[0].length() == pytest.approx(5 - 3.217)


def test_quiet_times_are_cut_and_the_order_of_events_stays(schedule: Scenario) -> None:
    def order(scenario: Scenario) -> list[str]:
        events = [(one.at, f"{one.process}") for one in operations_of(scenario)]
        events += [(fault.at or 0.0, fault.fault) for fault in scenario.nemesis]
        return [name for _, name in sorted(events)]

    for sooner in simplify.sooner(schedule):
        assert order(sooner) == order(schedule)
        assert max(fault.at or 0.0 for fault in sooner.nemesis) < 10


# --- runs ----------------------------------------------------------------------------------------------------------


def test_a_run_written_down_ends_in_the_same_breach_at_the_same_time() -> None:
    """N06: operations at their microsecond, the fault on the host it hit, the mutant in the file."""
    scenario, _ = find_scenario("two-hop-failover", SUITES)
    listed, trial = record(scenario, 2, MUTANT)
    again = simulate(reread(listed), 2)
    assert again.broken == trial.broken
    assert again.ended_s == pytest.approx(trial.ended_s, abs=0.5)
    assert event_count(listed) > 500
    assert listed.cluster.mutants == ("truncate-to-hw",)
    assert listed.seeds == (2,)


def test_a_schedule_replays_bit_for_bit(schedule: Scenario) -> None:
    first, second = simulate(schedule, 7), simulate(schedule, 7)
    assert first.verdict == "valid", first.problem
    assert first.digest == second.digest


def test_a_seed_that_does_not_fail_leaves_nothing_to_shrink(schedule: Scenario) -> None:
    with pytest.raises(NothingToShrink, match=naming("seed 7", "valid")):
        record(schedule, 7, SimOptions())


def test_every_fault_of_a_swarm_has_its_words() -> None:
    faults = [fault for seed in range(60) for fault in draw_swarm(seed, ("b1", "b2", "b3"), ("c1", "c2", "c3"), 60)]
    assert {fault.kind for fault in faults} == set(KINDS)
    entries = list(swarm_faults(faults))
    assert len(entries) == len(faults)
    assert [entry.at for entry in entries] == sorted(entry.at or 0.0 for entry in entries)


def test_targets_are_named_as_they_were_hit() -> None:
    scenario, _ = find_scenario("two-hop-failover", SUITES)
    short = scenario.model_copy(
        update={"nemesis": scenario.nemesis[:1], "time": scenario.time.model_copy(update={"load": 14.0})}
    )
    recording = Recording()
    with TemporaryDirectory() as directory:
        simulation = Simulation(short, 3, SimOptions(), Path(directory), recording)
        assert what_broke(simulation) == ((), "")
    assert simulation.load_started is not None
    faults = scheduled_faults(simulation.schedule, recording, simulation.load_started)
    listed = explicit_scenario(short, 3, (), recording, faults, simulation.load_started)
    (hit,) = listed.nemesis
    assert hit.target in ("b1", "b2", "b3")
    assert (hit.at, hit.length()) == (5.0, 7.0)


def test_what_is_kept_of_a_run_that_broke_can_be_judged_again(tmp_path: Path) -> None:
    """The observer saw what no client did: the history alone allows no verdict, and the manifest says why."""
    scenario, _ = find_scenario(str(SUITES / "schedules" / "one-kill.yaml"), SUITES)
    broken = simulate(scenario, 1, SimOptions(keep=tmp_path))
    assert broken.verdict == "invalid"
    verdict = check_run(tmp_path / "seed-1", InProcess())
    assert verdict.verdict == "unknown"
    assert any("a breach that its observer saw" in reason for reason in verdict.reasons)
    assert (tmp_path / "seed-1" / "report.html").exists()


def test_a_kept_schedule_fails_with_its_mutant_and_is_valid_without() -> None:
    """N06 in two events (suites/schedules): the twin without the mutant survives it."""
    scenario, _ = find_scenario(str(SUITES / "schedules" / "one-kill.yaml"), SUITES)
    for seed in (1, 2, 3):
        assert simulate(scenario, seed).verdict == "invalid", f"seed {seed}"
    healthy = simulate(simplify.with_cluster(scenario, mutants=()), 1)
    assert healthy.verdict == "valid", healthy.problem

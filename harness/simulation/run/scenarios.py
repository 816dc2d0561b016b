"""Scenarios that can be simulated, by suite file or by name."""

from __future__ import annotations

from pathlib import Path

from squall.harness.scenario.plan import refuse_what_simulation_cannot, schedule_of
from squall.harness.scenario.suite import Scenario, load_suite
from squall.harness.scenario.suites import HERE, is_file_name, load_named, scenarios
from squall.harness.scenario.targets import Nodes, refuse_bad_targets


def find_scenario(
    name: str, suites: Path = HERE, *, swarm: bool = False, only: str | None = None
) -> tuple[Scenario, str]:
    """Find a scenario by suite file or by its name among the suites, and the words that name it in a command.

    Raises UsageError, also for a scenario whose faults only hosts can have, unless a `swarm` replaces them.
    """
    if only is not None:
        return _simulable(Path(name), load_named(name, suites).only(only).scenarios[0], swarm), f"{name} --only {only}"
    if is_file_name(name):
        return _simulable(Path(name), load_suite(name).scenarios[0], swarm), name
    for path, scenario in scenarios(suites):
        if scenario.scenario == name:
            return _simulable(path, scenario, swarm), name
    first = load_named(name, suites).scenarios[0]
    return _simulable(Path(name), first, swarm), name


def _simulable(path: Path, scenario: Scenario, swarm: bool) -> Scenario:
    if not swarm:
        refuse_what_simulation_cannot(path, scenario)
        schedule = schedule_of(path, scenario, (*scenario.seeds, 1)[0])
        if scenario.workload.operations is None:  # a schedule of what has happened may say whatever did happen
            refuse_bad_targets(path, scenario, schedule, Nodes.of_lab(scenario))
    return scenario

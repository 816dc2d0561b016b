"""Derive from a suite and a seed exactly what a run will do, before anything is started, also for `squall plan`.

The seed decides the schedule of faults to the millisecond, and which host a fault hits where there is a choice. It is
printed with every run and repeats it (HX-09).
"""

from __future__ import annotations

import random
import shlex
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.plugins.system_limits import CONTROLLERS
from squall.harness.scenario.inventory import Inventory
from squall.harness.scenario.suite import ClusterOptions, Scenario, Suite, faults_of
from squall.harness.scenario.system_refusals import refuse_what_system_lacks
from squall.harness.scenario.targets import (
    Anywhere,
    Nodes,
    Place,
    refuse_bad_targets,
    refuse_clashes,
    refuse_too_few_brokers,
    refuse_unfit_controllers,
    refuse_without_clients,
)
from squall.harness.yaml_source import dotted
from squall.nemesis.core.durations import write_seconds
from squall.nemesis.core.selector import is_of_ensemble
from squall.nemesis.entries import targets_of
from squall.nemesis.options import FaultOptions, PauseClients, RpcCut, RpcHold
from squall.nemesis.registry import kind_of, missing_verbs, why_not_simulated
from squall.nemesis.schedule import Schedule, build_schedule
from squall.workloads.workload import Workload, workload_of
from squall.workloads.workload import kind_of as workload_kind

LARGEST_CHOSEN_SEED = 9999
MOST_WORKERS = 2
ANYWHERE = Anywhere()


@dataclass(frozen=True)
class RunPlan:
    """One scenario with one seed."""

    suite: Path
    scenario: Scenario
    seed: int
    schedule: Schedule
    run_id: str
    directory: Path
    idle_nemesis: bool = False
    capture: bool = False
    """Whether packets are captured on the nodes' hosts."""
    system: str = ""
    """The system that the command names instead of the suite's."""
    properties: str = ""
    """The file of client properties that the command names."""
    one_of_several: bool = False
    """Whether its suite file also holds other scenarios, or asks for other seeds."""

    @property
    def name(self) -> str:
        """The name of its scenario."""
        return self.scenario.scenario

    @property
    def workload(self) -> Workload:
        return workload_of(self.scenario.workload, self.scenario.loaded_topics)

    @property
    def workers(self) -> int:
        """How many processes generate the load: no more than there are producers to distribute."""
        return min(MOST_WORKERS, self.scenario.workload.producers)

    def command(self) -> str:
        """Return the command that repeats exactly this run."""
        words = ["squall", "run", str(self.suite), "--seed", str(self.seed)]
        if self.one_of_several:
            words += ["--only", self.scenario.scenario]
        if self.system:
            words += ["--system", self.system]
        if self.properties:
            words += ["--client-properties", self.properties]
        if self.idle_nemesis and not self.scenario.idle_nemesis:
            words.append("--idle-nemesis")
        return shlex.join(words)


def choose_seed(given: int | None) -> int:
    """Return the given seed, or a new one, short enough to be typed again."""
    return given if given is not None else random.SystemRandom().randint(1, LARGEST_CHOSEN_SEED)


def schedule_of(suite: Path, scenario: Scenario, seed: int) -> Schedule:
    """Return the faults of a scenario, to the millisecond. Raises UsageError for a fault that does not fit the load."""
    try:
        return build_schedule(scenario.nemesis, scenario.time.load, seed, quiet_s=scenario.time.quiet)
    except ValueError as wrong:
        raise UsageError(f"{suite}: scenario {scenario.scenario}: {wrong}") from None


@dataclass(frozen=True)
class Refused:
    """A scenario that cannot be run with some seed, and the whole message why not."""

    scenario: str
    seed: int
    problem: str


def plan_suite(
    suite: Suite,
    seed: int,
    runs_directory: Path,
    *,
    idle_nemesis: bool = False,
    capture: bool = False,
    now: datetime | None = None,
) -> Iterator[RunPlan]:
    """Yield every run of a suite, in order. Raises UsageError at the first scenario that is refused."""
    for one in planned(suite, seed, runs_directory, idle_nemesis=idle_nemesis, capture=capture, now=now):
        if isinstance(one, Refused):
            raise UsageError(one.problem)
        yield one


def planned(
    suite: Suite,
    seed: int,
    runs_directory: Path,
    *,
    idle_nemesis: bool = False,
    capture: bool = False,
    now: datetime | None = None,
    place: Place = ANYWHERE,
) -> Iterator[RunPlan | Refused]:
    """Yield every run of a suite, in order, or its refusal; `squall plan` and `squall run` refuse the same runs."""
    named = Path(suite.said or suite.path)
    started = (now or datetime.now()).strftime("%Y-%m-%dT%H-%M-%S")
    for scenario in suite.scenarios:
        seeds = scenario.seeds_from(seed)
        for one in seeds:
            try:
                refuse_without_schedule(named, scenario)
                schedule = schedule_of(named, scenario, one)
                refuse_on(place, named, scenario, schedule)
            except UsageError as refusal:
                yield Refused(scenario.scenario, one, str(refusal))
                continue
            name = started if len(seeds) == 1 else f"{started}-seed-{one}"
            yield RunPlan(
                suite=named,
                scenario=scenario,
                seed=one,
                schedule=schedule,
                run_id=str(uuid.uuid4()),
                directory=runs_directory / scenario.scenario / name,
                idle_nemesis=idle_nemesis or scenario.idle_nemesis,
                capture=capture,
                system=suite.system,
                properties=suite.properties,
                one_of_several=suite.reduced or not suite.single,
            )


def simulate_command(suite: Path, scenario: Scenario) -> str:
    """Return the command that simulates a scenario, wherever its suite lies."""
    return shlex.join(["squall", "simulate", str(suite), "--only", scenario.scenario])


def refuse_without_schedule(suite: Path, scenario: Scenario) -> None:
    """Raise UsageError for a scenario that no hosts can run, with any seed."""
    if scenario.swarm:
        raise UsageError(
            f"{suite}: scenario {scenario.scenario} draws its faults by seed, which only the simulation does;"
            f" run: {simulate_command(suite, scenario)}"
        )
    cluster, usual = scenario.cluster, ClusterOptions()
    for name in ("combined", "node_ids", "replication"):
        if (value := getattr(cluster, name)) == getattr(usual, name):
            continue
        what = f"{name}: {str(value).lower()}"
        raise UsageError(
            f"{suite}: scenario {scenario.scenario} has cluster.{what}, which only the simulation does;"
            f" run: {simulate_command(suite, scenario)}"
        )
    refuse_what_system_lacks(suite, scenario)
    _refuse_what_hosts_cannot(suite, scenario)


def refuse_on(place: Place, suite: Path, scenario: Scenario, schedule: Schedule) -> None:
    """Raise UsageError for faults that exclude each other, and for faults that the hosts of `place` do not support."""
    if isinstance(place, Anywhere) or scenario.cluster.system.limits.reached:
        refuse_clashes(suite, scenario, schedule)
        return
    if isinstance(place, Inventory):
        refuse_unfit_controllers(suite, scenario, place)
    nodes = Nodes.at(place, scenario)
    refuse_too_few_brokers(suite, scenario, nodes)
    refuse_bad_targets(suite, scenario, schedule, nodes)
    if any(isinstance(fault.options, PauseClients) for fault in schedule.faults):
        refuse_without_clients(suite, nodes.source, nodes.clients)


def _messages(options: FaultOptions) -> str:
    """Describe the messages that a fault selects: `AlterPartition requests, leader of events/0 to all nodes`."""
    if not isinstance(options, RpcHold | RpcCut):
        return ""
    return f"{options.api} {options.direction}s, {options.senders or 'all hosts'} to {options.receivers}"


def _why_not_simulated(entry: FaultOptions) -> str | None:
    """Why the simulation cannot carry out this fault, worded to follow its name; None if it can."""
    if isinstance(entry, RpcHold) and entry.picks_single:
        return "with `count`, `pass_others` or `until` takes single messages out, which the simulated network does not"
    return why_not_simulated(kind_of(entry))


def refuse_what_simulation_cannot(suite: Path | str, scenario: Scenario) -> None:
    """Raise UsageError for a fault of what the simulation does not have, and for plugins that do not support it."""
    system = scenario.cluster.system
    if not system.ours:
        raise UsageError(
            f"{suite}: scenario {scenario.scenario}: cluster.system: {system.name} cannot be simulated;"
            " the simulation has only our own nodes",
            remedy=f"squall run {suite} --only {scenario.scenario}",
        )
    if not workload_kind(scenario.workload).simulation:
        raise UsageError(
            f"{suite}: scenario {scenario.scenario}: workload {scenario.workload.name} does not support the simulation",
            remedy=f"squall run {suite} --only {scenario.scenario}",
        )
    for path, entry in faults_of(scenario):
        if any(is_of_ensemble(target) for target in targets_of(entry).values()):
            raise UsageError(
                f"{suite}: scenario {scenario.scenario}: {dotted(path)}: {entry.fault} is aimed at a ZooKeeper server;"
                " the simulated ensemble has no hosts",
                remedy=f"squall run {suite} --only {scenario.scenario}, or leave that fault out",
            )
        if reason := _why_not_simulated(entry):
            raise UsageError(
                f"{suite}: scenario {scenario.scenario}: {dotted(path)}: {entry.fault} {reason};"
                " only hosts of a lab or an inventory do",
                remedy=f"squall run {suite} --only {scenario.scenario}, or leave that fault out",
            )


def _refuse_what_hosts_cannot(suite: Path, scenario: Scenario) -> None:
    """Raise UsageError for a fault that needs a verb that no agent offers yet."""
    for path, entry in faults_of(scenario):
        if missing := missing_verbs(entry):
            raise UsageError(
                f"{suite}: scenario {scenario.scenario}: {dotted(path)}: {entry.fault} needs"
                f" {missing[0]}, which hosts of a lab or an inventory do not offer yet; only the simulation does",
                remedy=f"{simulate_command(suite, scenario)}, or leave that fault out",
            )


def described(scenario: Scenario, schedule: Schedule) -> Iterator[tuple[str, str]]:
    """Yield what would be done, as (label, text) lines."""
    cluster, load = scenario.cluster, scenario.load
    yield "scenario", scenario.scenario
    if scenario.description:
        yield "", scenario.description
    metadata = "ZooKeeper" if cluster.metadata == "zookeeper" else f"{cluster.controllers} controllers"
    alike = CONTROLLERS in cluster.system.limits.lacks
    yield "cluster", f"{cluster.brokers} servers" if alike else f"{metadata} · {cluster.brokers} brokers"
    if not cluster.system.ours:
        yield "system", str(cluster.system)
    for name, topic in cluster.topics.items():
        yield (
            "topic",
            f"{name}: {topic.partitions} topic-partitions, RF {topic.replication_factor},"
            f" min ISR {topic.min_insync_replicas}",
        )
    for key, value in cluster.config.items():
        yield "config", f"{key}={value}"
    for mutant in cluster.mutants:
        yield "mutant", mutant
    yield "load", f"{write_seconds(scenario.time.load)}: {load.in_words}"
    if scenario.time.quiet:
        yield "quiet", f"the last {write_seconds(scenario.time.quiet)} of it, in which no fault is open"
    for fault in schedule.faults:
        after = f" (once {fault.follows} has healed)" if fault.follows else ""
        target = (
            getattr(fault.options, "target", None) or getattr(fault.options, "among", "") or _messages(fault.options)
        )
        yield (
            "fault",
            f"{fault.at_s:6.1f} s  {fault.options.fault:<12} {target}  for {write_seconds(fault.for_s)}{after}",
        )
    if schedule.faults:
        yield "schedule", f"{schedule.content_hash()}, on hosts as in simulation"
    for name, options in {fault.options.fault: fault.options for fault in schedule.faults}.items():
        if reason := why_not_simulated(kind_of(options)):
            yield "hosts only", f"{name} {reason}"
    yield "checks", ", ".join(scenario.checks)
    yield "expect", str(scenario.expect)

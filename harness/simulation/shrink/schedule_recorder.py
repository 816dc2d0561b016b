"""Write down as a schedule everything that a seed drew in a run (docs/simulation.md, "Schedules").

A `Witness` receives every operation and every fault of a run. `schedule_recorder` then returns the run as a scenario:
`workload.operations` lists what was invoked and when, `nemesis` the faults with the hosts that they hit,
`cluster.mutants` and `seeds` what the command line gave. It is an ordinary suite, for both worlds.

Two choices stay with the seed, because no host obeys them: how long messages take, and how node processes time their
elections. So an explicit scenario without its seed is a different run, and so is a changed one.

A swarm's faults are translated into the nemesis's vocabulary. They keep their times to the millisecond. They are
carried out with evidence like all others, which takes some virtual milliseconds. A crash in the middle of a turn, for
which hosts have no word, becomes a kill. So the translation of a failing seed may pass: `shrink.py` tries it with a few
seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.witness import Witness
from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.runner import NemesisEvent
from squall.nemesis.schedule import Schedule, ScheduledFault
from squall.workloads.core.operation import Event
from squall.workloads.core.scripted import SCRIPTED, operation_at

BETWEEN_LOOKS_S = 0.1
SHORTEST_FAULT_S = 0.001
DRAWS_BY_ITSELF = ("halves", "thirds", "bridge", "majorities-ring", "admin-mix")
"""Faults with a random choice that no target names; the recorded fault includes the lot that they drew."""

_ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


@dataclass
class Recording(Witness):
    """A witness that records what a schedule lists. Times are nanoseconds of the history's clock."""

    operations: list[Event] = field(default_factory=list)
    faults: dict[str, NemesisEvent] = field(default_factory=dict)
    """The `started` event of each fault that took place, by the fault's id."""

    def operation(self, event: Event) -> None:
        if event.completion is None and event.operation.f in SCRIPTED:
            self.operations.append(event)

    def fault(self, event: NemesisEvent) -> None:
        if event.phase == "started":
            self.faults[event.id] = event


def explicit_scenario(
    scenario: Scenario,
    seed: int,
    mutants: tuple[str, ...],
    recording: Recording,
    nemesis: Iterator[NemesisEntry],
    load_started: int,
) -> Scenario:
    """Return the scenario with every random choice written out.

    `nemesis` comes from `scheduled_faults` or `swarm_faults`.
    """
    faults = tuple(nemesis)
    operations = tuple(operation_at(event.invoked - load_started, event.operation) for event in recording.operations)
    cluster = scenario.cluster.model_copy(
        update={"mutants": tuple(dict.fromkeys((*scenario.cluster.mutants, *mutants)))}
    )
    workload = scenario.workload.model_copy(update={"operations": operations, "rate": 1000.0})
    return scenario.model_copy(
        update={
            "scenario": f"{scenario.scenario}-seed-{seed}",
            "cluster": cluster,
            "workload": workload,
            "nemesis": faults,
            "fault_free": not faults,
            "swarm": False,
            "seeds": (seed,),
            "repeat": 1,
            "min_acknowledged": 1,
            "expect": type(scenario.expect)(verdict="invalid" if cluster.mutants else "valid"),
        }
    )


def scheduled_faults(schedule: Schedule, recording: Recording, load_started: int) -> Iterator[NemesisEntry]:
    """Yield the faults of a suite that took place, in order of time, each with the hosts that it hit."""
    for fault in schedule.faults:
        started = recording.faults.get(fault.id)
        if started is not None:
            yield _resolved(fault, started, (started.at_ns - load_started) / 1e9)


def _resolved(fault: ScheduledFault, started: NemesisEvent, started_s: float) -> NemesisEntry:
    """Name the hosts of one occurrence. A fault that waited for a target is due when it found one."""
    at = fault.at_s
    if fault.follows is not None:
        at = started_s
    elif started_s > at:
        at += int((started_s - at) / BETWEEN_LOOKS_S) * BETWEEN_LOOKS_S
    data = fault.options.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    data |= {"fault": fault.options.fault, "at": round(at, 3), "for": fault.for_s}
    if fault.options.fault == "leader-kill-lagging":
        data["target"] = started.role.removeprefix("leader of ").partition(",")[0]
    elif "target" in data:
        data["target"] = ", ".join(started.targets)
    elif fault.options.fault in DRAWS_BY_ITSELF:
        data["lot"] = fault.seed
    return _ENTRY.validate_python(data)


def swarm_faults(begun: list[SwarmFault]) -> Iterator[NemesisEntry]:
    """Yield what a swarm carried out, in the nemesis's vocabulary and in order of time."""
    for fault in sorted(begun, key=lambda one: one.at):
        timing = {"at": round(fault.at, 3), "for": max(SHORTEST_FAULT_S, round(fault.duration, 3))}
        yield _ENTRY.validate_python(fault.written() | timing)


def event_count(scenario: Scenario) -> int:
    """Return how many events a schedule lists: client operations and faults."""
    return len(scenario.workload.operations or ()) + len(scenario.nemesis)

"""From a run to a schedule: everything that a seed drew, written down as data (docs/simulation.md, "Schedules").

A `Witness` is told of every operation and every fault of a run. `Recording.scenario()` is then the run as a scenario
of its own: `workload.operations` lists what was invoked and when, `nemesis` the faults with the hosts that they hit,
`cluster.mutants` and `seeds` what was given on the command line. It is an ordinary suite, for both worlds.

Two things stay with the seed, because no host obeys them: how long messages take, and how node processes time their
elections. So an explicit scenario without its seed is another run, and one that is changed is another run too.

A swarm's faults are translated into the nemesis's vocabulary. They keep their times to the millisecond, but are
carried out with evidence like all others, which takes some virtual milliseconds; and what hosts have no word for, a
crash in the middle of a turn, becomes its nearest relative, a kill. So the translation of a failing seed may not fail:
`shrink.py` tries it with a few seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from squall.harness.simulation.swarm import SwarmFault
from squall.harness.simulation.witness import Witness
from squall.harness.suite import Scenario
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.runner import NemesisEvent
from squall.nemesis.schedule import Schedule, ScheduledFault
from squall.workloads.operation import Event
from squall.workloads.scripted import SCRIPTED, operation_at

BETWEEN_LOOKS_S = 0.1
SHORTEST_FAULT_S = 0.001
DRAWS_BY_ITSELF = ("halves", "thirds", "bridge", "majorities-ring", "admin-mix")
"""Faults that draw what no target names; their lot is written down with them."""

_ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


@dataclass
class Recording(Witness):
    """A witness that remembers what a schedule lists. Times are the history's clock, in nanoseconds."""

    operations: list[Event] = field(default_factory=list)
    faults: dict[str, NemesisEvent] = field(default_factory=dict)
    """The `started` event of each fault that took place, by the fault's id."""

    def operation(self, event: Event) -> None:
        if event.completion is None and event.operation.f in SCRIPTED:
            self.operations.append(event)

    def fault(self, event: NemesisEvent) -> None:
        if event.phase == "started":
            self.faults[event.id] = event


def explicit(
    scenario: Scenario,
    seed: int,
    mutants: tuple[str, ...],
    recording: Recording,
    nemesis: Iterator[NemesisEntry],
    load_started: int,
) -> Scenario:
    """The scenario with all that was drawn in it. `nemesis` comes of `scheduled_faults` or `swarm_faults`."""
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
    """The faults of a suite that took place, each on the hosts that it hit, in order of time."""
    for fault in schedule.faults:
        started = recording.faults.get(fault.id)
        if started is not None:
            yield _resolved(fault, started, (started.at_ns - load_started) / 1e9)


def _resolved(fault: ScheduledFault, started: NemesisEvent, started_s: float) -> NemesisEntry:
    """One occurrence with its hosts by name. A fault that had to wait for somebody to hit is due when it found him."""
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
    """What a swarm carried out, in the nemesis's words and in order of time."""
    for fault in sorted(begun, key=lambda one: one.at):
        timing = {"at": round(fault.at, 3), "for": max(SHORTEST_FAULT_S, round(fault.duration, 3))}
        yield _ENTRY.validate_python(fault.written() | timing)


def event_count(scenario: Scenario) -> int:
    """How many events a schedule lists: client operations and faults."""
    return len(scenario.workload.operations or ()) + len(scenario.nemesis)

"""Name what happened in a run between two instants: faults, nodes, messages, from the run's trace.

The trace concerns the log that broke. If nothing happened there in this time, the last turns of all nodes stand in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from squall.harness.simulation.explain.account import is_lost
from squall.harness.simulation.explain.traced import RunTrace, trace_of
from squall.harness.simulation.observer.event_context import Moment
from squall.harness.simulation.run.collector import without_collector
from squall.harness.simulation.run.run import Simulation, what_broke
from squall.harness.simulation.why.continuations import Parent
from squall.harness.simulation.why.search import Change

WEIGHTS = {
    "death": 1, "start": 1,
    "controller": 2, "leader": 2, "truncate": 2, "recovery_cut": 2,
    "isr": 3, "isr_proposed": 4, "completed": 4, "high_watermark": 5, "follower": 5, "append": 5, "invoked": 6,
}  # fmt: skip
"""How telling an event is; the smaller, the more. Faults have 0, messages 7 or 8."""
NAMED = 2
SHOWN = 8
WORDS = 160


@dataclass(frozen=True)
class NamedEvent:
    """One event in words. `at` is in microseconds since the load began; the smaller `weight`, the more telling."""

    at: int
    weight: int
    text: str


def trace_parent(parent: Parent) -> RunTrace:
    """Run the parent again, and trace the log that broke."""
    return trace_of(parent.scenario, parent.recipe.seed, parent.options)


def events_during(change: Change, parent: Parent, trace: RunTrace) -> list[NamedEvent]:
    """Return the most telling events after the first instant, up to the second, in order of time."""
    since, until = (one.at - parent.load_started for one in (change.before, change.after))
    found = [event for event in _traced(trace) if since < event.at <= until]
    found = found or [_of_turn(moment, parent) for moment in _turns(parent, change.after.at, change.before.at)]
    telling = sorted(range(len(found)), key=lambda place: (found[place].weight, -found[place].at))[:SHOWN]
    return sorted((found[place] for place in telling), key=lambda event: event.at)


def most_telling(events: list[NamedEvent]) -> list[NamedEvent]:
    """Return the events to name in a sentence, in order of time."""
    chosen = sorted(events, key=lambda event: (event.weight, -event.at))[:NAMED]
    return sorted(chosen, key=lambda event: event.at)


def _traced(trace: RunTrace) -> Iterator[NamedEvent]:
    for window in trace.faults:
        hosts = ", ".join(window.hosts)
        yield NamedEvent(window.begin, 0, f"{window.kind} {hosts} begins")
        if window.end is not None:
            yield NamedEvent(window.end, 0, f"{window.kind} {hosts} ends")
    for one in trace.happenings:
        yield NamedEvent(one.at, WEIGHTS.get(one.kind, 6), f"{one.lane} {one.text}")
    for message in trace.messages:
        lost = " is lost" if is_lost(message, trace.ended) else ""
        answer = " answer" if message.said.is_answer else ""
        words = f"{message.source} → {message.target}: {message.said.api}{answer} {message.said.text}{lost}"
        yield NamedEvent(message.at, 9 - message.said.weight, words)


def _of_turn(moment: Moment, parent: Parent) -> NamedEvent:
    words = moment.what if len(moment.what) <= WORDS else f"{moment.what[:WORDS]}…"
    return NamedEvent(moment.at - parent.load_started, 6, f"{moment.node} has a turn: {words}")


def _turns(parent: Parent, until: int, since: int) -> list[Moment]:
    """Return the turns after `since` up to `until`, as far as the observer remembers them."""
    moments: list[Moment] = []
    with without_collector(), TemporaryDirectory(prefix="squall-why-") as directory:
        simulation = Simulation(parent.scenario, parent.recipe.seed, parent.options, Path(directory))

        def remember() -> None:
            recent = [turn for turn in simulation.observer.recent if since < turn.at <= until]
            moments.extend(turn.moment(simulation.world.processes[turn.name].node) for turn in recent)

        simulation.world.kernel.at(until + 1, remember)
        what_broke(simulation)
    return moments

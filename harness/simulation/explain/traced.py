"""Trace a run in detail: messages, events and faults of one log, for a text or a picture.

`trace_of(scenario, seed)` runs a schedule again and keeps the data about the log that broke: a topic-partition, or the
metadata log if the problem names none. The nodes' own trace gives what they did to it (appends, truncations, high
watermarks, leadership). The network gives the frames about it, with when they were sent and whether they arrived. The
clients give their operations, the nemesis its faults.

Repetition without news is left out (`frames.py`): a follower that fetches the same offset again, an empty response
equal to the last one.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.explain.frames import METADATA, FrameReader, Said
from squall.harness.simulation.run.run import SimOptions, Simulation, judged, what_broke
from squall.harness.simulation.run.witness import Witness
from squall.harness.simulation.world.kernel import Kernel
from squall.harness.simulation.world.network import ConnectionEnd, SimNetwork
from squall.harness.simulation.world.world import CLIENT_ADDRESS, SimWorld
from squall.nemesis.runner import NemesisEvent
from squall.nodes.ports import Trace
from squall.workloads.core.operation import SEND, Event, value_name

CLIENTS = "clients"
DEFAULT_OPTIONS = SimOptions()
METADATA_LOG = ("__cluster_metadata", 0)
_LOG_IN_PROBLEM = re.compile(r"([A-Za-z0-9._-]+)-(\d+):")
_HISTORY = ("append", "truncate", "high_watermark", "leader", "follower", "isr", "isr_proposed", "recovery_cut")


@dataclass(slots=True)
class Sent:
    """A frame under way: source, target, time, content. `arrived` stays None if it was lost."""

    source: str
    target: str
    at: int
    said: Said
    arrived: int | None = None


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that one node or client did, at a time; `kind` is the trace's name for it."""

    at: int
    lane: str
    kind: str
    text: str


@dataclass(slots=True)
class FaultWindow:
    """A fault from its injection to its end, or to the end of the run."""

    kind: str
    hosts: tuple[str, ...]
    begin: int
    end: int | None = None


@dataclass
class RunTrace:
    """The content of a trace. Times are microseconds since the load began."""

    scenario: Scenario
    seed: int
    log: tuple[str, int]
    lanes: tuple[str, ...]
    messages: list[Sent] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    faults: list[FaultWindow] = field(default_factory=list)
    broken: tuple[str, ...] = ()
    problem: str = ""
    breach_lane: str = ""
    ended: int = 0

    @property
    def log_name(self) -> str:
        return f"{self.log[0]}-{self.log[1]}"


class WatchedNetwork(SimNetwork):
    """The simulated network, reporting every frame to a tracer. It draws nothing and changes nothing."""

    def __init__(self, kernel: Kernel, rng: Random) -> None:
        super().__init__(kernel, rng)
        self.tracer: Tracer | None = None
        self._sent: dict[int, deque[Sent | None]] = {}

    def send(self, end: ConnectionEnd, frame: bytes) -> None:
        far = end.peer
        accepted = end.open and far is not None and far.open and not far.doomed
        super().send(end, frame)
        if accepted and self.tracer is not None and far is not None:
            self._sent.setdefault(far.identity, deque()).append(self.tracer.sent(end, frame))

    def _deliver(self, end: ConnectionEnd, frame: bytes | None) -> None:
        waiting = self._sent.get(end.identity)
        if frame is not None and waiting:
            sent = waiting.popleft()
            if sent is not None:
                sent.arrived = self._kernel.now
        super()._deliver(end, frame)

    def note(self, text: str) -> None:
        super().note(text)
        if self.tracer is not None:
            self.tracer.noted(text)


class _Beside:
    """A trace that reports every event to the tracer, then passes it to another trace."""

    def __init__(self, tracer: Tracer, trace: Trace) -> None:
        self._tracer = tracer
        self._trace = trace

    def event(self, name: str, **fields: object) -> None:
        self._tracer.traced(name, fields)
        self._trace.event(name, **fields)


class Tracer(Witness):
    """Keeps everything about one log."""

    network = WatchedNetwork

    def __init__(self, log: tuple[str, int]) -> None:
        self.log = log
        self.messages: list[Sent] = []
        self.happenings: list[Happening] = []
        self.faults: dict[str, FaultWindow] = {}
        self._reader = FrameReader(log)
        self._kernel: Kernel
        self._names: dict[str, str] = {}
        self._ids: dict[int, str] = {}

    # -- inputs -----------------------------------------------------------------------------------------------

    def beside(self, trace: Trace) -> Trace:
        return _Beside(self, trace)

    def watch(self, world: SimWorld) -> None:
        assert isinstance(world.network, WatchedNetwork)
        self._kernel = world.kernel
        self._names = {place.address: place.name for place in world.places} | {CLIENT_ADDRESS: CLIENTS}
        self._ids = {place.node_id: place.name for place in world.places}
        self._reader.names = self._ids
        world.network.tracer = self

    def sent(self, end: ConnectionEnd, frame: bytes) -> Sent | None:
        said = self._reader.read(end, frame)
        if said is None:
            return None
        source, target = self._names[end.address], self._names[end.peer_address]
        if said.api == METADATA and target.startswith("c"):
            return None  # from controller to controller: only what reaches brokers matters
        sent = Sent(source, target, self._kernel.now, said)
        self.messages.append(sent)
        return sent

    def noted(self, text: str) -> None:
        what, name, *rest = text.split()
        if what in ("start", "death"):
            words = f"starts, incarnation {rest[0]}" if what == "start" else "dies"
            self.happenings.append(Happening(self._kernel.now, name, what, words))

    def traced(self, name: str, fields: dict[str, object]) -> None:
        if name == "controller" and fields["active"]:
            self._happened(
                str(self._ids[int(str(fields["node"]))]), name, f"active controller, epoch {fields['epoch']}"
            )
        topic, partition = fields.get("topic"), fields.get("partition")
        if topic is not None and (topic, partition) == self.log and name in _HISTORY:
            self._happened(self._ids[int(str(fields["broker"]))], name, self._words(name, fields))
        elif self.log == METADATA_LOG and name in (*_HISTORY, "vote", "state") and "node" in fields and topic is None:
            rest = ", ".join(f"{key} {value}" for key, value in fields.items() if key != "node")
            self._happened(self._ids[int(str(fields["node"]))], name, f"{name.replace('_', ' ')}: {rest}")

    def operation(self, event: Event) -> None:
        operation, completion = event.operation, event.completion
        if (operation.topic, operation.partition) != self.log:
            return
        value = f" {value_name(operation.value)}" if operation.value is not None else ""
        asked = f"{operation.f}{value}, process {operation.process}"
        if completion is None:
            self._happened(CLIENTS, "invoked", asked)
        elif operation.f == SEND or completion.values:
            where = f" at offset {completion.offset}" if completion.offset is not None else ""
            why = f" ({completion.error})" if completion.error else ""
            self._happened(CLIENTS, "completed", f"{asked}: {completion.type}{where}{why}")

    def fault(self, event: NemesisEvent) -> None:
        if event.phase == "started":
            self.faults[event.id] = FaultWindow(event.kind, event.targets, self._kernel.now)
        elif event.phase in ("healed", "unhealed") and event.id in self.faults:
            self.faults[event.id].end = self._kernel.now

    # -- in words -----------------------------------------------------------------------------------------------

    def _happened(self, lane: str, kind: str, text: str) -> None:
        self.happenings.append(Happening(self._kernel.now, lane, kind, text))

    def _words(self, name: str, fields: dict[str, object]) -> str:
        match name:
            case "append":
                return f"appends {_span(fields['first'], fields['last'])}, epoch {fields['epoch']}"
            case "truncate":
                return f"truncates from {fields['end']} to {fields['to']}, high watermark {fields['high_watermark']}"
            case "high_watermark":
                return f"high watermark {fields['offset']} of {fields['end']}"
            case "leader":
                end, committed = fields["end"], fields["high_watermark"]
                return f"leads epoch {fields['epoch']}, log end {end}, high watermark {committed}"
            case "follower":
                leader = self._ids.get(int(str(fields["leader"])), "nobody")
                return f"follows {leader} in epoch {fields['epoch']}, log end {fields['end']}"
            case "isr" | "isr_proposed":
                members = fields["isr"]
                assert isinstance(members, tuple | list)
                named = " ".join(self._ids[int(member)] for member in members)
                proposes = "proposes ISR" if name == "isr_proposed" else "ISR"
                return f"{proposes} {named}, leader epoch {fields['leader_epoch']}"
            case _:
                return f"recovers its log, end {fields.get('end')}"


def _span(first: object, last: object) -> str:
    return f"offset {first}" if first == last else f"offsets {first}–{last}"


def log_of(scenario: Scenario, problem: str) -> tuple[str, int]:
    """Return the log of a problem: the topic-partition that it names first, else the metadata log."""
    for match in _LOG_IN_PROBLEM.finditer(problem):
        if match[1] in scenario.topics and int(match[2]) < scenario.topics[match[1]]:
            return match[1], int(match[2])
    return METADATA_LOG


def trace_of(scenario: Scenario, seed: int, options: SimOptions = DEFAULT_OPTIONS) -> RunTrace:
    """Run the seed to find out which log is concerned, then again to trace that log."""
    _, _, problem, _ = run_traced(scenario, seed, options, Witness())
    trace, _ = trace_with(scenario, seed, options, Tracer(log_of(scenario, problem)))
    return trace


def trace_with(scenario: Scenario, seed: int, options: SimOptions, tracer: Tracer) -> tuple[RunTrace, int]:
    """Run the seed with this tracer. Return the trace of its log, and when the load began (virtual microseconds)."""
    log = tracer.log
    simulation, broken, problem, ended = run_traced(scenario, seed, options, tracer)
    started = (simulation.load_started or 0) // 1000
    names = [place.name for place in simulation.world.places]
    trace = RunTrace(
        scenario, seed, log, (CLIENTS, *sorted(names)), broken=broken, problem=problem, ended=ended - started
    )
    trace.breach_lane = next((name for name in names if re.search(rf"\b{name}\b", problem)), "")
    since = _before_the_first_event(tracer, started)
    for message in tracer.messages:
        if since <= message.at <= ended:
            message.at -= started
            in_time = message.arrived is not None and message.arrived <= ended
            message.arrived = message.arrived - started if in_time and message.arrived is not None else None
            trace.messages.append(message)
    trace.happenings = [
        Happening(one.at - started, one.lane, one.kind, one.text)
        for one in tracer.happenings
        if since <= one.at <= ended and (one.kind != "death" or one.at < ended)  # at the end all nodes are switched off
    ]
    trace.faults = [
        FaultWindow(one.kind, one.hosts, round(one.at * 1e6), round((one.at + one.duration) * 1e6))
        for one in simulation.begun
    ]
    for window in tracer.faults.values():
        window.begin -= started
        window.end = None if window.end is None else window.end - started
        trace.faults.append(window)
    return trace, started


def _before_the_first_event(tracer: Tracer, started: int) -> int:
    """Return where the trace begins: with the load, or with the log's first events if it broke before the load."""
    return started if any(one.at >= started for one in tracer.happenings) else 0


def run_traced(
    scenario: Scenario, seed: int, options: SimOptions, witness: Witness
) -> tuple[Simulation, tuple[str, ...], str, int]:
    """Run the seed. Return the simulation, what broke, the problem in words, and when it ended (microseconds)."""
    with TemporaryDirectory(prefix="squall-trace-") as directory:
        simulation = Simulation(scenario, seed, options, Path(directory), witness)
        broken, problem = what_broke(simulation)
        ended = simulation.ended_at // 1000
        if not broken:
            _, broken, problem = judged(simulation)
        return simulation, broken, problem, ended

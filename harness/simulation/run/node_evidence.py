"""Collect from simulated nodes what a run on hosts collects from real ones (HX-05, HX-06): logs and control traces.

The same programs do the work: `nodes/server/digest.py` describes every log batch by batch, `node_tables.py` makes two
tables of that, and `results/checkers/replicas` judges them. Only the way to the evidence differs:

* A disk's files are copied to a directory, as they are in the page cache. On hosts the digest reads them in place.
* Events come from the nodes' trace without a file. A turn in which the process dies leaves none, as on hosts, where
  lines are written after the turn.
* Quorum and high watermarks are read from the nodes and disks at one instant, without a request, so that the trace hash
  of the run is that of a run without evidence.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from squall.harness.scenario.node_tables import (
    TRACED,
    Asked,
    Described,
    TornDigest,
    committed_ends,
    parse_watermarks,
    read_digest,
    tables_of,
    traced,
)
from squall.harness.scenario.removal import damages_files, removal_allowed
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.world.process import SimProcess
from squall.harness.simulation.world.world import SimPlace, SimWorld
from squall.nodes.node.node import Node
from squall.nodes.ports import Trace
from squall.nodes.server.digest import HIGH_WATERMARKS, describe
from squall.results.checkers.replicas.control import NODE_STARTED, QuorumFacts, TraceEvent
from squall.results.history.operation_tables import CONTROL_PLANE, REPLICAS, write_kind
from squall.workloads.log import FinalState

NO_LEADER: Final = "no controller leads the quorum"


class ControlTraces:
    """The control events of all nodes, by host, with the incarnation that traced each."""

    def __init__(self) -> None:
        self._kept: dict[str, list[TraceEvent]] = {}
        self._of_this_turn: dict[str, list[tuple[str, dict[str, object]]]] = {}

    def beside(self, name: str, trace: Trace) -> Trace:
        """Return the trace of one host: it keeps control events here and passes everything on."""
        return _Tap(self._of_this_turn.setdefault(name, []), trace)

    def look(self, process: SimProcess) -> None:
        """Take over what the process's last turn has traced, unless it died in that turn."""
        events = self._of_this_turn[process.name]
        if not events:
            return
        if process.node is not None:
            kept = self._kept.setdefault(process.name, [])
            node_id = process.node.config.node_id
            for name, fields in events:
                said = {key: value.hex() if isinstance(value, bytes) else value for key, value in fields.items()}
                kept.append(traced(said | {"event": name}, process.name, node_id, process.incarnation))
        events.clear()

    def of(self, name: str, node_id: int, incarnations: int) -> list[TraceEvent]:
        """Return the events of a host; each of its processes began a trace."""
        begun = [
            TraceEvent(host=name, node=node_id, incarnation=number, event=NODE_STARTED)
            for number in range(1, incarnations + 1)
        ]
        return [*begun, *self._kept.get(name, ())]


class _Tap:
    def __init__(self, events: list[tuple[str, dict[str, object]]], trace: Trace) -> None:
        self._events = events
        self._trace = trace

    def event(self, name: str, **fields: object) -> None:
        if name in TRACED and (name != "high_watermark" or "topic" not in fields):
            self._events.append((name, fields))
        self._trace.event(name, **fields)


def write_node_tables(
    world: SimWorld,
    scenario: Scenario,
    states: Iterable[FinalState],
    traces: ControlTraces,
    directory: Path,
    run_id: str,
    deleted: Collection[str] = (),
) -> str:
    """Write the tables of what the nodes left beside the history. Return why there are none; empty if there are.

    `deleted`: topics whose records others than the load may have deleted.
    """
    quorum = quorum_of(world)
    if quorum is None:
        return NO_LEADER
    reads = [
        {"topic": one.topic, "partition": one.partition, "marker_offset": one.marker_offset, "complete": one.complete}
        for one in states
    ]
    watermarks = {place.node_id: _watermarks(world.processes[place.name]) for place in world.places if place.is_broker}
    ends = committed_ends(reads, scenario)
    asked = Asked((quorum, quorum), watermarks, ends, removal_allowed(scenario), damages_files(scenario), deleted)
    described = [_described(world.processes[place.name], place) for place in world.places]
    events = [
        event
        for place in world.places
        for event in traces.of(place.name, place.node_id, world.processes[place.name].incarnation)
    ]
    replicas, control = tables_of(asked, described, events)
    write_kind(directory, REPLICAS, replicas, run_id=run_id)
    write_kind(directory, CONTROL_PLANE, control, run_id=run_id)
    return ""


def quorum_of(world: SimWorld) -> QuorumFacts | None:
    """Return what the leader of the quorum says; None without one."""
    running = [one.node for one in world.processes.values()]
    nodes = [node for node in running if isinstance(node, Node) and node.raft.is_leader]
    if not nodes:
        return None
    leader = max(nodes, key=lambda node: node.raft.leader_and_epoch[1])
    raft = leader.raft
    return QuorumFacts(
        leader=leader.config.node_id,
        epoch=raft.leader_and_epoch[1],
        committed=raft.high_watermark,
        voters=tuple(sorted(raft.voters.ids)),
    )


def _watermarks(process: SimProcess) -> dict[tuple[str, int], int]:
    content = process.disk.content(HIGH_WATERMARKS)
    return {} if content is None else parse_watermarks(content.decode())


def _described(process: SimProcess, place: SimPlace) -> Described:
    with tempfile.TemporaryDirectory(prefix="squall-disk-") as scratch:
        copy, digest = Path(scratch) / "logs", Path(scratch) / "digest"
        process.disk.copy_to(copy)
        with gzip.open(digest, "wt", compresslevel=0, encoding="utf-8") as out:
            describe(copy, out)
        live = process.running and not process.paused
        try:
            logs, records = read_digest(digest)
        except (TornDigest, OSError) as trouble:
            return Described(process.name, place.node_id, live, str(trouble))
    return Described(process.name, place.node_id, live, "", logs, records)

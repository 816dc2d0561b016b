"""Make a page to watch of a run's directory: what clients, faults, the cluster's watcher and the nodes recorded.

A run on hosts records less than the simulator sees. Clients' operations and faults are complete. What replicas held is
known from the nodes' control traces where they changed their role or truncated, and for a leader from what it
acknowledged; messages are not recorded at all. The page says so.

Control traces carry their host's monotonic clock. They are used if that is the clock of the history: in a local lab
every host has it. Otherwise what the cluster's watcher saw of leaders stands in.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from squall.results.checkers.common.text import value_name
from squall.results.history.history import FUNCTIONS, HISTORY_FILE, TYPES, History, layout, read_topic_partition
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import Manifest
from squall.results.history.segments import ClusterObservation, FaultWindow, read_cluster, read_faults
from squall.results.verdict.further import ToldFurther
from squall.results.verdict.verdict import VERDICT_FILE, Verdict
from squall.results.watch.model import CLIENTS, Fault, Operation, Step, Watched
from squall.results.witnesses.witness import Witness

NODES: Final = "nodes"
TRACE: Final = "trace.jsonl"
COLUMNS: Final = ("f", "type", "process", "invoked", "completed", "value", "offset", "values", "error")
APART_NS: Final = 5_000_000_000
"""A node's own word of its leadership and the watcher's are at most this far apart on one clock."""
MESSAGES_NOTE: Final = "Messages between nodes are not recorded on hosts; squall watch SEED shows them."
ENDS_NOTE: Final = (
    "Log ends are known where a node changed its role or truncated, a leader's also by what it acknowledged; "
    "between, a follower's line stays where it was."
)
NO_TRACES_NOTE: Final = "No control trace of the nodes is usable: leaders are those that the cluster's watcher saw."

_NAMES: Final = {code: name for name, code in FUNCTIONS.items()}
_OUTCOMES: Final = {code: name for name, code in TYPES.items()}


@dataclass(frozen=True)
class _Clock:
    """Microseconds since the load began, of nanoseconds of the history's clock."""

    origin: int

    def of(self, nanoseconds: int) -> int:
        return (nanoseconds - self.origin) // 1000


def watch_run(run: Path, log: tuple[str, int] | None = None) -> Watched:
    """Read a run for a page. `log` is by default the topic-partition that the verdict's first witness names.

    Raises IllFormedHistory for what cannot be read, KeyError for a topic-partition that the run does not have.
    """
    manifest = Manifest.load(run)
    problem = _problem_of(run)
    topic, partition = log or _log_named(problem, manifest)
    if (topic, partition) not in manifest.topic_partitions:
        raise KeyError(f"{topic}-{partition}")
    operations_table = _rows(run, topic, partition)
    clock = _Clock(manifest.load_started or _first(operations_table))
    operations = tuple(_operations(operations_table, clock))
    windows, seen = read_faults(run), read_cluster(run)
    lanes = _lanes(manifest, run, windows, seen)
    ends = max(
        [
            clock.of(manifest.load_ended or clock.origin),
            *(one.end or one.begin for one in operations),
            *(clock.of(one.ended or one.healed or one.injected or clock.origin) for one in windows),
            *(clock.of(one.time) for one in seen),
        ]
    )
    traced, usable = _traced(run, manifest, (topic, partition), seen, clock, ends)
    ends = max([ends, *(one.at for one in traced if usable and manifest.load_ended is None)])
    steps = [*(traced if usable else ()), *_observed(seen, (topic, partition), clock, follow=not usable)]
    steps = sorted((one for one in steps if one.at <= ends), key=lambda one: one.at)
    return Watched(
        title=f"{manifest.scenario}, seed {manifest.seed}: {problem or 'no anomaly is known'}"[:160],
        log=f"{topic}-{partition}",
        lanes=lanes,
        begins=min([0, *(one.begin for one in operations)]),
        ends=ends,
        steps=tuple(_with_acknowledgements(steps, operations)),
        operations=operations,
        complete=False,
        faults=tuple(_faults(windows, clock)),
        broken=problem,
        facts=(("run", manifest.run_id), ("started", manifest.started)) if manifest.started else (),
        notes=(MESSAGES_NOTE, ENDS_NOTE if usable else NO_TRACES_NOTE),
    )


def _problem_of(run: Path) -> str:
    """Return the title of the verdict's first witness; empty without one, or before the run was judged."""
    if not (run / VERDICT_FILE).is_file():
        return ""
    with contextlib.suppress(IllFormedHistory):
        verdict = Verdict.load(run)
        witnesses: list[Witness | ToldFurther] = [*verdict.witnesses, *verdict.further_witnesses]
        return witnesses[0].title if witnesses else ""
    return ""


def _log_named(problem: str, manifest: Manifest) -> tuple[str, int]:
    """Return the topic-partition that the problem names, else the first one."""
    known = manifest.topic_partitions
    named = [(problem.find(f"{topic}-{number}"), -number, topic) for topic, number in known]
    found = min((one for one in named if one[0] >= 0), default=None)
    if found is not None:
        return found[2], -found[1]
    if not known:
        raise KeyError("events-0")
    return known[0]


def _rows(run: Path, topic: str, partition: int) -> Mapping[str, list[Any]]:
    path = run / HISTORY_FILE
    if path.is_file():
        groups = [one.row_groups for one in layout(path) if (one.topic, one.partition) == (topic, partition)]
        table = read_topic_partition(path, groups[0]) if groups else None
    else:
        table = History.load(run, kinds=()).of(topic, partition)
    if table is None:
        return {name: [] for name in COLUMNS}
    return {name: table[name].to_pylist() for name in COLUMNS}


def _first(rows: Mapping[str, list[Any]]) -> int:
    return int(min(rows["invoked"], default=0))


def _operations(rows: Mapping[str, list[Any]], clock: _Clock) -> Iterator[Operation]:
    for f, outcome, process, invoked, completed, value, offset, values, error in zip(
        *(rows[name] for name in COLUMNS), strict=True
    ):
        name, said = _NAMES[f], "" if completed is None else _OUTCOMES[outcome]
        named = "" if value is None else value_name(value)
        words = [f"process {process}: {name} {named}".rstrip()]
        words += [f"{said} ({error})" if error else said] if said else []
        words += [] if offset is None else [f"offset {offset}"]
        words += [f"{len(values)} records"] if values else []
        end = None if completed is None else clock.of(completed)
        sent = offset if name in ("send", "marker") else None
        yield Operation(clock.of(invoked), end, process, ", ".join(words), said, sent, named)


def _lanes(
    manifest: Manifest, run: Path, windows: Iterable[FaultWindow], seen: Iterable[ClusterObservation]
) -> tuple[str, ...]:
    """Return the clients and every node that the run names."""
    names = {host.name for host in manifest.hosts}
    names |= {path.name for path in (run / NODES).iterdir() if path.is_dir()} if (run / NODES).is_dir() else set()
    names |= {host for window in windows for host in window.targets}
    names |= {one.node for one in seen if one.node is not None} | {node for one in seen for node in one.nodes}
    return (CLIENTS, *sorted(names - {CLIENTS}))


def _faults(windows: Iterable[FaultWindow], clock: _Clock) -> Iterator[Fault]:
    for one in windows:
        if one.injected is not None:
            end = None if one.healed is None else clock.of(one.healed)
            text = ". ".join(filter(None, (one.summary, one.during, one.after)))
            yield Fault(clock.of(one.injected), end, one.fault, one.targets, text)


def _observed(
    seen: Iterable[ClusterObservation], log: tuple[str, int], clock: _Clock, *, follow: bool
) -> Iterator[Step]:
    """Yield what the cluster's watcher saw. With `follow`, its leaders lead on the page."""
    before = ""
    for one in seen:
        at = clock.of(one.time)
        if one.kind == "controller" and one.node is not None:
            yield Step(at, one.node, "controller", f"active controller, epoch {one.epoch}")
        if (one.topic, one.partition) != log:
            continue
        if one.kind == "leader":
            if follow and before:
                yield Step(at, before, "yields", "leads no longer")
            before = one.node or ""
            if one.node is not None:
                kind, epoch = ("leads", one.epoch if one.epoch is not None else -1) if follow else ("seen", -1)
                words = f"is seen to lead epoch {one.epoch}"
                yield Step(at, one.node, kind, words, (epoch,) if follow else ())
        elif one.kind == "in_sync" and one.nodes:
            yield Step(at, one.nodes[0], "isr", f"is seen in the ISR: {' '.join(one.nodes)}")


def _traced(
    run: Path, manifest: Manifest, log: tuple[str, int], seen: list[ClusterObservation], clock: _Clock, ends: int
) -> tuple[list[Step], bool]:
    """Return what nodes traced of this log, and whether the times of the traces are those of the history."""
    led = {(one.node, one.epoch): clock.of(one.time) for one in seen if one.kind == "leader" and _is(one, log)}
    steps: list[Step] = []
    for path in sorted((run / NODES).glob(f"*/{TRACE}")):
        node = path.parent.name
        for line in _lines(path):
            step = _step(node, line, log, clock)
            if step is None:
                continue
            watched = led.get((node, step.numbers[0])) if step.kind == "leader" else None
            apart = step.at < -600_000_000 or step.at > ends + 600_000_000
            if apart or (watched is not None and abs(watched - step.at) > APART_NS // 1000):
                return [], False
            steps.append(step)
    return steps, any(step.kind in ("leader", "follower") for step in steps)


def _is(one: ClusterObservation, log: tuple[str, int]) -> bool:
    return (one.topic, one.partition) == log


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a control trace that are whole; a killed process may leave half of one."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            with contextlib.suppress(ValueError):
                line = json.loads(text)
                if isinstance(line, dict):
                    yield line


def _step(node: str, line: dict[str, Any], log: tuple[str, int], clock: _Clock) -> Step | None:
    """Return a line of a control trace as a step; None if it is not about this log, or not understood."""
    with contextlib.suppress(KeyError, TypeError, ValueError):
        at, event = clock.of(int(line["t"]) * 1000), line["event"]
        if event == "node_started":
            return Step(at, node, "start", f"starts, process {line['pid']}")
        if (line.get("topic"), line.get("partition")) != log:
            return None
        if event == "leader":
            numbers = (int(line["epoch"]), int(line["end"]), int(line["high_watermark"]))
            words = "leads epoch {}, log end {}, high watermark {}".format(*numbers)
            return Step(at, node, event, words, numbers)
        if event == "follower":
            numbers = (int(line["epoch"]), int(line["end"]), int(line["leader"]))
            return Step(at, node, event, f"follows in epoch {numbers[0]}, log end {numbers[1]}", numbers)
        if event == "truncate":
            numbers = (int(line["to"]), int(line["end"]), int(line["high_watermark"]))
            return Step(at, node, event, "truncates from {1} to {0}, high watermark {2}".format(*numbers), numbers)
        if event in ("isr", "isr_proposed"):
            proposes = "proposes ISR" if event == "isr_proposed" else "ISR"
            return Step(at, node, event, f"{proposes} {' '.join(map(str, line['isr']))}, by node ids")
    return None


def _with_acknowledgements(steps: list[Step], operations: Iterable[Operation]) -> Iterator[Step]:
    """Yield the steps, and what acknowledgements show of the leader: it has the record, and knows it is committed."""
    acknowledged = sorted(
        (one.end, one.offset)
        for one in operations
        if one.outcome == "ok" and one.end is not None and one.offset is not None
    )
    leader, epoch, end, place = "", -1, 0, 0
    for step in [*steps, None]:
        until = step.at if step is not None else None
        while place < len(acknowledged) and (until is None or acknowledged[place][0] < until):
            at, offset = acknowledged[place]
            place += 1
            if leader and offset >= end:
                end = offset + 1
                yield Step(at, leader, "high_watermark", f"has acknowledged offset {offset}", (end, end, epoch))
        if step is None:
            return
        if step.kind in ("leader", "leads"):
            leader, epoch = step.lane, step.numbers[0]
            end = step.numbers[1] if step.kind == "leader" else 0
        elif step.lane == leader and step.kind in ("follower", "start", "yields"):
            leader = ""
        yield step

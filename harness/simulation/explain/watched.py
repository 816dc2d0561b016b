"""Trace a simulated seed for a page to watch: what every replica of one log held, step by step, and every message.

The tracer of pictures (`traced.py`) describes steps in words; this one keeps their numbers as well, from which the page
knows the content of each log at each instant (`results/watch/model.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from squall.harness.errors import UsageError
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.explain.account import is_lost
from squall.harness.simulation.explain.traced import (
    CLIENTS,
    METADATA_LOG,
    RunTrace,
    Tracer,
    log_of,
    run_traced,
    trace_with,
)
from squall.harness.simulation.run.drawn_world import draw_world
from squall.harness.simulation.run.run import SimOptions
from squall.harness.simulation.run.witness import Witness
from squall.results.watch.model import STATE, Fault, LogState, Message, Operation, Step, Watched, part_of
from squall.workloads.core.operation import SEND, Event, value_name

Fields = dict[str, object]
NUMBERS: dict[str, tuple[str, ...]] = {
    "append": ("first", "last", "epoch"),
    "truncate": ("to", "end", "high_watermark"),
    "high_watermark": ("offset", "end", "epoch"),
    "leader": ("epoch", "end", "high_watermark"),
    "follower": ("epoch", "end", "leader"),
}
"""The fields of a trace event that its step has as numbers; see the model."""


class WatchTracer(Tracer):
    """Keeps steps with numbers, and operations from invocation to completion."""

    def __init__(self, log: tuple[str, int]) -> None:
        super().__init__(log)
        self.steps: list[Step] = []
        self.operations: list[tuple[int, int | None, Event]] = []
        self._open: dict[int, int] = {}
        self._states: dict[str, LogState] = {}
        self._epochs: list[tuple[int, int]] = []
        """The epochs that a log has begun, with their first offsets, and no append has named since."""

    def noted(self, text: str) -> None:
        before = len(self.happenings)
        super().noted(text)
        self._keep(before, {})

    def traced(self, name: str, fields: Fields) -> None:
        if name == "epoch" and fields["log"] == f"{self.log[0]}-{self.log[1]}":
            self._epochs.append((int(str(fields["start"])), int(str(fields["epoch"]))))
        before = len(self.happenings)
        super().traced(name, fields)
        self._keep(before, fields)

    def operation(self, event: Event) -> None:
        operation = event.operation
        if (operation.topic, operation.partition) != self.log:
            return
        if event.completion is None:
            self._open[operation.process] = len(self.operations)
            self.operations.append((self._kernel.now, None, event))
        elif operation.process in self._open:
            place = self._open.pop(operation.process)
            self.operations[place] = (self.operations[place][0], self._kernel.now, event)

    def _keep(self, before: int, fields: Fields) -> None:
        """Turn what the other tracer has just put into words into steps."""
        for one in self.happenings[before:]:
            step = Step(one.at, one.lane, one.kind, one.text)
            if fields.get("topic") is not None:
                step = replace(step, numbers=_whole(fields, *NUMBERS.get(one.kind, ())))
            elif self.log == METADATA_LOG:
                step = self._of_quorum(step, fields)
            numbers = step.numbers
            for part in self._by_epoch(step) if one.kind == "append" and numbers else (step,):
                self.steps.append(part)
                if part.kind in STATE:
                    self._states[part.lane] = self._states.get(part.lane, LogState()).after(part)
            if one.kind in ("append", "leader"):
                self._epochs.clear()

    def _of_quorum(self, step: Step, fields: Fields) -> Step:
        """Return a step of the metadata log with the numbers that the same step of another log has."""
        state = self._states.get(step.lane, LogState())
        match step.kind:
            case "append":
                return replace(step, numbers=_whole(fields, *NUMBERS["append"]))
            case "high_watermark":
                offset, epoch = _whole(fields, "offset", "epoch")
                return replace(step, numbers=(offset, max(state.end, offset), epoch))
            case "truncate":
                return replace(step, numbers=(*_whole(fields, "end", "was"), state.high_watermark))
            case "state" if fields["role"] == "leader":
                return replace(step, kind="leads", numbers=_whole(fields, "epoch"))
            case "state":
                return replace(step, kind="yields")
        return step

    def _by_epoch(self, step: Step) -> Iterator[Step]:
        """Yield an append as one step for each epoch: a follower may fetch batches of several, and traces the last.

        A node's log says in the same turn which epochs it has begun; what lies before those has the epoch of its end.
        """
        first, last, epoch = step.numbers
        begun = sorted({(start, one) for start, one in self._epochs if first <= start <= last})
        if not begun:
            yield step
            return
        runs = self._states.get(step.lane, LogState()).runs
        if begun[0][0] > first:
            begun.insert(0, (first, runs[-1][2] if runs else epoch))
        for place, (start, one) in enumerate(begun):
            end = begun[place + 1][0] - 1 if place + 1 < len(begun) else last
            yield replace(step, numbers=(start, end, one))


def watch_seed(scenario: Scenario, seed: int, options: SimOptions, log: tuple[str, int] | None = None) -> Watched:
    """Run the seed to find out which log is concerned, then again to trace that log. Raises UsageError."""
    topics = draw_world(scenario, seed).topics
    if log is None:
        _, _, problem, _ = run_traced(scenario, seed, options, Witness())
        log = log_of(scenario, problem) if problem else (next(iter(topics)), 0)
    else:
        refuse_unknown_log(log, topics)
    tracer = WatchTracer(log)
    trace, started = trace_with(scenario, seed, options, tracer)
    title = f"{scenario.scenario}, seed {seed}: {' and '.join(trace.broken) or 'nothing broke'}"
    whole = Watched(
        title=title,
        log=trace.log_name,
        lanes=trace.lanes,
        begins=-started,
        ends=trace.ended,
        steps=tuple(_steps(tracer, trace, started)),
        operations=tuple(_operations(tracer, trace, started)),
        messages=tuple(
            Message(
                one.at, one.arrived, one.source, one.target, one.said.api, one.said.text, one.said.is_answer,
                is_lost(one, trace.ended),
            )
            for one in trace.messages
        ),
        faults=tuple(Fault(one.begin, one.end, one.kind, one.hosts) for one in trace.faults),
        broken=trace.problem.partition("\n")[0],
        breach_lane=trace.breach_lane,
        notes=_notes(log),
    )  # fmt: skip
    return part_of(whole, 0, trace.ended) if trace.ended > 0 else whole


def _whole(fields: Fields, *names: str) -> tuple[int, ...]:
    return tuple(int(str(fields[name])) for name in names)


def refuse_unknown_log(log: tuple[str, int], topics: dict[str, int]) -> None:
    """Raise UsageError for a topic-partition that the run does not have."""
    if log != METADATA_LOG and not 0 <= log[1] < topics.get(log[0], 0):
        known = ", ".join(f"{name}-0 to {name}-{number - 1}" for name, number in topics.items())
        raise UsageError(f"--log: the run has no topic-partition {log[0]}-{log[1]}", remedy=f"it has {known}")


def _notes(log: tuple[str, int]) -> tuple[str, ...]:
    if log == METADATA_LOG:
        return ("The problem names no topic-partition, so this is the metadata log.",)
    return ()


def _steps(tracer: WatchTracer, trace: RunTrace, started: int) -> list[Step]:
    """Return the steps of the load; those before it are kept, as what the logs hold begins there."""
    ended = trace.ended + started
    return [
        Step(one.at - started, one.lane, one.kind, one.text, one.numbers)
        for one in tracer.steps
        if one.at <= ended and one.lane != CLIENTS and (one.kind != "death" or one.at < ended)
    ]


def _operations(tracer: WatchTracer, trace: RunTrace, started: int) -> list[Operation]:
    found = []
    for begin, end, event in tracer.operations:
        operation, completion = event.operation, event.completion
        if begin - started > trace.ended:
            continue
        if end is not None and end - started > trace.ended:
            end, completion = None, None
        value = "" if operation.value is None else value_name(operation.value)
        words = [f"process {operation.process}: {operation.f} {value}".rstrip()]
        if completion is not None:
            words.append(f"{completion.type} ({completion.error})" if completion.error else completion.type)
            words += [] if completion.offset is None else [f"offset {completion.offset}"]
            words += [f"{len(completion.values)} records"] if completion.values else []
        offset = completion.offset if completion is not None and operation.f == SEND else None
        outcome = "" if completion is None else completion.type
        found.append(
            Operation(
                begin - started, None if end is None else end - started, operation.process, ", ".join(words), outcome,
                offset, value,
            )
        )  # fmt: skip
    return found

"""Describe the circumstances of a breach: who led, which operations ran, which faults held.

A breach from the observer names an invariant, a log and an event. Its reader then needs to know what clients did there
and which fault held; a checker's witness (`results/witnesses/witness.py`) already has that. So a breach gets the same
three kinds of lines, about its topic-partition, or about the quorum if it has none:

    leader        b3, leader epoch 4; before it b1, leader epoch 3
    process 2     send of value 2·17 acknowledged at offset 51, leader epoch 4, begun at 5.020 s      5.031 s
    process 4     send of value 4·20, not answered yet, begun at 5.030 s                              5.030 s
    under fault   kill -9 b2 (leader of events/0): process gone                                       5.005 s

This module sends no request to a node and changes no run. The operations are the most recent ones, as recorded. A fault
holds from its injection until it is known to be healed. The lines also state when no fault held, and which faults had
ended shortly before.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence

from squall.results.checkers.common.text import clock, grouped, value_name
from squall.results.history.segments import FaultWindow
from squall.results.witnesses.witness import WitnessLine, faults_between
from squall.workloads.core.operation import FAIL, FINAL_POLL, INFO, MARKER, POLL, SEND, Completion, Event, Operation

COMPLETED_KEPT = 3
OPEN_SHOWN = 2
LEADERS_SHOWN = 2
RECENT_SHOWN = 3
LATELY_NS = 3_000_000_000
"""A fault's effect often shows after its end: a held message arrives, a node is back."""
WIDTH = 100
"""A longer text has its time right after it, not in the column of the others."""
UNDER_FAULT = "under fault"
NO_FAULT = WitnessLine("faults", "none held at the time")


class RecentOperations:
    """The last informative operations of each topic-partition, and those that are open."""

    def __init__(self) -> None:
        self._completed: dict[str, deque[Event]] = {}
        self._open: dict[int, Event] = {}

    def note(self, event: Event) -> None:
        """Record an invocation or a completion; a thread has one open operation at a time."""
        if event.completion is None:
            self._open[event.operation.thread] = event
            return
        self._open.pop(event.operation.thread, None)
        if event.operation.f not in (POLL, FINAL_POLL) or event.completion.offsets:
            place = place_of(event.operation)
            recent = self._completed.get(place)
            if recent is None:
                recent = self._completed[place] = deque(maxlen=COMPLETED_KEPT)
            recent.append(event)

    def lines(self, place: str, origin: int) -> list[WitnessLine]:
        """Return the operations of one topic-partition, or of all if `place` is empty; the newest last."""
        logs = [place] if place else list(self._completed)
        completed = sorted(
            (one for log in logs for one in self._completed.get(log, ())), key=lambda one: one.completed or one.invoked
        )
        sends = [
            one
            for one in self._open.values()
            if one.operation.f in (SEND, MARKER) and place in ("", place_of(one.operation))
        ]
        under_way = sorted(sends, key=lambda one: one.invoked)[-OPEN_SHOWN:]
        return [_line(one, origin, name_log=not place) for one in (*completed[-COMPLETED_KEPT:], *under_way)]


def place_of(operation: Operation) -> str:
    """Return `events-0`, `events` for an operation on the whole topic, or nothing for an operation without a topic."""
    if operation.topic is None or operation.partition is None:
        return operation.topic or ""
    return f"{operation.topic}-{operation.partition}"


def place_in(words: str, known: Container[str]) -> str:
    """Return the first known topic-partition that a sentence names; nothing if it names none."""
    return next((name for name in re.findall(r"[\w.-]+-\d+", words) if name in known), "")


def leader_line(leaders: Mapping[int, str], what: str = "leader") -> list[WitnessLine]:
    """Return one line with the newest leaders of a log by epoch, newest first; no line if it has had none."""
    newest = sorted(leaders.items(), reverse=True)[:LEADERS_SHOWN]
    told = [f"{name}, {what} epoch {epoch}" for epoch, name in newest]
    return [WitnessLine(what, "; before it ".join(told))] if told else []


def fault_lines(faults: Iterable[FaultWindow], at: int, origin: int) -> list[WitnessLine]:
    """Return the faults that held at `at`, or a line that none did, and those that had ended shortly before.

    If none held, the last fault that ended is named even if it is older.
    """
    windows: Sequence[FaultWindow] = list(faults)
    held = [
        WitnessLine(UNDER_FAULT, _fault(one), clock(one.injected, origin)) for one in faults_between(windows, at, at)
    ]
    over = sorted((one.healed, one.id, one) for one in windows if one.healed is not None and one.healed < at)
    recent = [one for healed, _, one in over if at - healed <= LATELY_NS]
    if not held:
        recent = recent or [one for _, _, one in over[-1:]]
    after = [WitnessLine("after fault", _fault(one), clock(one.healed, origin)) for one in recent[-RECENT_SHOWN:]]
    return [*(held or [NO_FAULT]), *after]


def with_faults_named(lines: Sequence[WitnessLine]) -> list[WitnessLine]:
    """Add to a checker's witness the line that no fault held, which the checker leaves out."""
    return [*lines] if any(one.subject == UNDER_FAULT for one in lines) else [*lines, NO_FAULT]


def as_text(lines: Sequence[WitnessLine]) -> tuple[str, ...]:
    """Align the lines in columns, as reports on the terminal do."""
    subjects = max((len(one.subject) for one in lines), default=0)
    texts = max((len(one.text) for one in lines if len(one.text) <= WIDTH), default=0)
    return tuple(f"{one.subject:<{subjects}}  {one.text:<{texts}}  {one.time:>10}".rstrip() for one in lines)


def _fault(one: FaultWindow) -> str:
    return f"{one.fault} {one.summary}".strip() + (f": {one.during}" if one.during else "")


def _line(event: Event, origin: int, *, name_log: bool) -> WitnessLine:
    operation, completion = event.operation, event.completion
    where = f" on {place_of(operation)}" if name_log and operation.topic is not None else ""
    value = "" if operation.value is None else f" of value {value_name(operation.value)}"
    begun = f", begun at {clock(event.invoked, origin)}"
    text = f"{operation.f}{value}{where}{_outcome(completion)}{begun}"
    return WitnessLine(f"process {operation.process}", text, clock(event.completed or event.invoked, origin))


def _outcome(completion: Completion | None) -> str:
    if completion is None:
        return ", not answered yet"
    if completion.type == FAIL:
        return f" failed ({completion.error or 'no error given'})"
    if completion.type == INFO:
        return f", outcome unknown ({completion.error or 'no answer'})"
    epoch = "" if completion.leader_epoch is None else f", leader epoch {completion.leader_epoch}"
    if completion.offsets:
        return f" of offsets {grouped(completion.offsets[0])} to {grouped(completion.offsets[-1])}{epoch}"
    if completion.offset is not None:
        return f" acknowledged at offset {grouped(completion.offset)}{epoch}"
    if completion.high_watermark is not None:
        return f" answered: the log ends at {grouped(completion.high_watermark)}{epoch}"
    return f" answered{epoch}"

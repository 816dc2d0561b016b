"""What was going on when a run broke: who led, which operations there were, which faults held.

An observer's breach names an invariant, a log and an event. Who reads it asks next what clients were doing there and
which fault held; a checker's witness (`results/witness.py`) has that already. So a breach is given the same three kinds
of lines, of the topic-partition that it is about, or of the quorum if it is about none:

    leader        b3, leader epoch 4; before it b1, leader epoch 3
    process 2     send of value 2·17 acknowledged at offset 51, leader epoch 4, begun at 5.020 s      5.031 s
    process 4     send of value 4·20, not answered yet, begun at 5.030 s                              5.030 s
    under fault   kill -9 b2 (leader of events/0): process gone                                       5.005 s

Nothing here asks a node or changes a run. The operations are those of the last moments, as they were recorded; a fault
holds from its injection until it is known to be healed. That no fault held is said as well, and which had ended lately.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence

from squall.results.segments import FaultWindow
from squall.results.text import clock, grouped, value_name
from squall.results.witness import WitnessLine, faults_between
from squall.workloads.operation import FAIL, FINAL_POLL, INFO, MARKER, POLL, SEND, Completion, Event, Operation

COMPLETED_KEPT = 3
OPEN_SHOWN = 2
LEADERS_SHOWN = 2
RECENT_SHOWN = 3
LATELY_NS = 3_000_000_000
"""What a fault has done shows after its end as often as before it: a message that was held arrives, a node is back."""
WIDTH = 100
"""Longer texts have their time after them, and not in the column of the others."""
UNDER_FAULT = "under fault"
NO_FAULT = WitnessLine("faults", "none held at the time")


class RecentOperations:
    """The last operations of each topic-partition that told something, and those under way."""

    def __init__(self) -> None:
        self._completed: dict[str, deque[Event]] = {}
        self._open: dict[int, Event] = {}

    def note(self, event: Event) -> None:
        """An operation was invoked or has completed; a thread has one at a time."""
        if event.completion is None:
            self._open[event.operation.thread] = event
            return
        self._open.pop(event.operation.thread, None)
        if event.operation.f not in (POLL, FINAL_POLL) or event.completion.offsets:
            recent = self._completed.setdefault(place_of(event.operation), deque(maxlen=COMPLETED_KEPT))
            recent.append(event)

    def lines(self, place: str, origin: int) -> list[WitnessLine]:
        """Those of one topic-partition, or of all if `place` is empty; the later ones below."""
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
    """`events-0`, `events` for an operation on the whole topic, or nothing for one that is about no topic."""
    if operation.topic is None or operation.partition is None:
        return operation.topic or ""
    return f"{operation.topic}-{operation.partition}"


def place_in(words: str, known: Container[str]) -> str:
    """The topic-partition that a sentence is about: the first that it names; nothing if it names none of those."""
    return next((name for name in re.findall(r"[\w.-]+-\d+", words) if name in known), "")


def leader_line(leaders: Mapping[int, str], what: str = "leader") -> list[WitnessLine]:
    """The newest leaders of a log by epoch, the newest first; no line if it has had none."""
    newest = sorted(leaders.items(), reverse=True)[:LEADERS_SHOWN]
    told = [f"{name}, {what} epoch {epoch}" for epoch, name in newest]
    return [WitnessLine(what, "; before it ".join(told))] if told else []


def fault_lines(faults: Iterable[FaultWindow], at: int, origin: int) -> list[WitnessLine]:
    """The faults that held at a moment, or that none did; and those that had ended lately, if none held the last."""
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
    """The lines of a checker's witness, which says nothing where no fault held; here that is said."""
    return [*lines] if any(one.subject == UNDER_FAULT for one in lines) else [*lines, NO_FAULT]


def as_text(lines: Sequence[WitnessLine]) -> tuple[str, ...]:
    """In columns, as reports on the terminal have them."""
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

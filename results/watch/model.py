"""What a page to watch shows: the operations, steps, messages and faults of one log, over time.

Everything is about one topic-partition. Times are microseconds since the load began. A *lane* is a row of the page: the
clients, then each node by name. A *step* is something that happened at a node; the steps of `STATE` have numbers, from
which the page knows what the node's log contains at each instant:

    append           first offset, last offset, epoch
    truncate         new end, old end, high watermark
    high_watermark   offset, log end, epoch
    leader           epoch, log end, high watermark
    follower         epoch, log end, leader's node (its place among the lanes)
    leads            epoch: the node is seen to lead, and nothing is known of its log
    yields           none: it is seen to lead no longer
    start, death     none

A page of a part of the run begins with the state of each node at that instant (`LogState`), which is folded from the
steps before it, and with the acknowledgements of the offsets near the log's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

CLIENTS = "clients"
STATE = ("append", "truncate", "high_watermark", "leader", "follower", "leads", "yields", "start", "death")
NOTHING = -1
EARLIER_OFFSETS = 64
"""How many offsets below the log's end a page knows that were acknowledged before its beginning."""
RUNS_KEPT = 64


@dataclass(frozen=True)
class Step:
    """Something that happened at a node or among the clients."""

    at: int
    lane: str
    kind: str
    text: str
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Operation:
    """A client's operation. `end` and `outcome` are missing if it was never answered; `offset` if it has none."""

    begin: int
    end: int | None
    process: int
    text: str
    outcome: str
    offset: int | None = None
    value: str = ""


@dataclass(frozen=True)
class Message:
    """A frame about the log. `arrived` is None if it did not arrive; it is `lost` if it never will."""

    at: int
    arrived: int | None
    source: str
    target: str
    api: str
    text: str
    is_answer: bool = False
    lost: bool = False


@dataclass(frozen=True)
class Fault:
    """A fault from its injection to its end, or to the end of the run."""

    begin: int
    end: int | None
    kind: str
    hosts: tuple[str, ...]
    text: str = ""


@dataclass(frozen=True)
class LogState:
    """What a node's log holds at an instant: runs of (first offset, end, epoch), and what the node knows of it."""

    up: bool = True
    role: str = ""
    epoch: int = NOTHING
    high_watermark: int = NOTHING
    runs: tuple[tuple[int, int, int], ...] = ()

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.runs[-1][1] if self.runs else 0

    def after(self, step: Step) -> LogState:
        """Return the state after a step of the node."""
        match step.kind, step.numbers:
            case "append", (first, last, epoch):
                return self._extended(first, last + 1, epoch)
            case "truncate", (to, _, high_watermark):
                return replace(self._cut(to), high_watermark=min(high_watermark, to))
            case "high_watermark", (offset, end, epoch):
                return replace(self._reaching(end, epoch), high_watermark=offset)
            case "leader", (epoch, end, high_watermark):
                known = self._reaching(end, NOTHING)
                return replace(known, up=True, role="leader", epoch=epoch, high_watermark=high_watermark)
            case "follower", (epoch, end, _):
                return replace(self._reaching(end, NOTHING), up=True, role="follower", epoch=epoch)
            case "leads", (epoch,):
                return replace(self, up=True, role="leader", epoch=epoch)
            case "yields", _:
                return replace(self, role="")
            case "start", _:
                return replace(self, up=True, role="")
            case "death", _:
                return replace(self, up=False, role="")
        return self

    def _cut(self, end: int) -> LogState:
        kept = tuple((first, min(last, end), epoch) for first, last, epoch in self.runs if first < end)
        return replace(self, runs=kept)

    def _extended(self, first: int, end: int, epoch: int) -> LogState:
        runs = self._cut(first).runs
        if runs and runs[-1][1] == first and runs[-1][2] == epoch:
            runs = (*runs[:-1], (runs[-1][0], end, epoch))
        else:
            runs = (*runs, (first, end, epoch))
        return replace(self, runs=runs[-RUNS_KEPT:])

    def _reaching(self, end: int, epoch: int) -> LogState:
        """Return the state with this log end; what the steps did not show has an unknown epoch."""
        if end == self.end:
            return self
        return self._cut(end) if end < self.end else self._extended(self.end, end, epoch)


@dataclass(frozen=True)
class Watched:
    """The content of a page.

    `messages` is None if the run does not record them. The steps are `complete` if they include every append; if not,
    a follower's log may be longer than they show. `notes` say what is missing.
    """

    title: str
    log: str
    lanes: tuple[str, ...]
    begins: int
    ends: int
    steps: tuple[Step, ...] = ()
    operations: tuple[Operation, ...] = ()
    messages: tuple[Message, ...] | None = None
    complete: bool = True
    faults: tuple[Fault, ...] = ()
    states: Mapping[str, LogState] = field(default_factory=dict)
    acknowledged: tuple[Operation, ...] = ()
    """Sends that were acknowledged before `begins`, near the log's end."""
    broken: str = ""
    breach_lane: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def states_at(steps: Iterable[Step], at: int, states: Mapping[str, LogState] | None = None) -> dict[str, LogState]:
    """Return the state of each node's log right before `at`."""
    found = dict(states or {})
    for step in steps:
        if step.at < at and step.kind in STATE:
            found[step.lane] = found.get(step.lane, LogState()).after(step)
    return found


def part_of(watched: Watched, since: int, until: int) -> Watched:
    """Return the part of a run from `since` to `until`, with the state that it begins with."""
    since, until = max(since, watched.begins), min(until, watched.ends)
    states = states_at(watched.steps, since, watched.states)
    near = max((state.end for state in states.values()), default=0) - EARLIER_OFFSETS
    before = [one for one in watched.operations if one.offset is not None and one.outcome == "ok"]
    before = [one for one in before if one.end is not None and one.end < since and (one.offset or 0) >= near]
    messages = watched.messages
    return replace(
        watched,
        begins=since,
        ends=until,
        steps=tuple(one for one in watched.steps if since <= one.at <= until),
        operations=tuple(
            one for one in watched.operations if one.begin <= until and (one.end is None or one.end >= since)
        ),
        messages=None if messages is None else tuple(one for one in messages if since <= one.at <= until),
        faults=tuple(one for one in watched.faults if one.begin <= until and (one.end is None or one.end >= since)),
        states=states,
        acknowledged=(*(one for one in watched.acknowledged if (one.offset or 0) >= near), *before),
    )


def last_part_of(watched: Watched, most: int) -> Watched:
    """Return the last part of a run that has at most `most` steps, operations and messages together."""
    times = sorted(
        [one.at for one in watched.steps]
        + [one.begin for one in watched.operations]
        + [one.at for one in watched.messages or ()]
    )
    if len(times) <= most:
        return watched
    since = times[-most]
    note = f"The page begins at {since / 1e6:.3f} s, because a page of the whole run would be too large."
    part = part_of(watched, since, watched.ends)
    return replace(part, notes=(*part.notes, note))

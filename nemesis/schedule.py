"""Computes when which fault happens: a suite's entries and a seed become plain data beforehand.

The same entries, load time and seed give the same schedule, to the millisecond; it is stored as `schedule.json` and
replays in either world. It does not contain what only the running cluster knows (which node leads): each fault has a
separate seed for such choices, derived from its position, so that removing one fault changes no other.

Windows lie within the load: a fault is healed before the load ends. An entry that does not fit is an error.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from squall.nemesis import entries as suite
from squall.nemesis.core.durations import drawn, longest_of, write_seconds
from squall.nemesis.core.selector import labels_in
from squall.nemesis.options import FaultOptions, LeaderKillLagging, Timed

SCHEDULE_VERSION = 1
_TIMING = ("at", "for", "repeat", "after")
_FAULT_OPTIONS: TypeAdapter[FaultOptions] = TypeAdapter(suite.AnyFault)


@dataclass(frozen=True)
class ScheduledFault:
    """One occurrence. `at_s` counts from the start of the load; `follows` names the fault that must have healed before
    (steps of a sequence).
    """

    id: str
    at_s: float
    for_s: float
    options: FaultOptions
    seed: str
    follows: str | None = None

    @property
    def ends_at_s(self) -> float:
        return round(self.at_s + occupied(self.options, self.for_s), 3)

    def to_json(self) -> dict[str, Any]:
        written = self.options.model_dump(mode="json", by_alias=True, exclude_none=True)
        options = {key: value for key, value in written.items() if key not in _TIMING}
        return {
            "id": self.id,
            "at_s": self.at_s,
            "for_s": self.for_s,
            "options": options,
            "seed": self.seed,
            "follows": self.follows,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ScheduledFault:
        options = _FAULT_OPTIONS.validate_python(data["options"])
        return cls(data["id"], data["at_s"], data["for_s"], options, data["seed"], data.get("follows"))


@dataclass(frozen=True)
class Schedule:
    """All faults of a run, in order of time."""

    seed: int
    faults: tuple[ScheduledFault, ...]

    def to_json(self) -> dict[str, Any]:
        faults = [fault.to_json() for fault in self.faults]
        return {"version": SCHEDULE_VERSION, "seed": self.seed, "faults": faults}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schedule:
        """Raises ValueError for an unknown version."""
        if data.get("version") != SCHEDULE_VERSION:
            raise ValueError(f"version: {data.get('version')!r} is not {SCHEDULE_VERSION}")
        return cls(data["seed"], tuple(ScheduledFault.from_json(fault) for fault in data["faults"]))

    def content_hash(self) -> str:
        """A hash that is equal for equal schedules; recorded in the run's manifest."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def ends_at_s(self) -> float:
        return max((fault.ends_at_s for fault in self.faults), default=0.0)


def occupied(options: FaultOptions, for_s: float) -> float:
    """How long an occurrence keeps the cluster busy: `for`, and what the fault does before it."""
    return options.lag + for_s if isinstance(options, LeaderKillLagging) else for_s


def build_schedule(
    entries: Sequence[suite.NemesisEntry], load_s: float, seed: int, *, quiet_s: float = 0.0
) -> Schedule:
    """The schedule of these entries, which keeps the last `quiet_s` of the load free of faults.

    Raises ValueError, naming the entry, if an entry does not fit.
    """
    faults: list[ScheduledFault] = []
    _refuse_unknown_labels(entries)
    span = _Span(load_s - quiet_s, quiet_s)
    for index, entry in enumerate(entries):
        if isinstance(entry, suite.Mix):
            faults += _mixed(entry, index, span, seed)
            continue
        starts = list(_starts(entry, index, span))
        for turn, start in enumerate(starts):
            name = f"{index + 1}-{entry.fault}" if len(starts) == 1 else f"{index + 1}.{turn + 1}-{entry.fault}"
            faults += _occurrence(entry, name, start, seed)
    return Schedule(seed, tuple(sorted(faults, key=lambda fault: (fault.at_s, fault.id))))


@dataclass(frozen=True)
class _Span:
    """Until when faults may be open, in seconds of load, and how long the load continues after that."""

    faults_s: float
    quiet_s: float

    def __str__(self) -> str:
        load = f"the load, which lasts {write_seconds(round(self.faults_s + self.quiet_s, 3))}"
        if not self.quiet_s:
            return load
        return f"the quiet period of {write_seconds(self.quiet_s)} begins, the last of {load}"

    @property
    def remedy(self) -> str:
        return "lengthen `time.load`" if not self.quiet_s else "lengthen `time.load`, or shorten `time.quiet`"


def _refuse_unknown_labels(entries: Sequence[suite.NemesisEntry]) -> None:
    """Raise ValueError for a `same as NAME` without a fault of that name."""
    known = [step.label for entry in entries for _, step in suite.steps_in(entry) if step.label is not None]
    for index, entry in enumerate(entries):
        for _, step in suite.steps_in(entry):
            for name, text in suite.targets_of(step).items():
                strange = [label for label in labels_in(text) if label not in known]
                if strange:
                    remedy = f"known are {', '.join(known)}" if known else f"give one `as: {strange[0]}`"
                    raise ValueError(f"nemesis[{index}].{name}: {text!r}: no fault is called {strange[0]}; {remedy}")


def _starts(entry: Timed, index: int, span: _Span) -> Iterator[float]:
    """The start times of an entry, given the longest duration of each occurrence."""
    longest = _longest(entry)
    if entry.repeat is None:
        at = entry.at or 0.0
        if at + longest > span.faults_s:
            lasts = f"at {write_seconds(at)} for up to {write_seconds(longest)}"
            raise ValueError(
                f"nemesis[{index}]: {lasts} ends after {span}; start it earlier, shorten it, or {span.remedy}"
            )
        yield at
        return
    every = entry.repeat.every
    if longest > every:
        raise ValueError(
            f"nemesis[{index}]: takes up to {write_seconds(longest)}, longer than its period of "
            f"{write_seconds(every)}; raise `repeat.every`"
        )
    first = entry.at if entry.at is not None else every - longest
    turn = 0
    while first + turn * every + longest <= span.faults_s and turn != entry.repeat.times:
        yield first + turn * every
        turn += 1
    if turn == 0:
        raise ValueError(f"nemesis[{index}]: not even one turn fits the load of {write_seconds(span.faults_s)}")


def _longest(entry: Timed) -> float:
    if isinstance(entry, suite.Sequence):
        return sum(step.after + _longest(step) for step in entry.steps)
    if isinstance(entry, suite.Parallel):
        return max(step.after + _longest(step) for step in entry.steps)
    length = longest_of(entry.length())
    return entry.lag + length if isinstance(entry, LeaderKillLagging) else length


def _mixed(entry: suite.Mix, index: int, span: _Span, seed: int) -> Iterator[ScheduledFault]:
    """Random steps, each after a stable period, while they fit. The draw depends on the seed and the position."""
    at = entry.at or 0.0
    end = at + float(entry.duration) if isinstance(entry.duration, float | int) else span.faults_s
    if end > span.faults_s:
        raise ValueError(
            f"nemesis[{index}]: from {write_seconds(at)} for {write_seconds(end - at)} ends after {span}; "
            f"shorten it, or {span.remedy}"
        )
    rng = random.Random(entry.lot or f"{seed}/nemesis/{index + 1}-mix")
    turn = 0
    while True:
        at += drawn(entry.stable, rng)
        step = rng.choice(entry.steps)
        turn += 1
        faults = list(_occurrence(step, f"{index + 1}.{turn}-{step.fault}", at, seed))
        ends = max(fault.ends_at_s for fault in faults)
        if ends > end:
            break
        yield from faults
        at = ends
    if turn == 1:
        raise ValueError(
            f"nemesis[{index}]: the first of the mix, a {step.fault}, would end at {write_seconds(ends)}, and the mix"
            f" at {write_seconds(end)}; lengthen it, or shorten `stable`"
        )


def _occurrence(
    entry: FaultOptions | suite.Sequence | suite.Parallel, name: str, start: float, seed: int
) -> Iterator[ScheduledFault]:
    if isinstance(entry, suite.Parallel):
        for number, step in enumerate(entry.steps, start=1):
            yield _scheduled(step, f"{name}-{number}-{step.fault}", start + step.after, seed, follows=None)
        return
    if not isinstance(entry, suite.Sequence):
        yield _scheduled(entry, name, start, seed, follows=None)
        return
    at, follows = start, None
    for number, step in enumerate(entry.steps, start=1):
        at += step.after
        scheduled = _scheduled(step, f"{name}-{number}-{step.fault}", at, seed, follows)
        yield scheduled
        at, follows = scheduled.ends_at_s, scheduled.id


def _scheduled(options: FaultOptions, name: str, at: float, seed: int, follows: str | None) -> ScheduledFault:
    own_seed = options.lot or f"{seed}/nemesis/{name}"
    for_s = drawn(options.length(), random.Random(f"{own_seed}/duration"))
    bare = options.model_copy(update={"at": None, "duration": None, "repeat": None, "after": 0.0, "lot": None})
    return ScheduledFault(name, round(at, 3), for_s, bare, own_seed, follows)

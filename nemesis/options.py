"""The `nemesis:` list of a suite: what may be written, checked before anything starts.

    nemesis:
      - fault: isolate
        target: leader of events/*
        repeat: {every: 20s, for: 10s}        # 10–20 s, 30–40 s, … each window at the end of its period
      - fault: kill
        target: active controller
        at: 35s
        for: {from: 500ms, to: 10s}           # drawn log-uniformly from the seed
      - at: 45s
        sequence:                             # one after the other
          - {fault: pause, target: followers of events/0, for: 1s}
          - {fault: kill, target: leader of events/0, for: 12s, after: 500ms}

Each fault has a model of its own, told apart by `fault`; unknown keys are errors, and a misspelt fault name ends
in pydantic's `union_tag_invalid`, which lists the known ones (`nearest_fault` serves those who want a suggestion).
A fault with options may also be written in one: `fault: {isolate: {from: everyone}}`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from squall.nemesis.durations import Duration, DurationRange, Seconds
from squall.nemesis.selector import parse_selector, parse_topic_partition

DEFAULT_DURATION = 10.0


def _selector(text: str) -> str:
    parse_selector(text)
    return text


def _topic_partition(text: str) -> str:
    parse_topic_partition(text)
    return text


Target = Annotated[str, AfterValidator(_selector)]
TopicPartitionTarget = Annotated[str, AfterValidator(_topic_partition)]
Group = Literal["nodes", "brokers", "controllers"]


def _length_form(value: Any) -> str:
    return "range" if isinstance(value, Mapping | DurationRange) else "duration"


Length = Annotated[
    Annotated[Duration, Tag("duration")] | Annotated[DurationRange, Tag("range")], Discriminator(_length_form)
]


class _Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Repeat(_Options):
    """Again and again while the load lasts; each window lies at the end of its period, so quiet comes first."""

    every: Duration
    duration: Length | None = Field(default=None, alias="for")
    times: int | None = Field(default=None, ge=1)


class Timed(_Options):
    """When: once (`at`) or repeatedly (`repeat`), and for how long. A step of a sequence has `after` instead."""

    at: Seconds | None = Field(default=None, ge=0)
    duration: Length | None = Field(default=None, alias="for")
    repeat: Repeat | None = None
    after: Seconds = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _one_duration(self) -> Timed:
        if self.repeat and self.repeat.duration is not None and self.duration is not None:
            raise ValueError("`for` is given twice, here and in `repeat`; keep one")
        return self

    def length(self) -> float | DurationRange:
        """How long each occurrence lasts."""
        for given in (self.duration, self.repeat.duration if self.repeat else None):
            if given is not None:
                return given
        return DEFAULT_DURATION


class Isolate(Timed):
    """Cuts each target from all other nodes, both ways; clients stay connected unless `from: everyone`."""

    fault: Literal["isolate"]
    target: Target
    cut_from: Literal["peers", "everyone"] = Field(default="peers", alias="from")


class Halves(Timed):
    """Splits a group in two that do not hear each other: `target` against the rest, or halves by lot."""

    fault: Literal["halves"]
    target: Target | None = None
    among: Group = "nodes"


class OneWay(Timed):
    """One direction only: the target is deaf to its peers (`deaf`), or they to it (`mute`)."""

    fault: Literal["one-way"]
    target: Target
    direction: Literal["deaf", "mute"] = "deaf"


class MajoritiesRing(Timed):
    """Every node hears a majority, and no two the same majority."""

    fault: Literal["majorities-ring"]
    among: Group = "nodes"


class Bridge(Timed):
    """Two halves that hear each other only through one node in the middle."""

    fault: Literal["bridge"]
    among: Group = "nodes"


class Kill(Timed):
    """SIGKILL; the process stays down for `for` and is then started again."""

    fault: Literal["kill"]
    target: Target


class Pause(Timed):
    """SIGSTOP, and SIGCONT after `for`: the process sleeps through its own timeouts."""

    fault: Literal["pause"]
    target: Target


class Clock(Timed):
    """The wall clock jumps by `offset` and then runs at `rate`; monotonic time is untouched."""

    fault: Literal["clock"]
    target: Target
    offset: Seconds = 3600.0
    rate: float = Field(default=1.0, gt=0, le=100)

    @model_validator(mode="after")
    def _changes_something(self) -> Clock:
        if self.offset == 0 and self.rate == 1.0:
            raise ValueError("an offset of 0 s at rate 1 leaves the clock as it is; give `offset` or `rate`")
        return self


class LeaderKillLagging(Timed):
    """Pauses the followers of a topic-partition for `lag`, kills its leader meanwhile, and keeps it down for `for`."""

    fault: Literal["leader-kill-lagging"]
    target: TopicPartitionTarget
    lag: Duration = 1.0


AnyFault = Annotated[
    Isolate | Halves | OneWay | MajoritiesRing | Bridge | Kill | Pause | Clock | LeaderKillLagging,
    Field(discriminator="fault"),
]

FAULT_NAMES = (
    "isolate", "halves", "one-way", "majorities-ring", "bridge",
    "kill", "pause", "clock", "leader-kill-lagging",
)  # fmt: skip


def _written_flat(entry: Any) -> Any:
    """`fault: {isolate: {from: everyone}}` as `fault: isolate, from: everyone`; `sequence` as a kind of its own."""
    if not isinstance(entry, Mapping):
        return entry
    if "sequence" in entry and "fault" not in entry:
        return {"fault": "sequence", **entry}
    fault = entry.get("fault")
    if fault is None:
        raise ValueError(f"names no `fault`; known are {', '.join(FAULT_NAMES)}, and `sequence`")
    if isinstance(fault, Mapping) and len(fault) == 1:
        name, options = next(iter(fault.items()))
        if isinstance(options, Mapping):
            return {**entry, **options, "fault": name}
    return entry


def _is_step(entry: Timed) -> Timed:
    if entry.at is not None or entry.repeat is not None:
        raise ValueError("a step of a sequence has no `at` or `repeat` of its own; give them to the sequence")
    return entry


Step = Annotated[Annotated[AnyFault, BeforeValidator(_written_flat)], AfterValidator(_is_step)]


class Sequence(Timed):
    """Faults one after the other: each starts `after` that long once the one before has healed."""

    fault: Literal["sequence"] = "sequence"
    steps: tuple[Step, ...] = Field(alias="sequence", min_length=1)

    @model_validator(mode="after")
    def _no_duration(self) -> Sequence:
        if self.duration is not None or (self.repeat and self.repeat.duration is not None):
            raise ValueError("a sequence lasts as long as its steps; give `for` to them")
        return self


def _is_timed(entry: Timed) -> Timed:
    if entry.at is None and entry.repeat is None:
        raise ValueError("says not when: give `at: 35s` or `repeat: {every: 20s, for: 10s}`")
    if entry.after:
        raise ValueError("has `after`, which only steps of a sequence have; use `at`")
    return entry


NemesisEntry = Annotated[
    Annotated[
        Isolate | Halves | OneWay | MajoritiesRing | Bridge | Kill | Pause | Clock | LeaderKillLagging | Sequence,
        Field(discriminator="fault"),
    ],
    BeforeValidator(_written_flat),
    AfterValidator(_is_timed),
]
"""One entry of a suite's `nemesis:` list; a suite model declares `nemesis: list[NemesisEntry] = []`."""

FaultOptions = Isolate | Halves | OneWay | MajoritiesRing | Bridge | Kill | Pause | Clock | LeaderKillLagging


def nearest_fault(name: str) -> str | None:
    """The known fault name nearest to a misspelt one."""
    near = difflib.get_close_matches(name, FAULT_NAMES, n=1, cutoff=0.5)
    return near[0] if near else None

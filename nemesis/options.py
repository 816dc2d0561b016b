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
      - {fault: kill, target: one follower of events/0, as: outsider, at: 60s, for: 5s}
      - {fault: wipe-disk, target: same as outsider, at: 70s, for: 1s}

Each fault has a model of its own, told apart by `fault`; unknown keys are errors, and a misspelt fault name ends
in pydantic's `union_tag_invalid`, which lists the known ones (`nearest_fault` serves those who want a suggestion).
A fault with options may also be written in one: `fault: {isolate: {from: everyone}}`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from squall.nemesis.apis import known_api
from squall.nemesis.durations import Duration, DurationRange, Seconds
from squall.nemesis.rates import ByteRate
from squall.nemesis.selector import parse_selector, parse_topic_partition

DEFAULT_DURATION = 10.0


def _selector(text: str) -> str:
    parse_selector(text)
    return text


def _topic_partition(text: str) -> str:
    parse_topic_partition(text)
    return text


def _cut_from(text: str) -> str:
    if text not in ("peers", "everyone"):
        try:
            parse_selector(text)
        except ValueError as wrong:
            raise ValueError(f"is neither peers nor everyone, and {wrong}") from None
    return text


Target = Annotated[str, AfterValidator(_selector)]
CutFrom = Annotated[str, AfterValidator(_cut_from)]
TopicPartitionTarget = Annotated[str, AfterValidator(_topic_partition)]
Group = Literal["nodes", "brokers", "controllers"]
Api = Annotated[str, AfterValidator(known_api)]
Label = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
DiskCall = Literal["read", "write", "truncate", "fsync", "create", "rename", "remove", "fsync-directory"]
Probability = Annotated[float, Field(gt=0, le=1)]


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
    """When: once (`at`) or repeatedly (`repeat`), and for how long. A step of a sequence has `after` instead.

    `as` gives the fault a name, by which later ones may aim at the same hosts (`target: same as NAME`). `lot` decides
    where a choice is left; it comes of the run's seed and the fault's place, unless a schedule pins it.
    """

    at: Seconds | None = Field(default=None, ge=0)
    duration: Length | None = Field(default=None, alias="for")
    repeat: Repeat | None = None
    after: Seconds = Field(default=0.0, ge=0)
    label: Label | None = Field(default=None, alias="as")
    lot: str | None = None

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
    """Cuts each target from all other nodes, both ways; clients stay connected unless `from: everyone`.

    `from` may also be a selector, such as `all controllers`: then the target is cut from these only.
    """

    fault: Literal["isolate"]
    target: Target
    cut_from: CutFrom = Field(default="peers", alias="from")


class Halves(Timed):
    """Splits a group in two that do not hear each other: `target` against the rest, or halves by lot."""

    fault: Literal["halves"]
    target: Target | None = None
    among: Group = "nodes"


class OneWay(Timed):
    """One direction only: the target is deaf to its peers (`deaf`), or they to it (`mute`); to `to` only, if given."""

    fault: Literal["one-way"]
    target: Target
    peers: Target | None = Field(default=None, alias="to")
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


class PowerLoss(Timed):
    """The process dies and its host loses what was not fsynced: all of it, a part (`torn`), or nothing (`none`)."""

    fault: Literal["power-loss"]
    target: Target
    mode: Literal["all", "torn", "none"] = "all"


class WipeDisk(Timed):
    """The process is killed, its log directory emptied, and after `for` it starts with nothing."""

    fault: Literal["wipe-disk"]
    target: Target


class DiskError(Timed):
    """The named disk calls of the target's node fail, each with this probability."""

    fault: Literal["disk-error"]
    target: Target
    errno: Literal["EIO", "ENOSPC"] = "EIO"
    calls: tuple[DiskCall, ...] = Field(default=("write", "fsync"), min_length=1)
    probability: Probability = 1.0


class DiskSlow(Timed):
    """Each of the named disk calls of the target's node takes so much longer."""

    fault: Literal["disk-slow"]
    target: Target
    latency: Duration = 0.05
    calls: tuple[DiskCall, ...] = Field(default=("write", "fsync"), min_length=1)


class _Link(Timed):
    """What passes between the target and `to` (everybody, clients too, unless given)."""

    target: Target
    peers: Target | None = Field(default=None, alias="to")
    direction: Literal["both", "out", "in"] = "both"


class SlowLink(_Link):
    """Messages take longer by `latency`, give or take up to `jitter`; `loss` of them only after retransmission."""

    fault: Literal["slow-link"]
    latency: Seconds = Field(default=0.1, ge=0)
    jitter: Seconds = Field(default=0.0, ge=0)
    loss: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _changes_something(self) -> SlowLink:
        if self.latency == 0 and self.jitter == 0 and self.loss == 0:
            raise ValueError("without latency, jitter and loss the link stays as it is; give one of them")
        return self


class Bandwidth(_Link):
    """No more than `rate` gets through, in each direction by itself; the rest queues up."""

    fault: Literal["bandwidth"]
    rate: ByteRate = 65_536


class _Rpc(Timed):
    """Requests of one API from `from` (everybody, clients too, unless given) to `to`, or the answers to them."""

    api: Api
    direction: Literal["request", "response"] = "request"
    senders: Target | None = Field(default=None, alias="from")
    receivers: Target = Field(default="all nodes", alias="to")


class RpcHold(_Rpc):
    """Such messages, and what comes after them on the same connection, are held back until the fault ends."""

    fault: Literal["rpc-hold"]


class RpcCut(_Rpc):
    """Each time so many such `messages` have arrived, their connection is cut; 0: it is cut in place of every one."""

    fault: Literal["rpc-cut"]
    messages: int = Field(default=1, ge=0)


class Restart(Timed):
    """SIGTERM; the process stops cleanly, stays down for `for` and is then started again.

    `patience` is how long it may take to stop (a broker hands over what it leads first); then it is killed.
    """

    fault: Literal["restart"]
    target: Target
    patience: Duration = 10.0


class Reassign(Timed):
    """Begins to move a topic-partition: `to` these brokers, or to as many by lot as it has, or as `replicas` says.

    With `cancel` it is called off when the window ends, if it still goes on then.
    """

    fault: Literal["reassign"]
    target: TopicPartitionTarget
    hosts: Target | None = Field(default=None, alias="to")
    replicas: int | None = Field(default=None, ge=1)
    cancel: bool = False

    @model_validator(mode="after")
    def _one_of_them(self) -> Reassign:
        if self.hosts is not None and self.replicas is not None:
            raise ValueError("give either `to`, which names the brokers, or `replicas`, how many")
        return self


class ElectLeaders(Timed):
    """The preferred replica of every topic-partition under test is asked to lead."""

    fault: Literal["elect-leaders"]


class AlterConfig(Timed):
    """A topic has another setting while the window lasts, and `afterwards` (nothing: the default) once it is over."""

    fault: Literal["alter-config"]
    topic: str
    name: str
    value: str
    afterwards: str | None = None


class RemoveVoter(Timed):
    """A controller is taken out of the quorum's voters (KIP-853), and let in again when the window is over."""

    fault: Literal["remove-voter"]
    target: Target


FaultOptions = (
    Isolate | Halves | OneWay | MajoritiesRing | Bridge | Kill | Pause | Clock | LeaderKillLagging
    | PowerLoss | WipeDisk | DiskError | DiskSlow | SlowLink | Bandwidth | RpcHold | RpcCut
    | Restart | Reassign | ElectLeaders | AlterConfig | RemoveVoter
)  # fmt: skip

AnyFault = Annotated[FaultOptions, Field(discriminator="fault")]

FAULT_NAMES = (
    "isolate", "halves", "one-way", "majorities-ring", "bridge",
    "kill", "pause", "clock", "leader-kill-lagging",
    "power-loss", "wipe-disk", "disk-error", "disk-slow",
    "slow-link", "bandwidth", "rpc-hold", "rpc-cut",
    "restart", "reassign", "elect-leaders", "alter-config", "remove-voter",
)  # fmt: skip


def targets_of(options: BaseModel) -> dict[str, str]:
    """Every selector of a fault, by the name it has in the suite: `target`, `from`, `to`."""
    fields = (
        *(("target", "target"), ("from", "senders"), ("from", "cut_from")),
        *(("to", "receivers"), ("to", "peers"), ("to", "hosts")),
    )
    written = ((name, getattr(options, field, None)) for name, field in fields)
    return {name: text for name, text in written if text is not None and text not in ("peers", "everyone")}


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
    Annotated[FaultOptions | Sequence, Field(discriminator="fault")],
    BeforeValidator(_written_flat),
    AfterValidator(_is_timed),
]
"""One entry of a suite's `nemesis:` list; a suite model declares `nemesis: list[NemesisEntry] = []`."""


def nearest_fault(name: str) -> str | None:
    """The known fault name nearest to a misspelt one."""
    near = difflib.get_close_matches(name, FAULT_NAMES, n=1, cutoff=0.5)
    return near[0] if near else None

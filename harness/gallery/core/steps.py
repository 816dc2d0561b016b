"""The steps of an entry's schedule: each is one mapping whose key `do` says what it does, carried out in order.

    - {do: hold, as: a1, broker: 1, api: Produce, count: 1, pass_others: true}
    - {do: send, as: first, topic: events, partitions: [0]}
    - {do: await, held: a1}
    - {do: release, hold: a1}

`as` names a hold, a send or a load, so that others refer to it. A twin can leave a named step out (`without`), together
with all that refer to it. Times are durations such as `200ms`. What an `await` waits for must come within `within`;
otherwise the reproduction has not happened and the outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from squall.nemesis.core.durations import Duration
from squall.nemesis.options.base import Api, Label, Options
from squall.nemesis.options.rpc import Until

BrokerId = Annotated[int, Field(ge=1, le=9)]
Partitions = Annotated[tuple[int, ...], Field(min_length=1)]
Direction = Literal["request", "response"]


class Hold(Options):
    """Hold messages at the proxy of a broker, in the words of `rpc-hold`."""

    do: Literal["hold"]
    label: Label = Field(alias="as")
    broker: BrokerId = 1
    api: Api
    direction: Direction = "request"
    count: int | None = Field(default=1, ge=1)
    pass_others: bool = True
    outlive: bool = False
    until: Until | None = None

    @model_validator(mode="after")
    def _can_outlive(self) -> Hold:
        if self.outlive and (self.direction == "response" or not self.pass_others):
            raise ValueError("outlive: only a request with `pass_others: true` can outlive its connection")
        return self

    @property
    def refers_to(self) -> tuple[str, ...]:
        return (self.label,)


class HoldWrites(Options):
    """Hold every write and fsync of a broker's data directory, as a disk does that no longer answers, until the broker
    is killed or a `release`.
    """

    do: Literal["hold-writes"]
    label: Label = Field(alias="as")
    broker: BrokerId = 1

    @property
    def refers_to(self) -> tuple[str, ...]:
        return (self.label,)


class Release(Options):
    """End a hold: what it holds is delivered, where its connection or `outlive` still allows."""

    do: Literal["release"]
    hold: Label

    @property
    def refers_to(self) -> tuple[str, ...]:
        return (self.hold,)


class Send(Options):
    """Send `each` fresh records of `size` bytes to each of these topic-partitions, without waiting for their fates."""

    do: Literal["send"]
    label: Label = Field(alias="as")
    topic: str
    partitions: Partitions
    each: int = Field(default=1, ge=1)
    size: int = Field(default=0, ge=0)

    @property
    def refers_to(self) -> tuple[str, ...]:
        return (self.label,)


class WriteRegister(Options):
    """Write a value to a register, without waiting for its fate; `sent` waits for it."""

    do: Literal["write"]
    label: Label = Field(alias="as")
    register_name: Label = Field(alias="register")
    value: int = Field(ge=0)

    @property
    def refers_to(self) -> tuple[str, ...]:
        return (self.label,)


class Load(Options):
    """Send `rate` records a second, to these topic-partitions in turn, until a `stop`."""

    do: Literal["load"]
    label: Label = Field(alias="as")
    topic: str
    partitions: Partitions
    rate: int = Field(ge=1)
    size: int = Field(default=0, ge=0)

    @property
    def refers_to(self) -> tuple[str, ...]:
        return (self.label,)


class Stop(Options):
    """End a load."""

    do: Literal["stop"]
    load: Label

    @property
    def refers_to(self) -> tuple[str, ...]:
        return (self.load,)


class Transaction(Options):
    """Begin a transaction of the client's producer, or end it and wait for the client's word on it."""

    do: Literal["begin", "commit", "abort"]

    @property
    def refers_to(self) -> tuple[str, ...]:
        return ()


class Position(Options):
    """Commit a group's position on a topic-partition within the transaction, and wait for the client's word on it."""

    do: Literal["position"]
    group: Label = "gallery"
    topic: str
    partition: int = 0
    offset: int = Field(ge=0)

    @property
    def refers_to(self) -> tuple[str, ...]:
        return ()


class Reassign(Options):
    """Begin to move a topic-partition to these brokers. An `await` on its ISR waits for the end of the move."""

    do: Literal["reassign"]
    topic: str
    partition: int = 0
    replicas: tuple[BrokerId, ...] = Field(min_length=1)

    @property
    def refers_to(self) -> tuple[str, ...]:
        return ()


class InSync(Options):
    """The ISR of a topic-partition, and its leader unless any is right (-1: none); or who does not lead any more."""

    topic: str
    partition: int = 0
    isr: tuple[BrokerId, ...] | None = None
    leader: int | None = None
    deposed: BrokerId | None = None
    """A broker that has ceased to lead; whether another one leads is not said."""


class Await(Options):
    """Wait for one thing: a message held, delivered, answered by the broker, or lost with its connection; the fates of
    sends; that a transaction's sends are acknowledged by the broker; an ISR.
    """

    do: Literal["await"]
    held: Label | None = None
    dropped: Label | None = None
    delivered: Label | None = None
    answered: Label | None = None
    sent: Label | None = None
    appended: Label | None = None
    in_sync: InSync | None = None
    within: Duration = 30.0

    @model_validator(mode="after")
    def _one_thing(self) -> Await:
        things = (self.held, self.dropped, self.delivered, self.answered, self.sent, self.appended, self.in_sync)
        if sum(one is not None for one in things) != 1:
            raise ValueError("await: name exactly one of held, dropped, delivered, answered, sent, appended, in_sync")
        return self

    @property
    def refers_to(self) -> tuple[str, ...]:
        names = (self.held, self.dropped, self.delivered, self.answered, self.sent, self.appended)
        return tuple(one for one in names if one is not None)


class Wait(Options):
    """Let this much time pass: the schedule is about it, and there is nothing to wait for."""

    do: Literal["wait"]
    time: Duration

    @property
    def refers_to(self) -> tuple[str, ...]:
        return ()


class Node(Options):
    """Kill a broker (SIGKILL), let it lose power (what it has not fsynced is gone as well), or start it again; stop its
    process where it is (SIGSTOP, `pause`), and let it go on (`resume`).
    """

    do: Literal["kill", "lose-power", "start", "pause", "resume"]
    label: Label | None = Field(default=None, alias="as")
    broker: BrokerId

    @property
    def refers_to(self) -> tuple[str, ...]:
        return () if self.label is None else (self.label,)


Step = Annotated[
    Hold
    | HoldWrites
    | Release
    | Send
    | WriteRegister
    | Load
    | Stop
    | Transaction
    | Position
    | Reassign
    | Await
    | Wait
    | Node,
    Field(discriminator="do"),
]


def without(schedule: tuple[Step, ...], labels: tuple[str, ...]) -> tuple[Step, ...]:
    """Return the schedule without the steps of these names, and without those that refer to them."""
    return tuple(step for step in schedule if not set(step.refers_to) & set(labels))


def problems(schedule: tuple[Step, ...]) -> Iterator[tuple[int, str]]:
    """Yield the position of each step that refers to a name that no step before it has, and what is wrong."""
    known: set[str] = set()
    for at, step in enumerate(schedule):
        named = getattr(step, "label", None)
        if named is not None:
            if named in known:
                yield at, f"as: {named!r} is given twice"
            known.add(named)
        for name in step.refers_to:
            if name not in known:
                yield at, f"{name!r} is the name of no step before"

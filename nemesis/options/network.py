"""Options of network partitions and other network faults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from squall.nemesis.durations import Seconds
from squall.nemesis.options.base import CutFrom, FaultOptions, Group, Target
from squall.nemesis.rates import ByteRate


class Isolate(FaultOptions):
    """Cuts each target from all other nodes, both ways; clients stay connected unless `from: everyone`.

    `from` may also be a selector, such as `all controllers`: then the target is cut from these only.
    """

    fault: Literal["isolate"]
    target: Target
    cut_from: CutFrom = Field(default="peers", alias="from")


class Halves(FaultOptions):
    """Splits a group in two that do not hear each other: `target` against the rest, or halves by lot."""

    fault: Literal["halves"]
    target: Target | None = None
    among: Group = "nodes"


class Thirds(FaultOptions):
    """Splits a group in three, by lot, that do not hear each other; none of them has a majority."""

    fault: Literal["thirds"]
    among: Group = "nodes"


class OneWay(FaultOptions):
    """One direction only: the target is deaf to its peers (`deaf`), or they to it (`mute`); to `to` only, if given."""

    fault: Literal["one-way"]
    target: Target
    peers: Target | None = Field(default=None, alias="to")
    direction: Literal["deaf", "mute"] = "deaf"


class MajoritiesRing(FaultOptions):
    """Every node hears a majority, and no two the same majority."""

    fault: Literal["majorities-ring"]
    among: Group = "nodes"


class Bridge(FaultOptions):
    """Two halves that hear each other only through one node in the middle."""

    fault: Literal["bridge"]
    among: Group = "nodes"


class CutPort(FaultOptions):
    """Cuts one kind of connections of the target, and nothing else: with `controllers`' listeners, the `replication`
    between brokers, or those of `clients`.

    `deaf`: what comes in is lost; `mute`: what goes out.
    """

    fault: Literal["cut-port"]
    target: Target
    connections: Literal["controllers", "replication", "clients"]
    direction: Literal["both", "deaf", "mute"] = "both"


class Reset(FaultOptions):
    """Resets all connections at the target's and its peers' ports each `every` seconds; to `to` only, if given."""

    fault: Literal["reset"]
    target: Target
    peers: Target | None = Field(default=None, alias="to")
    every: Seconds = Field(default=1.0, ge=0.05)


class ConnectionStorm(FaultOptions):
    """So many more `connections` to the target's port, held open; from `from`, or from another node by lot."""

    fault: Literal["connection-storm"]
    target: Target
    senders: Target | None = Field(default=None, alias="from")
    connections: int = Field(default=500, ge=1, le=20_000)


class Flood(FaultOptions):
    """Datagrams that nobody wants come in at the target, `rate` of them; from one of `from`, or another node by lot."""

    fault: Literal["flood"]
    target: Target
    senders: Target | None = Field(default=None, alias="from")
    rate: ByteRate = 10 << 20


class InterfaceDown(FaultOptions):
    """The network interface of the target is down, the one by which its peers know it unless `interface` names another.

    The control connection is cut with it; the host brings the interface up again.
    """

    fault: Literal["interface-down"]
    target: Target
    interface: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.@-]{1,15}$")

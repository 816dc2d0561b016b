"""Options of network partitions and other network faults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from squall.nemesis.core.durations import Seconds
from squall.nemesis.core.rates import ByteRate
from squall.nemesis.options.base import CutFrom, FaultOptions, Group, Target


class Isolate(FaultOptions):
    """Cuts each target from all other nodes, both ways; clients stay connected unless `from: everyone`.

    `from` may also be a selector, such as `all controllers`: then the target is cut from these only.
    """

    fault: Literal["isolate"]
    target: Target
    cut_from: CutFrom = Field(default="peers", alias="from")


class Halves(FaultOptions):
    """Splits a group into two that cannot reach each other: `target` and the rest, or two random halves."""

    fault: Literal["halves"]
    target: Target | None = None
    among: Group = "nodes"


class Thirds(FaultOptions):
    """Splits a group at random into three that cannot reach each other; none of them has a majority."""

    fault: Literal["thirds"]
    among: Group = "nodes"


class OneWay(FaultOptions):
    """Drops packets in one direction: to the target (`deaf`) or from it (`mute`); `to` limits this to these hosts."""

    fault: Literal["one-way"]
    target: Target
    peers: Target | None = Field(default=None, alias="to")
    direction: Literal["deaf", "mute"] = "deaf"


class MajoritiesRing(FaultOptions):
    """Lets each node receive from a majority of the group, a different majority for each node."""

    fault: Literal["majorities-ring"]
    among: Group = "nodes"


class Bridge(FaultOptions):
    """Splits a group into two halves that can reach each other only through one node in the middle."""

    fault: Literal["bridge"]
    among: Group = "nodes"


class CutPort(FaultOptions):
    """Cuts one kind of connections of the target: to `controllers`' listeners, `replication` between brokers, or those
    of `clients`.

    `deaf`: what comes in is lost; `mute`: what goes out.
    """

    fault: Literal["cut-port"]
    target: Target
    connections: Literal["controllers", "replication", "clients"]
    direction: Literal["both", "deaf", "mute"] = "both"


class Reset(FaultOptions):
    """Resets the target's connections at the nodes' ports once per `every`; with `to`, only those with these hosts."""

    fault: Literal["reset"]
    target: Target
    peers: Target | None = Field(default=None, alias="to")
    every: Seconds = Field(default=1.0, ge=0.05)


class ConnectionStorm(FaultOptions):
    """Opens `connections` more connections to the target's port, from `from` or a random other node, and holds them."""

    fault: Literal["connection-storm"]
    target: Target
    senders: Target | None = Field(default=None, alias="from")
    connections: int = Field(default=500, ge=1, le=20_000)


class Flood(FaultOptions):
    """Sends unwanted datagrams to the target at `rate`, from one of `from` or from a random other node."""

    fault: Literal["flood"]
    target: Target
    senders: Target | None = Field(default=None, alias="from")
    rate: ByteRate = 10 << 20


class InterfaceDown(FaultOptions):
    """Takes the target's network interface down: `interface`, or by default the one that its peers connect to.

    The control connection is cut with it; the host brings the interface up again.
    """

    fault: Literal["interface-down"]
    target: Target
    interface: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.@-]{1,15}$")

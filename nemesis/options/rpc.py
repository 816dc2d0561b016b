"""Options of RPC faults: messages held or lost, and connections whose bytes are treated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from squall.nemesis.durations import Seconds
from squall.nemesis.options.base import Api, FaultOptions, Target


class _Rpc(FaultOptions):
    """Requests of one API from `from` (by default all hosts, including clients) to `to`, or the responses to them."""

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


class _Stream(FaultOptions):
    """Connections to the target's port from `from` (by default all hosts, including clients)."""

    target: Target
    senders: Target | None = Field(default=None, alias="from")


class Slice(_Stream):
    """What goes over such connections, either way, arrives in pieces of `size` bytes with a `gap` between them."""

    fault: Literal["slice"]
    size: int = Field(default=64, ge=1)
    gap: Seconds = Field(default=0.001, ge=0)


class BlackHole(_Stream):
    """Such connections swallow what is sent, either way, and are closed `delay` after the first byte."""

    fault: Literal["black-hole"]
    delay: Seconds = Field(default=1.0, ge=0)


class CutAfter(_Stream):
    """Such connections are closed once `limit` bytes have gone over them, both ways together."""

    fault: Literal["cut-after"]
    limit: int = Field(default=10_000, ge=1, le=1_000_000)


class SlowClose(_Stream):
    """Where one end closes such a connection, the other learns of it `delay` later."""

    fault: Literal["slow-close"]
    delay: Seconds = Field(default=1.0, gt=0)

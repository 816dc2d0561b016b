"""Options of RPC faults: messages held or lost, and connections whose bytes are treated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from squall.nemesis.core.durations import Seconds
from squall.nemesis.options.base import Api, FaultOptions, Target


class _Rpc(FaultOptions):
    """Requests of one API from `from` (by default all hosts, including clients) to `to`, or the responses to them."""

    api: Api
    direction: Literal["request", "response"] = "request"
    senders: Target | None = Field(default=None, alias="from")
    receivers: Target = Field(default="all nodes", alias="to")


class RpcHold(_Rpc):
    """Holds back messages of `api`, and all later ones on the same connection, until the fault ends."""

    fault: Literal["rpc-hold"]


class RpcCut(_Rpc):
    """Cuts the connection after every `messages` messages of `api`; 0 cuts it instead of delivering each one."""

    fault: Literal["rpc-cut"]
    messages: int = Field(default=1, ge=0)


class _Stream(FaultOptions):
    """Connections to the target's port from `from` (by default all hosts, including clients)."""

    target: Target
    senders: Target | None = Field(default=None, alias="from")


class Slice(_Stream):
    """Delivers the bytes of connections to the target, both ways, in pieces of `size` bytes, `gap` apart."""

    fault: Literal["slice"]
    size: int = Field(default=64, ge=1)
    gap: Seconds = Field(default=0.001, ge=0)


class BlackHole(_Stream):
    """Discards the bytes of connections to the target, both ways, and closes them `delay` after the first byte."""

    fault: Literal["black-hole"]
    delay: Seconds = Field(default=1.0, ge=0)


class CutAfter(_Stream):
    """Closes connections to the target after `limit` bytes, both ways together."""

    fault: Literal["cut-after"]
    limit: int = Field(default=10_000, ge=1, le=1_000_000)


class SlowClose(_Stream):
    """Forwards the close of a connection to the target to its other end only after `delay`."""

    fault: Literal["slow-close"]
    delay: Seconds = Field(default=1.0, gt=0)

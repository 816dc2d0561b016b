"""Options of RPC faults: messages held or lost, and connections whose bytes are treated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from squall.nemesis.core.durations import Seconds
from squall.nemesis.options.base import Api, FaultOptions, Options, Target


class _Rpc(FaultOptions):
    """Requests of one API from `from` (by default all hosts, including clients) to `to`, or the responses to them."""

    api: Api
    direction: Literal["request", "response"] = "request"
    senders: Target | None = Field(default=None, alias="from")
    receivers: Target = Field(default="all nodes", alias="to")


class Until(Options):
    """So many messages of this API have passed the proxy since the first one was held."""

    api: Api
    direction: Literal["request", "response"] = "response"
    messages: int = Field(default=1, ge=1)


class RpcHold(_Rpc):
    """Holds back messages of `api`, and all later ones on the same connection, until the fault ends."""

    fault: Literal["rpc-hold"]
    count: int | None = Field(default=None, ge=1)
    pass_others: bool = False
    outlive: bool = False
    until: Until | None = None

    @model_validator(mode="after")
    def _can_outlive(self) -> RpcHold:
        if self.outlive and self.direction == "response":
            raise ValueError("outlive: a response cannot outlive its connection: its receiver is gone")
        if self.outlive and not self.pass_others:
            raise ValueError("outlive: needs `pass_others: true`: the message is taken out of its connection")
        return self

    @property
    def picks_single(self) -> bool:
        """Whether it does more than hold all messages where they are."""
        return self.count is not None or self.pass_others or self.until is not None


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

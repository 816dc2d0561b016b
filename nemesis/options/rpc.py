"""Requests and answers that are held or lost, one API and direction at a time."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from squall.nemesis.options.base import Api, Target, Timed


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


RpcFault = RpcHold | RpcCut

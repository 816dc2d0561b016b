"""`rpc.stream`: the proxy treats the bytes of connections to this host's node (`rpc_stream.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.nemesis.agent.core.arguments import number, required, text
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.net.network import checked_sources
from squall.nemesis.agent.rpc.rpc import NODE, Hold

LONGEST_DELAY = 600.0
MOST_BYTES = 1 << 30
NO_API = -1
"""Such a rule affects no messages."""


class TreatStream(Hold):
    """The fault verb."""

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self._refuse_if_unable()
        prepared = {
            "api": "",
            "api_key": NO_API,
            "direction": "request",
            "sources": checked_sources(arguments.get("sources")),
            "messages": None,
            "treatment": checked_treatment(arguments),
            "ports": self._ports(str(arguments.get("name") or NODE)),
        }
        self._faults.effects.forget(text(arguments, "id"))
        return prepared


def checked_treatment(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Check what to do with the bytes. Raises VerbError."""
    told = dict(arguments)
    kind = text(told, "treatment")
    if kind == "slice":
        return {"kind": kind, "size": _amount(told, "size"), "gap": _seconds(told, "gap_s")}
    if kind == "cut":
        return {"kind": kind, "limit": _amount(told, "limit")}
    if kind in ("black-hole", "slow-close"):
        return {"kind": kind, "delay": _seconds(told, "delay_s")}
    raise VerbError("bad_argument", f"treatment: {kind!r} must be one of slice, black-hole, cut, slow-close")


def _amount(told: dict[str, Any], name: str) -> int:
    value = int(required(told, name, int, "a number of bytes"))
    if not 0 < value <= MOST_BYTES:
        raise VerbError("bad_argument", f"{name}: {value} must be from 1 to {MOST_BYTES}")
    return value


def _seconds(told: dict[str, Any], name: str) -> float:
    value = number(told, name)
    if not 0 <= value <= LONGEST_DELAY:
        raise VerbError("bad_argument", f"{name}: {value:g} must be from 0 to {LONGEST_DELAY:g}")
    return value

"""Ask members of etcd by the JSON gateway, which every member serves at its client address.

Reads are linearizable, as is etcd's default. Keys and values are text.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from squall.harness.systems.asked import TROUBLES, Refused, SocketMaker, ask

__all__ = ["TROUBLES", "VERSION", "Gateway", "Refused"]

VERSION: Final = "v3"


class Gateway:
    """The gateway of the member at `address`, HOST:PORT. Each request has a connection of its own."""

    def __init__(self, address: str, seconds: float, sockets: SocketMaker | None = None) -> None:
        """`sockets` makes sockets of another network than this program's."""
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._seconds = seconds
        self._sockets = sockets

    def put(self, key: str, value: str) -> None:
        self._ask("kv/put", {"key": _encoded(key), "value": _encoded(value)})

    def get(self, key: str) -> str | None:
        """The value of a key; None if there is none."""
        found = self._ask("kv/range", {"key": _encoded(key)}).get("kvs", [])
        return base64.b64decode(found[0].get("value", "")).decode() if found else None

    def status(self) -> dict[str, Any]:
        """What a member says of itself: its leader, its term, how far it has applied the log."""
        return self._ask("maintenance/status", {})

    def _ask(self, path: str, question: dict[str, str]) -> dict[str, Any]:
        return ask(self._address, f"/{VERSION}/{path}", self._seconds, content=question, sockets=self._sockets)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

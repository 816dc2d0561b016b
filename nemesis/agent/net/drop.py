"""`net.drop`: packets from some sources are thrown away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.net.network import Network, checked_sources


class Drop:
    """`net.drop`"""

    def __init__(self, network: Network) -> None:
        self._network = network

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"sources": checked_sources(arguments.get("sources"))}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        self._network.apply(open_entries)
        return {"sources": entry.arguments["sources"]}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._network.apply(remaining)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        if self._network.method():
            self._network.apply(remaining)

"""A negative control: hosts whose fault verbs report success and do nothing.

Everything that relies on evidence must notice: with these hosts every fault stays unproven and the verdict is
*unknown*. A testbed that says *valid* here would say so of any system that its faults never reached.
"""

from __future__ import annotations

from collections.abc import Mapping

from squall.nemesis.core.ports import Host
from squall.nemesis.registry import FAULT_VERBS


class NoopHost:
    """Passes on all verbs except the fault verbs, which it only claims to carry out."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.claimed: list[tuple[str, dict[str, object]]] = []

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def address(self) -> str:
        return self._host.address

    async def call(self, verb: str, **arguments: object) -> dict[str, object]:
        if verb not in FAULT_VERBS:
            return await self._host.call(verb, **arguments)
        self.claimed.append((verb, arguments))
        return {"pid": 1, "sources": arguments.get("sources"), "offset_s": arguments.get("offset_s")}


def silenced(hosts: Mapping[str, Host]) -> dict[str, Host]:
    """The same hosts, with a nemesis that does nothing."""
    return {name: NoopHost(host) for name, host in hosts.items()}

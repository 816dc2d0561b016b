"""A host that is down, as after a power cut or machine stop: silent, and its process dead.

The network is cut first, so that peers see no sign of the death: no reset, no end of a connection, only silence. Only
the control connection stays, and heals the host. Evidence is a reach matrix of datagrams, in which the host neither
receives nor is received, and the process table.
"""

from __future__ import annotations

from squall.nemesis.core import grudge as grudges
from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, process_facts, reach_matrix
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge, pairs_of
from squall.nemesis.core.ports import EVERYONE
from squall.nemesis.core.selector import members
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.processes.process import first_reason, why_not_back, why_not_killed
from squall.nemesis.options import HostDown


class TakeHostDown(AimedFault):
    """`host-down`"""

    def __init__(self, options: HostDown, context: FaultContext) -> None:
        super().__init__(options, context)
        self._nodes = members("nodes", context.cluster)
        self._open = False
        self._observations = 0

    @property
    def _network_id(self) -> str:
        """The id of the network part: a host has one open fault for each id."""
        return f"{self._context.id}/network"

    async def observe(self) -> Facts:
        context = self._context
        self._observations += 1
        nonce = f"{context.id}/{self._observations}/{context.now_ns()}"
        # A dead process refuses only peers that reach it: while the host is cut off, its port is silent.
        processes = await process_facts(
            context.hosts, self._targets, context.process, {} if self._open else context.ports
        )
        heard = await reach_matrix(context.hosts, self._nodes, nonce, expect_all=not self._open)
        return {"processes": processes, "reach": heard}

    async def inject(self, ttl: float) -> None:
        self._open = True
        context = self._context
        await self._ask("net.drop", id=self._network_id, sources=[EVERYONE], ttl=ttl)
        await self._ask("proc.kill", id=context.id, name=context.process, ttl=ttl)

    async def heal(self) -> None:
        """Heal the network first, so that the process restarts on a connected host."""
        self._open = False
        for id in (self._network_id, self._context.id):
            await self._ask("heal", id=id)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        elsewhere = set(pairs_of(self._context.cuts_by_others()))
        for listener, source in pairs_of(self.cuts()):
            if source in during["reach"][listener]:
                return f"{listener} still received from {source}"
            if source not in before["reach"][listener] and (listener, source) not in elsewhere:
                return f"{listener} did not receive from {source} before the fault either (are UDP probes blocked?)"
        return first_reason(
            [why_not_killed(host, before["processes"][host], during["processes"][host]) for host in self._targets]
        )

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        elsewhere = set(pairs_of(self._context.cuts_by_others()))
        for listener, source in pairs_of(self.cuts()):
            if source not in after["reach"][listener] and (listener, source) not in elsewhere:
                return f"{listener} does not receive from {source} again"
        return first_reason([why_not_back(host, after["processes"][host]) for host in self._targets])

    def told(self, during: Facts) -> str:
        return f"process gone, and silent to {len(self._nodes) - 1} of {len(self._nodes) - 1}"

    def cuts(self) -> Grudge:
        return grudges.isolated(self._targets, self._nodes)


HOST = (
    Kind(
        HostDown,
        TakeHostDown,
        ("net.drop", "proc.kill"),
        on_hosts="receivers drop all packets but the control connection's, then SIGKILL; undone in that order",
        proof="datagrams between all hosts, of which this one sends and receives none; and the process table",
        limits="the machine keeps running, so its memory and page cache are not lost",
    ),
)

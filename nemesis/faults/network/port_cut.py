"""Cuts one kind of connections (`net.drop_port`): controllers', between brokers, or clients'.

Only the targets drop, incoming and outgoing packets. Nodes are identified by their addresses and connections by the
port at one end, so that clients can be cut off alone, wherever they are.

Evidence is connections: every pair that is cut must have connected before, and get no response during the fault.
Datagrams between the same hosts, which still pass, and connections of the other kinds, which still succeed, show that
nothing else is cut. The control process connects from the clients' side (`FaultContext.knock`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, all_of
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.ports import EVERYONE
from squall.nemesis.core.selector import NoTarget, Target, members
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import CutPort

CLIENT = "a client"
CONNECT_SECONDS = 0.5
REACH_SECONDS = 0.5


@dataclass(frozen=True, order=True)
class Way:
    """A connection to try: from a host, or from the clients' side, to a port of a host."""

    source: str
    target: str
    port: int

    def __str__(self) -> str:
        return f"{self.source} to {self.target}:{self.port}"


class CutConnections(AimedFault):
    """`cut-port`."""

    def __init__(self, options: CutPort, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options
        self._cut: tuple[Way, ...] = ()
        self._open: tuple[Way, ...] = ()

    async def aim(self) -> Target:
        target = await super().aim()
        cluster, kind = self._context.cluster, self._options.connections
        ways = {
            "controllers": self._ways(members("nodes", cluster), cluster.controllers, self._port("controllers")),
            "replication": self._ways(cluster.brokers, cluster.brokers, self._port("brokers")),
            "clients": self._ways((CLIENT,), cluster.brokers, self._port("brokers")),
        }
        self._cut = ways.pop(kind)
        self._open = tuple(way for others in ways.values() for way in others if self._can_be_tried(way))
        if kind == "clients" and self._context.knock is None:
            raise NoTarget("the clients cannot be observed: the control process cannot open connections to the nodes")
        if not self._cut:
            raise NoTarget(f"{', '.join(self._targets)} has no connections with {kind}")
        return target

    def _port(self, group: str) -> int:
        """The port on which nodes of that group listen. Of a combined node only the broker's port is known."""
        cluster = self._context.cluster
        names = (
            cluster.brokers
            if group == "brokers"
            else [one for one in cluster.controllers if one not in cluster.brokers]
        )
        found = {self._context.ports[name] for name in names if name in self._context.ports}
        if len(found) != 1:
            raise NoTarget(f"{group}: their port is not known" if not found else f"{group} have ports {sorted(found)}")
        return found.pop()

    def _ways(self, sources: tuple[str, ...] | list[str], targets: tuple[str, ...], port: int) -> tuple[Way, ...]:
        """The connections that begin or end at a target of the fault."""
        return tuple(
            Way(source, target, port)
            for source in sources
            for target in targets
            if source != target and (source in self._targets or target in self._targets)
        )

    def _can_be_tried(self, way: Way) -> bool:
        return way.source != CLIENT or self._context.knock is not None

    async def observe(self) -> Facts:
        cut = await self._try(self._cut)
        still = await self._try(self._open)
        still |= await self._reach()
        closed = sum(answer != "open" for answer in cut.values())
        passing = sum(answer == "open" for answer in still.values())
        said = f"{closed} of {len(cut)} connections get no response, {passing} of {len(still)} others are open"
        return {"cut": cut, "others": still, "said": said}

    async def _try(self, ways: tuple[Way, ...]) -> dict[str, str]:
        """What each connection finds: `open`, `refused` or `silent`."""
        sources = sorted({way.source for way in ways})
        answers = await all_of(self._from(source, [way for way in ways if way.source == source]) for source in sources)
        return {str(way): answer[way] for answer in answers for way in sorted(answer)}

    async def _from(self, source: str, ways: list[Way]) -> dict[Way, str]:
        hosts, knock = self._context.hosts, self._context.knock
        if source == CLIENT:
            assert knock is not None
            return {way: await knock(hosts[way.target].address, way.port) for way in ways}
        targets = {f"{way.target}:{way.port}": f"{hosts[way.target].address}:{way.port}" for way in ways}
        answer = await hosts[source].call("probe.port", targets=targets, timeout=CONNECT_SECONDS)
        return {way: str(answer[f"{way.target}:{way.port}"]) for way in ways}

    async def _reach(self) -> dict[str, str]:
        """Send datagrams from each target to all other nodes, and back."""
        hosts, nodes = self._context.hosts, members("nodes", self._context.cluster)
        answers = await all_of(
            hosts[name].call(
                "probe.reach",
                targets={other: hosts[other].address for other in nodes if other != name},
                timeout=REACH_SECONDS,
            )
            for name in self._targets
        )
        return {
            f"datagrams {name} to {other}": "open" if reached else "silent"
            for name, answer in zip(self._targets, answers, strict=True)
            for other, reached in answer.items()
        }

    async def inject(self, ttl: float) -> None:
        context = self._context
        direction = {"both": "both", "deaf": "in", "mute": "out"}[self._options.direction]
        addresses = {name: context.hosts[name].address for name in members("nodes", context.cluster)}
        await all_of(
            context.hosts[name].call(
                "net.drop_port",
                id=context.id,
                port=self._cut[0].port,
                direction=direction,
                ttl=ttl,
                **self._peers(name, addresses),
            )
            for name in self._targets
        )

    def _peers(self, target: str, addresses: Mapping[str, str]) -> dict[str, list[str]]:
        if self._options.connections == "clients":
            return {"peers": [EVERYONE], "but": sorted(addresses.values())}
        ends = {
            way.target if way.source == target else way.source
            for way in self._cut
            if target in (way.source, way.target)
        }
        return {"peers": sorted(addresses[end] for end in ends) or [addresses[target]]}

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        if not any(answer == "open" for answer in before["cut"].values()):
            return "none of these connections could be opened before the fault either"
        for way, answer in during["cut"].items():
            if answer != "silent" and before["cut"][way] == "open":
                return f"{way} is still {answer}"
        for way, answer in during["others"].items():
            if answer != "open" and before["others"][way] == "open":
                return f"{way} is {answer} too: more was cut than {self._options.connections}"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for way, answer in after["cut"].items():
            if answer != "open" and before["cut"][way] == "open":
                return f"{way} is {answer}"
        return None

    def told(self, during: Facts) -> str:
        return str(during["said"])


PORT_CUTS = (
    Kind(
        CutPort,
        CutConnections,
        ("net.drop_port",),
        simulation=False,
        on_hosts="the target drops packets of one TCP port, to and from some addresses, at raw prerouting and output",
        proof="connections without a response, while datagrams and other connections of the same hosts pass",
        limits="needs nftables; not in simulation",
    ),
)

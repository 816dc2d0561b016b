"""Repeated connection resets (`net.reset`), and storms of connections (`net.storm`).

Evidence is the established connections of the target at the nodes' ports, from its tables in /proc/net
(`probe.connections`), identified by their inodes. A reset is proven if every connection that had lasted through a look
before is missing, and over if connections last through a look again. A storm is proven if the target has most of the
requested connections, from the requested hosts, and over if they are closed.

A connection that waits for the node to accept it has no inode yet (the tables say 0 for each of them). Such connections
count in a storm, which may well be the reason that the node does not accept them; for a reset they do not count, since
they cannot be told apart.

The processes that carry out both keep counts too. `probe.errand` reports if one died early; then the fault's end is not
proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, all_of
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge
from squall.nemesis.core.ports import EVERYONE, Host
from squall.nemesis.core.selector import NoTarget, Target, members
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import ConnectionStorm, Reset

LONGEST_LOOK_SECONDS = 1.5
LOOK_MARGIN_SECONDS = 0.2
SHARE_THAT_SHOWS = 0.9
SHARE_THAT_MAY_STAY = 0.1

NOT_ACCEPTED_YET = 0


@dataclass(frozen=True)
class Connection:
    """A connection of a target: the peer's address, and its inode."""

    peer: str
    inode: int


async def connections_of(host: Host, ports: list[int]) -> list[Connection]:
    """The established connections of a host at these ports."""
    answer: dict[str, Any] = await host.call("probe.connections", ports=ports)
    return [Connection(str(one["peer"]), int(one["inode"])) for one in answer["connections"]]


async def was_cut_short(context: FaultContext, names: tuple[str, ...]) -> list[str]:
    """The hosts on which the process that carries the fault out died early."""
    answers = await all_of(context.hosts[name].call("probe.errand", id=context.id) for name in names)
    return [name for name, answer in zip(names, answers, strict=True) if answer["cut_short"]]


class ResetConnections(AimedFault):
    """`reset`."""

    def __init__(self, options: Reset, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options
        self._peers: list[str] = [EVERYONE]
        self._ports = sorted(set(context.ports.values()))

    async def aim(self) -> Target:
        context, options = self._context, self._options
        if not self._ports:
            raise NoTarget("the nodes' ports are not known, so the connections to reset cannot be found")
        target = await super().aim()
        if options.peers is None:
            return target
        peers = await context.resolve(options.peers)
        self._peers = [context.hosts[name].address for name in peers.hosts]
        return Target(target.hosts, f"{target.role} to {peers.role}")

    async def observe(self) -> Facts:
        """Observe the present connections, and which of them last long enough to be reset again.

        Identified by their inodes, as texts, since an observation becomes JSON.
        """
        first = await self._look()
        await self._context.sleep(min(self._options.every, LONGEST_LOOK_SECONDS) + LOOK_MARGIN_SECONDS)
        second = await self._look()
        lasting = {name: sorted(first[name] & second[name]) for name in self._targets}
        return {
            "connections": {name: sorted(found) for name, found in second.items()},
            "lasting": lasting,
            "cut_short": await was_cut_short(self._context, self._targets),
            "said": f"{sum(map(len, lasting.values()))} connections last, {sum(map(len, second.values()))} are open",
        }

    async def _look(self) -> dict[str, set[str]]:
        found = await all_of(connections_of(self._context.hosts[name], self._ports) for name in self._targets)
        return {name: self._meant(one) for name, one in zip(self._targets, found, strict=True)}

    def _meant(self, found: list[Connection]) -> set[str]:
        accepted = (one for one in found if one.inode != NOT_ACCEPTED_YET)
        return {str(one.inode) for one in accepted if self._peers == [EVERYONE] or one.peer in self._peers}

    async def inject(self, ttl: float) -> None:
        context = self._context
        await self._ask(
            "net.reset", id=context.id, ports=self._ports, peers=self._peers, every_s=self._options.every, ttl=ttl
        )

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for name in self._targets:
            lasted = set(before["lasting"][name])
            if not lasted:
                return f"{name}: no connection lasted before the fault either"
            left = lasted & set(during["connections"][name])
            if left:
                return f"{name}: {len(left)} of {len(lasted)} connections are still the same"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for name in self._targets:
            if name in after["cut_short"]:
                return f"{name}: the process that reset connections died, so the fault ended early"
            if not after["lasting"][name]:
                return f"{name}: no connection lasts yet"
        return None

    def told(self, during: Facts) -> str:
        return f"no connection from before the fault is left; {during['said']}"


class StormOfConnections:
    """`connection-storm`."""

    waits_to_show = True

    def __init__(self, options: ConnectionStorm, context: FaultContext) -> None:
        self.kind: str = options.fault
        self._options = options
        self._context = context
        self._target = ""
        self._sources: tuple[str, ...] = ()

    async def aim(self) -> Target:
        context, options = self._context, self._options
        target = await context.resolve(options.target)
        if len(target.hosts) != 1:
            raise NoTarget(f"a storm goes to one node; {target.role} are {', '.join(target.hosts)}")
        (self._target,) = target.hosts
        if self._target not in context.ports:
            raise NoTarget(f"the port of {self._target} is not known")
        self._sources = await self._where_from()
        return target

    async def _where_from(self) -> tuple[str, ...]:
        """The hosts from which it comes; a random one unless they are named."""
        context, options = self._context, self._options
        if options.senders is None:
            return (context.rng.choice([name for name in members("nodes", context.cluster) if name != self._target]),)
        named = await context.resolve(options.senders)
        sources = tuple(name for name in named.hosts if name != self._target)
        if not sources:
            raise NoTarget(f"from: {named.role}: only {self._target}, the target of the storm; name another host")
        return sources

    @property
    def _each(self) -> int:
        return -(-self._options.connections // len(self._sources))

    async def observe(self) -> Facts:
        context = self._context
        found = await connections_of(context.hosts[self._target], [context.ports[self._target]])
        counts = {name: _count(found, context.hosts[name].address) for name in self._sources}
        told = ", ".join(f"{count} from {name}" for name, count in counts.items())
        return {
            "from": counts,
            "cut_short": await was_cut_short(context, self._sources),
            "said": f"{self._target} has {told}",
        }

    async def inject(self, ttl: float) -> None:
        context = self._context
        await all_of(
            context.hosts[name].call(
                "net.storm",
                id=context.id,
                address=context.hosts[self._target].address,
                port=context.ports[self._target],
                connections=self._each,
                ttl=ttl,
            )
            for name in self._sources
        )

    async def heal(self) -> None:
        context = self._context
        await all_of(context.hosts[name].call("heal", id=context.id) for name in self._sources)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for name, count in during["from"].items():
            more = count - before["from"][name]
            if more < SHARE_THAT_SHOWS * self._each:
                return f"{self._target} has {more} more connections from {name}, not {self._each}"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for name, count in after["from"].items():
            if name in after["cut_short"]:
                return f"{name}: the process that held connections died, so the fault ended early"
            if count - before["from"][name] > SHARE_THAT_MAY_STAY * self._each:
                return f"{self._target} still has {count} connections from {name}"
        return None

    def told(self, during: Facts) -> str:
        return str(during["said"])

    def cuts(self) -> Grudge:
        return {}


def _count(found: list[Connection], address: str) -> int:
    return sum(one.peer == address for one in found)


CONNECTIONS = (
    Kind(
        Reset,
        ResetConnections,
        ("net.reset",),
        simulation=False,
        on_hosts="a process on the target ends connections at the nodes' ports, as `ss -K` does",
        proof="connections that had lasted are no longer in the target's tables in /proc/net, by their inodes",
        limits="the kernel needs INET_DIAG_DESTROY; not in simulation",
    ),
    Kind(
        ConnectionStorm,
        StormOfConnections,
        ("net.storm",),
        simulation=False,
        on_hosts="a process on another host opens the connections to the target's port and holds them",
        proof="established connections from there in the target's tables in /proc/net",
        limits="not in simulation",
    ),
)

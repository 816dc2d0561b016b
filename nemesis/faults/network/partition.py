"""Network partitions: a grudge is chosen at the start, and every listener drops its sources.

Evidence is a reach matrix of datagrams among all nodes, by direction: every pair of the grudge must be connected before
and silent during the fault; a one-way partition must stay connected in the other direction. Pairs that another open
fault cuts do not count.
"""

from __future__ import annotations

from squall.nemesis.core import grudge as grudges
from squall.nemesis.core.evidence import Facts, all_of, reach_matrix
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge, pairs_of
from squall.nemesis.core.ports import EVERYONE
from squall.nemesis.core.selector import Group, Target, members
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.network.connection import CONNECTIONS
from squall.nemesis.faults.network.flood import FLOODS
from squall.nemesis.faults.network.interface import INTERFACES
from squall.nemesis.faults.network.port_cut import PORT_CUTS
from squall.nemesis.options import Bridge, Halves, Isolate, MajoritiesRing, OneWay, Thirds

EVERYBODY = ("peers", "everyone")
PartitionOptions = Isolate | Halves | Thirds | OneWay | MajoritiesRing | Bridge


class NetworkPartition:
    """All kinds of network partitions; they differ only in the grudge."""

    waits_to_show = False

    def __init__(self, options: PartitionOptions, context: FaultContext) -> None:
        self.kind: str = options.fault
        self._options = options
        self._context = context
        self._nodes = members("nodes", context.cluster)
        self._grudge: Grudge = {}
        self._isolated: tuple[str, ...] = ()
        self._from_everyone: tuple[str, ...] = ()
        self._open = False
        self._observations = 0

    async def aim(self) -> Target:
        options = self._options
        if isinstance(options, Isolate):
            target = await self._context.resolve(options.target)
            self._grudge = grudges.isolated(target.hosts, await self._peers(options.cut_from))
            self._isolated = target.hosts
            self._from_everyone = target.hosts if options.cut_from == "everyone" else ()
            return target
        if isinstance(options, OneWay):
            target = await self._context.resolve(options.target)
            cut = grudges.deaf if options.direction == "deaf" else grudges.mute
            self._grudge = cut(target.hosts, await self._peers(options.peers))
            return target
        if isinstance(options, Halves) and options.target is not None:
            target = await self._context.resolve(options.target)
            rest = [node for node in self._group(options.among) if node not in target.hosts]
            self._grudge = grudges.components(target.hosts, rest)
            return target
        return self._drawn(options)

    def _drawn(self, options: PartitionOptions) -> Target:
        """Choose a grudge for the kinds that need no target but are drawn at random."""
        assert isinstance(options, Halves | Thirds | MajoritiesRing | Bridge)
        group = self._group(options.among)
        makers = {
            "halves": grudges.halves,
            "thirds": grudges.thirds,
            "bridge": grudges.bridge,
            "majorities-ring": grudges.majorities_ring,
        }
        self._grudge = makers[options.fault](group, self._context.rng)
        return Target(tuple(group), f"all {options.among}")

    async def _peers(self, written: str | None) -> list[str]:
        """The nodes from which the targets are cut: all nodes, or those that the suite names."""
        if written is None or written in EVERYBODY:
            return self._nodes
        return list((await self._context.resolve(written)).hosts)

    def _group(self, among: Group) -> list[str]:
        return members(among, self._context.cluster)

    async def observe(self) -> Facts:
        self._observations += 1
        nonce = f"{self._context.id}/{self._observations}/{self._context.now_ns()}"
        # Silence needs the whole time to show; while no pair should be silent, receiving from all is enough.
        heard = await reach_matrix(self._context.hosts, self._nodes, nonce, expect_all=not self._open)
        return {"heard": heard}

    async def inject(self, ttl: float) -> None:
        self._open = True
        hosts = self._context.hosts
        await all_of(
            hosts[listener].call("net.drop", id=self._context.id, sources=self._sources(listener), ttl=ttl)
            for listener in sorted(self._grudge)
        )

    def _sources(self, listener: str) -> list[str]:
        if listener in self._from_everyone:
            return [EVERYONE]
        return [self._context.hosts[source].address for source in self._grudge[listener]]

    async def heal(self) -> None:
        self._open = False
        await all_of(
            self._context.hosts[listener].call("net.allow", id=self._context.id) for listener in sorted(self._grudge)
        )

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        elsewhere = set(pairs_of(self._context.cuts_by_others()))
        for listener, source in pairs_of(self._grudge):
            if source in during["heard"][listener]:
                return f"{listener} still received from {self._still_heard(listener, during)}"
            if source not in before["heard"][listener] and (listener, source) not in elsewhere:
                return f"{listener} did not receive from {source} before the fault either (are UDP probes blocked?)"
        if self.kind == "one-way":
            return self._still_one_way(during, elsewhere)
        return None if self._grudge else "no node was cut from another"

    def _still_heard(self, listener: str, during: Facts) -> str:
        sources = self._grudge[listener]
        heard = [source for source in sources if source in during["heard"][listener]]
        return f"{len(heard)} of {len(sources)} it should be deaf to: {', '.join(heard)}"

    def _still_one_way(self, during: Facts, elsewhere: set[tuple[str, str]]) -> str | None:
        for listener, source in pairs_of(self._grudge):
            if listener not in during["heard"][source] and (source, listener) not in elsewhere:
                return f"{source} did not receive from {listener} either: the cut was not one-way"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        elsewhere = set(pairs_of(self._context.cuts_by_others()))
        for listener, source in pairs_of(self._grudge):
            if source not in after["heard"][listener] and (listener, source) not in elsewhere:
                return f"{listener} does not receive from {source} again"
        return None

    def told(self, during: Facts) -> str:
        others = len(self._nodes) - 1
        for listener, sources in self._grudge.items():
            if len(self._grudge) == 1 or (self.kind == "isolate" and listener in self._isolated):
                return f"deaf to {len(sources)} of {others}"
        return f"{len(pairs_of(self._grudge))} of {len(self._nodes) * others} directions silent"

    def cuts(self) -> Grudge:
        return self._grudge


PARTITIONS = (
    Kind(
        Isolate,
        NetworkPartition,
        ("net.drop",),
        on_hosts="receivers drop packets from some addresses, at raw prerouting",
        proof="datagrams that every node sends to every other, counted by the receivers",
    ),
    Kind(
        Halves,
        NetworkPartition,
        ("net.drop",),
        on_hosts="receivers drop packets from some addresses, at raw prerouting",
        proof="datagrams that every node sends to every other, counted by the receivers",
    ),
    Kind(
        Thirds,
        NetworkPartition,
        ("net.drop",),
        on_hosts="receivers drop packets from some addresses, at raw prerouting",
        proof="datagrams that every node sends to every other, counted by the receivers",
    ),
    Kind(
        OneWay,
        NetworkPartition,
        ("net.drop",),
        on_hosts="receivers drop packets from some addresses, at raw prerouting",
        proof="datagrams that every node sends to every other, counted by the receivers",
    ),
    Kind(
        MajoritiesRing,
        NetworkPartition,
        ("net.drop",),
        on_hosts="receivers drop packets from some addresses, at raw prerouting",
        proof="datagrams that every node sends to every other, counted by the receivers",
    ),
    Kind(
        Bridge,
        NetworkPartition,
        ("net.drop",),
        on_hosts="receivers drop packets from some addresses, at raw prerouting",
        proof="datagrams that every node sends to every other, counted by the receivers",
    ),
    *PORT_CUTS,
    *CONNECTIONS,
    *INTERFACES,
    *FLOODS,
)

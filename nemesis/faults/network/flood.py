"""A flood of datagrams from one node's host to another's (`net.flood`).

Evidence is what the target's interface has received (`probe.traffic`), measured twice: at least half of the requested
rate more than before arrives during the fault, and no more than a quarter of it after the fault.
"""

from __future__ import annotations

from squall.nemesis.core.evidence import Facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge
from squall.nemesis.core.selector import NoTarget, Target, members
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.network.connection import was_cut_short
from squall.nemesis.options import Flood

LOOK_SECONDS = 0.5
SHARE_THAT_SHOWS = 0.5
SHARE_THAT_MAY_STAY = 0.25


class FloodHost:
    """`flood`."""

    waits_to_show = True

    def __init__(self, options: Flood, context: FaultContext) -> None:
        self.kind: str = options.fault
        self._options = options
        self._context = context
        self._target = ""
        self._source = ""

    async def aim(self) -> Target:
        context, options = self._context, self._options
        target = await context.resolve(options.target)
        if len(target.hosts) != 1:
            raise NoTarget(f"a flood goes to one host; {target.role} are {', '.join(target.hosts)}")
        (self._target,) = target.hosts
        candidates = members("nodes", context.cluster)
        if options.senders is not None:
            candidates = list((await context.resolve(options.senders)).hosts)
        others = [name for name in candidates if name != self._target]
        if not others:
            raise NoTarget(f"from: only {self._target}, the target of the flood; name another host")
        self._source = context.rng.choice(others)
        return target

    async def observe(self) -> Facts:
        context = self._context
        host = context.hosts[self._target]
        first = await host.call("probe.traffic", address=host.address)
        await context.sleep(LOOK_SECONDS)
        second = await host.call("probe.traffic", address=host.address)
        seconds = float(str(second["at_s"])) - float(str(first["at_s"]))
        rate = (int(str(second["received"])) - int(str(first["received"]))) / max(seconds, 1e-9)
        return {
            "rate": rate,
            "cut_short": await was_cut_short(context, (self._source,)),
            "said": f"{self._target} receives {rate / 1e6:.1f} MB/s",
        }

    async def inject(self, ttl: float) -> None:
        context = self._context
        address = context.hosts[self._target].address
        await context.hosts[self._source].call(
            "net.flood", id=context.id, address=address, rate=self._options.rate, ttl=ttl
        )

    async def heal(self) -> None:
        await self._context.hosts[self._source].call("heal", id=self._context.id)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        more, least = during["rate"] - before["rate"], SHARE_THAT_SHOWS * self._options.rate
        if more < least:
            return f"{more / 1e6:+.1f} MB/s arrive at {self._target}, not {least / 1e6:+.1f} MB/s or more"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        if after["cut_short"]:
            return f"{self._source}: the flood process died, so the fault ended early"
        more = after["rate"] - before["rate"]
        if more > SHARE_THAT_MAY_STAY * self._options.rate:
            return f"{more / 1e6:+.1f} MB/s still arrive at {self._target}"
        return None

    def told(self, during: Facts) -> str:
        return f"{during['said']}, sent by {self._source}"

    def cuts(self) -> Grudge:
        return {}


FLOODS = (
    Kind(
        Flood,
        FloodHost,
        ("net.flood",),
        simulation=False,
        on_hosts="a process on another node's host sends datagrams to the target's discard port",
        proof="the bytes per second that the target's interface receives",
        limits="not in simulation",
    ),
)

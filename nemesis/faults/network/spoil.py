"""Links that damage traffic (`net.spoil`): packets are duplicated, damaged, reordered, or lost in bursts.

Evidence is trains of numbered datagrams, sent between the target and its peers in each affected direction and counted
where they arrive (`probe.throw`, `probe.caught`). For each requested effect, the share of affected datagrams must not
be much smaller than requested; losses in bursts must have long bursts. The effect on a few hundred datagrams is random,
so the proof may take several looks. Before and afterwards (almost) none of it may show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, all_of
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.ports import EVERYONE
from squall.nemesis.core.selector import Target, members
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import BadLink

DATAGRAMS = 300
GAP_SECONDS = 0.0005
SHARE_THAT_SHOWS = 0.4
"""Of the requested share: chance, or datagrams that were lost for other reasons, may hide the rest."""

Counts = Mapping[str, int]


@dataclass(frozen=True)
class PacketFault:
    """One effect on packets: its name, the counter that shows it, and its share of all packets."""

    name: str
    counter: str
    share: float

    def seen(self, counts: Counts) -> float:
        """Its share of the counted datagrams."""
        return counts.get(self.counter, 0) / max(1, counts.get("thrown", 0))


class SpoilLink(AimedFault):
    """`bad-link`."""

    waits_to_show = True

    def __init__(self, options: BadLink, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options
        self._peers: tuple[str, ...] = ()
        self._sources: list[str] = [EVERYONE]
        self._observations = 0

    async def aim(self) -> Target:
        context, options = self._context, self._options
        target = await super().aim()
        if options.peers is None:
            self._peers = tuple(name for name in members("nodes", context.cluster) if name not in target.hosts)
            return target
        peers = await context.resolve(options.peers)
        self._peers = tuple(name for name in peers.hosts if name not in target.hosts)
        self._sources = [context.hosts[name].address for name in self._peers]
        return Target(target.hosts, f"{target.role} to {peers.role}")

    async def observe(self) -> Facts:
        """Send a train between every target and every peer, all at once, and count the arrivals."""
        self._observations += 1
        nonce = f"{self._context.id}/{self._observations}/{self._context.now_ns()}"
        direction = self._options.direction
        tracks = dict.fromkeys(self._peers, self._targets) if direction != "out" else {}
        tracks |= dict.fromkeys(self._targets, self._peers) if direction != "in" else {}
        hosts = self._context.hosts
        await all_of(
            hosts[source].call(
                "probe.throw",
                targets={target: hosts[target].address for target in targets},
                nonce=nonce,
                source=source,
                count=DATAGRAMS,
                gap_s=GAP_SECONDS,
            )
            for source, targets in tracks.items()
        )
        ends = sorted({target for targets in tracks.values() for target in targets})
        answers = await all_of(hosts[end].call("probe.caught", nonce=nonce) for end in ends)
        trains = {
            f"{source} to {end}": dict(counts)
            for end, answer in zip(ends, answers, strict=True)
            for source, counts in answer["caught"].items()
        }
        return {"trains": trains, "said": self._in_words(_sum_of(trains))}

    async def inject(self, ttl: float) -> None:
        context, options = self._context, self._options
        burst = {"enter": options.burst.enter, "leave": options.burst.leave} if options.burst else {}
        await self._ask(
            "net.spoil",
            id=context.id,
            peers=self._sources,
            direction=options.direction,
            duplicate=options.duplicate,
            corrupt=options.corrupt,
            reorder=options.reorder,
            late_s=options.late,
            ttl=ttl,
            **burst,
        )

    def _packet_faults(self) -> list[PacketFault]:
        """The requested effects."""
        options = self._options
        lost = options.burst.enter / (options.burst.enter + options.burst.leave) if options.burst else 0.0
        asked = [
            PacketFault("twice", "twice", options.duplicate),
            PacketFault("damaged", "damaged", options.corrupt),
            PacketFault("overtaken", "overtaken", options.reorder),
            PacketFault("lost", "lost", lost),
        ]
        return [one for one in asked if one.share]

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        quiet, counts = _sum_of(before["trains"]), _sum_of(during["trains"])
        if not counts:
            return "no datagram arrived"
        for one in self._packet_faults():
            least = one.share * SHARE_THAT_SHOWS
            if one.seen(quiet) >= least:
                return f"{one.seen(quiet):.1%} of datagrams were {one.name} before the fault"
            if one.seen(counts) < least:
                return f"{one.seen(counts):.1%} of datagrams are {one.name}, not {least:.1%} or more"
        return self._why_no_bursts(counts)

    def _why_no_bursts(self, counts: Counts) -> str | None:
        burst = self._options.burst
        if burst is None:
            return None
        mean, least = counts["lost"] / max(1, counts["bursts"]), max(1.2, SHARE_THAT_SHOWS / burst.leave)
        return f"{mean:.1f} datagrams are lost at a time, not {least:.1f} or more" if mean < least else None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        counts = _sum_of(after["trains"])
        if not counts:
            return "no datagram arrived"
        for one in self._packet_faults():
            if one.seen(counts) >= one.share * SHARE_THAT_SHOWS:
                return f"{one.seen(counts):.1%} of datagrams are still {one.name}"
        return None

    def told(self, during: Facts) -> str:
        return str(during["said"])

    def _in_words(self, counts: Counts) -> str:
        """The counts of the requested effects."""
        if not counts:
            return "no datagram arrived"
        seen = [f"{counts[one.counter]} {one.name}" for one in self._packet_faults()]
        longest = f", {counts['longest']} in the longest burst" if self._options.burst else ""
        return f"of {counts['thrown']} datagrams {', '.join(seen)}{longest}"


def _sum_of(trains: Mapping[str, Counts]) -> dict[str, int]:
    """The sum of all trains, with the longest burst. Empty if none arrived."""
    total: dict[str, int] = {}
    for counts in trains.values():
        for counter, value in counts.items():
            so_far = total.get(counter, 0)
            total[counter] = max(so_far, value) if counter == "longest" else so_far + value
    return total


SPOILT_LINKS = (
    Kind(
        BadLink,
        SpoilLink,
        ("net.spoil",),
        simulation=False,
        on_hosts="packets are queued (NFQUEUE) for the link emulator, which duplicates, damages, delays or drops them",
        proof="trains of numbered datagrams, counted by the receivers",
        limits="a damaged packet keeps its checksum, so that TCP treats it as lost; not in simulation, which has no"
        " packets",
    ),
)

"""Links that are slow, lossy or narrow (`net.shape`).

Evidence is a round trip measured from the target to its peers (`probe.latency`), small for latency and large for
bandwidth: it must take longer than before by at least half of what the fault adds. On hosts it is the median of a few,
so that a busy process proves nothing. Loss alone shows only by chance, so many round trips are made, and any late one
proves it. Peers that do not answer at all, before or during the fault, are cut off by another cause and prove nothing.
"""

from __future__ import annotations

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, all_of
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.ports import EVERYONE
from squall.nemesis.core.selector import Target, members
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.network.spoil import SPOILT_LINKS
from squall.nemesis.options import Bandwidth, SlowLink

LEAST_DIFFERENCE_SECONDS = 0.0005
LOSS_SHOWS_SECONDS = 0.1
SECONDS_OF_BANDWIDTH = 0.2
ROUNDS = 5
ROUNDS_FOR_LOSS = 20
LEAST_PATIENCE_SECONDS = 1.0


class ShapeLink(AimedFault):
    """`slow-link` and `bandwidth`."""

    def __init__(self, options: SlowLink | Bandwidth, context: FaultContext) -> None:
        super().__init__(options, context)
        self.waits_to_show = isinstance(options, SlowLink) and options.loss > 0
        self._options = options
        self._peers: tuple[str, ...] = ()
        self._sources: list[str] = [EVERYONE]

    async def aim(self) -> Target:
        context, options = self._context, self._options
        target = await super().aim()
        if options.peers is None:
            self._peers = tuple(members("nodes", context.cluster))
            return target
        peers = await context.resolve(options.peers)
        self._peers = peers.hosts
        self._sources = [context.hosts[name].address for name in peers.hosts if name not in target.hosts]
        return Target(target.hosts, f"{target.role} to {peers.role}")

    async def observe(self) -> Facts:
        context = self._context
        answers = await all_of(
            context.hosts[name].call(
                "probe.latency",
                targets={peer: context.hosts[peer].address for peer in self._peers if peer != name},
                size=self._probe_size(),
                rounds=ROUNDS_FOR_LOSS if self._only_loses else ROUNDS,
                statistic="worst" if self._only_loses else "median",
                timeout=self._probe_timeout(),
            )
            for name in self._targets
        )
        return {"round_trips": {name: dict(answer) for name, answer in zip(self._targets, answers, strict=True)}}

    @property
    def _only_loses(self) -> bool:
        """Whether only loss can show."""
        options = self._options
        return isinstance(options, SlowLink) and options.loss > 0 and options.latency == 0

    def _probe_timeout(self) -> float:
        """Long enough for what this fault adds in both directions, and as much again by another fault."""
        options = self._options
        added = SECONDS_OF_BANDWIDTH if isinstance(options, Bandwidth) else options.latency + options.jitter
        return LEAST_PATIENCE_SECONDS + 4 * added

    def _probe_size(self) -> int:
        options = self._options
        return round(options.rate * SECONDS_OF_BANDWIDTH) if isinstance(options, Bandwidth) else 64

    async def inject(self, ttl: float) -> None:
        context, options = self._context, self._options
        if isinstance(options, Bandwidth):
            shape: dict[str, object] = {"rate": options.rate}
        else:
            shape = {"delay_s": options.latency, "jitter_s": options.jitter, "loss": options.loss}
            if options.distribution != "uniform":
                shape["distribution"] = options.distribution
        await self._ask("net.shape", id=context.id, peers=self._sources, direction=options.direction, ttl=ttl, **shape)

    def _added(self) -> float:
        """The least by which a round trip must be longer. Both directions count once each."""
        options = self._options
        if isinstance(options, Bandwidth):
            return SECONDS_OF_BANDWIDTH / 2
        if options.latency == 0:
            return LOSS_SHOWS_SECONDS if options.loss else LEAST_DIFFERENCE_SECONDS
        return max(LEAST_DIFFERENCE_SECONDS, options.latency / 2)

    def _longer(self, before: Facts, during: Facts) -> dict[str, float]:
        """By how much each round trip is longer than before."""
        return {
            f"{name}-{peer}": seconds - before["round_trips"][name][peer]
            for name, peers in during["round_trips"].items()
            for peer, seconds in peers.items()
            if seconds is not None and before["round_trips"].get(name, {}).get(peer) is not None
        }

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        longer = self._longer(before, during)
        if not longer:
            return "no host responded to the probes"
        most = max(longer.values())
        if most < self._added():
            return f"round trips take {most * 1000:+.1f} ms, not {self._added() * 1000:+.1f} ms or more"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        late = [pair for pair, seconds in self._longer(before, after).items() if seconds >= self._added()]
        return f"{late[0]}: round trips are still longer than before" if late else None

    def told(self, during: Facts) -> str:
        slowest = [seconds for peers in during["round_trips"].values() for seconds in peers.values() if seconds]
        return f"round trips of up to {max(slowest, default=0.0) * 1000:.1f} ms"


LINKS = (
    Kind(
        SlowLink,
        ShapeLink,
        ("net.shape",),
        on_hosts="packets are queued (NFQUEUE) for a program, the link emulator",
        proof="longer round trips of datagrams than before",
    ),
    Kind(
        Bandwidth,
        ShapeLink,
        ("net.shape",),
        on_hosts="packets are queued (NFQUEUE) for a program, the link emulator",
        proof="a longer transfer time of a large datagram than before",
    ),
    *SPOILT_LINKS,
)

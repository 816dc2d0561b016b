"""Connections whose bytes are sliced, dropped, cut after a limit, or whose end is delayed (`rpc.stream`).

Connections from other hosts to the target's port go through the proxy (nemesis/agent/rpc/rpc_stream.py), which ignores
the meaning of the bytes. Evidence is a test connection from another host, with requests that every node answers
(`probe.exchange`), and how many connections the proxy has treated (`probe.rpc`): sliced messages arrive in many pieces,
a black hole answers nothing and closes, a cut connection ends after about that many bytes, and a delayed end comes
late.
"""

from __future__ import annotations

from typing import Any

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, all_of
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.ports import EVERYONE
from squall.nemesis.core.selector import NoTarget, Target, members
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import BlackHole, CutAfter, Slice, SlowClose

StreamOptions = Slice | BlackHole | CutAfter | SlowClose

PATIENCE_SECONDS = 3.0
BYTES_PER_REQUEST = 100
"""At least, for a request and its response together: so many of them reach a limit."""
MOST_REQUESTS = 10_000
SHARE_THAT_SHOWS = 0.5
SLACK_SECONDS = 2.0
LEAST_PIECES = 3


class TreatStream(AimedFault):
    """`slice`, `black-hole`, `cut-after` and `slow-close`."""

    def __init__(self, options: StreamOptions, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options
        self._sources: list[str] = [EVERYONE]
        self._prober: dict[str, str] = {}

    async def aim(self) -> Target:
        context, options = self._context, self._options
        target = await super().aim()
        unknown = [name for name in target.hosts if name not in context.ports]
        if unknown:
            raise NoTarget(f"the port of {', '.join(unknown)} is not known")
        candidates, role = members("nodes", context.cluster), target.role
        if options.senders is not None:
            senders = await context.resolve(options.senders)
            candidates, role = list(senders.hosts), f"{senders.role} to {target.role}"
            self._sources = [context.hosts[name].address for name in senders.hosts]
        for name in target.hosts:
            others = [other for other in candidates if other != name]
            if not others:
                raise NoTarget(f"from: only {name} itself, whose connections do not pass the proxy; name another host")
            self._prober[name] = others[0]
        return Target(target.hosts, role)

    async def observe(self) -> Facts:
        context = self._context
        exchanges = await all_of(
            context.hosts[self._prober[name]].call(
                "probe.exchange",
                target=f"{context.hosts[name].address}:{context.ports[name]}",
                requests=self._requests(),
                timeout=self._timeout(),
            )
            for name in self._targets
        )
        proxies = await self._ask("probe.rpc", id=context.id)
        seen = dict(zip(self._targets, exchanges, strict=True))
        return {
            "exchanges": seen,
            "treated": {name: one["met"] for name, one in zip(self._targets, proxies, strict=True)},
            "cut_short": [name for name, one in zip(self._targets, proxies, strict=True) if one.get("cut_short")],
            "said": "; ".join(f"{name} {_in_words(one)}" for name, one in seen.items()),
        }

    def _requests(self) -> int:
        if isinstance(self._options, CutAfter):
            return min(MOST_REQUESTS, self._options.limit // BYTES_PER_REQUEST + 2)
        return 1

    def _timeout(self) -> float:
        options = self._options
        return PATIENCE_SECONDS + (2 * options.delay if isinstance(options, BlackHole | SlowClose) else 0.0)

    async def inject(self, ttl: float) -> None:
        context = self._context
        await self._ask("rpc.stream", id=context.id, sources=self._sources, ttl=ttl, **treatment_of(self._options))

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for name in self._targets:
            if not during["treated"][name]:
                return f"{name}: no connection passed the proxy"
            was, now = before["exchanges"][name], during["exchanges"][name]
            reason = why_not_whole(self._options, was) or why_not_treated(self._options, was, now)
            if reason:
                return f"{name}: {reason}"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for name in self._targets:
            if name in after["cut_short"]:
                return f"{name}: the proxy died, so the fault ended early"
            if reason := why_not_whole(self._options, after["exchanges"][name]):
                return f"{name}: {reason}"
        return None

    def told(self, during: Facts) -> str:
        return str(during["said"])


def treatment_of(options: StreamOptions) -> dict[str, object]:
    """The arguments of the verb."""
    if isinstance(options, Slice):
        return {"treatment": "slice", "size": options.size, "gap_s": options.gap}
    if isinstance(options, CutAfter):
        return {"treatment": "cut", "limit": options.limit}
    return {"treatment": options.fault, "delay_s": options.delay}


def why_not_whole(options: StreamOptions, seen: dict[str, Any]) -> str | None:
    """Why this is not how an untreated connection behaves; None if it is."""
    if not seen["answered"] or seen["ended"] != "open":
        return f"not all requests got a response: {_in_words(seen)}"
    if isinstance(options, Slice) and seen["pieces"] >= _pieces(options, seen):
        return f"a response came in {seen['pieces']} pieces"
    if isinstance(options, SlowClose) and (seen["close_seconds"] or 0.0) >= SHARE_THAT_SHOWS * options.delay:
        return f"closing it took {seen['close_seconds']:.2f} s"
    return None


def why_not_treated(options: StreamOptions, before: dict[str, Any], during: dict[str, Any]) -> str | None:
    """Why this connection does not show the fault; None if it does."""
    if not during["connected"]:
        return "no connection was made"
    if isinstance(options, Slice):
        few = during["pieces"] < _pieces(options, before)
        return f"a response of {during['received']} bytes came in {during['pieces']} pieces" if few else None
    if isinstance(options, SlowClose):
        taken = during["close_seconds"]
        late = taken is not None and taken >= SHARE_THAT_SHOWS * options.delay
        return None if late else f"closing it took {taken or 0.0:.2f} s, not {options.delay:g} s"
    if during["ended"] not in ("closed", "reset"):
        return f"it was not closed: {_in_words(during)}"
    if isinstance(options, CutAfter):
        passed = during["sent"] + during["received"]
        return f"{passed} bytes passed it" if during["received"] > options.limit else None
    if during["received"]:
        return f"{during['received']} bytes arrived through the black hole"
    least, most = SHARE_THAT_SHOWS * options.delay, options.delay + SLACK_SECONDS
    in_time = least <= during["seconds"] <= most
    return None if in_time else f"it was closed after {during['seconds']:.2f} s, not {options.delay:g} s"


def _pieces(options: Slice, seen: dict[str, Any]) -> int:
    """In how many pieces a response must arrive to count as sliced: some may be read together."""
    return max(LEAST_PIECES, int(SHARE_THAT_SHOWS * seen["received"] / options.size))


def _in_words(seen: dict[str, Any]) -> str:
    if not seen["connected"]:
        return "no connection"
    if seen["ended"] != "open":
        return f"{seen['answered']} answers, {seen['received']} bytes, {seen['ended']} after {seen['seconds']:.2f} s"
    closed = f", closed in {seen['close_seconds']:.2f} s" if seen["close_seconds"] is not None else ""
    return f"{seen['answered']} answers, {seen['received']} bytes in {seen['pieces']} pieces{closed}"


ON_HOSTS = "a proxy on the target's host forwards connections (tproxy)"
LIMITS = "existing connections are reset once, so that they reconnect through the proxy; not in simulation"

STREAMS = (
    Kind(
        Slice,
        TreatStream,
        ("rpc.stream",),
        simulation=False,
        on_hosts=ON_HOSTS,
        proof="a response that arrives in many pieces on a test connection",
        limits=LIMITS,
    ),
    Kind(
        BlackHole,
        TreatStream,
        ("rpc.stream",),
        simulation=False,
        on_hosts=ON_HOSTS,
        proof="a test connection that is accepted, gets no response, and is closed",
        limits=LIMITS,
    ),
    Kind(
        CutAfter,
        TreatStream,
        ("rpc.stream",),
        simulation=False,
        on_hosts=ON_HOSTS,
        proof="a test connection that ends after `limit` bytes",
        limits=LIMITS,
    ),
    Kind(
        SlowClose,
        TreatStream,
        ("rpc.stream",),
        simulation=False,
        on_hosts=ON_HOSTS,
        proof="how long a test connection takes to end",
        limits=LIMITS,
    ),
)

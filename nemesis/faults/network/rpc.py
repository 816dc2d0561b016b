"""Faults that affect one kind of request or response: it is held in transit, or its connection is cut.

`rpc-hold` can pick out single messages instead (nemesis/agent/rpc/rpc_aside.py): it holds at most `count`, lets later
ones pass, delivers a request after the death of its connection (`outlive`), and releases what it holds at an event
(`until`). This is how a frame behaves that is still in the network when its client has given up and gone on.

Both act at the receiving end of the requests (`rpc.hold`, `rpc.cut` on each host of `to`), where requests arrive and
responses leave. A held message keeps its place in its connection: TCP does not let later messages overtake it, so all
messages behind it wait too, while other connections continue. A request whose sender has given up still arrives when
the hold ends, as late packets do.

Evidence is the count of such messages, kept where they pass (`probe.rpc`). A fault during which none passed has had no
effect and is not proven. On hosts messages pass a proxy (nemesis/agent/rpc/rpc.py), and earlier connections are reset
when the fault begins, which is reported. If the proxy dies, the fault ends early, and its end is not proven.
"""

from __future__ import annotations

from typing import Any

from squall.nemesis.core.apis import API_KEYS
from squall.nemesis.core.evidence import Facts, all_of
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge
from squall.nemesis.core.ports import EVERYONE
from squall.nemesis.core.selector import Target
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.network.stream import STREAMS
from squall.nemesis.options import RpcCut, RpcHold

SEEN = ("open", "met", "waiting", "reset", "cut_short", "delivered", "late", "answered", "dropped")
"""The fields kept of a response to `probe.rpc`; those from `reset` on come from hosts only."""


class DisturbRpc:
    """Holds or cuts requests of one API between some hosts, or the responses to them."""

    waits_to_show = True

    def __init__(self, options: RpcHold | RpcCut, context: FaultContext) -> None:
        self.kind: str = options.fault
        self._options = options
        self._context = context
        self._receivers: tuple[str, ...] = ()
        self._sources: list[str] = [EVERYONE]

    async def aim(self) -> Target:
        """The affected hosts are the senders of these requests, or the receivers if any sender is meant."""
        options, context = self._options, self._context
        receivers = await context.resolve(options.receivers)
        self._receivers = receivers.hosts
        if options.senders is None:
            return Target(receivers.hosts, f"{options.api} {options.direction}s at {receivers.role}")
        senders = await context.resolve(options.senders)
        self._sources = [context.hosts[name].address for name in senders.hosts]
        return Target(senders.hosts, f"{options.api} {options.direction}s, {senders.role} to {receivers.role}")

    async def observe(self) -> Facts:
        context = self._context
        answers = await all_of(context.hosts[name].call("probe.rpc", id=context.id) for name in self._receivers)
        return {
            "messages": {
                name: {key: value for key, value in answer.items() if key in SEEN}
                for name, answer in zip(self._receivers, answers, strict=True)
            }
        }

    async def inject(self, ttl: float) -> None:
        context, options = self._context, self._options
        more = {"messages": options.messages} if isinstance(options, RpcCut) else _picking(options)
        await all_of(
            context.hosts[name].call(
                "rpc.cut" if isinstance(options, RpcCut) else "rpc.hold",
                id=context.id,
                api=options.api,
                api_key=API_KEYS[options.api],
                direction=options.direction,
                sources=self._sources,
                ttl=ttl,
                **more,
            )
            for name in self._receivers
        )

    async def heal(self) -> None:
        context = self._context
        await all_of(context.hosts[name].call("heal", id=context.id) for name in self._receivers)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        if self._met(during):
            return None
        return f"no {self._options.api} {self._options.direction} passed the proxy"

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for name, seen in after["messages"].items():
            if seen["open"] or seen["waiting"]:
                return f"{name}: messages are still held back"
            if seen.get("cut_short"):
                return f"{name}: the proxy died, so the fault ended early"
        return None

    def told(self, during: Facts) -> str:
        done = "cut at" if isinstance(self._options, RpcCut) else "held"
        reset = _sum_of("reset", during)
        also = f", after {reset} connections were reset to come through the proxy" if reset else ""
        also += "".join(f", {count} {words}" for name, words in FATES.items() if (count := _sum_of(name, during)))
        return f"{self._met(during)} {self._options.api} {self._options.direction}s {done}{also}"

    def _met(self, facts: Facts) -> int:
        return _sum_of("met", facts)

    def cuts(self) -> Grudge:
        return {}


FATES = {
    "delivered": "delivered",
    "late": "after their sender had gone",
    "answered": "answered",
    "dropped": "lost with their connection",
}
"""What became of messages that were taken out of their connection, in words."""


def _picking(options: RpcHold) -> dict[str, Any]:
    """The arguments of a hold that picks out single messages."""
    if not options.picks_single:
        return {}
    until = options.until
    event = None if until is None else {**until.model_dump(exclude={"api"}), "api_key": API_KEYS[until.api]}
    return {"count": options.count, "pass_others": options.pass_others, "outlive": options.outlive, "until": event}


def _sum_of(count: str, facts: Facts) -> int:
    return sum(int(seen.get(count, 0)) for seen in facts["messages"].values())


RPCS = (
    Kind(
        RpcHold,
        DisturbRpc,
        ("rpc.hold",),
        on_hosts="a proxy on the receivers' host reads the headers of messages (tproxy)",
        proof="the number of messages held; the number of connections reset at the start",
        limits="plain Kafka protocol only: TLS connections pass unread",
    ),
    Kind(
        RpcCut,
        DisturbRpc,
        ("rpc.cut",),
        on_hosts="a proxy on the receivers' host reads the headers of messages (tproxy)",
        proof="the number of messages that led to a cut; the number of connections reset at the start",
        limits="plain Kafka protocol only: TLS connections pass unread",
    ),
    *STREAMS,
)

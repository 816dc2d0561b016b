"""A network interface of a host that is down (`net.interface_down`), as with an unplugged cable.

This also cuts the way to the host, control connection included, so the target is not asked anything while the fault is
open, and the host reverts the fault: its time to live is slightly longer than the fault. A heal that gets through only
brings the interface up earlier.

Evidence during the fault comes from the other nodes: none of them receives the target's echo, and its port stays
silent. Afterwards the host reports what it observed meanwhile: the interface's flags, and that no byte crossed it.
Without that report the fault's end is not proven.
"""

from __future__ import annotations

from squall.nemesis.core import grudge as grudges
from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, all_of, seen_from_elsewhere
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge
from squall.nemesis.core.ports import Host
from squall.nemesis.core.selector import NoTarget, Target, members
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import InterfaceDown

REACH_SECONDS = 0.5
SLACK_SECONDS = 0.4
"""The host responds before it takes its interface down, and its time to live has begun by then."""


class TakeInterfaceDown(AimedFault):
    """`interface-down`."""

    def __init__(self, options: InterfaceDown, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options
        self._observers: tuple[str, ...] = ()
        self._open = False

    async def aim(self) -> Target:
        target = await super().aim()
        nodes = members("nodes", self._context.cluster)
        self._observers = tuple(name for name in nodes if name not in target.hosts)
        if not self._observers:
            raise NoTarget(f"{target.role}: no other node is left to observe them; choose fewer targets")
        return target

    async def observe(self) -> Facts:
        reached, ports = await all_of((self._reached(), self._ports()))
        accounts = {} if self._open else await self._accounts()
        said = "; ".join(f"{name} reached by {len(by)} of {len(self._observers)}" for name, by in reached.items())
        return {"reached": reached, "ports": ports, "accounts": accounts, "said": said + _in_words(accounts)}

    async def _reached(self) -> dict[str, list[str]]:
        """The observers that reach each target."""
        context = self._context
        answers = await all_of(
            context.hosts[name].call(
                "probe.reach",
                targets={target: context.hosts[target].address for target in self._targets},
                timeout=REACH_SECONDS,
            )
            for name in self._observers
        )
        return {
            target: [name for name, answer in zip(self._observers, answers, strict=True) if answer[target]]
            for target in self._targets
        }

    async def _ports(self) -> dict[str, str]:
        """How the port of each target is found, where it is known."""
        known = [target for target in self._targets if target in self._context.ports]
        found = await all_of(
            seen_from_elsewhere(self._hosts_to_ask(target), target, self._context.ports[target]) for target in known
        )
        return dict(zip(known, found, strict=True))

    def _hosts_to_ask(self, target: str) -> dict[str, Host]:
        """The observers, and the host that they observe."""
        return {name: self._context.hosts[name] for name in (*self._observers, target)}

    async def _accounts(self) -> Facts:
        """What each host observed of its interface."""
        context = self._context
        answers = await self._ask("probe.errand", id=context.id)
        return {name: dict(answer) for name, answer in zip(self._targets, answers, strict=True)}

    async def inject(self, ttl: float) -> None:
        context, options = self._context, self._options
        self._open = True
        named = {"interface": options.interface} if options.interface else {}
        await all_of(
            context.hosts[name].call(
                "net.interface_down",
                id=context.id,
                address=context.hosts[name].address,
                ttl=context.length_s + SLACK_SECONDS if context.length_s else ttl,
                **named,
            )
            for name in self._targets
        )
        await context.sleep(SLACK_SECONDS)

    async def heal(self) -> None:
        await super().heal()
        self._open = False

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for name in self._targets:
            if not before["reached"][name]:
                return f"{name}: no node reached it before the fault either"
            if during["reached"][name]:
                return f"{name}: {', '.join(during['reached'][name])} still reached it"
            if during["ports"].get(name, "silent") not in ("silent", "unknown"):
                return f"{name}: its port is {during['ports'][name]}"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for name in self._targets:
            if not after["reached"][name]:
                return f"{name}: no node reaches it yet"
            account = after["accounts"].get(name, {})
            if account.get("open"):
                return f"{name}: the fault is still open"
            if account.get("cut_short"):
                return f"{name}: the process that kept the interface down died, so the fault ended early"
            effect = account.get("effect", {})
            down, samples = effect.get("down", 0), effect.get("samples", 0)
            if not down or down != samples:
                return f"{name}: the host saw its interface down {down} of {samples} times"
            if effect["bytes"]:
                return f"{name}: {effect['bytes']} bytes passed the interface during the fault"
        return None

    def told(self, during: Facts) -> str:
        return str(during["said"])

    def cuts(self) -> Grudge:
        return grudges.isolated(self._targets, members("nodes", self._context.cluster))


def _in_words(accounts: Facts) -> str:
    seen = [
        f"; {name} saw {account['effect']['interface']} down {account['effect']['down']} times"
        for name, account in accounts.items()
        if account.get("effect")
    ]
    return "".join(seen)


INTERFACES = (
    Kind(
        InterfaceDown,
        TakeInterfaceDown,
        ("net.interface_down",),
        simulation=False,
        on_hosts="the host takes its interface down and later up again, with its routes (`ip link`)",
        proof="no other node reaches the host; the host's own observation of its interface, reported afterwards",
        limits="the control connection is cut too, unless it uses another interface; needs iproute2; not in simulation",
    ),
)

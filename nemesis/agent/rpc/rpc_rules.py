"""Decides which messages a host's open RPC faults affect, and records what the faults have done.

A rule concerns the messages of one API between this host's node and some addresses: requests or their responses. It
holds them until it ends, or (with `messages`) cuts the connection whenever so many have arrived; with 0, instead of
every one. Rules that hold precede rules that cut. These are the simulation's rules, on real sockets.

A hold can pick out single messages: `count` is how many it holds at most, `pass_others` takes a message out of its
connection so that later ones pass (`rpc_aside.py`), `outlive` delivers it although its sender has gone, and `until`
releases what is held at an event, before the rule ends: once so many other messages of an API have passed.

Each rule ends at its deadline (monotonic seconds), whichever other processes have died. What it has done is written at
once, to a small file per fault, so that it is known after the proxy has ended.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.names import file_name
from squall.nemesis.agent.net.addresses import Address

EVERYONE = "*"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class RuleSpec:
    """A rule as the agent sends it to the proxy."""

    id: str
    api_key: int
    responses: bool
    sources: tuple[str, ...]
    messages: int | None
    """None for a hold."""
    deadline: float
    treatment: Mapping[str, Any] | None = None
    """What happens to the bytes of connections (`rpc_stream.py`); such a rule affects no messages."""
    count: int | None = None
    """How many messages it holds at most; None for all."""
    pass_others: bool = False
    outlive: bool = False
    until: Mapping[str, Any] | None = None
    """`api_key`, `responses` and `messages`: what is held is released when so many of these have passed since."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RuleSpec:
        return cls(**{**data, "sources": tuple(data["sources"])})


@dataclass(frozen=True)
class Effect:
    """What a fault has done: messages held or cut at; connections reset so that they reconnect through the proxy;
    whether it ended before its time, because the proxy died. Of messages taken out of their connection: delivered,
    delivered after the sender had gone (`late`), answered after that, dropped with their connection.
    """

    met: int = 0
    reset: int = 0
    cut_short: bool = False
    delivered: int = 0
    late: int = 0
    answered: int = 0
    dropped: int = 0


class Effects:
    """The effect of each fault by its id; kept after the fault as evidence."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def of(self, id: str) -> Effect:
        try:
            return Effect(**json.loads(self._path(id).read_text()))
        except FileNotFoundError:
            return Effect()

    def keep(self, id: str, effect: Effect) -> None:
        draft = self._path(f".{id}.{os.getpid()}")
        draft.write_text(json.dumps(asdict(effect)))
        draft.replace(self._path(id))

    def forget(self, id: str) -> None:
        self._path(id).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        return self._directory / f"{file_name(id)}.json"


@dataclass(eq=False)
class Rule:
    """A rule in force."""

    spec: RuleSpec
    effects: Effects
    waiting: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the rule is over, or at the event named by `until`. It holds nothing from then on."""
    _passed: int = 0
    _held: int = 0
    _others: int = 0
    _networks: tuple[Network, ...] = ()

    def __post_init__(self) -> None:
        self._networks = tuple(ipaddress.ip_network(one) for one in self.spec.sources if one != EVERYONE)

    def concerns(self, source: Address) -> bool:
        """Whether connections from this address may carry such messages."""
        return EVERYONE in self.spec.sources or any(source in network for network in self._networks)

    @property
    def holds(self) -> bool:
        return self.spec.messages is None

    @property
    def holds_more(self) -> bool:
        """Whether it would hold another message."""
        return not self.released.is_set() and (self.spec.count is None or self._held < self.spec.count)

    async def hold(self) -> None:
        """Hold a message where it is: wait until it is released."""
        self.take()
        self.waiting += 1
        try:
            await self.released.wait()
        finally:
            self.waiting -= 1

    def take(self) -> None:
        """A message begins that this rule holds."""
        self._held += 1
        self._count(met=1)

    def wait_ended(self) -> None:
        """A message that was taken out has been delivered or dropped."""
        self.waiting -= 1

    def note_passed(self, api_key: int, *, responses: bool) -> None:
        """Another message has passed the proxy: release what is held, if this was the event."""
        until = self.spec.until
        if until is None or not self.waiting or (until["api_key"], until["responses"]) != (api_key, responses):
            return
        self._others += 1
        if self._others >= until["messages"]:
            self.released.set()

    def note_delivered(self, *, late: bool) -> None:
        self._count(delivered=1, late=int(late))

    def note_answered(self) -> None:
        self._count(answered=1)

    def note_dropped(self) -> None:
        self._count(dropped=1)

    def cuts_before(self) -> bool:
        """When such a message begins: whether it is lost with its connection."""
        if self.spec.messages == 0:
            self._count(met=1)
            return True
        return False

    def cuts_after(self) -> bool:
        """When such a message is about to have arrived: whether its connection ends then."""
        if self.over.is_set() or not self.spec.messages:
            return False
        self._passed += 1
        if self._passed < self.spec.messages:
            return False
        self._passed = 0
        self._count(met=1)
        return True

    def has_treated(self, connections: int) -> None:
        self._count(met=connections)

    def has_reset(self, connections: int) -> None:
        self._count(reset=connections)

    def _count(self, **more: int) -> None:
        so_far = self.effects.of(self.spec.id)
        self.effects.keep(
            self.spec.id, replace(so_far, **{name: getattr(so_far, name) + count for name, count in more.items()})
        )


class Rules:
    """The rules of this host, in the order in which they came."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._rules: dict[str, Rule] = {}

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(list(self._rules.values()))

    def become(self, specs: Sequence[RuleSpec]) -> None:
        """Replace the rules by exactly these. A rule that stays keeps the messages it holds, to its new deadline."""
        self._end(id for id in self._rules if id not in {spec.id for spec in specs})
        for spec in specs:
            if spec.id in self._rules:
                self._rules[spec.id].spec = spec
            else:
                self._rules[spec.id] = Rule(spec, self._effects)

    def end_expired(self, now: float) -> None:
        self._end(id for id, rule in self._rules.items() if rule.spec.deadline <= now)

    def next_deadline(self) -> float | None:
        return min((rule.spec.deadline for rule in self), default=None)

    def find(self, source: Address, api_key: int, *, responses: bool) -> Rule | None:
        """The rule that affects such a message."""
        self.end_expired(time.monotonic())
        met = [
            rule
            for rule in self
            if rule.spec.treatment is None
            and (rule.spec.api_key, rule.spec.responses) == (api_key, responses)
            and rule.concerns(source)
            and (rule.holds_more or not rule.holds)
        ]
        return min(met, key=lambda rule: not rule.holds, default=None)

    def note_passed(self, api_key: int, *, responses: bool) -> None:
        """A message of this API has passed, on any connection."""
        for rule in self:
            rule.note_passed(api_key, responses=responses)

    def treating(self, source: Address) -> Rule | None:
        """The rule that treats the bytes of a connection from this address: the oldest."""
        self.end_expired(time.monotonic())
        return next((rule for rule in self if rule.spec.treatment is not None and rule.concerns(source)), None)

    def _end(self, ids: Iterable[str]) -> None:
        for id in list(ids):
            rule = self._rules.pop(id)
            rule.over.set()
            rule.released.set()

"""Swarm testing: each seed draws its own mix of faults, their targets, times and intensities.

Two measured lessons shape it. Durations are drawn log-uniformly, half a millisecond to many seconds, because bugs exist
at all scales. Each seed uses only some kinds of fault, because a mix of everything hides what one of them would show.

The draw is data, printed by a failing seed. Wherever suites have a word for a fault, it is an entry of a suite's
`nemesis` list with hosts by name (`SwarmFault.written`), carried out by the same fault objects. Evidence is left out:
the simulation itself carries the faults out, and counts their effects (`Swarm.effects`), so that a kind without any
effect is visible.

Whether a fault may happen at all is decided when it is due (budget.py). Everything is healed before the load ends; from
then on progress is required.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import exp, log
from random import Random

from pydantic import TypeAdapter

from squall.harness.simulation.run.budget import FaultBudget
from squall.harness.simulation.world.world import CLIENT_ADDRESS, SimWorld
from squall.nemesis.core.apis import API_KEYS
from squall.nemesis.core.fault import Fault, FaultContext
from squall.nemesis.core.ports import EVERYONE, ClusterOperator, OperationRefused, VerbFailed
from squall.nemesis.core.selector import NoTarget
from squall.nemesis.entries import AnyFault
from squall.nemesis.options import FaultOptions
from squall.nemesis.registry import build_fault
from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.topic_configs import MIN_ISR

KINDS = {
    "crash-broker": "crashes",
    "crash-controller": "crashes",
    "crash-with-tail-broker": "fetches held",
    "restart-broker": "clean restarts",
    "restart-controller": "clean restarts",
    "power-loss-broker": "bytes lost",
    "power-loss-controller": "bytes lost",
    "wipe-disk": "bytes lost",
    "crash-in-disk-call-broker": "crashes",
    "crash-in-disk-call-controller": "crashes",
    "disk-error-broker": "calls failed",
    "disk-error-controller": "calls failed",
    "disk-slow": "calls slowed",
    "pause-broker": "pauses",
    "pause-controller": "pauses",
    "isolate-broker": "stalls",
    "isolate-controller": "stalls",
    "one-way": "stalls",
    "cut-link": "stalls",
    "cut-clients": "stalls",
    "reset": "connections",
    "slow-link": "messages",
    "loss": "retransmissions",
    "bandwidth": "messages",
    "rpc-hold": "messages held",
    "rpc-cut": "messages cut at",
    "clock-step": "clocks",
    "clock-drift": "clocks",
}
"""Every kind of fault, and the unit in which its effect is counted."""

OPERATIONS = {
    "reassign": "accepted",
    "reassign-and-cancel": "accepted",
    "elect-leaders": "accepted",
    "alter-config": "accepted",
    "remove-voter": "voters out and in again",
    "restart-active-controller": "clean restarts",
}
"""Operators' changes, drawn beside the faults where a scenario says `swarm: operations`."""

SWITCHES = {"switch-eligible-leaders": "off and on again"}
"""Features that operators also switch where a scenario says `swarm: switches`."""

UNITS = KINDS | OPERATIONS | SWITCHES

BROKER_TO_BROKER = ("Fetch", "Fetch", "Fetch", "OffsetForLeaderEpoch")
BROKER_TO_CONTROLLER = ("AlterPartition", "AlterPartition", "BrokerHeartbeat", "BrokerRegistration", "Fetch")
CONTROLLER_TO_CONTROLLER = ("Fetch", "Fetch", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch")
CLIENT_TO_BROKER = ("Produce", "Produce", "Fetch", "Fetch", "Metadata", "InitProducerId", "ListOffsets")
"""Which APIs each pair of roles uses, the usual more often than the rare."""

LINK_KINDS = ("one-way", "cut-link", "reset", "slow-link", "loss", "bandwidth")
WAITING_KINDS = ("crash-in-disk-call", "crash-with-tail", "disk-", "rpc-", "bandwidth", "loss")
WAITING_SECONDS = (0.2, 5.0)
"""Faults that take effect only on later traffic stay open longer: the shortest time, and a possible longest time."""

TAKE_BACK_ATTEMPTS, TAKE_BACK_SECONDS = 20, 0.5
"""An operator's temporary change is reverted as soon as the cluster accepts the reversal."""

COMMON_DISK_CALLS = ("write", "fsync", "write", "fsync", "rename")
DISK_CALLS = ("read", "write", "fsync", "truncate", "create", "rename", "remove", "fsync-directory")

_OPTIONS: TypeAdapter[FaultOptions] = TypeAdapter(AnyFault)


@dataclass(frozen=True)
class SwarmFault:
    """One fault of a swarm: `kind` at `at` seconds for `duration` seconds, on the hosts named.

    `words` is the fault as an entry of a suite, without its times; empty if suites have no word for it.
    """

    at: float
    kind: str
    hosts: tuple[str, ...]
    duration: float
    amount: float = 0.0
    words: Mapping[str, object] = field(default_factory=dict)

    def written(self) -> dict[str, object]:
        """Return the fault as an entry of `nemesis:`; a fault without its own word becomes its closest equivalent."""
        first, last = self.hosts[0], self.hosts[-1]
        if self.words:
            return dict(self.words)
        if self.kind == "reset":
            return {"fault": "rpc-cut", "api": "Fetch", "from": first, "to": last, "messages": 0}
        if self.kind == "cut-clients":
            return {"fault": "isolate", "target": first, "from": "everyone"}
        if self.kind in SWITCHES:
            return {"fault": "elect-leaders"}
        return {"fault": "kill", "target": first}

    def __str__(self) -> str:
        more = ", ".join(f"{key} {value}" for key, value in self.words.items() if key not in ("fault", "target"))
        told = f"{self.at:7.3f} s  {self.kind:22} {', '.join(self.hosts):12} for {self.duration:.3f} s"
        return f"{told}  {more}" if more else told


def draw_swarm(
    seed: object,
    brokers: tuple[str, ...],
    controllers: tuple[str, ...],
    load: float,
    operated: Mapping[str, int] | None = None,
    *,
    switched: bool = False,
    kinds: tuple[str, ...] = (),
) -> list[SwarmFault]:
    """Draw the faults of this seed, in order of time; all end before `load` seconds have passed.

    `operated` are the topics (with their min ISR) of a cluster that operators also change. Operators' changes come from
    a separate random stream, so that the faults of a seed are the same with and without them; so does `switched`.
    `kinds` are the kinds of fault to draw from; without them the seed chooses some.
    """
    faults = _draw_faults(seed, brokers, controllers, load, kinds)
    if operated:
        faults += _draw_operations(seed, brokers, controllers, load, operated)
    if switched:
        faults += _draw_switches(seed, brokers, load)
    return sorted(faults, key=lambda fault: fault.at)


def _draw_operations(
    seed: object, brokers: tuple[str, ...], controllers: tuple[str, ...], load: float, topics: Mapping[str, int]
) -> list[SwarmFault]:
    rng = Random(f"{seed}/operations")
    kinds = [kind for kind in OPERATIONS if rng.random() < 0.6] or ["reassign"]
    gap = _log_uniform(rng, 0.5, 6.0)
    drawn: list[SwarmFault] = []
    at = rng.uniform(0.5, 3.0)
    while True:
        at += rng.expovariate(1 / gap)
        kind = rng.choice(kinds)
        duration = _log_uniform(rng, 0.05, 8.0)
        if at + duration >= load - 5.0:
            return drawn
        hosts = (rng.choice(controllers if kind == "remove-voter" else brokers),)
        words = _operation(kind, hosts[0], rng, len(brokers), topics)
        drawn.append(SwarmFault(round(at, 6), kind, hosts, round(duration, 6), rng.random(), words))


def _draw_switches(seed: object, brokers: tuple[str, ...], load: float) -> list[SwarmFault]:
    """Draw switches one after the other: a feature is on again before it is switched off again."""
    rng = Random(f"{seed}/switches")
    drawn: list[SwarmFault] = []
    at = rng.uniform(0.5, 3.0)
    while True:
        duration = _log_uniform(rng, 0.05, 4.0)
        if at + duration >= load - 5.0:
            return drawn
        kind = rng.choice(list(SWITCHES))
        drawn.append(SwarmFault(round(at, 6), kind, (brokers[0],), round(duration, 6), rng.random()))
        at += duration + rng.uniform(2.0, 6.0)


def _operation(kind: str, host: str, rng: Random, brokers: int, topics: Mapping[str, int]) -> dict[str, object]:
    topic = rng.choice(list(topics))
    match kind:
        case "reassign" | "reassign-and-cancel":
            replicas = rng.randint(topics[topic], min(brokers, topics[topic] + 2))
            cancel = {"cancel": True} if kind == "reassign-and-cancel" else {}
            return {"fault": "reassign", "target": f"{topic}/*", "replicas": replicas, **cancel}
        case "elect-leaders":
            return {"fault": "elect-leaders"}
        case "alter-config":
            least = topics[topic]
            changes = {"max.message.bytes": (str(rng.randint(500_000, 2_000_000)), "1048588")}
            changes[MIN_ISR] = (str(least + 1), str(least))
            name = rng.choice(list(changes))
            value, afterwards = changes[name]
            return {"fault": "alter-config", "topic": topic, "name": name, "value": value, "afterwards": afterwards}
        case "remove-voter":
            return {"fault": "remove-voter", "target": rng.choice((host, "active controller"))}
    return {"fault": "restart", "target": "active controller"}


def _draw_faults(
    seed: object, brokers: tuple[str, ...], controllers: tuple[str, ...], load: float, chosen: tuple[str, ...] = ()
) -> list[SwarmFault]:
    rng = Random(f"{seed}/swarm")
    share = rng.choice((0.1, 0.25, 0.5))
    kinds = [kind for kind in KINDS if rng.random() < share] or [rng.choice(list(KINDS))]
    kinds = list(chosen) or kinds
    weights = [rng.random() + 0.1 for _ in kinds]
    gap = _log_uniform(rng, 0.3, 8.0)
    longest = _log_uniform(rng, 0.5, 15.0)
    faults = []
    at = rng.uniform(0.5, 3.0)
    while True:
        at += rng.expovariate(1 / gap)
        kind = rng.choices(kinds, weights)[0]
        shortest, possible = WAITING_SECONDS if kind.startswith(WAITING_KINDS) else (0.0005, 0.0)
        duration = _log_uniform(rng, shortest, max(longest, possible))
        if at + duration >= load - 1.0:
            break
        if kind in LINK_KINDS and len(_nodes(brokers, controllers)) == 1:
            continue
        hosts = _targets(kind, rng, brokers, controllers)
        words = _words(kind, hosts, rng, brokers, controllers)
        faults.append(SwarmFault(round(at, 6), kind, hosts, round(duration, 6), rng.random(), words))
    return faults


def _log_uniform(rng: Random, low: float, high: float) -> float:
    return exp(rng.uniform(log(low), log(high)))


def _between(low: float, high: float, amount: float) -> float:
    """Map a drawn amount of 0 to 1 log-uniformly between `low` and `high`."""
    return low * (high / low) ** amount


def _targets(kind: str, rng: Random, brokers: tuple[str, ...], controllers: tuple[str, ...]) -> tuple[str, ...]:
    if kind in LINK_KINDS:
        first, second = rng.sample(_nodes(brokers, controllers), 2)
        return (first, second)
    if kind.endswith("controller"):
        return (rng.choice(controllers),)
    if kind.endswith("broker") or kind in ("wipe-disk", "cut-clients"):
        return (rng.choice(brokers),)
    return (rng.choice(_nodes(brokers, controllers)),)


def _nodes(brokers: tuple[str, ...], controllers: tuple[str, ...]) -> tuple[str, ...]:
    """Return every node once: a combined node is in both lists."""
    return tuple(dict.fromkeys(brokers + controllers))


def _words(
    kind: str, hosts: tuple[str, ...], rng: Random, brokers: tuple[str, ...], controllers: tuple[str, ...]
) -> dict[str, object]:
    """Return the fault in the vocabulary of suites, with its intensity."""
    first, last = hosts[0], hosts[-1]
    match kind:
        case "crash-broker" | "crash-controller":
            return {"fault": "kill", "target": first}
        case "power-loss-broker" | "power-loss-controller":
            return {"fault": "power-loss", "target": first, "mode": rng.choice(("all", "torn", "torn"))}
        case "wipe-disk":
            return {"fault": "wipe-disk", "target": first}
        case "disk-error-broker" | "disk-error-controller":
            calls = sorted({rng.choice(COMMON_DISK_CALLS), *rng.sample(DISK_CALLS, rng.randint(0, 2))})
            probability = round(_log_uniform(rng, 0.02, 1.0), 3)
            number = rng.choice(("EIO", "ENOSPC"))
            return {"fault": "disk-error", "target": first, "errno": number, "calls": calls, "probability": probability}
        case "disk-slow":
            latency = round(_log_uniform(rng, 0.001, 2.0), 6)
            return {"fault": "disk-slow", "target": first, "latency": latency, "calls": rng.choice(_SLOW_CALLS)}
        case "pause-broker" | "pause-controller":
            return {"fault": "pause", "target": first}
        case "isolate-broker" | "isolate-controller":
            return {"fault": "isolate", "target": first}
        case "one-way":
            return {"fault": "one-way", "target": first, "to": last}
        case "cut-link":
            return {"fault": "isolate", "target": first, "from": last}
        case "slow-link":
            latency, jitter = (round(_log_uniform(rng, 0.000_01, 0.3), 6) for _ in range(2))
            return _link(first, last, rng, fault="slow-link", latency=latency, jitter=jitter)
        case "loss":
            return _link(first, last, rng, fault="slow-link", latency=0, loss=round(_log_uniform(rng, 0.01, 0.5), 3))
        case "bandwidth":
            return _link(first, last, rng, fault="bandwidth", rate=round(_log_uniform(rng, 2_000, 1_000_000)))
        case "rpc-hold":
            return {"fault": "rpc-hold", **_messages(first, rng, brokers, controllers)}
        case "rpc-cut":
            messages = rng.choice((0, 0, 1, 1, 2, 5))
            return {"fault": "rpc-cut", "messages": messages, **_messages(first, rng, brokers, controllers)}
        case "clock-step":
            return {"fault": "clock", "target": first, "offset": round(rng.uniform(-3600, 3600), 3) or 1.0}
        case "clock-drift":
            rate = round(_log_uniform(rng, 0.5, 2.0), 4)
            return {"fault": "clock", "target": first, "offset": 0, "rate": rate if rate != 1 else 1.0001}
    return {}


_SLOW_CALLS = (["write"], ["read", "write"], ["write", "fsync"], ["fsync", "fsync-directory", "rename"])


def _link(first: str, last: str, rng: Random, **shape: object) -> dict[str, object]:
    return {"target": first, "to": last, "direction": rng.choice(("both", "out", "in")), **shape}


def _messages(first: str, rng: Random, brokers: tuple[str, ...], controllers: tuple[str, ...]) -> dict[str, object]:
    """Choose requests that this host sends, or that all hosts send to it, or the responses."""
    direction = rng.choice(("request", "response"))
    if first in controllers:
        if rng.random() < 0.5:
            voters = ", ".join(one for one in controllers if one != first) or first
            return {"api": rng.choice(CONTROLLER_TO_CONTROLLER), "direction": direction, "from": first, "to": voters}
        return {"api": rng.choice(BROKER_TO_CONTROLLER), "direction": direction, "to": ", ".join(controllers)}
    chance = rng.random()
    if chance < 0.4:
        api = rng.choice(BROKER_TO_CONTROLLER)
        return {"api": api, "direction": direction, "from": first, "to": ", ".join(controllers)}
    if chance < 0.7:
        peers = ", ".join(one for one in brokers if one != first) or first
        return {"api": rng.choice(BROKER_TO_BROKER), "direction": direction, "from": first, "to": peers}
    return {"api": rng.choice(CLIENT_TO_BROKER), "direction": direction, "to": first}


class Swarm:
    """Carries out drawn faults on a simulated world.

    `counts` holds how many of each kind took place, `effects` what they did (in the units of `KINDS`), `postponed` how
    many did not fit into the budget when they were due, and `begun` the faults that did.
    """

    def __init__(
        self, world: SimWorld, faults: list[SwarmFault], min_isr: int = 1, operator: ClusterOperator | None = None
    ) -> None:
        self.counts: dict[str, int] = {}
        self.effects: dict[str, int] = {}
        self.postponed = 0
        self.begun: list[SwarmFault] = []
        self.on_begin: Callable[[SwarmFault], None] = lambda fault: None
        self._world = world
        self._faults = faults
        self._budget = FaultBudget(world, min_isr)
        self._operator = operator

    async def run(self) -> None:
        """Run until the last fault is healed."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._in_its_time(index, fault)) for index, fault in enumerate(self._faults)]
        await asyncio.gather(*tasks)

    async def _in_its_time(self, index: int, fault: SwarmFault) -> None:
        await asyncio.sleep(fault.at)
        if not self._allowed(fault):
            self.postponed += 1
            return
        self.begun.append(fault)
        self.on_begin(fault)
        try:
            effect = await self._carry_out(f"swarm-{index}", fault)
        except VerbFailed:  # a process that is down cannot be killed
            return
        self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        self.effects[fault.kind] = self.effects.get(fault.kind, 0) + effect

    def _allowed(self, fault: SwarmFault) -> bool:
        if fault.words.get("name") == MIN_ISR or fault.kind in SWITCHES:
            return self._budget.allows_edit(fault.duration)
        return self._budget.allows(fault.kind, fault.hosts[0], fault.duration)

    async def _carry_out(self, identity: str, fault: SwarmFault) -> int:
        """Inject the fault, wait until it is over, and return its effect."""
        match fault.kind:
            case "crash-in-disk-call-broker" | "crash-in-disk-call-controller":
                return await self._crash_in_disk_call(fault)
            case "crash-with-tail-broker":
                return await self._crash_with_tail(identity, fault)
            case "restart-broker" | "restart-controller":
                return await self._restart(identity, fault)
            case "cut-clients":
                return await self._cut_clients(identity, fault)
            case "reset":
                return self._reset(fault)
            case "switch-eligible-leaders":
                return await self._switch(fault)
        world = self._world
        context = FaultContext(
            id=identity,
            hosts=world.hosts,
            cluster=world.cluster,
            now_ns=world.now_ns,
            sleep=world.sleep,
            rng=Random(f"{identity}/{fault.at}"),
            operator=self._operator,
            believes_answers=True,
        )
        built = build_fault(_OPTIONS.validate_python(fault.words), context)
        if fault.kind in OPERATIONS:
            return await _operate(built, fault.duration)
        await built.aim()
        await built.inject(fault.duration)
        await asyncio.sleep(fault.duration)
        await built.heal()
        return sum(host.effect_of(identity) for host in world.hosts.values())

    async def _crash_in_disk_call(self, fault: SwarmFault) -> int:
        """Crash between two disk calls of a later turn, and restart. Half of the crashes hit one kind of call."""
        process = self._world.processes[fault.hosts[0]]
        before = process.crashes_in_calls
        process.disk.crash_after = int(fault.amount * 20)
        process.disk.crash_kind = ("fsync", "rename", "write", None, None, None)[int(fault.amount * 1000) % 6]
        await asyncio.sleep(fault.duration)
        process.disk.spare()
        self._world.sim_hosts[fault.hosts[0]].start_if_it_may()
        return process.crashes_in_calls - before

    async def _crash_with_tail(self, identity: str, fault: SwarmFault) -> int:
        """Hold all fetches from a broker for a moment, then kill it.

        It restarts with records that no other broker has, and that its successors may have replaced.
        """
        host = self._world.sim_hosts[fault.hosts[0]]
        lag = min(fault.duration, _between(0.05, 2.0, fault.amount))
        hold = f"{identity}-hold"
        await host.call("rpc.hold", id=hold, api="Fetch", api_key=API_KEYS["Fetch"], sources=[EVERYONE], ttl=lag + 0.1)
        await asyncio.sleep(lag)
        await host.call("proc.kill", id=identity, name="node", ttl=fault.duration)
        await host.call("heal", id=hold)
        await asyncio.sleep(max(0.0, fault.duration - lag))
        await host.call("heal", id=identity)
        return host.effect_of(hold)

    async def _restart(self, identity: str, fault: SwarmFault) -> int:
        """Stop cleanly (a broker by a controlled shutdown), and restart once the fault's duration has passed."""
        host = self._world.sim_hosts[fault.hosts[0]]
        stopped = host.process.running and not host.process.paused
        back_at = asyncio.get_running_loop().time() + fault.duration
        if stopped:
            await host.call("proc.stop", name="node")
        await asyncio.sleep(max(0.0, back_at - asyncio.get_running_loop().time()))
        host.start_if_it_may()
        return int(stopped)

    async def _cut_clients(self, identity: str, fault: SwarmFault) -> int:
        """Block one direction, or both, between clients and one node."""
        network, address = self._world.network, self._world.hosts[fault.hosts[0]].address
        if fault.amount < 0.7:
            network.block(CLIENT_ADDRESS, address, identity)
        if fault.amount > 0.4:
            network.block(address, CLIENT_ADDRESS, identity)
        await asyncio.sleep(fault.duration)
        network.unblock(identity)
        return network.stalls_of(identity)

    async def _switch(self, fault: SwarmFault) -> int:
        """Switch eligible leader replicas off for a while, then on again. Return 1 if both were accepted, else 0."""
        off = await self._set_eligible_leaders(0, attempts=1)
        await asyncio.sleep(fault.duration)
        on = await self._set_eligible_leaders(1, TAKE_BACK_ATTEMPTS)
        return int(off and on)

    async def _set_eligible_leaders(self, level: int, attempts: int) -> bool:
        assert self._operator is not None, "a swarm that switches features has an operator"
        for _ in range(attempts):
            try:
                await self._operator.set_feature(ELIGIBLE_LEADER_REPLICAS, level)
            except OperationRefused:
                await asyncio.sleep(TAKE_BACK_SECONDS)
            else:
                return True
        return False

    def _reset(self, fault: SwarmFault) -> int:
        """Reset the connections between two nodes, or between clients and the first node."""
        network, hosts = self._world.network, self._world.hosts
        other = CLIENT_ADDRESS if fault.amount < 0.3 else hosts[fault.hosts[1]].address
        ends = network.connections(hosts[fault.hosts[0]].address, other)
        for end in ends:
            network.reset(end)
        return len(ends)


async def _operate(operation: Fault, duration: float) -> int:
    """Start an operator's change, wait for `duration`, revert it. Return 1 if it took effect, else 0.

    Returns 0 also if it finds no target, which is normal under faults.
    """
    try:
        await operation.aim()
    except NoTarget:
        return 0
    before = await operation.observe()
    await operation.inject(duration)
    effect = operation.check_effect(before, await operation.observe()) is None
    await asyncio.sleep(duration)
    await operation.heal()
    for _ in range(TAKE_BACK_ATTEMPTS):
        if operation.shows_end(before, await operation.observe()) is None:
            break
        await asyncio.sleep(TAKE_BACK_SECONDS)
        await operation.heal()
    return int(effect)

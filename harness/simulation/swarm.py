"""Swarm testing: each seed draws its own mix of faults, their targets, times and intensities.

Two lessons decide the shape (measured on prototypes): durations are drawn log-uniformly, half a millisecond to many
seconds, because bugs live at all scales; and each seed uses only some kinds of fault, because a mix of everything
hides what one of them would show. What is drawn is data, printed by a failing seed.

Within the fault budget of docs/architecture.md: brokers crash with their page cache kept, controllers may lose what
they had not made durable. Everything is healed before the load ends, and then progress is demanded.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import exp, log
from random import Random

from squall.harness.simulation.links import Shape
from squall.harness.simulation.world import SimWorld
from squall.nemesis.ports import VerbFailed

KINDS = (
    "crash-broker",
    "crash-controller",
    "power-loss-controller",
    "crash-in-disk-call",
    "pause-broker",
    "pause-controller",
    "isolate-broker",
    "isolate-controller",
    "one-way",
    "cut-link",
    "reset",
    "slow-link",
    "clock",
)


@dataclass(frozen=True)
class SwarmFault:
    """One fault of a swarm: `kind` at `at` seconds for `duration` seconds, on the hosts named."""

    at: float
    kind: str
    hosts: tuple[str, ...]
    duration: float
    amount: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:7.3f} s  {self.kind:22} {', '.join(self.hosts):12} for {self.duration:.3f} s"


def draw_swarm(seed: object, brokers: tuple[str, ...], controllers: tuple[str, ...], load: float) -> list[SwarmFault]:
    """The faults of this seed, in order of time; all over before `load` seconds have passed."""
    rng = Random(f"{seed}/swarm")
    kinds = [kind for kind in KINDS if rng.random() < 0.5] or [rng.choice(KINDS)]
    gap = exp(rng.uniform(log(0.3), log(8.0)))
    longest = exp(rng.uniform(log(0.5), log(15.0)))
    faults = []
    at = rng.uniform(0.5, 3.0)
    while True:
        at += rng.expovariate(1 / gap)
        duration = exp(rng.uniform(log(0.0005), log(longest)))
        if at + duration >= load - 1.0:
            break
        kind = rng.choice(kinds)
        hosts = _targets(kind, rng, brokers, controllers)
        faults.append(SwarmFault(round(at, 6), kind, hosts, round(duration, 6), rng.random()))
    return faults


def _targets(kind: str, rng: Random, brokers: tuple[str, ...], controllers: tuple[str, ...]) -> tuple[str, ...]:
    if kind.endswith("broker"):
        return (rng.choice(brokers),)
    if kind.endswith("controller"):
        return (rng.choice(controllers),)
    if kind in ("one-way", "cut-link", "reset", "slow-link"):
        first, second = rng.sample(brokers + controllers, 2)
        return (first, second)
    return (rng.choice(brokers + controllers),)


class Swarm:
    """Carries out drawn faults on a simulated world. `counts` tells how many of each kind took place."""

    def __init__(self, world: SimWorld, faults: list[SwarmFault]) -> None:
        self.counts: dict[str, int] = {}
        self._world = world
        self._faults = faults

    async def run(self) -> None:
        """Until the last fault is healed."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._in_its_time(index, fault)) for index, fault in enumerate(self._faults)]
        await asyncio.gather(*tasks)

    async def _in_its_time(self, index: int, fault: SwarmFault) -> None:
        await asyncio.sleep(fault.at)
        self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        identity = f"swarm-{index}"
        try:
            await self._inject(identity, fault)
        except VerbFailed:
            return

    async def _inject(self, identity: str, fault: SwarmFault) -> None:
        world, first = self._world, fault.hosts[0]
        host = world.hosts[first]
        ttl = fault.duration
        match fault.kind:
            case "crash-broker" | "crash-controller":
                await host.call("proc.kill", id=identity, name="node", ttl=ttl)
            case "power-loss-controller":
                await host.call("proc.kill", id=identity, name="node", ttl=ttl, power_loss=True)
            case "crash-in-disk-call":
                await self._crash_in_disk_call(fault)
            case "pause-broker" | "pause-controller":
                await host.call("proc.pause", id=identity, name="node", ttl=ttl)
            case "isolate-broker" | "isolate-controller":
                await self._isolate(identity, first, ttl)
            case "one-way":
                await host.call("net.drop", id=identity, sources=[world.hosts[fault.hosts[1]].address], ttl=ttl)
            case "cut-link":
                second = world.hosts[fault.hosts[1]]
                await host.call("net.drop", id=identity, sources=[second.address], ttl=ttl)
                await second.call("net.drop", id=identity, sources=[host.address], ttl=ttl)
            case "reset":
                self._reset(host.address, world.hosts[fault.hosts[1]].address)
            case "slow-link":
                await self._slow_down(fault)
            case "clock":
                offset = (fault.amount - 0.5) * 7200
                await host.call("clock.set", id=identity, name="node", offset_s=offset, ttl=ttl)

    async def _crash_in_disk_call(self, fault: SwarmFault) -> None:
        """Die between two disk calls of some turn to come, and come back."""
        process = self._world.processes[fault.hosts[0]]
        process.disk.crash_after = int(fault.amount * 20)
        await asyncio.sleep(fault.duration)
        process.disk.crash_after = None
        if not process.running and not self._world.hosts[fault.hosts[0]].has_open("proc.kill"):
            process.start()

    async def _isolate(self, identity: str, name: str, ttl: float) -> None:
        world = self._world
        others = [host for other, host in world.hosts.items() if other != name]
        await world.hosts[name].call("net.drop", id=identity, sources=[one.address for one in others], ttl=ttl)
        for other in others:
            await other.call("net.drop", id=identity, sources=[world.hosts[name].address], ttl=ttl)

    def _reset(self, first: str, second: str) -> None:
        for end in self._world.network.connections(first, second):
            self._world.network.reset(end)

    async def _slow_down(self, fault: SwarmFault) -> None:
        network = self._world.network
        first, second = (self._world.hosts[name].address for name in fault.hosts)
        extra = round(exp(fault.amount * log(300_000)))
        network.shape(first, second, str(fault), Shape(delay=extra))
        await asyncio.sleep(fault.duration)
        network.unshape(str(fault))

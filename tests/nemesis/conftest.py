"""A small world in memory: hosts that answer the verbs, a cluster to aim by, and time that jumps.

Time stands still while anything can run and then jumps to the next sleeper, so a minute of faults takes
milliseconds and every figure is exact.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from squall.nemesis.core.ports import EVERYONE, VerbFailed

SETTLING_TURNS = 30


class FakeTime:
    """`now_ns` and `sleep` of a world whose time jumps from sleeper to sleeper."""

    def __init__(self) -> None:
        self._now = 1_000_000_000_000
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now_ns(self) -> int:
        return self._now

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + round(seconds * 1e9), next(self._order), future))
        await future

    async def drive(self, work: Coroutine[Any, Any, Any]) -> Any:
        task = asyncio.get_running_loop().create_task(work)
        while not task.done():
            for _ in range(SETTLING_TURNS):
                await asyncio.sleep(0)
            while self._sleepers and not task.done():
                due, _, future = heapq.heappop(self._sleepers)
                if not future.done():
                    self._now = max(self._now, due)
                    future.set_result(None)
                    break
        return task.result()


class FakeHost:
    """One host of the world; `calls` is all it was asked to do, `broken` are verbs that fail."""

    def __init__(self, world: FakeWorld, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.broken: dict[str, VerbFailed] = {}
        self.drops: dict[str, list[str]] = {}
        self.kills: set[str] = set()
        self.pauses: set[str] = set()
        self.skews: dict[str, tuple[float, float, int]] = {}
        self.incarnation = 1
        self.heard: dict[str, list[str]] = {}
        self._world = world

    async def call(self, verb: str, **arguments: Any) -> dict[str, Any]:
        self.calls.append((verb, arguments))
        if verb in self.broken:
            raise self.broken[verb]
        await self._world.time.sleep(0.001)
        return self._answer(verb, arguments)

    def deaf_to(self, other: FakeHost) -> bool:
        listening = any(other.address in sources or EVERYONE in sources for sources in self.drops.values())
        return listening or any(EVERYONE in sources for sources in other.drops.values())

    def open_faults(self) -> list[str]:
        return sorted({*self.drops, *self.kills, *self.pauses, *self.skews})

    def _answer(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        match verb:
            case "net.drop":
                self.drops[arguments["id"]] = arguments["sources"]
            case "proc.kill":
                self.kills.add(arguments["id"])
                return {"pid": self.incarnation}
            case "proc.pause":
                self.pauses.add(arguments["id"])
            case "clock.set":
                skew = (arguments["offset_s"], arguments["rate"], self._world.time.now_ns())
                self.skews[arguments["id"]] = skew
            case "heal" | "net.allow" | "clock.clear" | "proc.resume":
                return {"healed": self._heal(arguments.get("id"))}
            case "journal":
                return {"entries": [{"id": id} for id in self.open_faults()]}
            case "proc.status":
                return self._status()
            case "probe.clock":
                return {"offset_s": self._offset(), "mapped": True}
            case "probe.port":
                return {name: self._world.port_of(target) for name, target in arguments["targets"].items()}
            case "probe.send":
                self._send(arguments)
            case "probe.heard":
                return {"heard": dict.fromkeys(self.heard.get(arguments["nonce"], []), 3)}
            case _:
                raise VerbFailed(self.name, verb, "unknown_verb", f"no verb {verb}")
        return {}

    def _heal(self, id: str | None) -> list[str]:
        healed = [one for one in self.open_faults() if id in (None, one)]
        for one in healed:
            self.drops.pop(one, None)
            self.skews.pop(one, None)
            self.pauses.discard(one)
            if one in self.kills:
                self.kills.discard(one)
                self.incarnation += 1
        return healed

    def _status(self) -> dict[str, Any]:
        if self.kills:
            return {"state": "absent", "pid": None, "started": None}
        state = "stopped" if self.pauses else "running"
        return {"state": state, "pid": 100 + self.incarnation, "started": self.incarnation}

    def _offset(self) -> float:
        if not self.skews:
            return 0.0
        offset, rate, since = list(self.skews.values())[-1]
        return offset + (rate - 1) * (self._world.time.now_ns() - since) / 1e9

    def _send(self, arguments: dict[str, Any]) -> None:
        for name in arguments["targets"]:
            target = self._world.hosts[name]
            if not target.deaf_to(self):
                target.heard.setdefault(arguments["nonce"], []).append(arguments["source"])


class FakeWorld:
    """Three controllers, five brokers, one topic; a ClusterView by itself."""

    def __init__(self) -> None:
        self.time = FakeTime()
        self.controllers: tuple[str, ...] = ("c1", "c2", "c3")
        self.brokers: tuple[str, ...] = ("b1", "b2", "b3", "b4", "b5")
        self.zookeeper: tuple[str, ...] = ()
        self.topics = {"events": 4}
        self.leaders: dict[int, str | None] = {0: "b2", 1: "b3", 2: "b1", 3: "b2"}
        self.active: str | None = "c2"
        names = [*self.controllers, *self.brokers]
        self.hosts = {name: FakeHost(self, name, f"10.77.0.{11 + n}") for n, name in enumerate(names)}

    async def leader(self, topic: str, partition: int) -> str | None:
        return self.leaders[partition]

    async def active_controller(self) -> str | None:
        return self.active

    async def in_sync(self, topic: str, partition: int) -> list[str]:
        return ["b1", "b2", "b3"]

    async def replicas(self, topic: str, partition: int) -> list[str]:
        return ["b1", "b2", "b3", "b4", "b5"]

    def port_of(self, target: str) -> str:
        address = target.rpartition(":")[0]
        host = next(host for host in self.hosts.values() if host.address == address)
        return "refused" if host.kills else "open"


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def drive(world: FakeWorld) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine in the world's time."""
    return lambda work: asyncio.run(world.time.drive(work))

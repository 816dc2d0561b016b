"""Random admin operations on separate topics: create, enlarge, set, delete, one step after the other.

A control plane must bear these beside the faults. The steps are drawn from the fault's own random numbers. The topics
under test are not changed. Evidence is not the responses but the cluster's metadata: every topic whose operations were
all acknowledged must exist with that many topic-partitions and that setting, and no deleted topic may exist. A topic of
which an operation was refused, or has an unknown outcome, proves nothing and is not used again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal

from squall.nemesis.core.evidence import Facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge
from squall.nemesis.core.ports import ClusterOperator, OperationRefused
from squall.nemesis.core.selector import Target
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import AdminMix

SETTING = "max.message.bytes"
SETTING_VALUES = (100_000, 1_000_000)
MOST_PARTITIONS = 8
MOST_REPLICAS = 3
FEWEST = 3
"""The least number of operations before the metadata proves anything."""
LOOKS, BETWEEN_LOOKS_SECONDS = 10, 0.1
"""Brokers see acknowledged changes a moment later."""

Step = Literal["make", "enlarge", "set", "delete"]


@dataclass
class _Topic:
    """A topic as its acknowledged operations left it."""

    partitions: int
    setting: str | None = None


class MixAdminOperations:
    """`admin-mix`."""

    waits_to_show = True

    def __init__(self, options: AdminMix, context: FaultContext) -> None:
        self.kind: str = options.fault
        self._options = options
        self._context = context
        self._known: dict[str, _Topic] = {}
        self._deleted: set[str] = set()
        self._unsure: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._made = 0
        self._refused = ""
        self._final = "not observed"
        self._cleared = False
        self._busy = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._under_way: asyncio.Task[None] | None = None

    @property
    def _operator(self) -> ClusterOperator:
        if self._context.operator is None:
            raise OperationRefused(f"{self.kind}: this run has no admin client for the cluster")
        return self._context.operator

    async def aim(self) -> Target:
        return Target(tuple(self._context.cluster.brokers), "topics of its own")

    async def inject(self, ttl: float) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        while True:
            async with self._busy:
                self._under_way = asyncio.get_running_loop().create_task(self._step())
                await asyncio.shield(self._under_way)
            await self._context.sleep(self._options.every)

    async def stand_down(self) -> None:
        """Finish the operation under way and begin no other."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._under_way is not None:
            await asyncio.gather(self._under_way, return_exceptions=True)

    async def _step(self) -> None:
        """One operation on one topic."""
        step, name = self._drawn()
        try:
            await self._done(step, name)
            self._counts[step] += 1
        except OperationRefused as refused:
            self._refused = str(refused)
            self._counts["refused"] += 1
            self._known.pop(name, None)
            self._unsure.add(name)

    def _drawn(self) -> tuple[Step, str]:
        rng = self._context.rng
        if not self._known:
            return "make", self._new_name()
        steps: list[Step] = ["enlarge", "set", "delete"]
        if len(self._known) < self._options.topics:
            steps.append("make")
        step = rng.choice(steps)
        return step, self._new_name() if step == "make" else rng.choice(sorted(self._known))

    def _new_name(self) -> str:
        self._made += 1
        own = "".join(letter if letter.isalnum() else "-" for letter in self._context.id)
        return f"squall-{own}-{self._made}"

    async def _done(self, step: Step, name: str) -> None:
        """Make the request and record it as acknowledged. Raises OperationRefused."""
        rng, operator = self._context.rng, self._operator
        if step == "make":
            partitions = rng.randint(1, 3)
            await operator.create_topic(name, partitions, min(MOST_REPLICAS, len(self._context.cluster.brokers)))
            self._known[name] = _Topic(partitions)
        elif step == "enlarge":
            partitions = min(MOST_PARTITIONS, self._known[name].partitions + rng.randint(1, 2))
            if partitions > self._known[name].partitions:
                await operator.create_partitions(name, partitions)
                self._known[name].partitions = partitions
        elif step == "set":
            value = str(rng.randint(*SETTING_VALUES))
            await operator.set_config(name, SETTING, value)
            self._known[name].setting = value
        else:
            await operator.delete_topic(name)
            del self._known[name]
            self._deleted.add(name)

    async def observe(self) -> Facts:
        async with self._busy:
            differs = await self._differs() if self._task is not None else ""
        accepted = sum(number for step, number in self._counts.items() if step != "refused")
        return {
            "asked": self._in_words(accepted),
            "accepted": accepted,
            "counts": dict(self._counts),
            "differs": differs,
            "final": self._final,
            "cleared": self._cleared,
            "refused": self._refused,
        }

    async def _differs(self) -> str:
        """How the metadata differs from what was acknowledged, after some patience; empty if it does not."""
        differs = ""
        for _ in range(LOOKS):
            differs = await self._difference()
            if not differs:
                break
            await self._context.sleep(BETWEEN_LOOKS_SECONDS)
        return differs

    async def _difference(self) -> str:
        try:
            told = await self._operator.topics_told(sorted((*self._known, *self._deleted)))
            for name, topic in sorted(self._known.items()):
                if told.get(name) != topic.partitions:
                    return f"{name} has {told.get(name, 'no')} topic-partitions, not {topic.partitions}"
                if topic.setting is not None:
                    value = await self._operator.setting_of(name, SETTING)
                    if value != topic.setting:
                        return f"{name} has {SETTING}={value}, not {topic.setting}"
        except OperationRefused as refused:
            return str(refused)
        back = sorted(self._deleted & set(told))
        return f"{back[0]} is there, and was deleted" if back else ""

    async def heal(self) -> None:
        """Check everything that was acknowledged a last time; then delete all these topics."""
        await self.stand_down()
        if self._context.operator is None:
            self._cleared, self._final = True, ""
            return
        if self._final:
            self._final = await self._differs()
        gone = [name for name in sorted((*self._known, *self._unsure)) if await self._deletes(name)]
        if not self._final:
            for name in gone:
                self._known.pop(name, None)
                self._unsure.discard(name)
            self._cleared = not self._known and not self._unsure

    async def _deletes(self, name: str) -> bool:
        if self._final and name in self._known:
            return False  # the last check concerns this topic
        return await _accepted(self._operator.delete_topic(name))

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        if during["accepted"] < FEWEST:
            return str(during["refused"] or f"{during['accepted']} operations were accepted, {FEWEST} are the least")
        return str(during["differs"]) or None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        if after["final"]:
            return str(after["final"])
        return None if after["cleared"] else "topics of its own are still there"

    def told(self, during: Facts) -> str:
        return f"{during['asked']}, as the metadata shows"

    def _in_words(self, accepted: int) -> str:
        steps = ", ".join(f"{number} {step}" for step, number in sorted(self._counts.items()) if step != "refused")
        refused = f", {self._counts['refused']} refused" if self._counts["refused"] else ""
        return f"{accepted} operations accepted ({steps or 'none'}){refused}"

    def cuts(self) -> Grudge:
        return {}


async def _accepted(asked: Awaitable[None]) -> bool:
    try:
        await asked
    except OperationRefused:
        return False
    return True


ADMIN_MIXES = (
    Kind(
        AdminMix,
        MixAdminOperations,
        (),
        on_hosts="requested from the cluster, as by an admin client, one operation after the other",
        proof="the cluster's metadata shows every topic as its acknowledged operations left it",
        limits="only its own topics; a topic with a refused operation proves nothing",
    ),
)

"""Admin operations at random: drawn from the fault's own numbers, believed only if the metadata shows them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.ports import OperationRefused
from squall.nemesis.faults.cluster.admin_mix import MixAdminOperations
from squall.nemesis.options import AdminMix


class Operator:
    """A cluster's topics. One that `forgets` acknowledges deletions and does nothing; one step it `refuses`."""

    def __init__(self, *, forgets: bool = False, refuses: str = "") -> None:
        self.forgets = forgets
        self.refuses = refuses
        self.topics: dict[str, int] = {"events": 8}
        self.settings: dict[str, str | None] = {}
        self.asked: list[tuple[str, str]] = []

    def _hear(self, what: str, topic: str) -> None:
        self.asked.append((what, topic))
        if what == self.refuses:
            raise OperationRefused(f"no {what} today")

    async def create_topic(self, topic: str, partitions: int, replicas: int) -> None:
        self._hear("create", topic)
        self.topics[topic] = partitions

    async def create_partitions(self, topic: str, count: int) -> None:
        self._hear("enlarge", topic)
        assert count > self.topics[topic]
        self.topics[topic] = count

    async def set_config(self, topic: str, name: str, value: str | None) -> None:
        self._hear("set", topic)
        self.settings[topic] = value

    async def setting_of(self, topic: str, name: str) -> str | None:
        return self.settings.get(topic)

    async def delete_topic(self, topic: str) -> None:
        self._hear("delete", topic)
        if not self.forgets:
            self.topics.pop(topic, None)

    async def moving(self, topic: str, partition: int) -> list[str]:
        raise AssertionError("nobody here moves topic-partitions")

    async def topics_told(self, topics: Sequence[str]) -> Mapping[str, int]:
        return {name: count for name, count in self.topics.items() if name in topics}


class Occurrence:
    """One occurrence in a world whose time jumps."""

    def __init__(self, world: Any, operator: Operator | None, seed: int = 1) -> None:
        options = AdminMix.model_validate({"fault": "admin-mix", "every": "100ms"})
        context = FaultContext(
            id="7-admin-mix", hosts={}, cluster=world, now_ns=world.time.now_ns, sleep=world.time.sleep,
            rng=random.Random(seed), operator=operator,  # type: ignore[arg-type]
        )  # fmt: skip
        self.fault = MixAdminOperations(options, context)
        self.world = world

    async def live(self, seconds: float = 5.0) -> tuple[str | None, str | None, str]:
        """Why it did not take hold, why it is not over, and what it tells of itself."""
        fault = self.fault
        await fault.aim()
        before = await fault.observe()
        await fault.inject(10)
        await self.world.time.sleep(seconds)
        during = await fault.observe()
        hold = fault.check_effect(before, during)
        await fault.heal()
        return hold, fault.shows_end(before, await fault.observe()), fault.told(during)


def test_it_touches_topics_of_its_own_and_leaves_none_behind(world: Any, drive: Any) -> None:
    operator = Operator()
    hold, end, told = drive(Occurrence(world, operator).live())
    assert (hold, end) == (None, None)
    assert "operations accepted" in told
    assert operator.topics == {"events": 8}
    assert {what for what, _ in operator.asked} == {"create", "enlarge", "set", "delete"}
    assert all(topic.startswith("squall-7-admin-mix-") for _, topic in operator.asked)


def test_the_same_numbers_draw_the_same_operations(world: Any, drive: Any) -> None:
    first, again, other = Operator(), Operator(), Operator()
    for operator, seed in ((first, 1), (again, 1), (other, 2)):
        drive(Occurrence(world, operator, seed).live())
    assert first.asked == again.asked
    assert first.asked != other.asked


def test_an_acknowledged_deletion_that_the_metadata_does_not_show_is_no_proof(world: Any, drive: Any) -> None:
    hold, end, _ = drive(Occurrence(world, Operator(forgets=True)).live())
    assert hold is not None and "is there, and was deleted" in hold
    assert end is not None


def test_a_topic_that_lost_an_acknowledged_change_is_no_proof(world: Any, drive: Any) -> None:
    operator = Operator(refuses="delete")
    occurrence = Occurrence(world, operator)

    async def live() -> str | None:
        await occurrence.fault.inject(10)
        await world.time.sleep(1)
        await occurrence.fault.stand_down()
        for topic in operator.topics:
            operator.topics[topic] += 1
        await occurrence.fault.heal()
        return occurrence.fault.shows_end({}, await occurrence.fault.observe())

    assert "topic-partitions, not" in drive(live())


def test_where_everything_is_refused_nothing_is_proven(world: Any, drive: Any) -> None:
    hold, _, _ = drive(Occurrence(world, Operator(refuses="create")).live())
    assert hold == "no create today"


def test_where_nobody_can_be_asked_nothing_is_proven(world: Any, drive: Any) -> None:
    hold, end, _ = drive(Occurrence(world, None).live(1))
    assert hold is not None and "no admin client" in hold
    assert end is None


def test_stood_down_it_does_nothing_more(world: Any, drive: Any) -> None:
    operator = Operator()
    occurrence = Occurrence(world, operator)

    async def live() -> int:
        await occurrence.fault.inject(10)
        await world.time.sleep(1)
        await occurrence.fault.stand_down()
        done = len(operator.asked)
        await world.time.sleep(5)
        return len(operator.asked) - done

    assert drive(live()) == 0
    assert asyncio.run(occurrence.fault.aim()).role == "topics of its own"

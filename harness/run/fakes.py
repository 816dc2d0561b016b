"""Stand-ins of hosts, cluster and operator for a dry run: they record the calls that they receive, and do nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class FakeHost:
    """A host that records its calls, and responds like a healthy one where the caller reads the response."""

    name: str
    address: str
    asked: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    async def call(self, verb: str, **arguments: object) -> dict[str, object]:
        self.asked.append((verb, arguments))
        await asyncio.sleep(0)
        return {"state": "running", "pid": 1, "started": 1, "by_itself": True}


@dataclass(frozen=True)
class FakeCluster:
    """A cluster in which leaders are spread evenly, all replicas are in sync and the first controller is active."""

    brokers: tuple[str, ...]
    controllers: tuple[str, ...]
    topics: Mapping[str, int]
    replication: Mapping[str, int]
    zookeeper: tuple[str, ...] = ()

    async def leader(self, topic: str, partition: int) -> str | None:
        return (await self.replicas(topic, partition))[0]

    async def active_controller(self) -> str | None:
        return self.controllers[0]

    async def in_sync(self, topic: str, partition: int) -> list[str]:
        return await self.replicas(topic, partition)

    async def replicas(self, topic: str, partition: int) -> list[str]:
        count = len(self.brokers)
        return [self.brokers[(partition + one) % count] for one in range(min(count, self.replication.get(topic, 1)))]


class FakeOperator:
    """An operator that records its requests."""

    def __init__(self, controllers: Sequence[str]) -> None:
        self.asked: list[str] = []
        self._voters = list(controllers)

    async def reassign(self, topic: str, partition: int, hosts: Sequence[str] | None) -> None:
        where = f"{topic}/{partition}"
        self.asked.append(f"reassign {where} to {', '.join(hosts)}" if hosts else f"cancel what moves {where}")

    async def moving(self, topic: str, partition: int) -> list[str]:
        return []

    async def elect_preferred(self, topics: Mapping[str, int]) -> None:
        self.asked.append(f"elect preferred leaders of {', '.join(topics)}")

    async def set_config(self, topic: str, name: str, value: str | None) -> None:
        self.asked.append(f"set {name} of {topic} to {value if value is not None else 'its default'}")

    async def setting_of(self, topic: str, name: str) -> str | None:
        return None

    async def create_topic(self, topic: str, partitions: int, replicas: int) -> None:
        self.asked.append(f"create topic {topic}: {partitions} topic-partitions, {replicas} replicas")

    async def create_partitions(self, topic: str, count: int) -> None:
        self.asked.append(f"give {topic} {count} topic-partitions")

    async def delete_topic(self, topic: str) -> None:
        self.asked.append(f"delete topic {topic}")

    async def topics_told(self, topics: Sequence[str]) -> Mapping[str, int]:
        return {}

    async def voters(self) -> tuple[str, ...]:
        return tuple(self._voters)

    async def remove_voter(self, host: str) -> None:
        self.asked.append(f"remove voter {host}")
        self._voters.remove(host)

    async def add_voter(self, host: str) -> None:
        self.asked.append(f"add voter {host}")
        self._voters.append(host)

    async def unregister(self, host: str) -> None:
        self.asked.append(f"unregister {host}")

    async def set_feature(self, name: str, level: int) -> None:
        self.asked.append(f"set feature {name} to level {level}")

    async def level_of(self, feature: str) -> int:
        return 0

    async def settings_of(self, host: str) -> Mapping[str, str]:
        return {}


class FakeClock:
    """Time that passes only by `sleep`."""

    def __init__(self) -> None:
        self._now = 0

    def now_ns(self) -> int:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += round(seconds * 1e9)
        await asyncio.sleep(0)

"""Carry out operator requests by host name, over the Kafka protocol (`nemesis.ports.ClusterOperator`).

The nemesis uses hosts, the protocol uses node ids; this module converts the one to the other, for both worlds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence

from squall.nemesis.core.ports import OperationRefused
from squall.workloads.clients.common.client import Topic
from squall.workloads.clients.native.admin import Address
from squall.workloads.clients.native.operator import NativeOperator, Quorum

CONTROLLER_LISTENER = "CONTROLLER"


class ClusterAdmin:
    """Implements `nemesis.ports.ClusterOperator`.

    `ids` are all nodes by host. `controllers` says where voters listen; it is not copied, since a voter may move.
    """

    def __init__(self, client: NativeOperator, ids: Mapping[str, int], controllers: Mapping[str, Address]) -> None:
        self._client = client
        self._ids = dict(ids)
        self._names = {node_id: name for name, node_id in ids.items()}
        self._controllers = controllers

    async def reassign(self, topic: str, partition: int, hosts: Sequence[str] | None) -> None:
        replicas = None if hosts is None else [self._ids[name] for name in hosts]
        await _done(self._client.reassign(topic, partition, replicas))

    async def moving(self, topic: str, partition: int) -> list[str]:
        try:
            replicas = await self._client.moving(topic, partition)
        except OSError as trouble:
            raise _refusal(trouble) from None
        return [self._names[replica] for replica in replicas if replica in self._names]

    async def elect_preferred(self, topics: Mapping[str, int]) -> None:
        await _done(self._client.elect_preferred(topics))

    async def set_config(self, topic: str, name: str, value: str | None) -> None:
        await _done(self._client.set_config(topic, name, value))

    async def setting_of(self, topic: str, name: str) -> str | None:
        try:
            return await self._client.setting_of(topic, name)
        except OSError as trouble:
            raise _refusal(trouble) from None

    async def create_topic(self, topic: str, partitions: int, replicas: int) -> None:
        await _done(self._client.create_topics([Topic(topic, partitions, replicas)]))

    async def create_partitions(self, topic: str, count: int) -> None:
        await _done(self._client.create_partitions(topic, count))

    async def delete_topic(self, topic: str) -> None:
        await _done(self._client.delete_topic(topic))

    async def topics_told(self, topics: Sequence[str]) -> Mapping[str, int]:
        try:
            state = await self._client.describe(topics)
        except OSError as trouble:
            raise _refusal(trouble) from None
        return Counter(one.topic for one in state.partitions)

    async def quorum(self) -> Quorum:
        """Return the metadata quorum as its leader reports it. Raises OperationRefused."""
        try:
            return await self._client.quorum()
        except OSError as trouble:
            raise _refusal(trouble) from None

    async def voters(self) -> tuple[str, ...]:
        try:
            quorum = await self._client.quorum()
        except OSError as trouble:
            raise _refusal(trouble) from None
        return tuple(self._names[voter] for voter in sorted(quorum.voters))

    async def remove_voter(self, host: str) -> None:
        await _done(self._client.remove_voter(self._ids[host]))

    async def add_voter(self, host: str) -> None:
        await _done(self._client.add_voter(self._ids[host], CONTROLLER_LISTENER, self._controllers[host]))

    async def unregister(self, host: str) -> None:
        await _done(self._client.unregister(self._ids[host]))

    async def set_feature(self, name: str, level: int) -> None:
        await _done(self._client.set_feature(name, level))

    async def level_of(self, feature: str) -> int:
        try:
            return await self._client.level_of(feature)
        except OSError as trouble:
            raise _refusal(trouble) from None

    async def settings_of(self, host: str) -> Mapping[str, str]:
        try:
            return await self._client.broker_settings(self._ids[host])
        except OSError as trouble:
            raise _refusal(trouble) from None

    async def close(self) -> None:
        await self._client.close()


async def _done(asked: Awaitable[None]) -> None:
    try:
        await asked
    except OSError as trouble:
        raise _refusal(trouble) from None


def _refusal(trouble: OSError) -> OperationRefused:
    return OperationRefused(str(trouble) or "no answer in time")

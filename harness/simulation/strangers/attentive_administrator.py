"""An administrator who acts when it matters: once a topic-partition has another leader or none, or lacks members.

What an administrator does is easy to get right on a cluster at rest. Bugs lie where it meets a change: records are
deleted at a leader that has not heard from its followers, replicas are taken away while those that stay are out of
sync, a setting changes while nobody leads. Drawn at random times such meetings are rare. So this client looks at its
own topic often, and what it does depends on what it sees:

* another leader or leader epoch: delete records there;
* no leader: change the topic's `min.insync.replicas`, or have a leader elected;
* replicas out of sync: change `min.insync.replicas`, or reassign the topic-partition to these replicas and others;
* nothing of that: append, mostly. Sometimes it does any of the above, cancels a reassignment, or changes a setting of
  the log (`SETTINGS`). Where the load's topic has the default min ISR, it also resets all of the topic's settings.

Nothing is expected of the answers; the observer judges what becomes of the topic. `min.insync.replicas` and the number
of replicas are never below those of the load's topic, since the fault budget decides by them what may be lost. It also
decides when `min.insync.replicas` may change. Where it relies on every record being synced, the topic's stay so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from squall.harness.conformance.client import Patience
from squall.harness.scenario.suite import TopicOptions
from squall.harness.simulation.strangers.own_topic import TIMEOUT_MS, OwnTopic
from squall.harness.simulation.swarm.budget import FLUSH_MESSAGES, FaultBudget
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.metadata.topic_configs import MIN_ISR, TOPIC_CONFIGS
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from squall.nodes.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from squall.nodes.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from squall.nodes.protocol.messages.metadata import MetadataResponsePartition
from squall.nodes.replication.log_start import TO_HIGH_WATERMARK

SHARE = 0.3
"""The probability that a run has this client."""
STREAM = "attentive administrator"
PAUSE = (0.01, 0.15)
"""Seconds of virtual time between two looks."""
AGAIN = (0.1, 1.0)
"""Seconds of virtual time until it tries again to create its topic."""
NAMES = 4
"""A topic whose creation has an unknown outcome remains, and costs the cluster replicas and leaders."""
APPENDED = 0.8
"""The probability that an administrator who sees nothing remarkable appends a record."""
RESET = 0.2
"""The probability that a setting returns to its default."""
PROMPT = 0.5
"""The probability of acting on what is remarkable."""
FIRST_VALUE = 3 << 59
"""The values of workloads and of other strangers are below it."""
TOPIC_RESOURCE, SET, DELETE = 2, 0, 1
SETTINGS = {
    "segment.bytes": ("500", "2000", "1048576"),
    "index.interval.bytes": ("0", "100", "4096"),
    FLUSH_MESSAGES: ("1", "1000000"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "max.message.bytes": ("5000", "1048588"),
}
"""Settings of a log that no replica may mind, at whichever moment they change, and values to draw from."""
PREFERRED = 0

Step = Callable[[MetadataResponsePartition], Awaitable[object]]


class AttentiveAdministrator:
    """See the module."""

    def __init__(
        self,
        world: SimWorld,
        patience: Patience,
        like: TopicOptions,
        on_send: Callable[[int], None],
        budget: FaultBudget,
    ) -> None:
        """The topic is `like` this one, with one topic-partition.

        `on_send` is called with each value that a broker should append, before it is sent.
        """
        self._rng: Random = world.streams.stream(STREAM)
        self._own = OwnTopic(world, patience, like, self._rng, on_send, FIRST_VALUE)
        self._like = like
        self._budget = budget
        self._settings = {name: values for name, values in SETTINGS.items() if not is_relied_on(name, like)}
        self._may_reset_all = may_reset_all(like)
        self._name = ""
        self._led: tuple[int, int] = (-1, -1)
        """Leader and leader epoch when it looked last."""
        self.names = self.appended = 0
        self.deleted: set[str] = set()
        """The topics in which it has asked for records to be deleted."""
        self.done: dict[str, int] = {}
        """How often it did what, whatever came of it."""

    async def run(self) -> None:
        """Look and act, until cancelled or out of names."""
        try:
            while not await self._created():
                if self.names >= NAMES:
                    return
                await asyncio.sleep(self._rng.uniform(*AGAIN))
            while True:
                await asyncio.sleep(self._rng.uniform(*PAUSE))
                seen = await self._own.look(self._name)
                if seen is not None:
                    await self._act(seen)
        finally:
            await self._own.close()

    async def _created(self) -> bool:
        name = f"squall-tended-{self.names + 1}"
        created = await self._own.create(name)
        self.names += not created.nothing_done
        self._name = name
        return bool(created.topic_id)

    async def _act(self, seen: MetadataResponsePartition) -> None:
        led, self._led = self._led, (seen.leader_id, seen.leader_epoch)
        step = self._chosen(seen, changed=self._led != led)
        name = step.__name__.removeprefix("_")
        self.done[name] = self.done.get(name, 0) + 1
        await step(seen)

    def _chosen(self, seen: MetadataResponsePartition, *, changed: bool) -> Step:
        remarkable: list[Step] = []
        if seen.leader_id < 0:
            remarkable += [self._change_min_isr, self._elect]
        elif changed:
            remarkable += [self._delete_records]
        elif set(seen.isr_nodes) != set(seen.replica_nodes):
            remarkable += [self._change_min_isr, self._move]
        if remarkable and self._rng.random() < PROMPT:
            return self._rng.choice(remarkable)
        if self._rng.random() < APPENDED:
            return self._append
        steps: list[Step] = [
            self._change_min_isr,
            self._change_setting,
            self._move,
            self._elect,
            self._cancel,
            self._delete_records,
        ]
        steps += [self._reset_all] if self._may_reset_all else []
        return self._rng.choice(steps)

    # -- what it does -----------------------------------------------------------------------------------------------

    async def _append(self, seen: MetadataResponsePartition) -> None:
        leader = self._own.brokers.get(seen.leader_id)
        if leader is not None:
            self.appended += len(await self._own.append(self._name, leader))

    async def _delete_records(self, seen: MetadataResponsePartition) -> None:
        leader = self._own.brokers.get(seen.leader_id)
        if leader is None:
            return
        self.deleted.add(self._name)
        offset = self._rng.choice((TO_HIGH_WATERMARK, self._rng.randint(0, self.appended)))
        topic = DeleteRecordsTopic(self._name, [DeleteRecordsPartition(0, offset)])
        await self._own.answer(leader, DeleteRecordsRequest([topic], TIMEOUT_MS), DeleteRecordsResponse)

    async def _change_min_isr(self, _seen: MetadataResponsePartition) -> None:
        value = self._rng.randint(self._like.min_insync_replicas, self._like.replication_factor)
        await self._alter_min_isr(AlterableConfig(MIN_ISR, SET, str(value)))

    async def _alter_min_isr(self, *settings: AlterableConfig) -> None:
        if not self._budget.allows_edit(0.0):
            return
        done = False
        self._budget.edit_begun()
        try:
            done = await self._alter(*settings)
        finally:
            self._budget.edit_ended(answered=done)

    async def _reset_all(self, _seen: MetadataResponsePartition) -> None:
        """Leave the topic without any setting of its own: who loads a snapshot then hears nothing of it."""
        names = {MIN_ISR, *self._like.config, *self._settings}
        await self._alter_min_isr(*(AlterableConfig(name, DELETE) for name in sorted(names)))

    async def _change_setting(self, _seen: MetadataResponsePartition) -> None:
        name = self._rng.choice(sorted(self._settings))
        if self._rng.random() < RESET:
            await self._alter(AlterableConfig(name, DELETE))
        else:
            await self._alter(AlterableConfig(name, SET, self._rng.choice(self._settings[name])))

    async def _alter(self, *settings: AlterableConfig) -> bool:
        """Return whether an answer says that it is done. Otherwise it may still be done later."""
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC_RESOURCE, self._name, list(settings))])
        told = await self._own.answer(self._own.client.any_broker(), request, IncrementalAlterConfigsResponse)
        return told is not None and told.responses[0].error_code == ErrorCode.NONE

    async def _move(self, seen: MetadataResponsePartition) -> None:
        """Onto those that are out of sync first, then any others; which one is preferred is drawn."""
        out_of_sync = [one for one in seen.replica_nodes if one not in seen.isr_nodes]
        others = [one for one in self._own.brokers if one not in out_of_sync]
        self._rng.shuffle(others)
        count = self._like.replication_factor + self._rng.choice((0, 1))
        target = (out_of_sync + others)[:count]
        self._rng.shuffle(target)
        await self._reassign(target)

    async def _cancel(self, _seen: MetadataResponsePartition) -> None:
        await self._reassign(None)

    async def _reassign(self, target: list[int] | None) -> None:
        topic = ReassignableTopic(self._name, [ReassignablePartition(0, target)])
        request = AlterPartitionReassignmentsRequest(TIMEOUT_MS, topics=[topic])
        await self._own.answer(self._own.client.any_broker(), request, AlterPartitionReassignmentsResponse)

    async def _elect(self, _seen: MetadataResponsePartition) -> None:
        request = ElectLeadersRequest(PREFERRED, [TopicPartitions(self._name, [0])], TIMEOUT_MS)
        await self._own.answer(self._own.client.any_broker(), request, ElectLeadersResponse)


def may_reset_all(like: TopicOptions) -> bool:
    """Return whether a topic without settings may lose no more than one like this."""
    relied_on = any(is_relied_on(name, like) for name in like.config)
    return like.min_insync_replicas == int(TOPIC_CONFIGS[MIN_ISR].default) and not relied_on


def is_relied_on(setting: str, like: TopicOptions) -> bool:
    """Return whether the fault budget permits losses of power because topics like this one have the setting.

    Seed 1002112 of worlds: records that a broker no longer synced went with its power.
    """
    return setting == FLUSH_MESSAGES and like.config.get(setting) == 1

"""A broker's metadata from the requests of a ZooKeeper-era controller; a `MetadataSource` of the broker (DA-04, ZK-06).

    UpdateMetadata   the brokers that live, and states of topic-partitions: into the image, where clients see them
    LeaderAndIsr     states of this broker's topic-partitions: into the image, and to its replicas
    StopReplica      replicas that stop to follow (their broker is about to stop), or whose logs are deleted

The image takes the newer of two states of a topic-partition, by leader epoch and then partition epoch; equal and older
ones change nothing. So it does not matter in which order requests arrive.

UpdateMetadata is for clients, and no replica acts by it, but for one case. A leader that has changed its ISR itself
knows a newer state than the image, and takes nothing from the image meanwhile, the topic's settings included. No
LeaderAndIsr follows, since the leader epoch is the same. So the state that catches up is told to the leader's replica,
which takes the settings from it.

A broker begins to act when the image has its own registration. Our controller ends the topic-partitions that a broker
gets first with a *full* LeaderAndIsr: now all have been named, and logs that no topic-partition has claimed are strays.
Apache Kafka's controller sends none that is full. So any request of a controller registers the broker, and only a full
one tells strays (`names_all`).

Requests are numbered, and the number stands for the offset up to which a broker with a quorum has applied the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from squall.nodes.metadata.image import (
    BrokerRegistration,
    Endpoint,
    MetadataDelta,
    MetadataImage,
    PartitionRegistration,
    Topic,
)
from squall.nodes.metadata.topic import RareFields
from squall.nodes.ports import Trace
from squall.nodes.protocol.messages.leader_and_isr import FULL, LeaderAndIsrRequest
from squall.nodes.protocol.messages.stop_replica import EPOCH_DURING_DELETE, StopReplicaRequest
from squall.nodes.protocol.messages.update_metadata import LEADER_DURING_DELETE, UpdateMetadataRequest
from squall.nodes.protocol.topic_partition import ZERO_ID

Resource = tuple[int, str]
Step = Callable[[MetadataDelta], None]
NO_EPOCH = -1
"""A broker does not know the epochs of others: the controller sends none."""


class RequestedMetadata:
    """See the module. What is put is applied when the broker calls `advance`."""

    def __init__(self, node: int, image: MetadataImage, trace: Trace) -> None:
        self.snapshots_loaded = 0
        self.last_applied_ms = -1
        self.names_all = False
        self.controller_id: int | None = -1
        """The controller whose request was put last: a broker, which clients can reach."""
        self._node = node
        self._image = image
        self._trace = trace
        self._steps: deque[Step] = deque()
        self._named: dict[tuple[bytes, int], int] = {}
        """By topic id and partition, the leader epoch of the newest LeaderAndIsr that named this broker's replica."""
        self._tables: dict[tuple[int, ...], tuple[int, ...]] = {}

    @property
    def is_loading(self) -> bool:
        return False

    @property
    def behind(self) -> bool:
        return bool(self._steps)

    def advance(self, gathered: MetadataDelta | None = None) -> Iterator[MetadataDelta]:
        while self._steps:
            delta = MetadataDelta() if gathered is None else gathered
            self._steps.popleft()(delta)
            self._image.passed(self._image.last_offset + 1)
            self._trace.event("metadata_applied", node=self._node, offset=self._image.last_offset)
            yield delta

    # -- inputs ---------------------------------------------------------------------------------------------------

    def put_settings(self, settings: dict[Resource, dict[str, str]]) -> None:
        """Settings of topics, or the cluster's, as they are now."""
        self._steps.append(lambda delta: self._set(settings, delta))

    def put_leader_and_isr(self, request: LeaderAndIsrRequest) -> None:
        self.controller_id = request.controller_id
        self._steps.append(lambda delta: self._lead(request, delta))

    def put_update_metadata(self, request: UpdateMetadataRequest) -> None:
        self.controller_id = request.controller_id
        self._steps.append(lambda delta: self._update(request, delta))

    def put_stop_replica(self, request: StopReplicaRequest) -> None:
        self.controller_id = request.controller_id
        self._steps.append(lambda delta: self._stop(request, delta))

    # -- settings -------------------------------------------------------------------------------------------------

    def _set(self, settings: dict[Resource, dict[str, str]], delta: MetadataDelta) -> None:
        for resource, own in settings.items():
            if self._image.configs.get(resource, {}) != own:
                delta.configs[resource] = None
            if own:
                self._image.configs[resource] = own
            else:
                self._image.configs.pop(resource, None)

    # -- LeaderAndIsr ---------------------------------------------------------------------------------------------

    def _lead(self, request: LeaderAndIsrRequest, delta: MetadataDelta) -> None:
        for part in request.topic_states:
            topic = self._topic(part.topic_name, part.topic_id, delta)
            for one in part.partition_states:
                rare = RareFields(tuple(one.removing_replicas), tuple(one.adding_replicas))
                state = PartitionRegistration(
                    self._interned(one.replicas), self._interned(one.isr), one.leader, one.leader_epoch,
                    one.partition_epoch, rare,
                )  # fmt: skip
                known = topic.partitions.get(one.partition_index)
                if known is None or not _is_newer(known, state):
                    topic.put(one.partition_index, state)
                    self._named[topic.id, one.partition_index] = state.leader_epoch
                delta.partitions[topic.id, one.partition_index] = None
        if request.type == FULL:
            self.names_all = True
            self._register(request.broker_epoch, delta)
        else:
            self._register_once(request.broker_epoch, delta)

    def _register_once(self, epoch: int, delta: MetadataDelta) -> None:
        """Register this broker by a request that names not all of its topic-partitions, if it is not yet."""
        own = self._image.brokers.get(self._node)
        if own is None or own.epoch < epoch:
            self.names_all = False
            self._register(epoch, delta)

    def _register(self, epoch: int, delta: MetadataDelta) -> None:
        own = self._image.brokers.get(self._node)
        endpoints, rack = ((), None) if own is None else (own.endpoints, own.rack)
        self._image.brokers[self._node] = _registration(self._node, endpoints, rack, epoch)
        self._image.passed(max(self._image.last_offset, epoch))
        delta.brokers[self._node] = None

    def _topic(self, name: str, identity: bytes, delta: MetadataDelta) -> Topic:
        """The topic of this id; one of another id under the same name was deleted."""
        former = self._image.topic_ids.get(name)
        if former is not None and former != identity:
            self._forget(self._image.topics[former], delta)
        topic = self._image.topics.get(identity)
        if topic is None:
            topic = self._image.topics[identity] = Topic(name, identity)
            self._image.topic_ids[name] = identity
        return topic

    def _forget(self, topic: Topic, delta: MetadataDelta) -> None:
        del self._image.topics[topic.id]
        del self._image.topic_ids[topic.name]
        delta.removed_topics[topic.id] = topic
        for number in topic.partitions:
            delta.partitions.pop((topic.id, number), None)
            self._named.pop((topic.id, number), None)

    def _interned(self, members: list[int]) -> tuple[int, ...]:
        found = tuple(members)
        return self._tables.setdefault(found, found)

    # -- UpdateMetadata -------------------------------------------------------------------------------------------

    def _update(self, request: UpdateMetadataRequest, delta: MetadataDelta) -> None:
        self._register_once(request.broker_epoch, delta)
        self._set_brokers(request, delta)
        for part in request.topic_states:
            topic = self._topic(part.topic_name, part.topic_id, delta)
            for one in part.partition_states:
                if one.leader == LEADER_DURING_DELETE:
                    if self._node not in one.replicas:  # the others delete their logs first
                        self._remove(topic, one.partition_index)
                    continue
                known = topic.partitions.get(one.partition_index)
                rare = RareFields() if known is None else known.rare
                state = PartitionRegistration(
                    self._interned(one.replicas), self._interned(one.isr), one.leader, one.leader_epoch,
                    one.zk_version, rare,
                )  # fmt: skip
                if known is None or _is_newer(state, known):
                    topic.put(one.partition_index, state)
                    key = topic.id, one.partition_index
                    if one.leader == self._node and self._named.get(key) == one.leader_epoch:
                        delta.partitions[key] = None

    def _set_brokers(self, request: UpdateMetadataRequest, delta: MetadataDelta) -> None:
        brokers = self._image.brokers
        own = brokers.get(self._node)
        found = {}
        for one in request.live_brokers:
            endpoints = tuple(Endpoint(at.listener, at.host, at.port) for at in one.endpoints)
            if one.id != self._node:
                found[one.id] = _registration(one.id, endpoints, one.rack, NO_EPOCH)
            elif own is not None:
                stops = own.in_controlled_shutdown
                found[one.id] = _registration(one.id, endpoints, one.rack, own.epoch, stops=stops)
        if own is not None:
            found.setdefault(self._node, own)
        for broker in {**brokers, **found}:
            if brokers.get(broker) != found.get(broker):
                delta.brokers[broker] = None
        brokers.clear()
        brokers.update(found)

    # -- StopReplica ----------------------------------------------------------------------------------------------

    def _stop(self, request: StopReplicaRequest, delta: MetadataDelta) -> None:
        own = self._image.brokers.get(self._node)
        for part in request.topic_states:
            identity = self._image.topic_ids.get(part.topic_name)
            if identity is None:
                continue
            topic = self._image.topics[identity]
            for one in part.partition_states:
                known = topic.partitions.get(one.partition_index)
                if known is None or _is_outdated(one.leader_epoch, known):
                    continue
                if one.delete_partition:
                    self._delete(topic, one.partition_index, one.leader_epoch == EPOCH_DURING_DELETE, delta)
                elif own is not None:
                    self._image.brokers[self._node] = _registration(
                        own.id, own.endpoints, own.rack, own.epoch, stops=True
                    )
                    delta.partitions[topic.id, one.partition_index] = None

    def _delete(self, topic: Topic, number: int, for_ever: bool, delta: MetadataDelta) -> None:
        """This broker's replica goes; with the topic's deletion the topic-partition goes from the image as well."""
        self._trace.event("zk_replica_deleted", node=self._node, of=topic.name, topic_id=topic.id, number=number)
        gone = delta.removed_topics.get(topic.id)
        if gone is None:
            gone = delta.removed_topics[topic.id] = Topic(topic.name, topic.id)
        gone.put(number, topic.partitions[number])
        delta.partitions.pop((topic.id, number), None)
        self._named.pop((topic.id, number), None)
        if for_ever:
            self._remove(topic, number)

    def _remove(self, topic: Topic, number: int) -> None:
        """Remove a topic-partition from the image, and the topic with its last one."""
        topic.partitions.pop(number, None)
        if not topic.partitions:
            self._image.topics.pop(topic.id, None)
            self._image.topic_ids.pop(topic.name, None)


def _is_newer(one: PartitionRegistration, other: PartitionRegistration) -> bool:
    return (one.leader_epoch, one.partition_epoch) > (other.leader_epoch, other.partition_epoch)


def _is_outdated(leader_epoch: int, known: PartitionRegistration) -> bool:
    """Whether a StopReplica of this leader epoch is older than the known state."""
    return leader_epoch not in (EPOCH_DURING_DELETE, -1) and leader_epoch < known.leader_epoch


def _registration(
    broker: int, endpoints: tuple[Endpoint, ...], rack: str | None, epoch: int, *, stops: bool = False
) -> BrokerRegistration:
    return BrokerRegistration(broker, epoch, ZERO_ID, endpoints, rack, False, stops)

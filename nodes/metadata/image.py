"""The metadata image: the state of the cluster's log, replayed up to an offset (MD-04).

Every node replays the same records in the same order and so holds the same image at the same offset (IMAGE);
`fingerprint` makes that checkable. Registrations are replaced, never changed in place, so a reference to one keeps the
old state. Replica lists are interned: a million topic-partitions share a few hundred tuples (see `topic`).

Epochs change only here: the partition epoch by one for every change record, the leader epoch by one for every change
record that names a leader, even the same one (EP-01, EP-02, rule 23).

`replay` records what it touched in a `MetadataDelta`, if given one; a broker acts on the delta of a committed batch.

A `clone` costs next to nothing at any size: both images hold the same topics, and an image copies a topic before it
changes it. So the active controller's image that runs ahead, and the image from which a snapshot is written while the
log goes on, take only the memory of what differs. Records that ran ahead and are now committed are not replayed a
second time: `replay_after` takes the topics as they are, and the two images share them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from operator import itemgetter

from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.hot_records import CHANGE_HEAD, PARTITION_HEAD, PLACED, TOPIC_ID
from squall.nodes.metadata.partition_values import PartitionTables
from squall.nodes.metadata.records import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    NO_LEADER_CHANGE,
    TOPIC_RESOURCE,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    decode_record,
)
from squall.nodes.metadata.topic import PartitionRegistration, RareFields, Topic
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import format_id

__all__ = [
    "BrokerRegistration",
    "Endpoint",
    "MetadataDelta",
    "MetadataError",
    "MetadataImage",
    "PartitionRegistration",
    "Topic",
]


_HEAD_OF = itemgetter(slice(3))
_TOPIC_OF = itemgetter(TOPIC_ID)
_ALL_PLACED = frozenset(PLACED)


class MetadataError(Exception):
    """A record that cannot follow the replayed ones: the log or the controller is broken."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker listens, by listener name."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One registered broker. `epoch` is the offset of its registration record (rule 24)."""

    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[bytes, ...] = ()

    @property
    def active(self) -> bool:
        """Unfenced and not in controlled shutdown: may lead and join an ISR (KIP-841)."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((one for one in self.endpoints if one.listener == listener), None)


@dataclass(slots=True)
class MetadataDelta:
    """What replayed records touched, in order. The values are in the image.

    `removed_topics` holds the topics as they were.
    """

    brokers: dict[int, None] = field(default_factory=dict)
    partitions: dict[tuple[bytes, int], None] = field(default_factory=dict)
    removed_topics: dict[bytes, Topic] = field(default_factory=dict)
    configs: dict[tuple[int, str], None] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.brokers or self.partitions or self.removed_topics or self.configs)


class MetadataImage:
    """Everything replayed so far. `last_offset` is -1 and `last_epoch` -1 before the first record."""

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerRegistration] = {}
        self.topics: dict[bytes, Topic] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.last_offset = -1
        self.last_epoch = -1
        self._private: dict[bytes, int] = {}
        """The topics that no other image holds, each with the offset that last changed it."""
        self._tables = PartitionTables()

    # -- reading ----------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        identity = self.topic_ids.get(name)
        return None if identity is None else self.topics[identity]

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        found = self.topic(topic)
        return None if found is None else found.partitions.get(partition)

    def partition_by_id(self, topic_id: bytes, partition: int) -> PartitionRegistration | None:
        found = self.topics.get(topic_id)
        return None if found is None else found.partitions.get(partition)

    def all_partitions(self) -> Iterator[tuple[Topic, int, PartitionRegistration]]:
        for topic in self.topics.values():
            for number, registration in topic.partitions.items():
                yield topic, number, registration

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """The settings of a resource that differ from their defaults."""
        return self.configs.get((resource_type, name), {})

    def topic_settings(
        self, topic: str, altered: Mapping[tuple[int, str], Mapping[str, str]] | None = None
    ) -> Mapping[str, str]:
        """A topic's settings in the log: its own, else the cluster's defaults. `altered` take precedence."""
        kinds = ((BROKER_RESOURCE, CLUSTER_DEFAULT), (TOPIC_RESOURCE, topic))
        default, own = ((altered or {}).get(kind, self.configs.get(kind, {})) for kind in kinds)
        return {**default, **own} if default else own

    def topics_set_by(self, resources: Mapping[tuple[int, str], object]) -> Iterator[Topic]:
        """The topics whose settings may change if these resources, by type and name, are altered."""
        every = (BROKER_RESOURCE, CLUSTER_DEFAULT) in resources
        for topic in self.topics.values() if resources else ():
            if every or (TOPIC_RESOURCE, topic.name) in resources:
                yield topic

    @property
    def keeps_eligible_leaders(self) -> bool:
        """Whether eligible leader replicas are enabled (EL-06)."""
        return self.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0

    def clone(self) -> MetadataImage:
        """An independent image of the same content. Topics are shared until changed."""
        copy = MetadataImage()
        copy.brokers = dict(self.brokers)
        copy.topics = dict(self.topics)
        copy.topic_ids = dict(self.topic_ids)
        copy.configs = {key: dict(value) for key, value in self.configs.items()}
        copy.features = dict(self.features)
        copy.next_producer_id = self.next_producer_id
        copy.last_offset, copy.last_epoch = self.last_offset, self.last_epoch
        copy._tables = self._tables
        self._private.clear()
        return copy

    def become(self, other: MetadataImage) -> None:
        """Take the content of another image, which must not be used afterwards.

        References to this image then see the new content.
        """
        vars(self).update(vars(other))

    def fingerprint(self) -> str:
        """Equal for equal content, regardless of the order of changes.

        Costs in proportion to the changes since the last call.
        """
        digest = blake2b(digest_size=16)
        for key in sorted(self.brokers):
            digest.update(repr(self.brokers[key]).encode())
        for topic_id in sorted(self.topics):
            digest.update(self.topics[topic_id].digest())
        for resource in sorted(self.configs):
            digest.update(f"{resource} {sorted(self.configs[resource].items())}".encode())
        digest.update(f"{sorted(self.features.items())} {self.next_producer_id}".encode())
        return digest.hexdigest()

    # -- replay -----------------------------------------------------------------------------------------------

    def replay_values(
        self, values: Sequence[bytes], offset: int, epoch: int = -1, delta: MetadataDelta | None = None
    ) -> None:
        """Apply records as encoded in the log; the first of them has this offset.

        Raises MetadataError, and ProtocolError if one cannot be decoded; the image is then unusable.
        """
        done = 0
        while done < len(values):
            replayed = self._replay_alike(values, done, offset + done, delta)
            if replayed:
                done += replayed
                self._replayed(offset + done - 1, epoch)
            else:
                self.replay(decode_record(values[done]), offset + done, epoch, delta)
                done += 1

    def replay_value(self, value: bytes, offset: int, epoch: int = -1, delta: MetadataDelta | None = None) -> None:
        """Apply one record as encoded in the log; see `replay_values`."""
        self.replay_values((value,), offset, epoch, delta)

    def _replay_alike(self, values: Sequence[bytes], at: int, offset: int, delta: MetadataDelta | None) -> int:
        """Apply values of partition or change records of one topic, from `at` on, without decoding them.

        Return how many could be applied so. The first has this offset.
        """
        first = values[at]
        if first.startswith(CHANGE_HEAD):
            topic_id, changes = self._tables.changes(values, at)
            if changes:
                self._follows(offset)
                topic = self._own_topic(topic_id, offset + len(changes) - 1)
                try:
                    topic.change_all(changes, self._tables.changed)
                except KeyError as missing:
                    raise MetadataError(f"{topic.name}-{missing.args[0]} is not there") from None
            return self._touched(topic_id, changes, delta)
        if first.startswith(PARTITION_HEAD):
            topic_id, registrations = self._tables.partitions(values, at)
            if registrations:
                self._follows(offset)
                self._own_topic(topic_id, offset + len(registrations) - 1).put_all(registrations)
            return self._touched(topic_id, registrations, delta)
        return 0

    @staticmethod
    def _touched(topic_id: bytes, partitions: Sequence[tuple[int, object]], delta: MetadataDelta | None) -> int:
        """Add these partitions to the delta; return their number."""
        if delta is not None:
            for number, _ in partitions:
                delta.partitions[(topic_id, number)] = None
        return len(partitions)

    def replay_after(self, ahead: MetadataImage | None, values: Sequence[bytes], offset: int, epoch: int) -> None:
        """Apply the records of one batch; the first of them has this offset.

        `ahead`, if given, began as a clone of this image and has replayed the batch already, and perhaps more: topics
        that it has not changed since are taken from it.
        """
        if ahead is None:
            self.replay_values(values, offset, epoch)
            return
        last = offset + len(values) - 1
        topics = set(map(_TOPIC_OF, values))
        taken = {one for one in topics if ahead._private.get(one, last + 1) <= last}
        if taken != topics or not _ALL_PLACED.issuperset(map(_HEAD_OF, values)):
            self._replay_others(taken, values, offset, epoch)
        for topic_id in taken:
            self._take(topic_id, ahead)
        self.passed(last, epoch)

    def _replay_others(self, taken: Set[bytes], values: Sequence[bytes], offset: int, epoch: int) -> None:
        """Apply the records of one batch, except those that only change these topics."""
        for number, value in enumerate(values, offset):
            if not (value.startswith(PLACED) and value[TOPIC_ID] in taken):
                self.replay_value(value, number, epoch)

    def _take(self, topic_id: bytes, ahead: MetadataImage) -> None:
        """Share another image's topic; the next change of either image copies it first."""
        self.topics[topic_id] = ahead.topics[topic_id]
        del ahead._private[topic_id]
        self._private.pop(topic_id, None)

    def _follows(self, offset: int) -> None:
        if offset <= self.last_offset:
            raise MetadataError(f"record at offset {offset} after {self.last_offset}")

    def _replayed(self, offset: int, epoch: int) -> None:
        self.last_offset = offset
        if epoch > self.last_epoch:
            self.last_epoch = epoch

    def replay(self, record: Message, offset: int, epoch: int = -1, delta: MetadataDelta | None = None) -> None:
        """Apply one record. Raises MetadataError if it cannot follow the earlier ones."""
        self._follows(offset)
        match record:
            case PartitionChangeRecord():
                self._change_partition(record, offset, delta)
            case PartitionRecord():
                self._set_partition(record, offset, delta)
            case NoOpRecord():
                pass
            case _:
                self._replay_rarer(record, offset, delta if delta is not None else MetadataDelta())
        self._replayed(offset, epoch)

    def _replay_rarer(self, record: Message, offset: int, delta: MetadataDelta) -> None:
        match record:
            case RegisterBrokerRecord():
                self._register(record, delta)
            case UnregisterBrokerRecord():
                del self.brokers[self._broker(record.broker_id, record.broker_epoch).id]
                delta.brokers[record.broker_id] = None
            case FenceBrokerRecord():
                self._update_broker(record.id, record.epoch, delta, fenced=True)
            case UnfenceBrokerRecord():
                self._update_broker(record.id, record.epoch, delta, fenced=False)
            case BrokerRegistrationChangeRecord():
                self._change_registration(record, delta)
            case TopicRecord():
                self._add_topic(record, offset)
            case RemoveTopicRecord():
                self._remove_topic(record, delta)
            case ConfigRecord():
                self._set_config(record, delta)
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case FeatureLevelRecord():
                self._set_feature(record)
            case _:
                raise MetadataError(f"no rule to replay a {type(record).__name__}")

    def passed(self, offset: int, epoch: int = -1) -> None:
        """Advance to an offset without a record of the image (a control record)."""
        self.last_offset = max(self.last_offset, offset)
        self.last_epoch = max(self.last_epoch, epoch)

    def _broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        found = self.brokers.get(broker_id)
        if found is None or found.epoch != epoch:
            raise MetadataError(f"broker {broker_id} epoch {epoch} is not registered; {found} is")
        return found

    def _register(self, record: RegisterBrokerRecord, delta: MetadataDelta) -> None:
        self.brokers[record.broker_id] = BrokerRegistration(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(Endpoint(one.name, one.host, one.port) for one in record.end_points),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
        )
        delta.brokers[record.broker_id] = None

    def _update_broker(self, broker_id: int, epoch: int, delta: MetadataDelta, *, fenced: bool) -> None:
        self.brokers[broker_id] = replace(self._broker(broker_id, epoch), fenced=fenced)
        delta.brokers[broker_id] = None

    def _change_registration(self, record: BrokerRegistrationChangeRecord, delta: MetadataDelta) -> None:
        found = self._broker(record.broker_id, record.broker_epoch)
        self.brokers[found.id] = replace(
            found,
            fenced=found.fenced if record.fenced == 0 else record.fenced > 0,
            in_controlled_shutdown=found.in_controlled_shutdown or record.in_controlled_shutdown > 0,
            directories=tuple(record.log_dirs) or found.directories,
        )
        delta.brokers[found.id] = None

    def _add_topic(self, record: TopicRecord, offset: int) -> None:
        if record.name in self.topic_ids:
            raise MetadataError(f"topic {record.name} exists already")
        self.topics[record.topic_id] = Topic(record.name, record.topic_id)
        self.topic_ids[record.name] = record.topic_id
        self._private[record.topic_id] = offset

    def _topic_of(self, topic_id: bytes) -> Topic:
        found = self.topics.get(topic_id)
        if found is None:
            raise MetadataError(f"topic {format_id(topic_id)} is not there")
        return found

    def _own_topic(self, topic_id: bytes, offset: int) -> Topic:
        """The topic as a copy that only this image holds and may change."""
        topic = self._topic_of(topic_id)
        if topic_id not in self._private:
            topic = self.topics[topic.id] = topic.copy()
        self._private[topic.id] = offset
        return topic

    def _remove_topic(self, record: RemoveTopicRecord, delta: MetadataDelta) -> None:
        topic = self._topic_of(record.topic_id)
        del self.topics[topic.id]
        del self.topic_ids[topic.name]
        self._private.pop(topic.id, None)
        self.configs.pop((2, topic.name), None)
        delta.removed_topics[topic.id] = topic
        for number in topic.partitions:
            delta.partitions.pop((topic.id, number), None)

    def _set_partition(self, record: PartitionRecord, offset: int, delta: MetadataDelta | None) -> None:
        replicas, isr, rare = self._tables.lists(record)
        registration = PartitionRegistration(
            replicas, isr, record.leader, record.leader_epoch, record.partition_epoch, rare
        )
        topic = self._own_topic(record.topic_id, offset)
        number = self._tables.number(record.partition_id)
        topic.put(number, registration)
        if delta is not None:
            delta.partitions[(topic.id, number)] = None

    def _change_partition(self, record: PartitionChangeRecord, offset: int, delta: MetadataDelta | None) -> None:
        topic = self._own_topic(record.topic_id, offset)
        old = _registered(topic, record.partition_id)
        named = record.leader != NO_LEADER_CHANGE
        topic.put(
            record.partition_id,
            PartitionRegistration(
                old.replicas if record.replicas is None else self._tables.interned(record.replicas),
                old.isr if record.isr is None else self._tables.interned(record.isr),
                record.leader if named else old.leader,
                old.leader_epoch + 1 if named else old.leader_epoch,
                old.partition_epoch + 1,
                self._changed_rare(old.rare, record),
            ),
        )
        if delta is not None:
            delta.partitions[(topic.id, self._tables.number(record.partition_id))] = None

    def _changed_rare(self, old: RareFields, record: PartitionChangeRecord) -> RareFields:
        removing, adding = record.removing_replicas, record.adding_replicas
        elr, known, directories = record.eligible_leader_replicas, record.last_known_elr, record.directories
        recovery_state = record.leader_recovery_state
        if removing is adding is elr is known is directories is None and recovery_state < 0:
            return old
        return self._tables.rare(
            RareFields(
                old.removing if removing is None else tuple(removing),
                old.adding if adding is None else tuple(adding),
                old.recovery_state if recovery_state < 0 else recovery_state,
                old.directories if directories is None else tuple(directories),
                old.elr if elr is None else tuple(elr),
                old.last_known_elr if known is None else tuple(known),
            )
        )

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        """Level 0 is the absence of a feature, as in Kafka."""
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level

    def _set_config(self, record: ConfigRecord, delta: MetadataDelta) -> None:
        key = (record.resource_type, record.resource_name)
        settings = self.configs.setdefault(key, {})
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
        if not settings:
            del self.configs[key]
        delta.configs[key] = None


def _registered(topic: Topic, partition: int) -> PartitionRegistration:
    found = topic.partitions.get(partition)
    if found is None:
        raise MetadataError(f"{topic.name}-{partition} is not there")
    return found

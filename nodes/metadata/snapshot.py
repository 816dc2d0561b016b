"""Convert a metadata image to the records of a snapshot, and back (SN-03, MD-08).

Replaying these records into an empty image gives the same image as replaying the whole log: the fingerprints are equal.
There is one record for each broker, topic, topic-partition, setting and feature, in its current state; earlier states
and removed objects are left out. The order is Kafka's: features, brokers, topics with their partitions, configs,
producer ids. A snapshot lacks what an image does not keep (a broker's supported features, for example).

Topic-partitions are written and read without a message in between (`partition_values`). Both directions work in pieces,
because two million records take seconds and a node's turn must not: `snapshot_values` is a generator over an image that
no longer changes (a `clone`, whose topics are shared until an image changes its own), and `SnapshotLoader` replays a
number of records per call.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.metadata.image import BrokerRegistration, MetadataDelta, MetadataImage, Topic
from squall.nodes.metadata.partition_values import PartitionEncoder
from squall.nodes.metadata.records import (
    BrokerEndpoint,
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_record,
)
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.snapshot_file import READ_BYTES
from squall.nodes.raft.snapshots import SnapshotId, Snapshots

LOAD_RECORDS = 10_000
"""Records replayed at once while a snapshot is loaded."""


def snapshot_values(image: MetadataImage, at_once: int) -> Iterator[list[bytes]]:
    """Yield the values of the image's records, in batches. The image must not change meanwhile."""
    values = _values(image)
    while batch := list(islice(values, at_once)):
        yield batch


def _values(image: MetadataImage) -> Iterator[bytes]:
    yield from map(encode_record, _records_before(image))
    value = PartitionEncoder().value
    for topic in image.topics.values():
        yield encode_record(TopicRecord(name=topic.name, topic_id=topic.id))
        topic_id = topic.id
        for number, registration in topic.partitions.items():
            yield value(topic_id, number, registration)
    yield from map(encode_record, _records_after(image))


def _records_before(image: MetadataImage) -> Iterator[Message]:
    for name in sorted(image.features):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    yield from map(_broker_record, image.brokers.values())


def _records_after(image: MetadataImage) -> Iterator[Message]:
    for (resource_type, name), settings in image.configs.items():
        for key, value in settings.items():
            yield ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)


def _broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[BrokerEndpoint(name=one.listener, host=one.host, port=one.port) for one in broker.endpoints],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
    )


class SnapshotLoader:
    """Loads one snapshot into an image."""

    def __init__(self, snapshots: Snapshots, snapshot_id: SnapshotId, buggify: Buggify = OFF) -> None:
        self.id = snapshot_id
        self.image = MetadataImage()
        in_parts = buggify.happens("snapshot-loaded-in-parts")
        self._most = 1 if in_parts else LOAD_RECORDS
        self._batches = snapshots.batches(snapshot_id, 1 if in_parts else READ_BYTES)

    def advance(self, at_once: int = LOAD_RECORDS) -> bool:
        """Replay about `at_once` records; return whether that was all, so that `image` is complete.

        Raises CorruptFile.
        """
        image, left = self.image, min(at_once, self._most)
        for batch in self._batches:
            image.replay_values(batch.values, image.last_offset + 1)
            left -= len(batch.values)
            if left <= 0:
                return False
        # Offsets within a snapshot are separate from the log's; its name states the end offset in the log.
        image.last_offset, image.last_epoch = self.id.end_offset - 1, self.id.epoch
        return True


def difference(old: MetadataImage, new: MetadataImage, broker: int, delta: MetadataDelta) -> None:
    """Add to `delta` what a broker must examine when it continues with `new` instead of `old`.

    Of topic-partitions only those that are or were its own: the others do not concern it, and may be millions.
    """
    for number in [*old.brokers, *new.brokers]:
        if old.brokers.get(number) != new.brokers.get(number):
            delta.brokers[number] = None
    for topic in old.topics.values():
        if topic.id not in new.topics:
            _removed(topic, delta)
    for topic in new.topics.values():
        before = old.topics.get(topic.id)
        if before is not topic:
            _differing(before, topic, broker, delta)
    for resource in [*old.configs, *new.configs]:
        if old.configs.get(resource) != new.configs.get(resource):
            delta.configs[resource] = None


def _removed(topic: Topic, delta: MetadataDelta) -> None:
    delta.removed_topics[topic.id] = topic
    for number in topic.partitions:
        delta.partitions.pop((topic.id, number), None)


def _differing(before: Topic | None, topic: Topic, broker: int, delta: MetadataDelta) -> None:
    own = topic.of_broker(broker) if before is None else (*before.of_broker(broker), *topic.of_broker(broker))
    for number in own:
        if before is None or before.partitions.get(number) != topic.partitions[number]:
            delta.partitions[topic.id, number] = None

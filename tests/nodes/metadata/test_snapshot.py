"""SN-03: an image out of a snapshot and the rest of the log is the image out of the whole log."""

from __future__ import annotations

from random import Random

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.metadata.image import MetadataDelta, MetadataImage
from squall.nodes.metadata.records import (
    BrokerEndpoint,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
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
from squall.nodes.metadata.snapshot import SnapshotLoader, difference, snapshot_values
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.snapshots import SnapshotId, Snapshots
from tests.nodes.rarities import At


class History:
    """Random records that may follow one another, replayed into `image` as they come."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.image = MetadataImage()
        self.records: list[Message] = []

    def write(self, count: int) -> None:
        while count:
            record = self._record()
            if record is not None:
                self.image.replay(record, len(self.records), epoch=3)
                self.records.append(record)
                count -= 1

    def _numbers(self) -> list[int]:
        return self.rng.sample(range(1, 7), self.rng.randint(1, 4))

    def _maybe(self) -> list[int] | None:
        return self._numbers() if self.rng.random() < 0.4 else None

    def _record(self) -> Message | None:
        rng, image = self.rng, self.image
        topics, brokers = list(image.topics.values()), list(image.brokers.values())
        kind = rng.randrange(12)
        if kind == 0:
            number = rng.randint(1, 6)
            return RegisterBrokerRecord(
                broker_id=number,
                incarnation_id=rng.randbytes(16),
                broker_epoch=len(self.records),
                end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092)],
                rack=rng.choice([None, "a"]),
                fenced=rng.random() < 0.5,
                in_controlled_shutdown=rng.random() < 0.2,
                log_dirs=[rng.randbytes(16)] if rng.random() < 0.5 else [],
            )
        if kind == 1 and brokers:
            broker = rng.choice(brokers)
            change = rng.choice([FenceBrokerRecord, UnfenceBrokerRecord])
            return change(id=broker.id, epoch=broker.epoch)
        if kind == 2 and brokers and rng.random() < 0.3:
            broker = rng.choice(brokers)
            return UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
        if kind == 3:
            return TopicRecord(name=f"t{len(self.records)}", topic_id=rng.randbytes(16))
        if kind == 4 and len(topics) > 3:
            return RemoveTopicRecord(topic_id=rng.choice(topics).id)
        if kind == 5:
            value = rng.choice([None, "1", "2"])
            key = (2, rng.choice(topics).name) if topics and rng.random() < 0.5 else (4, "")
            return ConfigRecord(resource_type=key[0], resource_name=key[1], name=rng.choice("ab"), value=value)
        if kind == 6:
            return FeatureLevelRecord(name=rng.choice("xy"), feature_level=rng.randint(0, 3))
        if kind == 7:
            return ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=image.next_producer_id + 1000)
        if kind in (8, 9) and topics:
            topic = rng.choice(topics)
            return PartitionRecord(
                partition_id=len(topic.partitions),
                topic_id=topic.id,
                replicas=self._numbers(),
                isr=self._numbers(),
                removing_replicas=self._maybe() or [],
                adding_replicas=self._maybe() or [],
                leader=rng.randint(-1, 6),
                leader_recovery_state=rng.randint(0, 1),
                leader_epoch=rng.randint(0, 5),
                partition_epoch=rng.randint(0, 5),
                directories=[rng.randbytes(16)] if rng.random() < 0.5 else [],
                eligible_leader_replicas=self._maybe(),
                last_known_elr=self._maybe(),
            )
        with_partitions = [topic for topic in topics if topic.partitions]
        if with_partitions:
            topic = rng.choice(with_partitions)
            return PartitionChangeRecord(
                partition_id=rng.randrange(len(topic.partitions)),
                topic_id=topic.id,
                isr=self._maybe(),
                leader=rng.randint(-2, 6),
                replicas=self._maybe(),
                leader_recovery_state=rng.randint(-1, 1),
                eligible_leader_replicas=self._maybe(),
                last_known_elr=self._maybe(),
            )
        return None


def snapshot_of(image: MetadataImage, at_once: int = 7) -> tuple[SimDisk, Snapshots, SnapshotId]:
    """Write a snapshot to a new disk."""
    disk = SimDisk(Random(1))
    snapshots = Snapshots(disk, "m-0", node_id=1, trace=NullTrace())
    writer = snapshots.create(SnapshotId(image.last_offset + 1, image.last_epoch), 77)
    for values in snapshot_values(image, at_once):
        writer.append(values)
    writer.finish()
    assert snapshots.latest is not None
    return disk, snapshots, snapshots.latest


def through_a_snapshot(image: MetadataImage, at_once: int = 7) -> MetadataImage:
    """Written to a disk and loaded from it."""
    _, snapshots, latest = snapshot_of(image, at_once)
    loader = SnapshotLoader(snapshots, latest)
    while not loader.advance(at_once):
        pass
    return loader.image


@pytest.mark.parametrize("seed", range(40))
def test_snapshot_and_suffix_make_the_image_of_the_whole_log(seed: int) -> None:
    history = History(seed)
    history.write(150)
    loaded = through_a_snapshot(history.image)
    assert loaded.fingerprint() == history.image.fingerprint(), f"seed {seed}"
    assert (loaded.last_offset, loaded.last_epoch) == (history.image.last_offset, history.image.last_epoch)
    history.write(150)
    for offset, record in enumerate(history.records[150:], 150):
        loaded.replay(record, offset, 3)
    assert loaded.fingerprint() == history.image.fingerprint(), f"seed {seed}"


def test_a_snapshot_that_is_being_loaded_is_open_only_while_it_is_read() -> None:
    """Others read it in between, and it may be removed: a host cannot open again what is gone (`worlds` 101)."""
    history = History(1)
    history.write(400)
    disk, snapshots, latest = snapshot_of(history.image, 5)
    loader = SnapshotLoader(snapshots, latest, At("snapshot-loaded-in-parts"))
    turns = 0
    while not loader.advance():
        turns += 1
        assert snapshots.read(latest, 0, 100)[0] == snapshots.size
    assert turns > 10
    assert loader.image.fingerprint() == history.image.fingerprint()
    assert disk.misused_files() == [] == disk.open_files()


def test_a_snapshot_half_loaded_may_be_removed() -> None:
    history = History(1)
    history.write(400)
    disk, snapshots, latest = snapshot_of(history.image, 5)
    loader = SnapshotLoader(snapshots, latest, At("snapshot-loaded-in-parts"))
    assert not loader.advance()
    disk.remove(snapshots.path(latest))
    assert disk.misused_files() == []


KEPT = (RegisterBrokerRecord, TopicRecord, PartitionRecord, ConfigRecord, ProducerIdsRecord, FeatureLevelRecord)
"""What the log holds, each with the records that only change it left out."""


def test_one_log_holds_every_kind_of_metadata_and_so_does_its_snapshot() -> None:
    """MD-08: brokers, topics, topic-partitions, settings, producer ids, features."""
    history = History(1)
    history.write(400)
    assert {type(record) for record in history.records} >= set(KEPT)
    values = [value for batch in snapshot_values(history.image, 7) for value in batch]
    in_snapshot = {type(decode_record(value)) for value in values}
    assert in_snapshot == set(KEPT)
    image = through_a_snapshot(history.image)
    assert image.brokers and image.topics and image.configs and image.features and image.next_producer_id > 0
    assert image.fingerprint() == history.image.fingerprint()


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_is_of_one_offset_though_the_log_goes_on_while_it_is_written(seed: int) -> None:
    history = History(seed)
    history.write(200)
    fingerprint = history.image.fingerprint()
    frozen = history.image.clone()
    batches = snapshot_values(frozen, 5)
    replayed = MetadataImage()
    written: list[list[bytes]] = []
    for values in batches:
        written.append(values)
        history.write(5)
    assert history.image.fingerprint() != fingerprint
    for offset, value in enumerate(value for values in written for value in values):
        replayed.replay(decode_record(value), offset)
    assert replayed.fingerprint() == fingerprint, f"seed {seed}"


@pytest.mark.parametrize("seed", range(20))
def test_the_difference_names_what_concerns_a_broker_and_nothing_else(seed: int) -> None:
    history = History(seed)
    history.write(150)
    old = through_a_snapshot(history.image)
    history.write(60)
    new = through_a_snapshot(history.image)
    delta = MetadataDelta()
    difference(old, new, 2, delta)
    assert list(delta.removed_topics) == [one for one in old.topics if one not in new.topics]
    expected = []
    for topic, number, now in new.all_partitions():
        before = old.partition_by_id(topic.id, number)
        hosted = 2 in now.replicas or (before is not None and 2 in before.replicas)
        if before != now and hosted:
            expected.append((topic.id, number))
    assert sorted(delta.partitions) == sorted(expected), f"seed {seed}"
    assert sorted(delta.configs) == sorted(
        key for key in {**old.configs, **new.configs} if old.configs.get(key) != new.configs.get(key)
    )
    assert sorted(delta.brokers) == sorted(
        key for key in {**old.brokers, **new.brokers} if old.brokers.get(key) != new.brokers.get(key)
    )

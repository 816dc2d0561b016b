"""Images that share topics stay exact, whoever runs ahead or is dropped (MD-04, QC-21); the index follows the records.

The random tests replay one log onto several images that share what they hold, and compare each with an image that
has replayed the same prefix all alone. Seeds are parameters and so are printed on failure.
"""

from __future__ import annotations

from random import Random

import pytest

from squall.nodes.metadata.image import MetadataImage, Topic
from squall.nodes.metadata.records import (
    NO_LEADER,
    TOPIC_RESOURCE,
    ConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    encode_record,
)
from squall.nodes.protocol.schema import Message

BROKERS = (1, 2, 3, 4, 5)


class RandomLog:
    """A log that makes sense, record by record."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.records: list[Message] = []
        self._sizes: dict[bytes, int] = {}
        self._names: dict[bytes, str] = {}

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.records.append(self._next())

    def cut(self, length: int) -> None:
        """Forget the end, as a leader that was deposed does, and what was known of it."""
        kept = self.records[:length]
        self.records = []
        self._sizes, self._names = {}, {}
        for record in kept:
            self._follow(record)
            self.records.append(record)

    def _next(self) -> Message:
        made = self._draw()
        self._follow(made)
        return made

    def _draw(self) -> Message:
        rng = self.rng
        topics = list(self._sizes)
        kind = rng.random()
        if not topics or kind < 0.1:
            number = rng.randrange(10**9)
            return TopicRecord(name=f"topic-{number}", topic_id=number.to_bytes(16, "big"))
        topic = rng.choice(topics)
        if kind < 0.13:
            return RemoveTopicRecord(topic_id=topic)
        if kind < 0.2:
            return ConfigRecord(TOPIC_RESOURCE, self._names[topic], "retention.ms", str(rng.randrange(1, 5)))
        if kind < 0.25:
            return NoOpRecord()
        replicas = rng.sample(BROKERS, 3)
        if kind < 0.5 or not self._sizes[topic]:
            return PartitionRecord(
                partition_id=self._sizes[topic],
                topic_id=topic,
                replicas=replicas,
                isr=replicas,
                leader=rng.choice([*replicas, NO_LEADER]),
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes(16)] * 3,
            )
        change = PartitionChangeRecord(partition_id=rng.randrange(self._sizes[topic]), topic_id=topic)
        if rng.random() < 0.6:
            change.leader = rng.choice([*BROKERS, NO_LEADER])
        if rng.random() < 0.3:
            change.replicas = replicas
        if rng.random() < 0.5:
            change.isr = replicas[:2]
        return change

    def _follow(self, record: Message) -> None:
        if isinstance(record, TopicRecord):
            self._sizes[record.topic_id], self._names[record.topic_id] = 0, record.name
        elif isinstance(record, RemoveTopicRecord):
            del self._sizes[record.topic_id], self._names[record.topic_id]
        elif isinstance(record, PartitionRecord):
            self._sizes[record.topic_id] += 1


def replay(image: MetadataImage, records: list[Message], upper: int) -> None:
    for offset in range(image.last_offset + 1, upper):
        image.replay(records[offset], offset, 1)


def commit(image: MetadataImage, ahead: MetadataImage, records: list[Message], upper: int) -> None:
    """One batch that `ahead` has replayed already."""
    first = image.last_offset + 1
    if upper > first:
        image.replay_after(ahead, [encode_record(record) for record in records[first:upper]], first, 1)


def alone(records: list[Message], upper: int) -> MetadataImage:
    image = MetadataImage()
    replay(image, records, upper)
    return image


def assert_same(image: MetadataImage, other: MetadataImage) -> None:
    assert image.last_offset == other.last_offset
    assert image.topics == other.topics and image.topic_ids == other.topic_ids and image.configs == other.configs
    assert image.fingerprint() == other.fingerprint()
    for topic_id, topic in image.topics.items():
        assert_index_is_right(topic)
        twin = other.topics[topic_id]
        for broker in BROKERS:
            assert sorted(topic.of_broker(broker)) == sorted(twin.of_broker(broker))


def assert_index_is_right(topic: Topic) -> None:
    for broker in BROKERS:
        expected = [number for number, one in topic.partitions.items() if broker in one.replicas]
        assert sorted(topic.of_broker(broker)) == sorted(expected)
    expected = [number for number, one in topic.partitions.items() if one.leader == NO_LEADER]
    assert sorted(topic.leaderless()) == sorted(expected)


@pytest.mark.parametrize("seed", range(40))
def test_a_dropped_speculative_image_leaves_no_trace_in_the_committed_one(seed: int) -> None:
    rng, log = Random(seed), RandomLog(seed)
    committed = MetadataImage()
    ahead = committed.clone()
    frozen: list[tuple[MetadataImage, MetadataImage]] = []
    for _ in range(60):
        log.grow(rng.randrange(1, 12))
        replay(ahead, log.records, len(log.records))
        commit(committed, ahead, log.records, rng.randrange(committed.last_offset + 1, len(log.records) + 1))
        if rng.random() < 0.1:
            frozen.append((committed.clone(), alone(log.records, committed.last_offset + 1)))
        if rng.random() < 0.15:
            log.cut(committed.last_offset + 1)
            ahead = committed.clone()
        assert_same(committed, alone(log.records, committed.last_offset + 1))
        assert_same(ahead, alone(log.records, ahead.last_offset + 1))
    for snapshot, expected in frozen:
        assert_same(snapshot, expected)


def big_image(topics: int = 5, partitions: int = 40) -> MetadataImage:
    image = MetadataImage()
    offset = 0
    for topic in range(topics):
        identity = topic.to_bytes(16, "big")
        image.replay(TopicRecord(name=f"topic-{topic}", topic_id=identity), offset, 1)
        offset += 1
        for number in range(partitions):
            replicas = [1 + (number + at) % 5 for at in range(3)]
            image.replay(PartitionRecord(number, identity, replicas, replicas, [], [], replicas[0], 0, 0, 0), offset, 1)
            offset += 1
    return image


def test_a_clone_holds_the_same_topics_until_one_of_the_two_changes_them() -> None:
    image = big_image()
    ahead = image.clone()
    assert all(ahead.topics[key] is topic for key, topic in image.topics.items())
    changed = bytes(15) + b"\x03"
    ahead.replay(PartitionChangeRecord(0, changed, leader=2), ahead.last_offset + 1, 1)
    assert [key for key, topic in image.topics.items() if ahead.topics[key] is not topic] == [changed]


def test_once_committed_both_images_hold_one_topic_again() -> None:
    image = big_image()
    ahead = image.clone()
    third, fourth = bytes(15) + b"\x03", bytes(15) + b"\x04"
    first = image.last_offset + 1
    records: list[Message] = [
        PartitionChangeRecord(at % 2, topic, leader=2) for at, topic in enumerate([third, fourth] * 3)
    ]
    for offset, record in enumerate(records, first):
        ahead.replay(record, offset, 1)
    image.replay_after(ahead, [encode_record(record) for record in records[:3]], first, 1)
    assert image.topics[third] is not ahead.topics[third], "what is not committed stays apart"
    image.replay_after(ahead, [encode_record(record) for record in records[3:]], first + 3, 1)
    assert all(ahead.topics[key] is topic for key, topic in image.topics.items())
    assert ahead.fingerprint() == image.fingerprint()


def test_replica_lists_directories_and_numbers_are_held_once() -> None:
    image = big_image(topics=2, partitions=600)
    one, two = image.topics.values()
    assert one.partitions[300].replicas is two.partitions[300].replicas is one.partitions[300].isr
    assert [*one.partitions][500] is [*two.partitions][500]


def test_a_fingerprint_after_one_change_is_that_of_the_whole() -> None:
    """IMAGE: digests of topics are kept, and never of what a topic was before."""
    image = big_image()
    before = image.fingerprint()
    image.replay(PartitionChangeRecord(0, bytes(16), leader=2), image.last_offset + 1, 1)
    after = image.fingerprint()
    assert before != after
    other = big_image()
    other.replay(PartitionChangeRecord(0, bytes(16), leader=2), other.last_offset + 1, 1)
    assert other.fingerprint() == after

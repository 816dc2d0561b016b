"""Check metadata images as an omniscient observer: IMAGE and EPOCH.

All nodes must hold the same image at the same offset; the first node to reach an offset sets the pattern. The observer
computes epochs separately from the committed records: a partition epoch grows by one for every change record, a leader
epoch by one for every change record that names a leader (EP-01, EP-02, rule 23). Every image must agree with that, and
epochs must never go back.

An image finds topic-partitions by broker, and those without a leader, without a walk through all. What it finds so must
be what the walk would find, in each topic that has changed.

Registrations are frozen values: the same object as at the last check needs no check.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration
from squall.nodes.metadata.records import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    PartitionChangeRecord,
    PartitionRecord,
    decode_record,
)
from squall.nodes.metadata.topic import Topic

TopicPartitionId = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Changed:
    """A topic-partition whose registration is new in an image."""

    topic: str
    topic_id: bytes
    partition: int
    before: PartitionRegistration | None
    registration: PartitionRegistration


class ObservedImages:
    """Compares the images of all nodes; see the module."""

    def __init__(self) -> None:
        self.newest: dict[TopicPartitionId, PartitionRegistration] = {}
        """The registrations with the highest partition epoch, over all nodes."""
        self.topic_ids: dict[str, list[bytes]] = {}
        """Every id that a name has had, in order."""
        self.newest_offset = -1
        self.newest_image: MetadataImage | None = None
        self._patterns: dict[int, tuple[object, ...]] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self._known: dict[tuple[str, int], dict[TopicPartitionId, PartitionRegistration]] = {}
        self._states: dict[TopicPartitionId, dict[int, PartitionRegistration]] = {}
        self._epochs: dict[TopicPartitionId, dict[int, int]] = {}
        self._model: dict[TopicPartitionId, tuple[int, int]] = {}

    def committed(self, values: list[bytes]) -> None:
        """Track the epochs through the records of a committed batch."""
        for value in values:
            record = decode_record(value)
            if isinstance(record, PartitionRecord):
                key = (record.topic_id, record.partition_id)
                self._step(key, record.partition_epoch, record.leader_epoch)
            elif isinstance(record, PartitionChangeRecord):
                key = (record.topic_id, record.partition_id)
                partition_epoch, leader_epoch = self._model.get(key, (-1, -1))
                named = record.leader != NO_LEADER_CHANGE
                self._step(key, partition_epoch + 1, leader_epoch + 1 if named else leader_epoch)

    def _step(self, key: TopicPartitionId, partition_epoch: int, leader_epoch: int) -> None:
        self._model[key] = (partition_epoch, leader_epoch)
        self._epochs.setdefault(key, {})[partition_epoch] = leader_epoch

    def look(self, place: tuple[str, int], image: MetadataImage) -> Iterator[Changed]:
        """Check one node's image against the other nodes' and the records. Yield what is new in it."""
        if self._offsets.get(place) == image.last_offset:
            return
        self._offsets[place] = image.last_offset
        self._compare(place[0], image)
        if image.last_offset > self.newest_offset:
            self.newest_offset, self.newest_image = image.last_offset, image
        known = self._known.setdefault(place, {})
        checked: set[bytes] = set()
        for topic, number, registration in image.all_partitions():
            key = (topic.id, number)
            before = known.get(key)
            if before is registration:
                continue
            known[key] = registration
            if topic.id not in checked:
                checked.add(topic.id)
                _check_found(place[0], image, topic)
            ids = self.topic_ids.setdefault(topic.name, [])
            if topic.id not in ids:
                ids.append(topic.id)
            name = f"{topic.name}-{number}"
            self._check_epochs(place[0], name, key, before, registration)
            newest = self.newest.get(key)
            if newest is None or registration.partition_epoch > newest.partition_epoch:
                self.newest[key] = registration
                yield Changed(topic.name, topic.id, number, newest, registration)

    def _compare(self, name: str, image: MetadataImage) -> None:
        names = {topic.name: topic.id for topic in image.topics.values()}
        if names != image.topic_ids:
            wrong = sorted(one for one in {*names, *image.topic_ids} if names.get(one) != image.topic_ids.get(one))
            raise InvariantBroken(
                "IMAGE", f"{name} finds other topics by name than it has, at offset {image.last_offset}: {wrong}"
            )
        pattern = self._patterns.get(image.last_offset)
        if pattern is None:
            self._patterns[image.last_offset] = _pattern(image)
        elif not _equals(pattern, image):
            raise InvariantBroken("IMAGE", f"{name} has another image at offset {image.last_offset}")

    def _check_epochs(
        self,
        name: str,
        where: str,
        key: TopicPartitionId,
        before: PartitionRegistration | None,
        now: PartitionRegistration,
    ) -> None:
        if before is not None and (
            now.partition_epoch < before.partition_epoch or now.leader_epoch < before.leader_epoch
        ):
            raise InvariantBroken(
                "EPOCH",
                f"{where}: epochs went back at {name}, from partition epoch {before.partition_epoch}, leader epoch "
                f"{before.leader_epoch} to {now.partition_epoch}, {now.leader_epoch}",
            )
        states = self._states.setdefault(key, {})
        if states.setdefault(now.partition_epoch, now) != now:
            raise InvariantBroken("EPOCH", f"{where}: partition epoch {now.partition_epoch} names two states")
        epochs = self._epochs.get(key, {})
        if now.partition_epoch not in epochs or epochs[now.partition_epoch] != now.leader_epoch:
            raise InvariantBroken(
                "EPOCH",
                f"{where}: {name} has partition epoch {now.partition_epoch}, leader epoch {now.leader_epoch}; "
                f"by the committed records it is at {self._model.get(key)}, with leader epochs {epochs} on the way",
            )

    def is_current(self, topic: str, topic_id: bytes) -> bool:
        """Return whether a topic of that name still has this id in the newest image."""
        return self.newest_image is None or self.newest_image.topic_ids.get(topic) == topic_id


def _check_found(name: str, image: MetadataImage, topic: Topic) -> None:
    """Check what an image finds of a topic without a walk through its topic-partitions."""
    hosted: dict[int, list[int]] = {broker: [] for broker in image.brokers}
    leaderless = []
    for number in sorted(topic.partitions):
        registration = topic.partitions[number]
        for broker in registration.replicas:
            hosted.setdefault(broker, []).append(number)
        if registration.leader == NO_LEADER:
            leaderless.append(number)
    wrong = [broker for broker, numbers in hosted.items() if sorted(topic.of_broker(broker)) != numbers]
    if wrong or sorted(topic.leaderless()) != leaderless:
        what = f"on broker {wrong[0]}" if wrong else "without a leader"
        raise InvariantBroken(
            "IMAGE",
            f"{name} finds other partitions of {topic.name} {what} than there are, at offset {image.last_offset}",
        )
    if topic.digest() != Topic(topic.name, topic.id, topic.partitions).digest():
        raise InvariantBroken("IMAGE", f"{name} has a digest of an earlier {topic.name}, at offset {image.last_offset}")


def _pattern(image: MetadataImage) -> tuple[object, ...]:
    """Return the content of an image as shallow copies."""
    return (
        dict(image.brokers),
        {key: (topic.name, dict(topic.partitions)) for key, topic in image.topics.items()},
        {key: dict(value) for key, value in image.configs.items()},
        dict(image.features),
        image.next_producer_id,
    )


def _equals(pattern: tuple[object, ...], image: MetadataImage) -> bool:
    brokers, topics, configs, features, next_producer_id = pattern
    assert isinstance(topics, dict)
    return (
        brokers == image.brokers
        and topics.keys() == image.topics.keys()
        and all(topics[key] == (topic.name, topic.partitions) for key, topic in image.topics.items())
        and configs == image.configs
        and features == image.features
        and next_producer_id == image.next_producer_id
    )

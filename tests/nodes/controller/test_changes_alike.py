"""What is worked out once for all topic-partitions that lie alike is what each of them would get on its own."""

from __future__ import annotations

from random import Random

import pytest

from squall.nodes.controller.changes import PartitionChanges
from squall.nodes.controller.elections import decide
from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.records import (
    NO_LEADER,
    TOPIC_RESOURCE,
    BrokerEndpoint,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_record,
)
from squall.nodes.protocol.schema import Message

BROKERS, LEAVING = range(1, 6), 1


def records(rng: Random) -> list[Message]:
    """Five brokers, some of them fenced, and topics of all kinds, in all states."""
    made: list[Message] = [FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=rng.randint(0, 1))]
    for broker in BROKERS:
        endpoint = BrokerEndpoint(name="P", host="h", port=broker)
        fenced = broker != LEAVING and rng.random() < 0.3
        made.append(RegisterBrokerRecord(broker_id=broker, end_points=[endpoint], fenced=fenced))
    for number in range(8):
        identity, name = bytes(15) + bytes((number,)), f"topic-{number}"
        made.append(TopicRecord(name=name, topic_id=identity))
        for setting, value in [("min.insync.replicas", "123"), ("unclean.leader.election.enable", "tf")]:
            if rng.random() < 0.4:
                chosen = {"t": "true", "f": "false"}.get(one := rng.choice(value), one)
                made.append(ConfigRecord(TOPIC_RESOURCE, name, setting, chosen))
        made += [partition(rng, identity, number) for number in range(12)]
    return made


def partition(rng: Random, topic_id: bytes, number: int) -> PartitionRecord:
    replicas = rng.sample(BROKERS, 3)
    isr = replicas[: rng.randint(0, 3)]
    rest = [one for one in replicas if one not in isr]
    elr = rest[: rng.randint(0, len(rest))] if rng.random() < 0.5 else []
    adding = rng.sample([one for one in BROKERS if one not in replicas], 1) if rng.random() < 0.2 else []
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=replicas + adding,
        isr=isr,
        adding_replicas=adding,
        removing_replicas=[rng.choice(replicas)] if adding else [],
        leader=rng.choice([NO_LEADER, *isr]) if isr else NO_LEADER,
        directories=[bytes(15) + bytes((one,)) for one in replicas + adding],
        eligible_leader_replicas=elr or None,
        last_known_elr=rest[:1] if not isr else None,
    )


def image_of(made: list[Message]) -> MetadataImage:
    image = MetadataImage()
    for offset, record in enumerate(made):
        image.replay(record, offset)
    return image


def without_leaving(
    changes: PartitionChanges, image: MetadataImage, standing: list[int], lost: tuple[int, ...]
) -> list[bytes]:
    """The records of the broker's leaving, each decided for itself."""
    found = []
    for topic in image.topics.values():
        rules = changes.rules(image, topic)
        for number in topic.of_broker(LEAVING):
            old = topic.partitions[number]
            if LEAVING in (*old.isr, old.leader, *(old.elr if lost else ())):
                isr = tuple(one for one in old.isr if one != LEAVING)
                decision = decide(old, isr, standing.__contains__, rules, lost=lost)
                found.append(changes.record(topic, number, decision, standing.__contains__, rules))
    return [encode_record(record) for record in found if record is not None]


def elected(
    changes: PartitionChanges, image: MetadataImage, standing: list[int], *, hosted_by: int | None = None
) -> list[bytes]:
    """The records of elections where nobody leads, each decided for itself."""
    found = []
    for topic in image.topics.values():
        rules = changes.rules(image, topic)
        for number in topic.leaderless() if hosted_by is None else topic.of_broker(hosted_by):
            old = topic.partitions[number]
            if old.leader == NO_LEADER:
                decision = decide(old, old.isr, standing.__contains__, rules)
                found.append(changes.record(topic, number, decision, standing.__contains__, rules))
    return [encode_record(record) for record in found if record is not None]


@pytest.mark.parametrize("seed", range(60))
def test_each_topic_partition_gets_what_it_would_get_on_its_own(seed: int) -> None:
    image = image_of(records(Random(seed)))
    standing = [one.id for one in image.brokers.values() if one.active and one.id != LEAVING]
    for lost in (False, True):
        alike, single = (PartitionChanges({}, last_known_leader=seed % 2 == 0) for _ in range(2))
        values = list(alike.broker_leaves(image, LEAVING, lost=lost))
        assert values == without_leaving(single, image, standing, (LEAVING,) if lost else ()), f"seed {seed}"
        assert values, f"seed {seed}: nothing to do"
        values = list(alike.broker_joins(image, LEAVING))
        assert values == elected(single, image, [*standing, LEAVING], hosted_by=LEAVING), f"seed {seed}"
        values = [one for one in alike.elections(image) if one is not None]
        assert values == elected(single, image, [*standing, LEAVING]), f"seed {seed}"
        counted = [(one.unclean_elections, one.eligible_elections) for one in (alike, single)]
        assert counted[0] == counted[1], f"seed {seed}"

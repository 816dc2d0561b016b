"""Metadata records survive their encoding; the image follows them, moves epochs by the rules, tells what changed."""

from __future__ import annotations

import pytest

from squall.nodes.metadata.image import MetadataDelta, MetadataError, MetadataImage
from squall.nodes.metadata.records import (
    NO_LEADER,
    RECORDS,
    TOPIC_RESOURCE,
    BrokerEndpoint,
    ConfigRecord,
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
    encode_record,
)
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.schema import Message

TOPIC = bytes(15) + b"\x09"


def image_of(*records: Message) -> MetadataImage:
    image = MetadataImage()
    for offset, record in enumerate(records):
        image.replay(record, offset, 1)
    return image


def topic_with_one_partition() -> list[Message]:
    return [
        TopicRecord(name="events", topic_id=TOPIC),
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC,
            replicas=[1, 2, 3],
            isr=[1, 2, 3],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        ),
    ]


@pytest.mark.parametrize("record", [cls() for cls in RECORDS.values()], ids=lambda record: type(record).__name__)
def test_every_record_of_defaults_survives_its_encoding(record: Message) -> None:
    assert decode_record(encode_record(record)) == record


def test_a_filled_record_survives_its_encoding() -> None:
    record = PartitionChangeRecord(partition_id=7, topic_id=TOPIC, isr=[1], leader=3, eligible_leader_replicas=[2])
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x02\x14\x00\x00", b"\x01\x63\x00\x00", b"\x01\x14\x09\x00"])
def test_unknown_or_cut_off_records_are_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_record(value)


def test_a_change_moves_the_partition_epoch_only_a_leader_the_leaders() -> None:
    """EP-01, EP-02, rule 23."""
    image = image_of(*topic_with_one_partition())
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1, 2]), 2)
    shrunk = image.partition("events", 0)
    assert shrunk is not None and (shrunk.partition_epoch, shrunk.leader_epoch, shrunk.isr) == (1, 0, (1, 2))
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1), 3)
    same = image.partition("events", 0)
    assert same is not None and (same.partition_epoch, same.leader_epoch, same.leader) == (2, 1, 1)
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=NO_LEADER), 4)
    gone = image.partition("events", 0)
    assert gone is not None and (gone.leader, gone.leader_epoch) == (-1, 2)


def test_brokers_register_fence_unfence_and_leave_by_their_epoch() -> None:
    register = RegisterBrokerRecord(broker_id=1, broker_epoch=0, end_points=[BrokerEndpoint("PLAINTEXT", "h", 9092)])
    image = image_of(register, UnfenceBrokerRecord(id=1, epoch=0))
    assert image.brokers[1].active
    image.replay(FenceBrokerRecord(id=1, epoch=0), 2)
    assert not image.brokers[1].active
    with pytest.raises(MetadataError):
        image.replay(UnfenceBrokerRecord(id=1, epoch=99), 3)
    image.replay(UnregisterBrokerRecord(broker_id=1, broker_epoch=0), 4)
    assert not image.brokers


def test_the_delta_names_what_was_touched_and_keeps_removed_topics() -> None:
    image, delta = image_of(*topic_with_one_partition()), MetadataDelta()
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1]), 2, 1, delta)
    assert list(delta.partitions) == [(TOPIC, 0)]
    image.replay(RemoveTopicRecord(topic_id=TOPIC), 3, 1, delta)
    assert not delta.partitions and delta.removed_topics[TOPIC].name == "events"
    assert image.topic("events") is None


def test_settings_are_kept_until_they_are_unset() -> None:
    image = image_of(*topic_with_one_partition())
    image.replay(ConfigRecord(TOPIC_RESOURCE, "events", "min.insync.replicas", "2"), 2)
    assert image.config(TOPIC_RESOURCE, "events") == {"min.insync.replicas": "2"}
    image.replay(ConfigRecord(TOPIC_RESOURCE, "events", "min.insync.replicas", None), 3)
    assert image.config(TOPIC_RESOURCE, "events") == {}


def test_equal_logs_give_equal_fingerprints_and_a_clone_goes_its_own_way() -> None:
    """IMAGE."""
    one, two = image_of(*topic_with_one_partition()), image_of(*topic_with_one_partition())
    assert one.fingerprint() == two.fingerprint()
    clone = one.clone()
    clone.replay(ProducerIdsRecord(next_producer_id=1000), 2)
    assert clone.fingerprint() != one.fingerprint() == two.fingerprint()


def test_offsets_only_grow() -> None:
    image = image_of(NoOpRecord(), NoOpRecord())
    with pytest.raises(MetadataError):
        image.replay(NoOpRecord(), 1)

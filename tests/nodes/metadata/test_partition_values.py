"""Values of topic-partitions without messages in between: the same bytes and the same images as with them."""

from __future__ import annotations

from random import Random

import pytest

from squall.nodes.metadata.image import MetadataDelta, MetadataError, MetadataImage
from squall.nodes.metadata.partition_values import (
    PartitionEncoder,
    PartitionTables,
    change_form,
    change_value,
    partition_record,
)
from squall.nodes.metadata.records import (
    BrokerEndpoint,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from squall.nodes.metadata.topic import PartitionRegistration, RareFields
from squall.nodes.protocol.errors import ProtocolError

TOPIC, OTHER = bytes(range(16)), bytes(range(16, 32))


def some(rng: Random, at_most: int = 4) -> tuple[int, ...]:
    return tuple(rng.sample(range(1, 60), rng.randint(0, at_most)))


def registration(rng: Random, *, longest: int = 4) -> PartitionRegistration:
    rare = RareFields()
    if rng.random() < 0.5:
        rare = RareFields(
            some(rng), some(rng), rng.randint(0, 1), tuple(rng.randbytes(16) for _ in range(3)), some(rng), some(rng)
        )
    leader, leader_epoch, partition_epoch = rng.randint(-1, 60), rng.randint(0, 2**31 - 1), rng.randint(0, 2**31 - 1)
    return PartitionRegistration(some(rng, longest), some(rng), leader, leader_epoch, partition_epoch, rare)


@pytest.mark.parametrize("seed", range(20))
def test_a_registration_is_written_as_its_record_would_be(seed: int) -> None:
    rng = Random(seed)
    encoder = PartitionEncoder()
    alike = [registration(rng, longest=50) for _ in range(30)]
    for _ in range(200):
        one = rng.choice(alike)
        one.leader, one.leader_epoch = rng.randint(-1, 60), rng.randint(0, 9)
        number = rng.randrange(2**31)
        value = encoder.value(TOPIC, number, one)
        assert value == encode_record(partition_record(TOPIC, number, one)), f"seed {seed}: {one}"


@pytest.mark.parametrize("seed", range(20))
def test_what_is_read_is_what_was_written_and_held_once(seed: int) -> None:
    rng = Random(seed)
    tables = PartitionTables()
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(300):
        one = registration(rng)
        value = encode_record(partition_record(TOPIC, 7, one))
        topic_id, read = tables.partitions([value], 0)
        assert (topic_id, read) == (TOPIC, [(7, one)]), f"seed {seed}"
        assert seen.setdefault(one.replicas, id(read[0][1].replicas)) == id(read[0][1].replicas)


def values(rng: Random) -> list[bytes]:
    """Two topics, their partitions, and changes of all kinds to them, mostly a few of one topic in a row."""
    broker = RegisterBrokerRecord(broker_id=1, end_points=[BrokerEndpoint(name="P", host="h", port=1)])
    records: list[object] = [broker, TopicRecord(name="t", topic_id=TOPIC)]
    records += [partition_record(TOPIC, number, registration(rng)) for number in range(20)]
    records += [TopicRecord(name="u", topic_id=OTHER)]
    records += [partition_record(OTHER, number, registration(rng)) for number in range(20)]
    topic = TOPIC
    for _ in range(100):
        topic = rng.choice([TOPIC, OTHER]) if rng.random() < 0.2 else topic
        change = PartitionChangeRecord(partition_id=rng.randrange(20), topic_id=topic)
        if rng.random() < 0.8:
            change.isr = list(some(rng))
        if rng.random() < 0.5:
            change.leader = rng.randint(-1, 9)
        if rng.random() < 0.2:
            change.replicas, change.adding_replicas = list(some(rng)), list(some(rng))
        if rng.random() < 0.2:
            change.eligible_leader_replicas, change.last_known_elr = list(some(rng)), list(some(rng))
        if rng.random() < 0.1:
            change.leader_recovery_state, change.directories = 0, [rng.randbytes(16)]
        records.append(change)
    return [encode_record(record) for record in records]  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_the_form_of_a_change_gives_the_value_of_that_change_anywhere(seed: int) -> None:
    rng = Random(seed)
    for value in values(rng):
        record = decode_record(value)
        if isinstance(record, PartitionChangeRecord):
            form = change_form(record)
            record.partition_id, record.topic_id = rng.randrange(2**31), rng.randbytes(16)
            assert change_value(form, record.topic_id, record.partition_id) == encode_record(record)


@pytest.mark.parametrize("seed", range(20))
def test_replaying_values_makes_the_image_that_replaying_their_records_makes(seed: int) -> None:
    by_value, by_record = MetadataImage(), MetadataImage()
    for offset, value in enumerate(values(Random(seed))):
        by_value.replay_value(value, offset, 4)
        by_record.replay(decode_record(value), offset, 4)
        assert by_value.fingerprint() == by_record.fingerprint(), f"seed {seed}, offset {offset}"
    assert (by_value.last_offset, by_value.last_epoch) == (by_record.last_offset, by_record.last_epoch)


@pytest.mark.parametrize("seed", range(20))
def test_many_values_at_once_make_the_same_image_and_delta_as_records(seed: int) -> None:
    by_values, by_record, deltas = MetadataImage(), MetadataImage(), (MetadataDelta(), MetadataDelta())
    rng = Random(seed)
    every, offset = values(rng), 0
    while offset < len(every):
        some_of_them = every[offset : offset + rng.randint(1, 40)]
        by_values.replay_values(some_of_them, offset, 4, deltas[0])
        for value in some_of_them:
            by_record.replay(decode_record(value), offset, 4, deltas[1])
            offset += 1
        assert by_values.fingerprint() == by_record.fingerprint(), f"seed {seed}, before offset {offset}"
        assert list(by_values.topics.values()) == list(by_record.topics.values())
        for broker in range(60):
            hosted = [[one.of_broker(broker) for one in image.topics.values()] for image in (by_values, by_record)]
            assert hosted[0] == hosted[1]
        leaderless = [[one.leaderless() for one in image.topics.values()] for image in (by_values, by_record)]
        assert leaderless[0] == leaderless[1]
    assert deltas[0] == deltas[1]
    assert (by_values.last_offset, by_values.last_epoch) == (by_record.last_offset, by_record.last_epoch)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_value_among_many_is_refused_as_its_record_is(seed: int) -> None:
    rng = Random(seed)
    every = values(rng)
    at = rng.randrange(2, len(every))
    every[at] = every[at][: rng.randrange(len(every[at]))]
    image = MetadataImage()
    with pytest.raises((ProtocolError, MetadataError)) as alone:
        for offset, value in enumerate(every):
            image.replay(decode_record(value), offset)
    with pytest.raises((ProtocolError, MetadataError)) as together:
        MetadataImage().replay_values(every, 0)
    assert str(together.value) == str(alone.value), f"seed {seed}"


@pytest.mark.parametrize("seed", range(60))
def test_damaged_values_are_refused_or_taken_exactly_as_their_records_are(seed: int) -> None:
    """Bytes that were looked up are no excuse: a value is taken only if its record could be decoded."""
    rng = Random(seed)
    sound = values(rng)
    by_value, by_record = MetadataImage(), MetadataImage()
    for offset, value in enumerate(sound):
        by_value.replay_value(value, offset)
        by_record.replay(decode_record(value), offset)
    offset = len(sound)
    for _ in range(60):
        value = bytearray(rng.choice(sound))
        if rng.random() < 0.4:
            del value[rng.randrange(len(value)) :]
        elif rng.random() < 0.3:
            value += rng.randbytes(rng.randint(1, 3))
        else:
            value[rng.randrange(len(value))] = rng.randrange(256)
        outcomes = []
        for replay in (
            lambda: by_value.replay_value(bytes(value), offset),  # noqa: B023
            lambda: by_record.replay(decode_record(bytes(value)), offset),  # noqa: B023
        ):
            try:
                replay()
                outcomes.append("taken")
            except (ProtocolError, MetadataError) as trouble:
                outcomes.append(str(trouble))
        assert outcomes[0] == outcomes[1], f"seed {seed}: {bytes(value)!r}"
        offset += 1
    assert by_value.fingerprint() == by_record.fingerprint(), f"seed {seed}"


def test_a_value_that_differs_in_an_unread_part_is_not_taken_for_known() -> None:
    tables = PartitionTables()
    first = PartitionRecord(partition_id=1, topic_id=TOPIC, replicas=[1, 2], isr=[1], leader=1)
    second = PartitionRecord(partition_id=1, topic_id=TOPIC, replicas=[1], isr=[2, 1], leader=1)
    found = [one for value in map(encode_record, (first, second)) for one in tables.partitions([value], 0)[1]]
    assert [one.isr for _, one in found] == [(1,), (2, 1)]


def test_lists_longer_or_shorter_than_known_ones_are_read_to_their_end() -> None:
    """The shorter ones are known already when they come behind the longer, and the other way round."""
    records = [
        PartitionRecord(partition_id=number, topic_id=TOPIC, replicas=replicas, isr=replicas[:1], leader=number)
        for number, replicas in enumerate([[1, 2, 3], [1], [1, 2, 3], [1], [1, 2]])
    ]
    values, tables = [encode_record(one) for one in records], PartitionTables()
    for _ in range(2):
        at, found = 0, list[tuple[int, PartitionRegistration]]()
        while at < len(values):
            found += tables.partitions(values, at)[1]
            at = len(found)
        assert [one.replicas for _, one in found] == [tuple(one.replicas) for one in records]
        assert [one.leader for _, one in found] == [number for number, _ in found] == [0, 1, 2, 3, 4]

"""The hand-written codecs write the bytes of the compiled ones, and read whatever those read, to the same record."""

from __future__ import annotations

from random import Random

import pytest

from squall.nodes.metadata.hot_records import decode_change, decode_partition, encode_change, encode_partition
from squall.nodes.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    decode_compiled,
    decode_record,
    encode_compiled,
    encode_record,
)
from squall.nodes.protocol.errors import ProtocolError

SEEDS = range(30)


def numbers(rng: Random, most: int = 5) -> list[int]:
    return [rng.choice((0, 1, 200, 70_000, 2**31 - 1)) for _ in range(rng.randrange(most + 1))]


def perhaps(rng: Random, most: int = 5) -> list[int] | None:
    return numbers(rng, most) if rng.random() < 0.4 else None


def directories(rng: Random) -> list[bytes]:
    return [rng.randbytes(16) for _ in range(rng.randrange(4))]


def change(rng: Random) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        partition_id=rng.randrange(2**31),
        topic_id=rng.randbytes(16),
        isr=perhaps(rng),
        leader=rng.choice((-2, -2, -1, 3, 70_000)),
        replicas=perhaps(rng, 40 if rng.random() < 0.1 else 5),
        removing_replicas=perhaps(rng),
        adding_replicas=perhaps(rng),
        leader_recovery_state=rng.choice((-1, -1, -1, 0, 1)),
        eligible_leader_replicas=perhaps(rng),
        last_known_elr=perhaps(rng),
        directories=directories(rng) if rng.random() < 0.1 else None,
    )


def partition(rng: Random) -> PartitionRecord:
    return PartitionRecord(
        partition_id=rng.randrange(2**31),
        topic_id=rng.randbytes(16),
        replicas=numbers(rng, 40 if rng.random() < 0.1 else 5),
        isr=numbers(rng),
        removing_replicas=numbers(rng),
        adding_replicas=numbers(rng),
        leader=rng.choice((-1, 3, 70_000)),
        leader_recovery_state=rng.choice((0, 0, 0, 1)),
        leader_epoch=rng.randrange(2**31),
        partition_epoch=rng.randrange(2**31),
        directories=directories(rng),
        eligible_leader_replicas=perhaps(rng) if rng.random() < 0.3 else None,
        last_known_elr=perhaps(rng) if rng.random() < 0.3 else None,
    )


def outcome(value: bytes, decode: object) -> object:
    try:
        return decode(value)  # type: ignore[operator]
    except ProtocolError as refusal:
        return str(refusal)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("draw", [change, partition])
def test_both_codecs_agree_on_every_record(draw: object, seed: int) -> None:
    rng = Random(seed)
    for _ in range(100):
        record = draw(rng)  # type: ignore[operator]
        value = encode_compiled(record)
        assert encode_record(record) == value
        assert decode_record(value) == decode_compiled(value) == record


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("draw", [change, partition])
def test_both_codecs_agree_on_damaged_bytes(draw: object, seed: int) -> None:
    rng = Random(seed)
    for _ in range(100):
        value = bytearray(encode_compiled(draw(rng)))  # type: ignore[operator]
        for _ in range(rng.randrange(1, 3)):
            value[rng.randrange(3, len(value))] = rng.choice((0, 1, 2, 5, 0x7F, 0x80, 0xFF))
        damaged = bytes(value[: rng.randrange(3, len(value) + 1)] if rng.random() < 0.5 else value)
        assert outcome(damaged, decode_record) == outcome(damaged, decode_compiled)


def test_the_usual_forms_take_the_fast_way() -> None:
    """Or the tests above would compare the compiled codec with itself."""
    leaves = PartitionChangeRecord(7, bytes(16), isr=[1, 2], leader=2)
    created = PartitionRecord(7, bytes(16), [1, 2, 3], [1, 2, 3], [], [], 1, 0, 0, 0, [bytes(16)] * 3)
    eligible = PartitionChangeRecord(7, bytes(16), isr=[1], eligible_leader_replicas=[2], leader=1)
    for one in (leaves, eligible):
        value = encode_change(one)
        assert value is not None and decode_change(value) is not None
    value = encode_partition(created)
    assert value is not None and decode_partition(value) is not None


@pytest.mark.parametrize("record", [PartitionChangeRecord(topic_id=b"short"), PartitionRecord(leader=2**40)])
def test_what_cannot_be_encoded_is_refused_as_before(record: PartitionChangeRecord | PartitionRecord) -> None:
    assert outcome(record, encode_record) == outcome(record, encode_compiled)  # type: ignore[arg-type]

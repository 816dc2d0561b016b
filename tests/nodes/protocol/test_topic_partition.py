"""Ids as Kafka prints them."""

from __future__ import annotations

import base64
import random
import uuid

import pytest

from squall.nodes.protocol.topic_partition import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    TopicPartition,
    format_id,
    parse_id,
    random_id,
)


def test_ids_print_as_kafka_prints_them() -> None:
    assert format_id(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    identifier = uuid.UUID("5f6ba3b2-7c1e-4b6f-9d0a-fb3e0c5aa1ff").bytes
    assert format_id(identifier) == base64.urlsafe_b64encode(identifier).decode().rstrip("=")
    assert parse_id(format_id(identifier)) == identifier


@pytest.mark.parametrize("text", ["", "short", "A" * 23, "AAAAAAAAAAAAAAAAAAAAA*", "é" * 22])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no id"):
        parse_id(text)


def test_random_ids_follow_from_the_seed_and_never_begin_with_a_dash() -> None:
    drawn = [format_id(random_id(random.Random(seed))) for seed in range(2_000)]
    assert drawn == [format_id(random_id(random.Random(seed))) for seed in range(2_000)]
    assert len(set(drawn)) == 2_000
    assert not any(text.startswith("-") for text in drawn)
    assert uuid.UUID(bytes=random_id(random.Random(1))).version == 4


def test_a_topic_partition_prints_as_its_directory_and_sorts_by_number() -> None:
    assert str(TopicPartition("events", 3)) == "events-3"
    assert str(METADATA_PARTITION) == "__cluster_metadata-0"
    assert sorted([TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 2)]) == [
        ("a", 2),
        ("a", 10),
        ("b", 0),
    ]

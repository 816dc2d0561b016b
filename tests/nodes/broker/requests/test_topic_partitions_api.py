"""DescribeTopicPartitions: ELR beside ISR, and pages that lead through everything exactly once (KIP-966)."""

from __future__ import annotations

import pytest

from squall.nodes.broker.requests.topic_partitions_api import MAX_PARTITIONS, TopicPartitionsApi
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.records import (
    BrokerEndpoint,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)

COUNTS = {"a": 3, "b": 1, "c": 4}


def image_of(counts: dict[str, int]) -> MetadataImage:
    """Brokers 1 and 2 up, 3 fenced; every topic-partition led by 1 with 2 eligible; the last of each led by 3."""
    image = MetadataImage()
    records: list[object] = [
        RegisterBrokerRecord(
            broker_id=one, broker_epoch=one, end_points=[BrokerEndpoint("PLAINTEXT", "h", 9092, 0)], fenced=one == 3
        )
        for one in (1, 2, 3)
    ]
    for number, (name, count) in enumerate(counts.items()):
        identifier = bytes([number + 1]) * 16
        records.append(TopicRecord(name=name, topic_id=identifier))
        for partition in range(count):
            leader = 3 if partition == count - 1 else 1
            records.append(
                PartitionRecord(
                    partition_id=partition,
                    topic_id=identifier,
                    replicas=[1, 2, 3],
                    isr=[leader],
                    leader=leader,
                    leader_epoch=4,
                    partition_epoch=6,
                    eligible_leader_replicas=[2],
                    last_known_elr=[],
                )
            )
    for offset, record in enumerate(records):
        image.replay(record, offset)  # type: ignore[arg-type]
    return image


@pytest.fixture
def api() -> TopicPartitionsApi:
    return TopicPartitionsApi(image_of(COUNTS))


def asked(*names: str, limit: int = 2000, cursor: Cursor | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)


def test_eligible_leaders_are_named_beside_the_isr(api: TopicPartitionsApi) -> None:
    (topic,) = api.page(asked("a")).topics
    first, last = topic.partitions[0], topic.partitions[-1]
    assert (first.leader_id, first.leader_epoch, first.isr_nodes, first.eligible_leader_replicas) == (1, 4, [1], [2])
    assert first.offline_replicas == [3], "it is fenced"
    assert (last.leader_id, last.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)


@pytest.mark.parametrize("limit", range(1, 10))
@pytest.mark.parametrize("names", [(), ("c", "a"), ("b", "nowhere", "c")])
def test_pages_lead_through_everything_once_whatever_their_size(
    api: TopicPartitionsApi, limit: int, names: tuple[str, ...]
) -> None:
    found: list[tuple[str | None, int]] = []
    cursor: Cursor | None = None
    while True:
        page = api.page(asked(*names, limit=limit, cursor=cursor))
        told = [(topic.name, one.partition_index) for topic in page.topics for one in topic.partitions]
        assert len(told) <= limit
        found += told
        cursor = page.next_cursor
        if cursor is None:
            break
    wanted = sorted(names) or sorted(COUNTS)
    assert found == [(name, number) for name in wanted for number in range(COUNTS.get(name, 0))]


def test_a_topic_that_is_not_there_is_said_to_be_unknown(api: TopicPartitionsApi) -> None:
    (topic,) = api.page(asked("nowhere")).topics
    assert (topic.name, topic.error_code) == ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_cursor_whose_topic_was_deleted_meanwhile_goes_on_with_the_next(api: TopicPartitionsApi) -> None:
    page = api.page(asked(cursor=Cursor("aa", 7)))
    assert [topic.name for topic in page.topics] == ["b", "c"]
    assert len(page.topics[1].partitions) == COUNTS["c"], "the cursor's number is of its own topic"


def test_a_page_is_never_longer_than_kafkas() -> None:
    api = TopicPartitionsApi(image_of({"wide": MAX_PARTITIONS + 1}))
    page = api.page(asked(limit=1_000_000))
    assert len(page.topics[0].partitions) == MAX_PARTITIONS
    assert page.next_cursor == Cursor("wide", MAX_PARTITIONS)

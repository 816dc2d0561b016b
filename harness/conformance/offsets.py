"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords, compared with the records that the check has appended."""

from __future__ import annotations

from functools import partial

from squall.harness.conformance.client import NEWEST, Address, ConformanceClient, expect, expect_error
from squall.harness.conformance.topic import (
    CONSUMER,
    EPOCHS_SINCE,
    LATEST,
    Appended,
    CheckedPartition,
    CheckedTopic,
)
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataResponse
from squall.nodes.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

EARLIEST, LARGEST, NO_MEANING = -2, -3, -99
LARGEST_SINCE, LEADER_EPOCHS_SINCE = 7, 7
EPOCH_ERRORS_SINCE = 2
NONE_SUCH = (-1, -1)
TIMEOUT_MS = 5000


async def listed(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Both ends of a log, the offset of the largest timestamp, and the first record of a time or later."""
    with_records = [number for number, one in enumerate(topic.partitions) if one.end > one.start]
    if not with_records:
        return
    number = client.rng.choice(with_records)
    checked, address = topic.partitions[number], topic.leader_of(number)
    kept = [one for one in checked.records if one.offset >= checked.start]
    await _expect_offset(client, topic, number, LATEST, (0, checked.end, checked.leader_epoch))
    await _expect_offset(client, topic, number, EARLIEST, (0, kept[0].offset, kept[0].leader_epoch))
    # A broker may know the largest timestamp of a segment only, whose first records are deleted.
    largest = {max(some, key=lambda one: one.timestamp) for some in (kept, checked.records)}
    told = [(0, one.offset, one.leader_epoch, one.timestamp) for one in largest]
    await _expect_offset(client, topic, number, LARGEST, *told)
    some = client.rng.choice(kept)
    for timestamp in (some.timestamp, some.timestamp - 1, some.timestamp + 1, 0):
        await _expect_offset(client, topic, number, timestamp, first_from(kept, timestamp))
    if await client.serves(address, ApiKey.LIST_OFFSETS, EPOCHS_SINCE - 1):
        await _listed_for_old_clients(client, topic, number)
        await client.settled(partial(_listed_elsewhere_for_old_clients, client))
    await _refused(client, topic, number)
    asked = ListOffsetsRequest(CONSUMER, 0, [ListOffsetsTopic(topic.name, [_at_end(number), _at_end(number)])])
    twice = await client.ask(address, asked, ListOffsetsResponse, since=EPOCHS_SINCE)
    codes = {part.error_code for one in twice.topics for part in one.partitions}
    expect(address, "a topic-partition that is named twice", codes, {int(ErrorCode.INVALID_REQUEST)})


async def _listed_for_old_clients(client: ConformanceClient, topic: CheckedTopic, number: int) -> None:
    """A client that cannot name a leader epoch gets the log's end, however often the leader has changed."""
    address = topic.leader_of(number)
    (came,) = await _list(client, address, topic, [_at_end(number)], since=1, until=EPOCHS_SINCE - 1)
    told = (came.error_code, came.offset)
    expect(address, f"the end of {topic.name}-{number} for old clients", told, (0, topic.partitions[number].end))


async def _listed_elsewhere_for_old_clients(client: ConformanceClient) -> None:
    """So it is with each topic-partition of the cluster: if one has changed its leader, it is asked for."""
    address = client.any_broker()
    shown = await client.ask(address, MetadataRequest(topics=None), MetadataResponse, since=LEADER_EPOCHS_SINCE)
    addresses = {one.node_id: (one.host, one.port) for one in shown.brokers}
    led = [
        (topic.name or "", part.partition_index, part.leader_id)
        for topic in shown.topics
        for part in topic.partitions
        if part.leader_epoch > 0 and part.leader_id in addresses
    ]
    if not led:
        return
    name, number, leader = client.rng.choice(led)
    asked = ListOffsetsRequest(CONSUMER, 0, [ListOffsetsTopic(name, [_at_end(number)])])
    came = await client.ask(addresses[leader], asked, ListOffsetsResponse, since=1, until=EPOCHS_SINCE - 1)
    codes = {part.error_code for one in came.topics for part in one.partitions}
    expect(addresses[leader], f"the errors of the end of {name}-{number} for old clients", codes, {0})


def first_from(records: list[Appended], timestamp: int) -> tuple[int, int, int, int]:
    """Error, offset, leader epoch and timestamp of the first record, by offset, of this time or later."""
    for one in records:
        if one.timestamp >= timestamp:
            return (0, one.offset, one.leader_epoch, one.timestamp)
    return (0, -1, -1, -1)


async def _refused(client: ConformanceClient, topic: CheckedTopic, number: int) -> None:
    address, checked = topic.leader_of(number), topic.partitions[number]
    for name, part, error in (
        ("a time without a meaning", ListOffsetsPartition(number, -1, NO_MEANING), ErrorCode.UNSUPPORTED_VERSION),
        ("a later epoch", _at_end(number, checked.leader_epoch + 1), ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("an unknown topic-partition", _at_end(len(topic.partitions)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        *(
            [("an earlier epoch", _at_end(number, checked.leader_epoch - 1), ErrorCode.FENCED_LEADER_EPOCH)]
            if checked.leader_epoch
            else []
        ),
    ):
        (came,) = await _list(client, address, topic, [part])
        expect_error(address, f"ListOffsets with {name}", came.error_code, error)
    for other in topic.others_of(number):
        (came,) = await _list(client, other, topic, [_at_end(number)])
        errors = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        expect_error(other, "ListOffsets by a broker that does not lead", came.error_code, *errors)


def _at_end(number: int, epoch: int = -1) -> ListOffsetsPartition:
    return ListOffsetsPartition(number, epoch, LATEST)


async def _expect_offset(
    client: ConformanceClient, topic: CheckedTopic, number: int, timestamp: int, *expected: tuple[int, ...]
) -> None:
    """Compare error, offset, leader epoch, and the timestamp if those expected have it."""
    address = topic.leader_of(number)
    part = ListOffsetsPartition(number, client.rng.choice((-1, topic.partitions[number].leader_epoch)), timestamp)
    (came,) = await _list(client, address, topic, [part], since=LARGEST_SINCE if timestamp == LARGEST else EPOCHS_SINCE)
    told = (came.error_code, came.offset, came.leader_epoch, came.timestamp)[: len(expected[0])]
    expect(address, f"ListOffsets of {topic.name}-{number} at {timestamp}", told, *expected)


async def _list(
    client: ConformanceClient,
    address: Address,
    topic: CheckedTopic,
    parts: list[ListOffsetsPartition],
    since: int = EPOCHS_SINCE,
    until: int = NEWEST,
) -> list[ListOffsetsPartitionResponse]:
    request = ListOffsetsRequest(CONSUMER, 0, [ListOffsetsTopic(topic.name, parts)])
    response = await client.ask(address, request, ListOffsetsResponse, since=since, until=until)
    found = [part for one in response.topics for part in one.partitions]
    numbers = [one.partition_index for one in parts]
    expect(address, "the topic-partitions of ListOffsets", [one.partition_index for one in found], numbers)
    return found


async def earliest(client: ConformanceClient, topic: CheckedTopic, number: int) -> int:
    """Return where a log begins, as its leader says."""
    address = topic.leader_of(number)
    (came,) = await _list(client, address, topic, [ListOffsetsPartition(number, -1, EARLIEST)])
    expect_error(address, f"the beginning of {topic.name}-{number}", came.error_code, ErrorCode.NONE)
    return came.offset


async def epochs(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Ask for the end of each leader epoch with records, of the current epoch, and of one that has not begun."""
    number = client.rng.randrange(len(topic.partitions))
    checked, address = topic.partitions[number], topic.leader_of(number)
    current = checked.leader_epoch
    for epoch in sorted({one.leader_epoch for one in checked.records if one.offset >= checked.start} - {current}):
        later = [one.offset for one in checked.records if one.leader_epoch > epoch]
        await _expect_end(client, topic, number, epoch, (epoch, min(later, default=checked.end)))
    await _expect_end(client, topic, number, current, (current, checked.end))
    await _expect_end(client, topic, number, current + 1, NONE_SUCH)
    for asked, error in (
        (OffsetForLeaderPartition(number, current + 1, current), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (OffsetForLeaderPartition(len(topic.partitions), -1, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        came = await _end_of(client, address, topic, asked)
        expect_error(address, f"OffsetForLeaderEpoch {asked}", came.error_code, error)
    for other in topic.others_of(number):
        came = await _end_of(client, other, topic, OffsetForLeaderPartition(number, -1, current))
        errors = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        expect_error(other, "OffsetForLeaderEpoch by a broker that does not lead", came.error_code, *errors)


async def _expect_end(
    client: ConformanceClient, topic: CheckedTopic, number: int, epoch: int, expected: tuple[int, int]
) -> None:
    address = topic.leader_of(number)
    current = client.rng.choice((-1, topic.partitions[number].leader_epoch))
    came = await _end_of(client, address, topic, OffsetForLeaderPartition(number, current, epoch))
    told = (came.error_code, came.leader_epoch, came.end_offset)
    expect(address, f"the end of epoch {epoch} of {topic.name}-{number}", told, (0, *expected))


async def _end_of(
    client: ConformanceClient, address: Address, topic: CheckedTopic, asked: OffsetForLeaderPartition
) -> EpochEndOffset:
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic.name, [asked])])
    response = await client.ask(address, request, OffsetForLeaderEpochResponse, since=EPOCH_ERRORS_SINCE)
    found = [part for one in response.topics for part in one.partitions]
    numbers = [one.partition for one in found]
    expect(address, "the topic-partitions of OffsetForLeaderEpoch", numbers, [asked.partition])
    return found[0]


async def deleted_records(client: ConformanceClient, topic: CheckedTopic) -> None:
    """What is deleted is below the log's start, everywhere; more than there is cannot be deleted."""
    number = client.rng.randrange(len(topic.partitions))
    checked, address = topic.partitions[number], topic.leader_of(number)
    if not await client.serves(address, ApiKey.DELETE_RECORDS):
        return
    for name, partition, offset, error in (
        ("beyond the end", number, checked.end + 1, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("of an unknown topic-partition", len(topic.partitions), 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        came = await _delete(client, address, topic, partition, offset)
        expect_error(address, f"DeleteRecords {name}", came.error_code, error)
    for other in topic.others_of(number):
        came = await _delete(client, other, topic, number, checked.start)
        errors = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        expect_error(other, "DeleteRecords by a broker that does not lead", came.error_code, *errors)
    offset = client.rng.randint(checked.start, checked.end)
    asked = client.rng.choice((offset, offset, -1))
    came = await _delete(client, address, topic, number, asked)
    checked.start = checked.end if asked < 0 else offset
    told = (came.error_code, came.low_watermark)
    expect(address, f"DeleteRecords of {topic.name}-{number} below {asked}", told, (0, checked.start))
    await client.settled(lambda: _starts(client, topic, number, checked))


async def _starts(client: ConformanceClient, topic: CheckedTopic, number: int, checked: CheckedPartition) -> None:
    (came,) = await _list(client, topic.leader_of(number), topic, [ListOffsetsPartition(number, -1, EARLIEST)])
    told = (came.error_code, came.offset)
    expect(topic.leader_of(number), f"the start of {topic.name}-{number}", told, (0, checked.start))


async def _delete(
    client: ConformanceClient, address: Address, topic: CheckedTopic, number: int, offset: int
) -> DeleteRecordsPartitionResult:
    asked = [DeleteRecordsTopic(topic.name, [DeleteRecordsPartition(number, offset)])]
    response = await client.ask(address, DeleteRecordsRequest(asked, TIMEOUT_MS), DeleteRecordsResponse)
    found = [part for one in response.topics for part in one.partitions]
    numbers = [one.partition_index for one in found]
    expect(address, "the topic-partitions of DeleteRecords", numbers, [number])
    return found[0]

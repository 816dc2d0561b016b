"""Produce, InitProducerId and Fetch: records lie where they are acknowledged, once, and are read as they were sent.

The timestamps of a topic-partition's records differ from one another and are not in order, so that look-ups by time
have one right answer each (`offsets.py`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from squall.harness.conformance.client import Address, ConformanceClient, expect, expect_error
from squall.harness.conformance.topic import Appended, CheckedTopic
from squall.nodes.protocol.compression import Compression
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from squall.nodes.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataResponse
from squall.nodes.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from squall.nodes.protocol.record import Record
from squall.nodes.protocol.records import build_batch, iterate_batches, parse_records
from squall.workloads.clients.common.payload import VALUE_BYTES, decode_value, encode_value

PRODUCE_TIMEOUT_MS, LONGEST_BATCH, STEP_MS = 5000, 5, 1000
ALL, LEADER_ONLY, NOBODY = -1, 1, 0
FETCH_BYTES, WAIT_MS = 1 << 20, 300
NAMES_UNTIL, EPOCHS_SINCE, LOG_START_SINCE, LEADER_SINCE, ZSTD_SINCE = 12, 9, 5, 16, 7
MANY_FETCHES, SHORT_WAIT_MS = 4, 50
"""More fetches than one of our brokers lets wait on a connection. Apache Kafka's let them wait one after the other."""
AT_ONCE = 5
"""As many batches as a broker remembers of a producer."""
NO_SESSION, FULL = 0, -1
LOWEST_VALUE = 1 << 61
"""The values of workloads are below it."""
PRODUCE_VERSION = 9
"""For a request without a response."""


@dataclass
class Producer:
    """An idempotent producer on one topic-partition."""

    producer_id: int
    epoch: int
    sequence: int = 0


async def append(client: ConformanceClient, topic: CheckedTopic, number: int) -> None:
    """Append a batch whose records may be older than those before it, compressed or not, with any acknowledgement."""
    records, compression = _new_records(client, topic, number), client.rng.choice(list(Compression))
    address, acks = topic.leader_of(number), client.rng.choice((ALL, LEADER_ONLY, NOBODY))
    request = _produce(topic, number, build_batch(records, compression=compression), acks)
    base = _will_append(client, topic, number, records)
    if acks == NOBODY:
        # A broker ends an idle connection with whatever is on its way, and nobody would hear of that.
        await client.ask(address, MetadataRequest(topics=[]), MetadataResponse, since=4)
        await client.tell(address, request, PRODUCE_VERSION)
    else:
        since = ZSTD_SINCE if compression is Compression.ZSTD else LOG_START_SINCE
        _expect_appended(address, topic, number, await _answer(client, address, request, since=since), base)
    await client.settled(lambda: _read_all(client, topic, number))


async def send(
    client: ConformanceClient,
    topic: CheckedTopic,
    number: int,
    records: list[Record] | None = None,
    *,
    removable_below: int = 0,
) -> int:
    """Append a batch, acknowledged by all in-sync replicas. Return the time by which the leader stamped it, else -1.

    Retention may by now have removed records below `removable_below`.
    """
    address, records = topic.leader_of(number), records or _new_records(client, topic, number)
    base = _will_append(client, topic, number, records)
    answer = await _answer(client, address, _produce(topic, number, build_batch(records)))
    stamp = answer.log_append_time_ms
    if topic.partitions[number].start < answer.log_start_offset <= removable_below:
        topic.partitions[number].start = answer.log_start_offset
    _expect_appended(address, topic, number, answer, base, stamp)
    if stamp >= 0:
        known = topic.partitions[number].records
        known[-len(records) :] = [replace(one, timestamp=stamp) for one in known[-len(records) :]]
    return stamp


async def _read_all(client: ConformanceClient, topic: CheckedTopic, number: int) -> None:
    """A reader gets all records of a topic-partition, each batch from any offset within it."""
    checked, address = topic.partitions[number], topic.leader_of(number)
    offset = checked.start
    read: list[Appended] = []
    while offset < checked.end:
        part = await fetch_one(client, address, topic, number, offset)
        expect_error(address, f"a fetch of {topic.name}-{number} at {offset}", part.error_code, ErrorCode.NONE)
        found = [one for one in records_of(part) if one.offset >= offset]
        if not found:
            expect(address, f"the high watermark of {topic.name}-{number}", part.high_watermark, checked.end)
            expect(address, f"records of {topic.name}-{number} at {offset}", found, checked.records)
        read += found
        offset = read[-1].offset + 1
    expected = [one for one in checked.records if one.offset >= checked.start]
    expect(address, f"the records of {topic.name}-{number}", read, expected)
    part = await fetch_one(client, address, topic, number, checked.end)
    ends = (part.error_code, part.high_watermark, records_of(part))
    expect(address, f"a fetch at the end of {topic.name}-{number}", ends, (0, checked.end, []))


async def refused_batches(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Batches that a broker must not append; afterwards the log is as it was.

    Apache Kafka 4.3 was seen to leave null records without a response, so only our own nodes are asked for these.
    """
    number = client.rng.randrange(len(topic.partitions))
    address, batch = topic.leader_of(number), build_batch(_new_records(client, topic, number))
    damaged = bytearray(batch)
    damaged[-1] ^= 1
    larger = build_batch([Record(value=bytes(int(topic.settings["max.message.bytes"])))], timestamp=1)
    for name, request, error in (
        ("a damaged batch", _produce(topic, number, damaged), ErrorCode.CORRUPT_MESSAGE),
        ("a batch that is too large", _produce(topic, number, larger), ErrorCode.MESSAGE_TOO_LARGE),
        ("no batch", _produce(topic, number, b""), ErrorCode.INVALID_RECORD),
        *([("null records", _produce(topic, number, None), ErrorCode.INVALID_RECORD)] if client.knows_all else []),
        ("acks=5", _produce(topic, number, batch, 5), ErrorCode.INVALID_REQUIRED_ACKS),
        (
            "an unknown topic-partition",
            _produce(topic, len(topic.partitions), batch),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
    ):
        answer = await _answer(client, address, request)
        expect_error(address, name, answer.error_code, error)
        told = (answer.base_offset, answer.log_append_time_ms)
        expect(address, f"offset and time of {name}, which is not appended", told, (-1, -1))
    compressed = build_batch(_new_records(client, topic, number), compression=Compression.ZSTD)
    answer = await _answer(client, address, _produce(topic, number, compressed), until=ZSTD_SINCE - 1)
    expect_error(address, "zstd before its time", answer.error_code, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    for other in topic.others_of(number):
        replica = next(one for one, at in topic.brokers.items() if at == other) in topic.partitions[number].replicas
        answer = await _answer(client, other, _produce(topic, number, batch))
        errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, *([] if replica else [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])]
        expect_error(other, f"a batch for {topic.name}-{number}, led by another", answer.error_code, *errors)
    await client.settled(lambda: _read_all(client, topic, number))


async def unacknowledged(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Where one of several batches that are sent without acknowledgement is refused, the connection ends.

    That is all that the sender hears. The other batches are appended.
    """
    number, unknown = client.rng.randrange(len(topic.partitions)), len(topic.partitions)
    address, records = topic.leader_of(number), _new_records(client, topic, number)
    _will_append(client, topic, number, records)
    batch = bytes(build_batch(records))
    parts = [PartitionProduceData(one, batch) for one in (number, unknown)]
    client.rng.shuffle(parts)
    request = ProduceRequest(
        acks=NOBODY, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[TopicProduceData(topic.name, parts)]
    )
    once = client.on_other_connections()
    try:
        await once.ask(address, MetadataRequest(topics=[]), MetadataResponse, since=4)
        ended = await once.ends(address, request, PRODUCE_VERSION)
    finally:
        await once.close()
    sent = f"a send without acknowledgement to {topic.name}-{number} and to -{unknown}, which is unknown"
    expect(address, f"whether the connection ends after {sent}", ended, True)
    await client.settled(lambda: _read_all(client, topic, number))


async def idempotence(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Producer ids differ. A batch that is sent again is appended once; a gap, or an older epoch, is refused."""
    number = client.rng.randrange(len(topic.partitions))
    address = topic.leader_of(number)
    asked = [client.any_broker() for _ in range(3)]
    answers = [await _new_producer(client, one) for one in asked]
    expect(asked[0], "producer ids that differ", len({one.producer_id for one in answers}), len(answers))
    producer = Producer(answers[0].producer_id, answers[0].producer_epoch)
    expect(asked[0], "the first epoch of a producer", producer.epoch, 0)
    for _ in range(client.rng.randint(1, 3)):
        records = _new_records(client, topic, number)
        base = _will_append(client, topic, number, records)
        batch = _of_producer(records, producer, producer.sequence)
        _expect_appended(address, topic, number, await _answer(client, address, _produce(topic, number, batch)), base)
        again = await _answer(client, address, _produce(topic, number, batch))
        told = (again.error_code, again.base_offset)
        expect(address, f"a batch for {topic.name}-{number} that is sent again", told, (0, base))
        producer.sequence += len(records)
    records = _new_records(client, topic, number)
    gap = _of_producer(records, producer, producer.sequence + client.rng.randint(1, 9))
    answer = await _answer(client, address, _produce(topic, number, gap))
    expect_error(address, "a gap in sequence numbers", answer.error_code, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    await _another_epoch(client, topic, number, producer)
    await client.settled(lambda: _read_all(client, topic, number))


async def _another_epoch(client: ConformanceClient, topic: CheckedTopic, number: int, producer: Producer) -> None:
    """A producer's next epoch begins at sequence 0, and ends the one before."""
    address, records = topic.leader_of(number), _new_records(client, topic, number)
    later = Producer(producer.producer_id, producer.epoch + 1)
    answer = await _answer(client, address, _produce(topic, number, _of_producer(records, later, 1)))
    expect_error(address, "an epoch's first sequence 1", answer.error_code, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    base = _will_append(client, topic, number, records)
    answer = await _answer(client, address, _produce(topic, number, _of_producer(records, later, 0)))
    _expect_appended(address, topic, number, answer, base)
    old = _of_producer(_new_records(client, topic, number), producer, producer.sequence)
    answer = await _answer(client, address, _produce(topic, number, old))
    expect_error(address, "a producer's former epoch", answer.error_code, ErrorCode.INVALID_PRODUCER_EPOCH)


async def in_order(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Batches that a producer sends without waiting, behind fetches that wait, are appended in that order."""
    number = client.rng.randrange(len(topic.partitions))
    address, checked = topic.leader_of(number), topic.partitions[number]
    made = await _new_producer(client, address)
    producer = Producer(made.producer_id, made.producer_epoch)
    requests, bases = [], []
    end = checked.end
    for _ in range(AT_ONCE):
        records = _new_records(client, topic, number)
        bases.append(_will_append(client, topic, number, records))
        requests.append(_produce(topic, number, _of_producer(records, producer, producer.sequence)))
        producer.sequence += len(records)
    # A broker ends an idle connection with whatever is on its way.
    await client.ask(address, MetadataRequest(topics=[]), MetadataResponse, since=4)
    waits = asyncio.gather(
        *(
            fetch_one(client, address, topic, number, end, least=FETCH_BYTES, wait_ms=SHORT_WAIT_MS)
            for _ in range(MANY_FETCHES)
        )
    )
    sends = asyncio.gather(*(_answer(client, address, one) for one in requests))
    await asyncio.gather(waits, sends)
    told = [(one.error_code, one.base_offset) for one in sends.result()]
    expect(address, f"the places of {AT_ONCE} batches for {topic.name}-{number}", told, [(0, base) for base in bases])
    await client.settled(lambda: _read_all(client, topic, number))


async def refused_fetches(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Offsets that a log does not have, epochs that are not the leader's, and topic-partitions that are unknown."""
    number = client.rng.randrange(len(topic.partitions))
    address, checked = topic.leader_of(number), topic.partitions[number]
    epoch = checked.leader_epoch
    for offset, current, error in (
        (checked.end + 1, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (checked.start - 1, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (checked.start, epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        *([(checked.start, epoch - 1, ErrorCode.FENCED_LEADER_EPOCH)] if epoch else []),
        (checked.start, epoch, ErrorCode.NONE),
    ):
        part = await fetch_one(client, address, topic, number, offset, current)
        expect_error(address, f"a fetch at {offset} in epoch {current}", part.error_code, error)
    if epoch:
        part = await fetch_one(client, address, topic, number, checked.start, epoch - 1, since=LEADER_SINCE)
        told = (part.current_leader.leader_id, part.current_leader.leader_epoch)
        expect(address, "the leader of which a fetch in an earlier epoch hears", told, (checked.leader, epoch))
    part = await fetch_one(client, address, topic, len(topic.partitions), 0)
    expect_error(address, "an unknown topic-partition", part.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    offsets = (part.high_watermark, part.last_stable_offset, part.log_start_offset)
    expect(address, "high watermark, stable end and start of an unknown topic-partition", offsets, (-1, -1, -1))


async def limits(client: ConformanceClient, topic: CheckedTopic) -> None:
    """A fetch of one byte, or of none, brings one batch (KIP-74); one of more bytes than there are waits as it says."""
    number = client.rng.randrange(len(topic.partitions))
    address, checked = topic.leader_of(number), topic.partitions[number]
    starts = [one for one in checked.batch_starts if one >= checked.start]
    if not starts:
        return
    at = client.rng.randrange(len(starts))
    ends = [*starts[1:], checked.end]
    for most in (0, 1):
        part = await fetch_one(client, address, topic, number, starts[at], most=most)
        read = [one.offset for one in records_of(part)]
        expect(address, f"a fetch of {most} bytes at {starts[at]}", read, list(range(starts[at], ends[at])))
    loop = asyncio.get_running_loop()
    began = loop.time()
    part = await fetch_one(client, address, topic, number, checked.end, least=FETCH_BYTES, wait_ms=WAIT_MS)
    waited = loop.time() - began
    expect(address, f"whether a fetch waits {WAIT_MS} ms (it took {waited:.3f} s)", waited >= WAIT_MS / 1000, True)
    expect(address, "records that are not there", records_of(part), [])


async def sessions(client: ConformanceClient, topic: CheckedTopic) -> None:
    """A fetch session returns new records, and none of a topic-partition that the client has removed from it."""
    number = client.rng.randrange(len(topic.partitions))
    address = topic.leader_of(number)
    led = [one for one, checked in enumerate(topic.partitions) if topic.brokers[checked.leader] == address]
    wanted = {one: topic.partitions[one].end for one in led}
    first = await _session(client, address, topic, wanted, 0, 0)
    expect(address, "the topic-partitions of a new session", sorted(_parts(first)), led)
    session = first.session_id
    if session == NO_SESSION:
        return
    again = await _session(client, address, topic, {}, session, 1)
    expect(address, "what a session without news brings", _parts(again), {})
    await append(client, topic, number)
    news = await _session(client, address, topic, {}, session, 2)
    brought = {one: [record.offset for record in records_of(part)] for one, part in _parts(news).items()}
    expect(
        address, "what a session brings", brought, {number: list(range(wanted[number], topic.partitions[number].end))}
    )
    moved = await _session(client, address, topic, {number: topic.partitions[number].end}, session, 3)
    expect(
        address, "records that a session brings twice", [records_of(one) for one in _parts(moved).values()], [[]], []
    )
    forgotten = await _session(client, address, topic, {}, session, 4, forgotten=[number])
    expect(address, "what a session brings of what is forgotten", _parts(forgotten), {})
    if led == [number]:
        return  # a session of nothing ends
    await append(client, topic, number)
    rest = await _session(client, address, topic, {}, session, 5)
    expect(address, "what a session brings of what is forgotten", _parts(rest), {})
    strange = await _session(client, address, topic, {}, session, 9)
    expect_error(
        address, "another session epoch", strange.error_code,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    )  # fmt: skip
    unknown = await _session(client, address, topic, {}, session ^ 1, 1)
    expect_error(address, "an unknown session", unknown.error_code, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


# -- requests ------------------------------------------------------------------------------------------------------


def _new_records(client: ConformanceClient, topic: CheckedTopic, number: int) -> list[Record]:
    """Records with timestamps that no other of the topic-partition has, in any order."""
    checked, rng = topic.partitions[number], client.rng
    used = {one.timestamp for one in checked.records}
    now = client.wall_clock_ms()
    size = rng.randint(1, LONGEST_BATCH)
    free = [
        time for time in (now - STEP_MS * step for step in range(len(used) + 4 * LONGEST_BATCH)) if time not in used
    ]
    values = (encode_value(LOWEST_VALUE | rng.getrandbits(61), VALUE_BYTES) for _ in range(size))
    return [Record(timestamp=time, value=value) for time, value in zip(rng.sample(free, size), values, strict=True)]


def _will_append(client: ConformanceClient, topic: CheckedTopic, number: int, records: list[Record]) -> int:
    """Expect these records at the end of a topic-partition, as one batch. Return their first offset."""
    checked = topic.partitions[number]
    base = checked.end
    checked.batch_starts.append(base)
    for index, record in enumerate(records):
        value = record.value or b""
        checked.records.append(Appended(base + index, record.timestamp, checked.leader_epoch, value))
        client.on_send(decode_value(value))
    return base


def _of_producer(records: list[Record], producer: Producer, sequence: int) -> bytearray:
    return build_batch(records, producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=sequence)


def _produce(topic: CheckedTopic, number: int, batch: bytes | bytearray | None, acks: int = ALL) -> ProduceRequest:
    data = TopicProduceData(topic.name, [PartitionProduceData(number, None if batch is None else bytes(batch))])
    return ProduceRequest(acks=acks, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])


async def _answer(
    client: ConformanceClient,
    address: Address,
    request: ProduceRequest,
    *,
    since: int = LOG_START_SINCE,
    until: int = NAMES_UNTIL,
) -> PartitionProduceResponse:
    asked = [(one.name, part.index) for one in request.topic_data for part in one.partition_data]
    response = await client.ask(address, request, ProduceResponse, since=since, until=until)
    told = [(one.name, part.index) for one in response.responses for part in one.partition_responses]
    expect(address, "the topic-partitions of a Produce response", told, asked)
    return response.responses[0].partition_responses[0]


def _expect_appended(
    address: Address, topic: CheckedTopic, number: int, answer: PartitionProduceResponse, base: int, stamp: int = -1
) -> None:
    expect_error(address, f"a batch for {topic.name}-{number}", answer.error_code, ErrorCode.NONE)
    told = (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset)
    expected = (base, stamp, topic.partitions[number].start)
    expect(address, f"offset, time and log start of a batch for {topic.name}-{number}", told, expected)


async def _new_producer(client: ConformanceClient, address: Address) -> InitProducerIdResponse:
    async def attempt() -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        response = await client.ask(address, request, InitProducerIdResponse)
        expect_error(address, "InitProducerId", response.error_code, ErrorCode.NONE)
        return response

    return await client.settled(attempt)


async def fetch_one(
    client: ConformanceClient,
    address: Address,
    topic: CheckedTopic,
    number: int,
    offset: int,
    current_epoch: int = -1,
    *,
    most: int = FETCH_BYTES,
    least: int = 1,
    wait_ms: int = 0,
    since: int = EPOCHS_SINCE,
) -> PartitionData:
    """Fetch without a session."""
    part = FetchPartition(number, current_epoch, offset, partition_max_bytes=most)
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=least, max_bytes=most, session_epoch=FULL,
        topics=[FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[part])],
    )  # fmt: skip
    response = await client.ask(address, request, FetchResponse, since=since)
    expect_error(address, "the error of Fetch", response.error_code, ErrorCode.NONE)
    parts = _parts(response)
    expect(address, "the topic-partitions of Fetch", list(parts), [number])
    return parts[number]


async def _session(
    client: ConformanceClient,
    address: Address,
    topic: CheckedTopic,
    wanted: dict[int, int],
    session: int,
    epoch: int,
    forgotten: list[int] | None = None,
) -> FetchResponse:
    """Fetch in a session, always in one version: a session belongs to names or to ids."""
    parts = [
        FetchPartition(one, fetch_offset=offset, partition_max_bytes=FETCH_BYTES) for one, offset in wanted.items()
    ]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=FETCH_BYTES, session_id=session, session_epoch=epoch,
        topics=[FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=parts)] if parts else [],
        forgotten_topics_data=[
            ForgottenTopic(topic=topic.name, topic_id=topic.topic_id, partitions=forgotten)
        ] if forgotten else [],
    )  # fmt: skip
    response = await client.ask(address, request, FetchResponse, since=NAMES_UNTIL + 1)
    if epoch < 9 and session in (NO_SESSION, response.session_id):
        expect_error(address, f"fetch {epoch} of a session", response.error_code, ErrorCode.NONE)
    return response


def _parts(response: FetchResponse) -> dict[int, PartitionData]:
    return {part.partition_index: part for one in response.responses for part in one.partitions}


def records_of(part: PartitionData) -> list[Appended]:
    """The records in a response, in order."""
    return [
        Appended(
            header.base_offset + index,
            record.timestamp,
            header.leader_epoch,
            record.value or b"",
        )
        for header, batch in iterate_batches(part.records or b"", torn_tail=True)
        for index, record in enumerate(parse_records(batch))
    ]

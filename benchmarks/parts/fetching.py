"""Measure how fast records are read: through librdkafka, and as raw responses of about one megabyte.

The raw client sends the same prepared Fetch again and again, two at a time, and discards the responses: it measures the
broker. Only the first response is checked to be full and without an error.
"""

from __future__ import annotations

import socket
import struct
import time

from confluent_kafka import TopicPartition

from squall.benchmarks.parts.load import ALONE, MEGA, RECORD_BYTES, TIMEOUT_S, Bench, Layout, hand_over
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from squall.nodes.protocol.requests.headers import decode_response, encode_request

RECORDS = 200_000
RUNS = 5
FETCH_VERSION = 12
RESPONSE_BYTES = 1 << 20
RESPONSES = 600
AT_ONCE = 2
EAGER = {"fetch.queue.backoff.ms": 1}
"""By default librdkafka fetches nothing for a second once it has 100,000 records that were not read yet."""
AT_MOST = 5000
"""Records per call of the consumer, which returns only with all of them or at the timeout."""


def filled_topic(bench: Bench, name: str, records: int = RECORDS, layout: Layout = ALONE) -> None:
    """Create one topic with this many records."""
    bench.create_topic(name, layout)
    producer = bench.producer()
    for number in range(records):
        hand_over(producer, name, number % layout.partitions, bench.value)
    bench.flush(producer)


def consumed(bench: Bench, topic: str, records: int = RECORDS, runs: int = RUNS) -> list[float]:
    """Megabytes of payload per second through one librdkafka consumer, from its first record to its last."""
    return [_consume(bench, topic, records) for _ in range(runs + 1)][1:]


def _consume(bench: Bench, topic: str, records: int) -> float:
    consumer = bench.consumer(EAGER)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        count, size, began = 0, 0, 0.0
        while count < records:
            messages = consumer.consume(min(AT_MOST, records - count), TIMEOUT_S)
            assert messages, f"no record within {TIMEOUT_S:.0f} s after {count} of {records}"
            if not count:
                began = time.perf_counter()
                count = len(messages)
                continue
            for message in messages:
                assert message.error() is None, message.error()
            count += len(messages)
            size += len(messages) * RECORD_BYTES
        return size / MEGA / (time.perf_counter() - began)
    finally:
        consumer.close()


def fetched(bench: Bench, topic: str, responses: int = RESPONSES, runs: int = RUNS) -> list[float]:
    """Megabytes of Fetch responses per second over one connection."""
    leader = bench.admin.list_topics(topic, timeout=TIMEOUT_S)
    broker = leader.brokers[leader.topics[topic].partitions[0].leader]
    with socket.create_connection((broker.host, broker.port), TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return [_fetch(connection, _request(topic), responses) for _ in range(runs + 1)][1:]


def _request(topic: str) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=RESPONSE_BYTES)
    body = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=RESPONSE_BYTES,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    frame = b"".join(bytes(chunk) for chunk in encode_request(ApiKey.FETCH, FETCH_VERSION, 1, "benchmark", body))
    return struct.pack(">i", len(frame)) + frame


def _fetch(connection: socket.socket, request: bytes, responses: int) -> float:
    buffer = bytearray(2 * RESPONSE_BYTES)
    for _ in range(AT_ONCE):
        connection.sendall(request)
    size = 0
    began = time.perf_counter()
    for number in range(responses):
        length = _receive_frame(connection, buffer)
        size += length
        if number < responses - AT_ONCE:
            connection.sendall(request)
        if number == 0:
            _check(memoryview(buffer)[:length])
    return size / MEGA / (time.perf_counter() - began)


def _receive_frame(connection: socket.socket, buffer: bytearray) -> int:
    head = connection.recv(4, socket.MSG_WAITALL)
    (length,) = struct.unpack(">i", head)
    view = memoryview(buffer)[:length]
    while len(view):
        view = view[connection.recv_into(view) :]
    return int(length)


def _check(frame: memoryview) -> None:
    _, body = decode_response(ApiKey.FETCH, FETCH_VERSION, frame)
    assert isinstance(body, FetchResponse)
    part = body.responses[0].partitions[0]
    assert part.error_code == 0 and len(part.records or b"") > RESPONSE_BYTES // 2, (
        f"not a full answer: {part.error_code}"
    )

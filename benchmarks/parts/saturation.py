"""A constant flood of produce requests: a fixed number is outstanding at one broker at any time.

It sends prepared frames over plain sockets; every response triggers the next request at once. `Flood` runs in a
separate thread, and reports how many requests were answered and whether one was refused.
"""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType

from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.requests.headers import decode_response, encode_request

PRODUCE_VERSION = 9
ACKS_ALL = -1
TIMEOUT_MS = 30_000
CONNECTIONS = 50
JOIN_TIMEOUT_S = 30.0
LOOK_EVERY_S = 0.05


def produce_frame(topic: str, partition: int, record_bytes: int) -> bytes:
    """One request of one record, with its length prefix."""
    batch = build_batch([Record(key=None, value=bytes(record_bytes))])
    body = ProduceRequest(
        acks=ACKS_ALL,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(topic, [PartitionProduceData(partition, batch)])],
    )
    frame = b"".join(encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "flood", body))
    return len(frame).to_bytes(4, "big") + frame


class Flood:
    """`with Flood(host, port, topic, outstanding=500):` keeps so many requests waiting at the broker."""

    def __init__(self, host: str, port: int, topic: str, *, outstanding: int, record_bytes: int) -> None:
        self.errors: list[str] = []
        self._askers: list[_Asker] = []
        self._host, self._port = host, port
        self._frame = produce_frame(topic, 0, record_bytes)
        self._share = outstanding // CONNECTIONS
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def answered(self) -> int:
        """Responses so far; final once the flood has ended."""
        return sum(one.answered for one in list(self._askers))

    def __enter__(self) -> Flood:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._pour())
        except OSError as trouble:
            self.errors.append(str(trouble))

    async def _pour(self) -> None:
        """Run until stopped. Any error on a connection ends it and is recorded."""
        loop = asyncio.get_running_loop()
        opened = []
        for _ in range(CONNECTIONS):
            transport, asker = await loop.create_connection(self._asker, self._host, self._port)
            transport.write(self._frame * self._share)
            opened.append((transport, asker))
            self._askers.append(asker)
        while not self._stopping.is_set():
            await asyncio.sleep(LOOK_EVERY_S)
        for transport, asker in opened:
            self.errors += asker.errors
            transport.abort()

    def _asker(self) -> _Asker:
        return _Asker(self._frame)


class _Asker(asyncio.Protocol):
    """One connection: sends a request for each response. Only the first response is checked."""

    def __init__(self, frame: bytes) -> None:
        self.answered = 0
        self.errors: list[str] = []
        self._frame = frame
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.errors.append(f"the connection was closed: {exc}")

    def data_received(self, data: bytes) -> None:
        data = self._received + data
        position, count = 0, 0
        while len(data) - position >= 4:
            end = position + 4 + int.from_bytes(data[position : position + 4], "big")
            if end > len(data):
                break
            if not self.answered and not count:
                self._check(data[position + 4 : end])
            position = end
            count += 1
        self._received = data[position:]
        self.answered += count
        self._transport.write(self._frame * count)

    def _check(self, answer: bytes) -> None:
        try:
            check(answer)
        except AssertionError as refusal:
            self.errors.append(str(refusal))


def check(answer: bytes) -> None:
    """Raise AssertionError if a request was refused."""
    _, response = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, answer)
    assert isinstance(response, ProduceResponse)
    for topic in response.responses:
        for partition in topic.partition_responses:
            assert partition.error_code == 0, f"{topic.name}-{partition.index}: error {partition.error_code}"

"""A flood of produce requests that never ebbs: so many outstanding at one broker, all the time.

Prepared frames over plain sockets; whatever is answered is asked again at once. `Flood` runs in a thread of its own,
and says how many requests were answered and whether one was refused.
"""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType

from squall.nodes.protocol.headers import decode_response, encode_request
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from squall.nodes.protocol.records import Record, build_batch

PRODUCE_VERSION = 9
ACKS_ALL = -1
TIMEOUT_MS = 30_000
CONNECTIONS = 50
JOIN_TIMEOUT_S = 30.0


def produce_frame(topic: str, partition: int, record_bytes: int) -> bytes:
    """One request of one record, with its length before it."""
    batch = build_batch([Record(key=None, value=bytes(record_bytes))])
    body = ProduceRequest(
        acks=ACKS_ALL,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(topic, [PartitionProduceData(partition, batch)])],
    )
    frame = b"".join(encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "flood", body))
    return len(frame).to_bytes(4, "big") + frame


class Flood:
    """`with Flood(host, port, topic, outstanding=500):` while it lasts, so many requests wait at the broker."""

    def __init__(self, host: str, port: int, topic: str, *, outstanding: int, record_bytes: int) -> None:
        self.answered = 0
        self.errors: list[str] = []
        self._host, self._port = host, port
        self._frame = produce_frame(topic, 0, record_bytes)
        self._share = outstanding // CONNECTIONS
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Flood:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.run(self._pour())

    async def _pour(self) -> None:
        done = await asyncio.gather(*(self._ask() for _ in range(CONNECTIONS)), return_exceptions=True)
        self.errors += [repr(one) for one in done if one is not None]

    async def _ask(self) -> None:
        """One connection: its share on the way, and another for each that is answered."""
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(self._frame * self._share)
            first = True
            while not self._stopping.is_set():
                length = int.from_bytes(await reader.readexactly(4), "big")
                answer = await reader.readexactly(length)
                if first:
                    check(answer)
                    first = False
                self.answered += 1
                writer.write(self._frame)
                await writer.drain()
        finally:
            writer.close()


def check(answer: bytes) -> None:
    """Raise AssertionError if a request was refused."""
    _, response = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, answer)
    assert isinstance(response, ProduceResponse)
    for topic in response.responses:
        for partition in topic.partition_responses:
            assert partition.error_code == 0, f"{topic.name}-{partition.index}: error {partition.error_code}"

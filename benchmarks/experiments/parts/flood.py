"""Keep a number of produce requests outstanding at the leader of one topic-partition; a process of its own.

    python -m squall.benchmarks.experiments.parts.flood '{"ports": {"1": 9092, "2": 9093}, ...}'

It prints a line when every connection is open and sends until its standard input ends; then it writes what was
acknowledged to a file: for each record its number, its offset, the broker that acknowledged it, and when, by this
machine's monotonic clock. Each request holds one record with a number of its own, so that a lost one is known.

Outstanding requests stay as many: each response is followed by the next request, to the broker that leads as far as
this client knows. It learns of another leader as clients do, by NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from struct import Struct
from typing import Any

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from squall.nodes.protocol.record import Record
from squall.nodes.protocol.records import build_batch, seal
from squall.nodes.protocol.requests.headers import encode_request

VERSION = 8
"""The last version of Produce whose fields are at fixed places."""
AT_ONCE = 5
"""Requests in flight on one connection, as Kafka's producer allows."""
RETRY_S = 0.002
MARK = b"number--"
_NUMBER, _PREFIX, _ERROR = Struct(">q"), Struct(">ii"), Struct(">hq")


@dataclass(frozen=True)
class FloodOptions:
    """What to send: to which ports, by broker id, which of them leads at first, and where to write the outcome."""

    ports: Mapping[int, int]
    leader: int
    topic: str
    outstanding: int
    acks: int
    record_size: int
    outcome: str

    @classmethod
    def parse(cls, text: str) -> FloodOptions:
        given: dict[str, Any] = json.loads(text)
        return cls(**{**given, "ports": {int(broker): port for broker, port in given["ports"].items()}})

    def command(self) -> list[str]:
        return [sys.executable, "-m", __spec__.name if __spec__ else __name__, json.dumps(asdict(self))]


@dataclass(frozen=True)
class Acknowledged:
    """The acknowledged records, in the order of their acknowledgements; times in seconds."""

    numbers: Sequence[int]
    offsets: Sequence[int]
    brokers: Sequence[int]
    times: Sequence[float]

    @classmethod
    def load(cls, path: Path) -> Acknowledged:
        """Read the outcome of a flood."""
        content = array("d")
        with path.open("rb") as file:
            content.frombytes(file.read())
        columns = [content[place::4] for place in range(4)]
        numbers, offsets, brokers = ([int(value) for value in column] for column in columns[:3])
        return cls(numbers, offsets, brokers, columns[3])


class Requests:
    """Makes frames: one prepared request, of which the record's number and the sum are replaced."""

    def __init__(self, options: FloodOptions) -> None:
        value = MARK + b"-" * (options.record_size - len(MARK))
        batch = build_batch([Record(value=value)], timestamp=1)
        body = ProduceRequest(
            acks=options.acks,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=options.topic, partition_data=[PartitionProduceData(0, bytes(batch))])],
        )
        frame = b"".join(bytes(one) for one in encode_request(ApiKey.PRODUCE, VERSION, 0, "flood", body))
        self._frame = bytearray(len(frame).to_bytes(4, "big") + frame)
        self._number_at = self._frame.index(MARK)
        self._batch_at = self._frame.index(bytes(batch))
        self._batch_size = len(batch)
        self.sent = 0
        name = options.topic.encode()
        self.error_at = 4 + 4 + 4 + 2 + len(name) + 4 + 4
        """Where the error is in a response: after length, correlation id, topics, name, partitions and number."""

    def next(self) -> bytes:
        frame = self._frame
        _NUMBER.pack_into(frame, self._number_at, self.sent)
        seal(memoryview(frame)[self._batch_at : self._batch_at + self._batch_size])
        self.sent += 1
        return bytes(frame)


class Connection(asyncio.Protocol):
    """One connection to one broker; responses come in the order of requests."""

    def __init__(self, flood: Flood, broker: int) -> None:
        self._flood = flood
        self.broker = broker
        self.waiting: list[int] = []
        self._rest = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def send(self, requests: Requests) -> None:
        assert self.transport is not None
        self.waiting.append(requests.sent)
        self.transport.write(requests.next())

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        place, error_at = 0, self._flood.requests.error_at
        while len(data) - place >= 4:
            length = int.from_bytes(data[place : place + 4], "big")
            if len(data) - place < 4 + length:
                break
            error, offset = _ERROR.unpack_from(data, place + error_at)
            self._flood.answered(self, self.waiting.pop(0), error, offset)
            place += 4 + length
        self._rest = data[place:]


class Flood:
    """All connections to all brokers, and what was acknowledged."""

    def __init__(self, options: FloodOptions) -> None:
        self.options = options
        self.requests = Requests(options)
        self.leader = options.leader
        self.acknowledged = array("d")
        self._connections: dict[int, list[Connection]] = {broker: [] for broker in options.ports}
        self._next = 0
        self._ends = False

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        for broker, port in self.options.ports.items():
            for _ in range(max(1, -(-self.options.outstanding // AT_ONCE))):
                _, made = await loop.create_connection(lambda to=broker: Connection(self, to), "127.0.0.1", port)  # type: ignore[misc]
                self._connections[broker].append(made)

    def begin(self) -> None:
        for _ in range(self.options.outstanding):
            self._send()

    def _send(self) -> None:
        if self._ends:
            return
        connections = self._connections[self.leader]
        self._next = (self._next + 1) % len(connections)
        connections[self._next].send(self.requests)

    def answered(self, connection: Connection, number: int, error: int, offset: int) -> None:
        if error == ErrorCode.NONE:
            self.acknowledged.extend((number, offset, connection.broker, time.monotonic()))
            self._send()
            return
        if connection.broker == self.leader:
            self.leader = next(one for one in self._connections if one != self.leader)
        asyncio.get_running_loop().call_later(RETRY_S, self._send)

    async def end(self) -> None:
        """Send nothing more; wait for what is outstanding, as long as responses come."""
        self._ends = True
        before = -1
        while before != len(self.acknowledged):
            before = len(self.acknowledged)
            await asyncio.sleep(0.5)
        Path(self.options.outcome).write_bytes(self.acknowledged.tobytes())


async def main(options: FloodOptions) -> None:
    flood = Flood(options)
    await flood.open()
    print("open", flush=True)
    flood.begin()
    await asyncio.to_thread(sys.stdin.read)
    await flood.end()


if __name__ == "__main__":
    asyncio.run(main(FloodOptions.parse(sys.argv[1])))

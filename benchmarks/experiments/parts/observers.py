"""Observers of the metadata log by the thousand: connections that fetch and note when they hear of a commit.

Each is a connection of its own with a fetch under way, as a broker has; it applies nothing. What a response says is
decoded once for all observers, since a leader sends them the same bytes, so that this process, which shares the machine
with the controllers, costs little.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable

from squall.benchmarks.parts.stub_brokers import CLUSTER_ID, Address
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.protocol.requests.headers import decode_response, encode_request
from squall.nodes.protocol.topic_partition import METADATA_PARTITION, METADATA_TOPIC_ID

VERSION = 17
FIRST_ID = 10_000
WAIT_MS = 500
AT_ONCE = 100
"""Connections opened at a time."""
Decoded = tuple[int, int, int, int]
"""Error, high watermark, next offset, last epoch; the last two are -1 without records."""


class Decoder:
    """Decodes each distinct response once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Decoded] = {}

    def decode(self, frame: bytes) -> Decoded:
        found = self._known.get(frame[4:])
        if found is None:
            if len(self._known) > 1000:
                self._known.clear()
            found = self._known[frame[4:]] = self._read(frame)
        return found

    @staticmethod
    def _read(frame: bytes) -> Decoded:
        _, response = decode_response(ApiKey.FETCH, VERSION, frame)
        assert isinstance(response, FetchResponse)
        data = response.responses[0].partitions[0]
        error = response.error_code or data.error_code or int(data.snapshot_id.end_offset >= 0)
        last = [(header.next_offset, header.leader_epoch) for header, _ in iterate_batches(data.records or b"")]
        return error, data.high_watermark, *(last[-1] if last else (-1, -1))


class Observer(asyncio.Protocol):
    """One connection. `heard` is called with both whenever the high watermark that it knows rises."""

    def __init__(self, number: int, position: Decoded, decoder: Decoder, heard: Callable[[int, int], None]) -> None:
        _, self.high_watermark, self.offset, self.last_epoch = position
        self._number = number
        self._decoder = decoder
        self._heard = heard
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._fetch()

    def data_received(self, data: bytes) -> None:
        self._held += data
        while len(self._held) >= 4:
            size = int.from_bytes(self._held[:4], "big")
            if len(self._held) < 4 + size:
                return
            frame = bytes(self._held[4 : 4 + size])
            del self._held[: 4 + size]
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        error, high_watermark, offset, epoch = self._decoder.decode(frame)
        assert error == 0, f"observer {self._number}: error {error}"
        if offset >= 0:
            self.offset, self.last_epoch = offset, epoch
        if high_watermark > self.high_watermark:
            before, self.high_watermark = self.high_watermark, high_watermark
            self._heard(before, high_watermark)
        self._fetch()

    def _fetch(self) -> None:
        part = FetchPartition(
            partition=0,
            current_leader_epoch=self.last_epoch,
            fetch_offset=self.offset,
            last_fetched_epoch=self.last_epoch,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            cluster_id=CLUSTER_ID,
            replica_state=ReplicaState(replica_id=FIRST_ID + self._number, replica_epoch=-1),
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, topic=METADATA_PARTITION.topic, partitions=[part])],
        )
        frame = b"".join(bytes(chunk) for chunk in encode_request(ApiKey.FETCH, VERSION, 1, "observer", request))
        assert self._transport is not None
        self._transport.write(len(frame).to_bytes(4, "big") + frame)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Observers:
    """All observers of one leader, and the seconds after a commit at which each has heard of it."""

    def __init__(self, leader: Address, position: Decoded) -> None:
        self._leader = leader
        self._position = position
        self._decoder = Decoder()
        self._all: list[Observer] = []
        self._awaited = 0
        self._began = 0.0
        self.lags: list[float] = []

    async def join(self, number: int) -> None:
        """Open connections until there are so many."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        loop = asyncio.get_running_loop()
        while len(self._all) < number:
            made = [
                Observer(one, self._position, self._decoder, self._heard)
                for one in range(len(self._all), min(len(self._all) + AT_ONCE, number))
            ]
            await asyncio.gather(*(loop.create_connection(lambda one=one: one, *self._leader) for one in made))  # type: ignore[misc]
            self._all += made

    def await_commit(self) -> int:
        """Note from now on when each hears of the next commit. Returns the high watermark that it has to reach."""
        self._awaited = max(one.high_watermark for one in self._all) + 1
        self._began = time.monotonic()
        self.lags = []
        return self._awaited

    def _heard(self, before: int, high_watermark: int) -> None:
        if before < self._awaited <= high_watermark:
            self.lags.append(time.monotonic() - self._began)

    @property
    def have_heard(self) -> bool:
        return all(one.high_watermark >= self._awaited for one in self._all)

    @property
    def are_even(self) -> bool:
        """Whether all know the same high watermark."""
        return len({one.high_watermark for one in self._all}) == 1

    def close(self) -> None:
        for one in self._all:
            one.close()

"""A broker's metadata from a single controller: fetched from the place that was reached; a `MetadataSource` (DA-04).

A response holds whole batches, all of them committed. There are no epochs, leaders or snapshots to follow: what was
fetched is applied, and the next fetch asks for what comes after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from squall.nodes.metadata.image import MetadataDelta, MetadataImage
from squall.nodes.ports import Trace
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from squall.nodes.protocol.records import BatchHeader, iterate_batches
from squall.nodes.protocol.requests.session import OutboundRequest, ToActiveController
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import METADATA_TOPIC_ID
from squall.nodes.protocol.value_batches import parse_values

NEVER = 2**63 - 1
WAIT_MS = 500
PAUSE = 100_000
BYTES_MAX = 1 << 20


class PolledMetadata:
    """See the module. The node sends `requests`."""

    def __init__(self, node: int, image: MetadataImage, trace: Trace, timeout: int) -> None:
        """A fetch without a response ends after `timeout`, in microseconds."""
        self.requests: list[OutboundRequest] = []
        self.snapshots_loaded = 0
        self.last_applied_ms = -1
        self.names_all = True
        self.controller_id: int | None = None
        self._node = node
        self._image = image
        self._trace = trace
        self._timeout = timeout
        self._next_offset = 0
        self._due = 0
        self._under_way = False
        self._waiting: deque[tuple[BatchHeader, tuple[bytes, ...]]] = deque()

    # -- the source ------------------------------------------------------------------------------------------------

    @property
    def is_loading(self) -> bool:
        return False

    @property
    def behind(self) -> bool:
        return bool(self._waiting)

    def advance(self, gathered: MetadataDelta | None = None) -> Iterator[MetadataDelta]:
        while self._waiting:
            header, values = self._waiting.popleft()
            delta = MetadataDelta() if gathered is None else gathered
            self._image.replay_values(values, header.base_offset, header.leader_epoch, delta)
            self.last_applied_ms = header.max_timestamp
            self._trace.event("metadata_applied", node=self._node, offset=header.last_offset, epoch=header.leader_epoch)
            yield delta

    # -- fetching --------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        if self._under_way or now < self._due:
            return
        self._under_way = True
        part = FetchPartition(partition=0, fetch_offset=self._next_offset, partition_max_bytes=BYTES_MAX)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._node, replica_epoch=-1),
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=BYTES_MAX,
            topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[part])],
        )
        self.requests.append(OutboundRequest(ToActiveController(), request, self._timeout, self._fetched))

    def _fetched(self, now: int, response: Message | None) -> None:
        self._under_way = False
        if not isinstance(response, FetchResponse) or response.error_code != ErrorCode.NONE:
            self._due = now + PAUSE
            return
        self._due = now
        for header, batch in iterate_batches(response.responses[0].partitions[0].records or b""):
            if header.base_offset >= self._next_offset:
                self._waiting.append((header, parse_values(batch)))
                self._next_offset = header.next_offset

    def deadline(self) -> int:
        return NEVER if self._under_way else self._due

"""The node of a single controller with its decisions in memory: `QuorumController` without a quorum (DA-04).

It serves what a quorum's active controller serves to brokers, and fetches of its log. A fetch that finds nothing new
waits for the next decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from squall.harness.simulation.world.memory.memory_log import MemoryLog
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.config import NodeConfig
from squall.nodes.controller.controller import QuorumController
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.node.base import NEVER, BaseNode
from squall.nodes.node.dispatch import CONTROLLER_VERSIONS
from squall.nodes.node.effects import Effect
from squall.nodes.node.links import Links
from squall.nodes.node.settings import MS, controller_config
from squall.nodes.ports import Disk, Rng, Trace, WallClock
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from squall.nodes.protocol.records import patch
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.topic_partition import METADATA_TOPIC_ID
from squall.nodes.protocol.value_batches import build_value_batch
from squall.nodes.raft.metadata_log import CommittedBatch


@dataclass(frozen=True, slots=True)
class _Parked:
    """A fetch that waits for a decision."""

    request: ServerRequest
    offset: int
    until: int


class MemoryController(BaseNode):
    """See the module."""

    broker = None

    def __init__(
        self,
        config: NodeConfig,
        memory: MemoryLog,
        *,
        disk: Disk,
        clock: WallClock,
        rng: Rng,
        trace: Trace,
        now: int,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
    ) -> None:
        self.config = config
        self.outbox: list[Effect] = []
        self.notices: list[str] = []
        self._memory = memory
        memory.begin(config.node_id, clock, trace)
        self.controller = QuorumController(
            controller_config(config), memory, rng=rng, trace=trace, now=now, mutants=mutants, buggify=buggify
        )
        keys = (ApiKey.API_VERSIONS, ApiKey.FETCH, *self.controller.api_keys)
        self._open_channels(None, {}, {int(key): CONTROLLER_VERSIONS[int(key)] for key in keys})
        self.links = Links(f"node-{config.node_id}", self, rng, self.outbox, trace)
        self._parked: list[_Parked] = []

    # -- addresses (links.Directory) ------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        return self.controller.committed

    def voter_address(self, voter: int) -> tuple[str, int] | None:
        return None  # it sends nothing

    @property
    def is_active_controller(self) -> bool:
        return self.controller.is_active

    def active_controller(self) -> int | None:
        return self.config.node_id

    # -- the turn -------------------------------------------------------------------------------------------------

    def _turn(self, now: int) -> None:
        if self._closed:
            return
        self._clock.turn = now
        self.connections.drained()
        self._hear_peers(now)
        self._run_connection_timers(now)
        self.controller.tick(now)
        while (inbound := self.control.take()) is not None:
            self._serve(now, inbound, self._handle, self.control_times)
        self.connections.relieve(self.control)

    def _handle(self, now: int, request: ServerRequest) -> None:
        if request.api_key == ApiKey.FETCH:
            assert isinstance(request.body, FetchRequest)
            part = request.body.topics[0].partitions[0]
            self._parked.append(_Parked(request, part.fetch_offset, now + request.body.max_wait_ms * MS))
        else:
            self.controller.handle(now, request)

    # -- after the turn -------------------------------------------------------------------------------------------

    def release_early(self) -> list[Effect]:
        return []

    def flush(self, now: int) -> None:
        """Answer what was decided; there is nothing to make durable."""
        if self._closed:
            return
        self.controller.advance(now)
        still: list[_Parked] = []
        for one in self._parked:
            if one.request.closed:
                continue
            if one.offset < self._memory.end_offset or one.until <= now:
                one.request.respond(_response(list(self._memory.committed(one.offset)), self._memory.end_offset))
            else:
                still.append(one)
        self._parked = still

    def deadline(self) -> int:
        if self._closed:
            return NEVER
        if self._peer_events or len(self.control):
            return 0
        parked = min((one.until for one in self._parked), default=NEVER)
        return min(parked, self._connections_due(), self.controller.deadline())

    def begin_shutdown(self, now: int) -> None:
        """A controller has nothing to hand over: no other one could take it."""

    @property
    def may_close(self) -> bool:
        return True

    def close(self, now: int) -> None:
        if not self._closed:
            self.controller.close(now)
            self._closed = True


def _response(batches: Sequence[CommittedBatch], end_offset: int) -> FetchResponse:
    """Return these batches as Kafka's record batches."""
    content = bytearray()
    for one in batches:
        batch = build_value_batch(one.values, one.timestamp_ms)
        patch(batch, one.base_offset, one.epoch)
        content += batch
    data = PartitionData(
        partition_index=0, high_watermark=end_offset, log_start_offset=0, aborted_transactions=None, records=content
    )
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])])

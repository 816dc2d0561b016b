"""A broker of a single controller: the broker of any other cluster, with polled metadata (DA-04)."""

from __future__ import annotations

from functools import partial

from squall.harness.simulation.world.memory.polled_metadata import PolledMetadata
from squall.nodes.broker.broker import Broker
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.config import NodeConfig
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.node.base import NEVER, BaseNode
from squall.nodes.node.dispatch import BROKER_VERSIONS
from squall.nodes.node.effects import Effect
from squall.nodes.node.identity import NodeError, directory_identity
from squall.nodes.node.links import Links
from squall.nodes.node.settings import MS, broker_config
from squall.nodes.ports import Disk, Rng, Trace, WallClock
from squall.nodes.storage.errors import CorruptFile


class MemoryBroker(BaseNode):
    """See the module."""

    broker: Broker

    def __init__(
        self,
        config: NodeConfig,
        *,
        disk: Disk,
        clock: WallClock,
        rng: Rng,
        trace: Trace,
        now: int,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
    ) -> None:
        """Read and recover the files on the disk. Raises NodeError."""
        self.config = config
        self.outbox: list[Effect] = []
        self.notices: list[str] = []
        try:
            self.broker = Broker(
                broker_config(config, directory_identity(config, disk, rng)), partial(self._poll, trace),
                disk=disk, clock=clock, rng=rng, trace=trace, now=now, mutants=mutants, buggify=buggify,
            )  # fmt: skip
        except CorruptFile as error:
            raise NodeError(f"{config.log_dirs}: {error}") from error
        self._open_channels(None, BROKER_VERSIONS, {})
        self.links = Links(f"node-{config.node_id}", self, rng, self.outbox, trace)

    def _poll(self, trace: Trace, image: MetadataImage) -> PolledMetadata:
        timeout = self.config.controller_quorum_request_timeout_ms * MS
        self._metadata = PolledMetadata(self.config.node_id, image, trace, timeout)
        return self._metadata

    # -- addresses (links.Directory) ------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        return self.broker.image

    def voter_address(self, voter: int) -> tuple[str, int] | None:
        (controller,) = self.config.controller_quorum_voters
        return controller.host, controller.port

    @property
    def is_active_controller(self) -> bool:
        return False

    def active_controller(self) -> int | None:
        (controller,) = self.config.controller_quorum_voters
        return controller.id

    # -- the turn -------------------------------------------------------------------------------------------------

    def _turn(self, now: int) -> None:
        if self._closed:
            return
        self._clock.turn = now
        self.connections.drained()
        self._hear_peers(now)
        self._run_connection_timers(now)
        self._metadata.tick(now)
        self.broker.tick(now)
        self._apply_metadata(now)
        self._serve_data(now)
        self._ask_peers(now)

    def _apply_metadata(self, now: int) -> None:
        self.broker.apply_metadata(now)
        self.broker.settle(now)
        self._take_notices(self.broker.notices)

    def _serve_data(self, now: int) -> None:
        if not self.broker.is_serving:
            return
        requests, size = self.config.turn_requests_max, self.config.turn_bytes_max
        while requests > 0 and size > 0 and (inbound := self.data.take()) is not None:
            requests -= 1
            size -= inbound.size
            self._serve(now, inbound, self.broker.handle, self.data_times)
        self.broker.settle(now)
        self.connections.relieve(self.data)

    def _ask_peers(self, now: int) -> None:
        for request in self.broker.take_requests():
            self.links.submit(now, request)
        for request in self._metadata.requests:
            self.links.submit(now, request)
        self._metadata.requests.clear()

    # -- after the turn -------------------------------------------------------------------------------------------

    def release_early(self) -> list[Effect]:
        return []

    def flush(self, now: int) -> None:
        """Do nothing: logs are flushed as their settings demand."""

    def deadline(self) -> int:
        if self._closed:
            return NEVER
        has_data = self.broker.is_serving and (len(self.data) > 0 or self.connections.any_released)
        if self._peer_events or self._metadata.behind or has_data:
            return 0
        return min(self._connections_due(), self._metadata.deadline(), self.broker.deadline())

    def begin_shutdown(self, now: int) -> None:
        if not self._closed:
            self.broker.begin_shutdown(now)

    @property
    def may_close(self) -> bool:
        return self.broker.may_close

    def close(self, now: int) -> None:
        if not self._closed:
            self.broker.close(now)
            self._closed = True

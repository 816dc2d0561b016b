"""A broker: serves client requests from its replicas and sends requests to its peers.

    produce.py, fetch.py, offsets.py     the data plane, on the replicas of `replicas.py`
    metadata_api.py, forwarding.py       what the image holds, and what only the controller can do
    coordinators.py                      refusals for groups and transactions
    log_dirs.py                          where replicas are kept
    producer_ids.py                      ids for idempotent producers
    metadata_source.py                   where metadata comes from
    observer.py                          … from the metadata log, committed records only (MD-03)
    lifecycle.py, isr_sender.py          this broker's requests to the controller

`handle` responds to a request or parks it. `settle` checks the parked requests at the end of the turn, when all that
the turn appended and committed is known. A broker serves no client before it is unfenced for the first time
(`is_serving`); the node leaves client requests in their channel until then (BL-02, BL-03).
"""

from __future__ import annotations

from collections.abc import Callable

from squall.nodes.broker.hosting.config import BrokerConfig
from squall.nodes.broker.hosting.hosted_partition import Deadlines, Parked, TurnChanges
from squall.nodes.broker.hosting.read_replicas import RackAwareReplicaSelector
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.broker.hosting.traffic import Traffic
from squall.nodes.broker.isr_sender import IsrSender
from squall.nodes.broker.lifecycle import Lifecycle
from squall.nodes.broker.metadata_source import MakeSource
from squall.nodes.broker.requests.coordinators import CoordinatorsApi
from squall.nodes.broker.requests.delete_records import DeleteRecordsHandler
from squall.nodes.broker.requests.fetch import FetchHandler
from squall.nodes.broker.requests.forwarding import Forwarding
from squall.nodes.broker.requests.log_dirs import LogDirsApi
from squall.nodes.broker.requests.metadata_api import MetadataApi
from squall.nodes.broker.requests.offsets import OffsetsHandler
from squall.nodes.broker.requests.produce import ProduceHandler
from squall.nodes.broker.requests.producer_ids import ProducerIds
from squall.nodes.broker.requests.topic_partitions_api import TopicPartitionsApi
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.metadata.image import MetadataDelta, MetadataImage
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Disk, Rng, Trace, WallClock
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest

Handle = Callable[[int, ServerRequest], None]
LATE = 50_000
"""How long metadata is not applied where `buggify` delays it."""


class Broker:
    """One broker and its parts; see the module. `notices` are lines for the node's log."""

    def __init__(
        self,
        config: BrokerConfig,
        make_source: MakeSource,
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
        self.image = MetadataImage()
        self.notices: list[str] = []
        self.traffic = Traffic()
        self._progress = TurnChanges()
        self._deadlines = Deadlines()
        self._buggify = buggify
        self._apply_at = 0
        """When metadata is applied again, where `buggify` delays it; else 0."""
        self.replicas = Replicas(
            config, self.image, self._progress, lambda: self.lifecycle.registered_epoch,
            disk=disk, clock=clock, trace=trace, now=now, mutants=mutants, buggify=buggify,
        )  # fmt: skip
        self.lifecycle = Lifecycle(
            config,
            self.image,
            rng=rng,
            trace=trace,
            now=now,
            notify=self.notices.append,
            applied=lambda: self.applied_offset,
            previous_epoch=self.replicas.previous_epoch,
            buggify=buggify,
        )
        self.isr_sender = IsrSender(config, self.replicas, self._progress, broker_epoch=self._epoch, buggify=buggify)
        self.observer = make_source(self.image)
        self._history: MetadataDelta | None = MetadataDelta()
        self._applied_offset = -1
        self._may_have_strays = True
        """Whether logs that no topic-partition has claimed are still to be put aside."""
        self._producer_ids = ProducerIds(config, broker_epoch=self._epoch)
        self._forwarding = Forwarding(config)
        self._metadata = MetadataApi(config, self.image, lambda: self.observer.controller_id)
        self.fetching = FetchHandler(
            config,
            self.replicas,
            self._progress,
            self._deadlines,
            self.traffic,
            rng=rng,
            selector=RackAwareReplicaSelector(config.rack, self.image) if config.rack_aware_reads else None,
            mutants=mutants,
            buggify=buggify,
        )
        self._requests = (
            self.isr_sender.requests,
            self.lifecycle.requests,
            self._producer_ids.requests,
            self._forwarding.requests,
        )
        offsets = OffsetsHandler(self.replicas)
        coordinators = CoordinatorsApi(config, self.image)
        log_dirs = LogDirsApi(config, self.replicas)
        self._handlers: dict[int, Handle] = {
            int(ApiKey.PRODUCE): ProduceHandler(
                self.replicas, self._progress, self._deadlines, self.traffic, mutants
            ).handle,
            int(ApiKey.FETCH): self.fetching.handle,
            int(ApiKey.LIST_OFFSETS): offsets.list_offsets,
            int(ApiKey.OFFSET_FOR_LEADER_EPOCH): offsets.offset_for_leader_epoch,
            int(ApiKey.DELETE_RECORDS): DeleteRecordsHandler(self.replicas, self._progress, self._deadlines).handle,
            int(ApiKey.DESCRIBE_LOG_DIRS): log_dirs.describe,
            int(ApiKey.ALTER_REPLICA_LOG_DIRS): log_dirs.alter,
            int(ApiKey.METADATA): self._handle_metadata,
            int(ApiKey.DESCRIBE_CLUSTER): self._metadata.describe_cluster,
            int(ApiKey.DESCRIBE_CONFIGS): self._metadata.describe_configs,
            int(ApiKey.DESCRIBE_TOPIC_PARTITIONS): TopicPartitionsApi(self.image).describe,
            int(ApiKey.FIND_COORDINATOR): coordinators.find_coordinator,
            int(ApiKey.JOIN_GROUP): coordinators.join_group,
            int(ApiKey.OFFSET_FETCH): coordinators.offset_fetch,
            int(ApiKey.INIT_PRODUCER_ID): self._producer_ids.handle,
            int(ApiKey.CREATE_TOPICS): self._forwarding.handle,
            int(ApiKey.DELETE_TOPICS): self._forwarding.handle,
            int(ApiKey.CREATE_PARTITIONS): self._forwarding.handle,
            int(ApiKey.INCREMENTAL_ALTER_CONFIGS): self._forwarding.handle,
            int(ApiKey.UPDATE_FEATURES): self._forwarding.handle,
            int(ApiKey.ELECT_LEADERS): self._forwarding.handle,
            int(ApiKey.ALTER_PARTITION_REASSIGNMENTS): self._forwarding.handle,
            int(ApiKey.LIST_PARTITION_REASSIGNMENTS): self._forwarding.handle,
            int(ApiKey.UNREGISTER_BROKER): self._forwarding.handle,
            int(ApiKey.DESCRIBE_QUORUM): self._forwarding.handle,
        }

    @property
    def is_serving(self) -> bool:
        """Whether this broker has been unfenced since it started (BL-03)."""
        return self.lifecycle.serves_clients

    @property
    def is_fenced(self) -> bool:
        return self.lifecycle.is_fenced

    def _epoch(self) -> int:
        return self.lifecycle.epoch

    def address_of(self, broker: int, listener: str) -> tuple[str, int] | None:
        """The address at which another broker listens, fenced or not."""
        registration = self.image.brokers.get(broker)
        endpoint = None if registration is None else registration.endpoint(listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    # -- requests -------------------------------------------------------------------------------------------------

    def handle(self, now: int, request: ServerRequest) -> None:
        """Handle one request of a client or a follower. Raises KeyError for an API that brokers do not serve."""
        self._handlers[request.api_key](now, request)

    def _handle_metadata(self, now: int, request: ServerRequest) -> None:
        missing = self._metadata.metadata(now, request)
        if missing and self.config.auto_create_topics:
            self._forwarding.create_missing(missing)

    def settle(self, now: int) -> None:
        """Respond to the parked requests that this turn has completed."""
        if self._progress.any:
            self._progress.settle(now)
        if self._deadlines.any and self._buggify.happens("parked-woken-early"):
            for parked in self._deadlines.all():
                parked.look(now)
        self.replicas.settle()
        if self.replicas.isr_wanted and self._history is None:
            self.isr_sender.tick(now)  # a follower that has just caught up joins with this turn's requests

    # -- metadata and time ----------------------------------------------------------------------------------------

    def apply_metadata(self, now: int) -> None:
        """Follow the source of metadata, a metadata log up to its high watermark.

        Until this broker has read its own registration it only collects changes: earlier decisions are history, and a
        replica that replayed them one by one would act on obsolete leader epochs. Then all of them take effect at once.
        Work that takes more than a turn continues in the next one, before anything further is read.
        """
        replicas = self.replicas
        if replicas.is_busy:
            replicas.go_on(now)
            self._applied(now)
            if replicas.is_busy:
                return
        if not self.observer.behind or now < self._apply_at:
            return
        if self._buggify.happens("metadata-applied-late"):
            self._apply_at = now + LATE
            return
        self._apply_at = 0
        for delta in self.observer.advance(self._history):
            if self._history is None and not delta.empty:
                self.replicas.apply(now, delta)
                for topic in delta.removed_topics.values():
                    self.traffic.forget(topic.name)
                if self.replicas.is_busy:
                    return
            self._applied_offset = self.image.last_offset
        self._begin_if_caught_up(now)
        self._applied(now)

    @property
    def parked(self) -> list[Parked]:
        """The Produce, Fetch and DeleteRecords requests that wait for something."""
        return self._deadlines.all()

    @property
    def applied_offset(self) -> int:
        """The offset up to which this broker has applied the metadata; -1 while it only collects changes."""
        return -1 if self._history is not None else self._applied_offset

    def _begin_if_caught_up(self, now: int) -> None:
        if self._history is not None and self.lifecycle.is_caught_up:
            history, self._history = self._history, None
            self._applied_offset = -1
            self.replicas.apply(now, history)
            self._applied(now)

    def _applied(self, now: int) -> None:
        """Update the applied offset and report it, if everything that was read has been applied."""
        if self.replicas.is_busy:
            return
        self._applied_offset = self.image.last_offset
        if self._may_have_strays and self._history is None and self.observer.names_all:
            self._may_have_strays = False
            self.replicas.retire_strays()
        self.lifecycle.metadata_applied(now)

    def tick(self, now: int) -> None:
        if self._deadlines.nearest <= now:
            for parked in self._deadlines.due(now):
                parked.expire(now)
        if self._history is not None:
            self._begin_if_caught_up(now)
        self.lifecycle.tick(now)
        if self._history is None:
            self.replicas.tick(now)
            self.isr_sender.tick(now)
        self._producer_ids.tick(now)

    def deadline(self) -> int:
        if self.replicas.is_busy or (self.observer.is_loading and not self._apply_at):
            return 0
        nearest = min(self._deadlines.nearest, self.lifecycle.deadline(), self._producer_ids.deadline())
        if 0 < self._apply_at < nearest:
            nearest = self._apply_at
        if self._history is None:
            return min(nearest, self.replicas.deadline(), self.isr_sender.deadline())
        return nearest

    def take_requests(self) -> list[OutboundRequest]:
        """Return all requests to other nodes that were added since the last call."""
        taken = self.replicas.take_requests()
        for requests in self._requests:
            if requests:
                taken += requests
                requests.clear()
        return taken

    @property
    def has_requests(self) -> bool:
        """Whether there is a request to another node that nobody has taken yet."""
        return self.replicas.has_requests or any(self._requests)

    @property
    def is_urgent(self) -> bool:
        """Whether there is a request to the controller that clients' requests must not delay."""
        return bool(self.lifecycle.requests or self.isr_sender.requests)

    def begin_shutdown(self, now: int) -> None:
        """Hand over what this broker leads; `may_close` is true when that is done or given up (CS-01 to CS-04)."""
        self.lifecycle.begin_shutdown(now)

    @property
    def may_close(self) -> bool:
        return self.lifecycle.may_close

    def close(self, now: int) -> None:
        """Stop cleanly: checkpoint, flush and close every log, write the marker."""
        self.replicas.close(self.lifecycle.clean_epoch)

"""One node of a ZooKeeper-era cluster: a broker, which may be the controller as well (ZK-02).

By default it has one plane: requests of controllers come in on the brokers' listener, in one queue with those of
clients (CL-01). With `control.plane.listener.name` (KIP-291) they have a listener, a queue of 20 and a place in the
turn for themselves: a turn serves all of that queue and applies it before it serves the data plane, and never takes
more than `turn.requests.max` data requests (CL-16, CL-17).

Mutant: `control-queue-shared` in `base.py`.

The session with the ensemble is a port of the host, like its disk and its clock. A turn first delivers what the session
has received, so that a change is known before requests that came after it are served.

A broker serves requests as soon as it is registered; clients that come before its controller's first request find no
topic, as with Kafka.
"""

from __future__ import annotations

from functools import partial

from squall.nodes.broker.broker import Broker
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.config import NodeConfig
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.node.base import NEVER, BaseNode
from squall.nodes.node.dispatch import ZOOKEEPER_VERSIONS, zookeeper_peer_version
from squall.nodes.node.effects import Effect
from squall.nodes.node.identity import NodeError, directory_identity
from squall.nodes.node.links import Links
from squall.nodes.node.settings import MS, broker_config, controller_config
from squall.nodes.node.zookeeper_times import ZooKeeperTimes
from squall.nodes.ports import Disk, Rng, Stopwatch, Trace, WallClock
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.storage.errors import CorruptFile
from squall.nodes.zookeeper.brokers.broker_agent import BrokerAgent
from squall.nodes.zookeeper.brokers.requested_metadata import RequestedMetadata
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.controller.controller import ControllerOptions, ZooKeeperController
from squall.nodes.zookeeper.session import Session

PEER = "node-"
"""How the client ids of nodes begin: what they send to the controller is not passed on a second time."""


class ZooKeeperNode(BaseNode):
    """See the module."""

    broker: Broker

    def __init__(
        self,
        config: NodeConfig,
        session: Session,
        *,
        disk: Disk,
        clock: WallClock,
        rng: Rng,
        trace: Trace,
        now: int,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """Read and recover the files on the disk, which may take long. Raises NodeError."""
        self.config = config
        self.outbox: list[Effect] = []
        self.notices: list[str] = []
        self.client = ZooKeeperClient(session, config.zookeeper_max_in_flight_requests)
        try:
            self.broker = Broker(
                broker_config(config, directory_identity(config, disk, rng)), partial(self._observe, trace),
                disk=disk, clock=clock, rng=rng, trace=trace, now=now, mutants=mutants, buggify=buggify,
            )  # fmt: skip
        except CorruptFile as error:
            raise NodeError(f"{config.log_dirs}: {error}") from error
        self.controller = ZooKeeperController(
            controller_config(config),
            ControllerOptions(
                config.inter_broker_listener_name, config.controller_request_listener, config.request_timeout_ms * MS
            ),
            self.client,
            clock=clock,
            rng=rng,
            trace=trace,
            mutants=mutants,
        )
        self.agent = BrokerAgent(
            config.node_id, config.cluster_id, self.client, self.broker.image, self._metadata,
            clock=clock, trace=trace, registered=self.controller.registered, mutants=mutants,
        )  # fmt: skip
        self.times = ZooKeeperTimes(self.client, self.controller)
        self._trace = trace
        self._serves_since = NEVER
        """When this broker began to serve requests; `NEVER` if it does not."""
        self._open_channels(stopwatch, ZOOKEEPER_VERSIONS, ZOOKEEPER_VERSIONS, mutants)
        self.links = Links(f"{PEER}{config.node_id}", self, rng, self.outbox, trace, version_of=zookeeper_peer_version)

    def _observe(self, trace: Trace, image: MetadataImage) -> RequestedMetadata:
        self._metadata = RequestedMetadata(self.config.node_id, image, trace)
        return self._metadata

    # -- addresses (links.Directory) ------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        return self.broker.image

    def broker_address(self, broker: int) -> tuple[str, int] | None:
        """Where another broker listens; the controller knows brokers earlier than its own broker does."""
        listener = self.config.inter_broker_listener_name
        return self.controller.address_of(broker, listener) or super().broker_address(broker)

    def orders_address(self, broker: int) -> tuple[str, int] | None:
        """Where this broker, as the controller, sends its requests: by its own configuration (CL-15)."""
        listener = self.config.controller_request_listener
        return self.controller.address_of(broker, listener) or self.broker.address_of(broker, listener)

    def voter_address(self, voter: int) -> tuple[str, int] | None:
        """Where the controller listens: it is a broker, perhaps this one. Brokers choose the endpoint as it does."""
        listener = self.config.controller_request_listener
        if voter == self.config.node_id:
            return next((one.host, one.port) for one in self.config.advertised_listeners if one.listener == listener)
        return self.broker.address_of(voter, listener)

    @property
    def is_active_controller(self) -> bool:
        return self.controller.is_active

    def active_controller(self) -> int | None:
        return self.controller.active_id

    # -- the turn -------------------------------------------------------------------------------------------------

    def _turn(self, now: int) -> None:
        if self._closed:
            return
        self._clock.turn = now
        self.connections.drained()
        self.client.deliver(now)
        self._hear_peers(now)
        self._run_connection_timers(now)
        self.controller.tick(now)
        self.agent.tick(now)
        self.broker.tick(now)
        requests = 1 if self._serve_control(now) else self.config.turn_requests_max
        self._apply_metadata(now)
        self._serve_data(now, requests)
        self._apply_metadata(now)
        self._ask_peers(now)

    def _apply_metadata(self, now: int) -> None:
        self.broker.apply_metadata(now)
        self.broker.settle(now)
        if not self._metadata.behind and not self.broker.replicas.is_busy:
            self.agent.applied()
        self._take_notices(self.broker.notices)
        self._take_notices(self.controller.notices)

    def _serve_control(self, now: int) -> bool:
        """Serve the control plane's requests; return whether there were any.

        Their responses leave at the end of the turn, so a turn that has some takes one request of clients only.
        """
        if not self._serves:
            self._serves_since = NEVER
            return False
        self._serves_since = min(self._serves_since, now)
        served = len(self.control) > 0
        while (inbound := self.control.take()) is not None:
            self._serve(now, inbound, self._handle, self.control_times)
        self.connections.relieve(self.control)
        return served

    def _serve_data(self, now: int, requests: int) -> None:
        if not self._serves:
            return
        size = self.config.turn_bytes_max
        while requests > 0 and size > 0 and (inbound := self.data.take()) is not None:
            requests -= 1
            size -= inbound.size
            self._serve(now, inbound, self._handle, self.data_times)
        self.broker.settle(now)
        self.connections.relieve(self.data)

    @property
    def _serves(self) -> bool:
        """Whether this broker has been registered since it started: before, no request is meant for it."""
        return self.broker.is_serving or self.agent.registration.epoch >= 0

    def _handle(self, now: int, request: ServerRequest) -> None:
        key = request.api_key
        if key in BrokerAgent.API_KEYS:
            self._trace_taken(now, request)
            self.agent.handle(now, request)
        elif key in ZooKeeperController.API_KEYS and self._decides(request):
            self.controller.handle(now, request)
        else:
            self.broker.handle(now, request)

    def _trace_taken(self, now: int, request: ServerRequest) -> None:
        """Trace a controller's request: on which listener it came, and how long it waited in its queue."""
        listener = request.listener
        self._trace.event(
            "zk_request_taken",
            node=self.config.node_id,
            api=request.api_key,
            listener=listener,
            separate=listener == self.config.control_plane_listener_name,
            waited=now - max(request.received_at, self._serves_since),
        )

    def _decides(self, request: ServerRequest) -> bool:
        """Whether a request for the controller is decided, or refused, here; those of clients are passed on.

        Whoever asks for a controlled shutdown asks the controller itself: no broker passes that on.
        """
        if self.controller.is_active or request.api_key == ApiKey.CONTROLLED_SHUTDOWN:
            return True
        return (request.client_id or "").startswith(PEER)

    def _ask_peers(self, now: int) -> None:
        """Submit the components' outbound requests to the ensemble or to the links."""
        for request in self.broker.take_requests():
            if not self.agent.submit(now, request):
                self.links.submit(now, request)
        self.controller.tick(now)
        for requests in (self.agent.requests, self.controller.requests):
            for request in requests:
                self.links.submit(now, request)
            requests.clear()

    # -- after the turn -------------------------------------------------------------------------------------------

    def release_early(self) -> list[Effect]:
        return []

    def flush(self, now: int) -> None:
        """Do nothing: logs are flushed as their settings demand."""

    def deadline(self) -> int:
        if self._closed:
            return NEVER
        if self._peer_events or self._metadata.behind or (self._serves and self._has_data()):
            return 0
        return min(
            self._connections_due(),
            self.client.deadline(),
            self.controller.deadline(),
            self.agent.deadline(),
            self.broker.deadline(),
        )

    def _has_data(self) -> bool:
        return len(self.data) > 0 or len(self.control) > 0 or self.connections.any_released

    def begin_shutdown(self, now: int) -> None:
        if not self._closed:
            self.broker.begin_shutdown(now)

    @property
    def may_close(self) -> bool:
        return self.broker.may_close

    def close(self, now: int) -> None:
        if self._closed:
            return
        self.controller.close(now)
        self.broker.close(now)
        self.client.session.close(now)
        self._closed = True

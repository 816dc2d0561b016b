"""What every node is made of, whatever controls it: channels, connections, links, a broker, and the order of a turn.

`Node` (node.py) adds a quorum replica and perhaps a controller, `ZooKeeperNode` (zookeeper_node.py) a session with an
ensemble and a controller that ZooKeeper elects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from squall.nodes.broker.broker import Broker
from squall.nodes.broker.lifecycle import RegistrationRefused
from squall.nodes.config import CONTROLLER_FIRST, NodeConfig
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.node.announced_features import announce
from squall.nodes.node.channels import Connections, Inbound, RequestChannel
from squall.nodes.node.controller_first import ControllerFirstChannel
from squall.nodes.node.effects import Buffer, Effect
from squall.nodes.node.identity import NodeError
from squall.nodes.node.links import Links
from squall.nodes.node.memory_budget import MemoryBudget
from squall.nodes.node.notice_limit import NoticeLimit
from squall.nodes.node.timings import PlaneTimes, TurnClock
from squall.nodes.ports import Stopwatch
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import ServerRequest, Versions, api_versions_response

NEVER = 2**63 - 1
CONTROL_PLANE_CAPACITY = 20
"""Requests in the queue of KIP-291's listener; not configurable, as in Kafka (CL-16).

A controller has one request in flight, and two controllers may overlap (CL-20).
"""
Handle = Callable[[int, ServerRequest], None]
_API_VERSIONS = int(ApiKey.API_VERSIONS)


class BaseNode(ABC):
    """See the module. `notices` are lines for the node's log; a host that has one drains them."""

    config: NodeConfig
    outbox: list[Effect]
    notices: list[str]
    broker: Broker | None
    links: Links

    def _open_channels(
        self,
        stopwatch: Stopwatch | None,
        broker_versions: Versions,
        controller_versions: Versions,
        mutants: Mutants = HEALTHY,
    ) -> None:
        """Make the channels and the connections that feed them. The broker exists already.

        Mutant: `control-queue-shared`.
        """
        config = self.config
        most = config.queued_max_request_bytes
        capacity = CONTROL_PLANE_CAPACITY if config.uses_zookeeper else config.queued_max_requests
        shared = ControllerFirstChannel if config.request_queue_order == CONTROLLER_FIRST else RequestChannel
        self.control = RequestChannel("control", capacity, most, MemoryBudget(most))
        self.data = shared("data", config.queued_max_requests, most, MemoryBudget(most))
        self._channels = (self.control, self.data)
        fed = self.data if mutants.has("control-queue-shared") else self.control
        self.connections = Connections(
            {one.listener: fed for one in config.control_listeners}
            | {one.listener: self.data for one in config.data_listeners},
            {one.listener: controller_versions for one in config.control_listeners}
            | {one.listener: broker_versions for one in config.data_listeners},
            self.outbox,
            config.connections_max_idle_ms * 1000,
            fetched_early=self.control,
        )
        self.control_times = PlaneTimes("control")
        self.data_times = PlaneTimes("data")
        self._clock = TurnClock(stopwatch)
        self.connections.on_late_answer = self._answered_late
        self._peer_events: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        if self.broker is not None:
            self.broker.fetching.room = lambda: self.data.budget.room
        self._bad_frames = NoticeLimit()
        self._closed = False

    @property
    @abstractmethod
    def image(self) -> MetadataImage:
        """The cluster as this node has applied it."""

    @property
    @abstractmethod
    def is_active_controller(self) -> bool:
        """Whether this node is the active controller, as far as it knows, and ready to decide."""

    @abstractmethod
    def active_controller(self) -> int | None:
        """The id of the active controller, None if unknown."""

    def broker_address(self, broker: int) -> tuple[str, int] | None:
        if self.broker is None:
            return None
        return self.broker.address_of(broker, self.config.inter_broker_listener_name)

    def orders_address(self, broker: int) -> tuple[str, int] | None:
        """Where a broker takes the requests of a ZooKeeper-era controller."""
        return self.broker_address(broker)

    # -- inputs: only queued --------------------------------------------------------------------------------------

    def opened(self, now: int, connection: int, listener: str | None) -> None:
        if listener is None:
            self._peer_events.append((self.links.opened, (connection,)))
        else:
            self.connections.opened(now, connection, listener)

    def received(self, now: int, connection: int, frame: Buffer) -> None:
        if connection < 0:
            self._peer_events.append((self.links.received, (connection, frame)))
        else:
            self.connections.received(now, connection, frame)

    def closed(self, now: int, connection: int) -> None:
        if connection < 0:
            self._peer_events.append((self.links.closed, (connection,)))
        else:
            self.connections.closed(connection)

    def stalled(self, now: int, connection: int, stalled: bool) -> None:
        """Record that the peer of an accepted connection stopped, or resumed, reading responses.

        A host that cannot detect this need not call it.
        """
        self.connections.stalled(connection, stalled)

    def host_holds(self, now: int, connection: int, size: int) -> None:
        """Record how many bytes the host holds for an accepted connection: an incomplete frame, and unread responses.

        A host that holds none need not call it.
        """
        self.connections.host_holds(connection, size)

    def is_short(self, listener: str) -> bool:
        """Whether the memory for this listener's connections is used up: hosts then read as little as they can."""
        return self.connections.is_short(listener)

    def tick(self, now: int) -> None:  # noqa: B027 - hosts call it, no node needs it
        """Do nothing: every turn checks the timers."""

    # -- the turn -------------------------------------------------------------------------------------------------

    def turn(self, now: int) -> None:
        try:
            self._turn(now)
        except RegistrationRefused as refusal:
            raise NodeError(str(refusal)) from refusal

    @abstractmethod
    def _turn(self, now: int) -> None:
        """Process everything that was queued."""

    def _hear_peers(self, now: int) -> None:
        if self._peer_events:
            events, self._peer_events = self._peer_events, []
            for method, arguments in events:
                method(now, *arguments)

    def _run_connection_timers(self, now: int) -> None:
        connections = self.connections
        if connections.idle_due <= now:
            connections.expire(now)
        for channel in self._channels:
            if channel.is_strained:
                connections.make_room(now, channel)
                connections.relieve(channel)
        if connections.notices:
            self.notices += [f"node {self.config.node_id}: {line}" for line in connections.notices]
            connections.notices.clear()
        self.links.tick(now)

    def _take_notices(self, notices: list[str]) -> None:
        if notices:
            self.notices += notices
            notices.clear()

    def _serve(self, now: int, inbound: Inbound, handle: Handle, times: PlaneTimes) -> None:
        began = self._clock.read()
        try:
            request = self.connections.decode(now, inbound)
            if request.answer is None:
                if request.api_key == _API_VERSIONS:
                    versions = api_versions_response(inbound.connection.session.versions)
                    request.respond(announce(versions, request.api_version, self.image))
                else:
                    handle(now, request)
        except ProtocolError as error:
            listener = inbound.connection.listener
            notice = self._bad_frames.pass_on(
                now, f"node {self.config.node_id}: closing a connection on {listener}: {error}"
            )
            if notice is not None:
                self.notices.append(notice)
            self.connections.drop(inbound.connection)
            return
        if not inbound.answered:
            self.connections.handled(inbound)
        times.served(inbound, began, self._clock.read())

    def _answered_late(self, inbound: Inbound) -> None:
        times = self.control_times if inbound.connection.channel is self.control else self.data_times
        times.answered(inbound, self._clock.read())

    # -- after the turn -------------------------------------------------------------------------------------------

    @abstractmethod
    def release_early(self) -> list[Effect]:
        """Take out of the outbox, between `turn` and `flush`, what need not wait for the disk. Hosts may call it."""

    @abstractmethod
    def flush(self, now: int) -> None:
        """Make durable what this turn decided; apply and answer what that commits."""

    @abstractmethod
    def deadline(self) -> int:
        """When the host must call again without an input; in the past if work was left."""

    def _connections_due(self) -> int:
        """When links, connections or strained channels have something to do."""
        nearest = min(self.links.deadline(), self.connections.idle_due)
        for channel in self._channels:
            if channel.is_strained:
                if channel.relieved():  # what was answered since the last look has made room (`worlds` seed 355)
                    return 0
                if not channel.budget.has_room and self.connections.frees_memory(channel):
                    return 0
                nearest = min(nearest, channel.budget.due())
        return nearest

    @abstractmethod
    def begin_shutdown(self, now: int) -> None:
        """Prepare to be closed."""

    @property
    @abstractmethod
    def may_close(self) -> bool:
        """Whether the begun shutdown is prepared, or its time is over. The host may call `close` earlier."""

    @abstractmethod
    def close(self, now: int) -> None:
        """Stop cleanly: close every log. The host may still send the outbox afterwards."""

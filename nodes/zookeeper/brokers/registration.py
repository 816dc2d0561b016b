"""Register this broker in the ensemble and keep it registered (KIP-380, ZK-11).

The broker's own lifecycle does not know which kind of controller there is: it sends BrokerRegistration and
BrokerHeartbeat. Here they are answered from the session. A registration creates the ephemeral `/brokers/ids/ID`, whose
czxid is the broker epoch; a heartbeat is answered without fencing as long as that session lasts, and with
STALE_BROKER_EPOCH after it, so that the lifecycle registers again. A heartbeat that wants to stop becomes a
ControlledShutdown for the controller (ZK-08).

The znode of a former incarnation lives until its session expires. Until then the answer is
DUPLICATE_BROKER_REGISTRATION, and the lifecycle tries again.
"""

from __future__ import annotations

from collections.abc import Callable

from squall.nodes.metadata.image import Endpoint
from squall.nodes.ports import WallClock
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from squall.nodes.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from squall.nodes.protocol.requests.session import OutboundRequest, ToActiveController
from squall.nodes.protocol.schema import Message
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.session import Code, Create, Exists, SessionResponse
from squall.nodes.zookeeper.znodes import (
    CLUSTER_ID,
    PERSISTENT,
    BrokerZnode,
    broker_path,
    encode_broker,
    encode_cluster_id,
)

NONE = -1


class Registration:
    """See the module. The node drains `requests`; `registered(now, epoch)` is called after each registration."""

    def __init__(
        self,
        node: int,
        cluster_id: str,
        client: ZooKeeperClient,
        clock: WallClock,
        registered: Callable[[int, int], None],
    ) -> None:
        self.requests: list[OutboundRequest] = []
        self.epoch = NONE
        """The broker epoch of the present session; -1 before the first registration and after expiry."""
        self._node = node
        self._cluster_id = cluster_id
        self._client = client
        self._clock = clock
        self._registered = registered

    def expired(self) -> None:
        """The session has expired, and the broker's znode with it."""
        self.epoch = NONE

    # -- registration ---------------------------------------------------------------------------------------------

    def register(self, now: int, request: OutboundRequest) -> None:
        """Create the broker's znode, and the persistent ones above it; answer with the broker epoch."""
        body = request.message
        assert isinstance(body, BrokerRegistrationRequest)
        endpoints = tuple(Endpoint(one.name, one.host, one.port) for one in body.listeners)
        data = encode_broker(BrokerZnode(self._node, endpoints, body.rack), self._clock.now_ms())
        path = broker_path(self._node)

        def prepared(now: int, responses: list[SessionResponse]) -> None:
            self._client.submit(now, [Create(path, data, ephemeral=True)], created)

        def created(now: int, responses: list[SessionResponse]) -> None:
            self._client.submit(now, [Exists(path)], found)

        def found(now: int, responses: list[SessionResponse]) -> None:
            request.complete(now, self._outcome(now, responses[0]))

        above = [Create(one) for one in PERSISTENT]
        self._client.submit(now, [*above, Create(CLUSTER_ID, encode_cluster_id(self._cluster_id))], prepared)

    def _outcome(self, now: int, found: SessionResponse) -> Message | None:
        """The answer, from what is in the ensemble now: the creation's own answer may have been lost."""
        if found.code is not Code.OK or found.stat is None:
            return None
        if found.stat.ephemeral_owner != self._client.session.id:
            return BrokerRegistrationResponse(error_code=int(ErrorCode.DUPLICATE_BROKER_REGISTRATION))
        self.epoch = found.stat.czxid
        self._registered(now, self.epoch)
        return BrokerRegistrationResponse(broker_epoch=self.epoch)

    # -- heartbeats -----------------------------------------------------------------------------------------------

    def heartbeat(self, now: int, request: OutboundRequest) -> None:
        """Answer whether the registration still holds; pass the wish to stop on to the controller."""
        body = request.message
        assert isinstance(body, BrokerHeartbeatRequest)
        if body.broker_epoch != self.epoch:
            request.complete(now, BrokerHeartbeatResponse(error_code=int(ErrorCode.STALE_BROKER_EPOCH)))
        elif not body.want_shut_down:
            request.complete(now, BrokerHeartbeatResponse(is_caught_up=True, is_fenced=body.want_fence))
        else:
            message = ControlledShutdownRequest(self._node, self.epoch)
            self.requests.append(OutboundRequest(ToActiveController(), message, request.timeout, _shut_down(request)))


def _shut_down(request: OutboundRequest) -> Callable[[int, Message | None], None]:
    def complete(now: int, response: Message | None) -> None:
        if not isinstance(response, ControlledShutdownResponse):
            request.complete(now, None)
            return
        done = response.error_code == ErrorCode.NONE and not response.remaining_partitions
        request.complete(now, BrokerHeartbeatResponse(is_caught_up=True, should_shut_down=done))

    return complete

"""Register a broker with the controller, send heartbeats, track its state (BL-01 … BL-07, FD-01).

    OFFLINE                        logs are being loaded; the node sends nothing yet           (BL-01)
    FENCED                         registered or about to be; serves no client                 (BL-02)
    RUNNING                        unfenced once: serves clients                               (BL-03)
    PENDING_CONTROLLED_SHUTDOWN    asked to stop: serves, and waits for the controller's grant (BL-04)
    SHUTTING_DOWN                  may be closed                                               (BL-04)

OFFLINE ends when the constructor returns. A broker registers with a new incarnation id, and heartbeats with
`want_fence` until it has applied its own registration record, whose offset is its broker epoch. A heartbeat response
without fencing makes it RUNNING. A running broker that is fenced later, because its heartbeats did not arrive, keeps
its ports open: metadata takes away its leaderships, and its clients notice by the leader epochs (disagreement X12).

A registration carries the broker epoch under which the previous incarnation stopped cleanly, -1 if it did not: without
that proof the controller removes this broker from every ISR and ELR (FD-03, EL-05).

STALE_BROKER_EPOCH or BROKER_ID_NOT_REGISTERED in a response means that the registration no longer exists; the broker
registers again under the same incarnation id. DUPLICATE_BROKER_REGISTRATION means that another incarnation's session is
alive: this one retries until that session ends or the registration times out (BL-05).

A controlled shutdown (CS-01 to CS-06, KIP-631) is requested in every heartbeat from `begin_shutdown` until a response
grants it: then this broker leads nothing, is in no ISR that has other members, and every active broker knows. It serves
until then, so that clients find a new leader before the old one stops. Meanwhile heartbeats follow each other quickly.
The shutdown ends without a grant when `controlled.shutdown.timeout.ms` has passed, because no controller was reachable
or some broker is too far behind. It ends at once where there is nothing to hand over, because the broker never ran or
its registration no longer exists.

A broker that is told to stop and does not know whether it is registered finds out first, for a second at most: it
waits for the response, and asks again if there is none. The marker of its clean stop would else name the epoch before,
which the controller, if it has registered the broker, takes for an unclean stop: with eligible leader replicas a
harmless restart would cost the broker its eligibility.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from squall.nodes.broker.hosting.config import NEVER, NO_EPOCH, BrokerConfig
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.ports import Rng, Trace
from squall.nodes.protocol.errors import ErrorCode, error_name
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from squall.nodes.protocol.requests.session import OutboundRequest, ToActiveController
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import random_id

IMPATIENT_INTERVAL = 100_000
"""Between heartbeats while fenced and ready: the start must not wait two seconds for the next regular one."""
REGISTRATION_PAUSE = 250_000
OUTCOME_PATIENCE = 1_000_000
"""How long a stop waits for the outcome of a registration."""
_OUTCOMES = (ErrorCode.NONE, ErrorCode.DUPLICATE_BROKER_REGISTRATION)
"""What a response says definitely: this incarnation is registered, or another one is."""
_REGISTER_AGAIN = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)
_FATAL = (
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.INVALID_REGISTRATION,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_REQUEST,
)


class BrokerState(Enum):
    OFFLINE = "offline"
    FENCED = "fenced"
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    SHUTTING_DOWN = "shutting down"


_RUNNING, _PENDING = BrokerState.RUNNING, BrokerState.PENDING_CONTROLLED_SHUTDOWN
_SHUTTING_DOWN = BrokerState.SHUTTING_DOWN
"""Looked up once: every turn asks for the state several times, and Python 3.11 finds members of an enum slowly."""


class RegistrationRefused(Exception):
    """The controller will never register this broker as it is configured."""


class Lifecycle:
    """The state of this broker towards the controller; see the module. The broker drains `requests`."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        *,
        rng: Rng,
        trace: Trace,
        now: int,
        notify: Callable[[str], None],
        applied: Callable[[], int],
        previous_epoch: int = NO_EPOCH,
        buggify: Buggify = OFF,
    ) -> None:
        self.state = BrokerState.FENCED
        self.epoch = NO_EPOCH
        self.registered_epoch = NO_EPOCH
        """The last epoch that the controller has given to this incarnation, whether or not it still holds."""
        self.is_fenced = True
        self.incarnation_id = random_id(rng)
        self.requests: list[OutboundRequest] = []
        self._config = config
        self._image = image
        self._trace = trace
        self._buggify = buggify
        self._notify = notify
        self._applied = applied
        self._previous_epoch = previous_epoch
        self._under_way = False
        self._due = now
        self._give_up_at = now + config.registration_timeout
        self._shut_down_at = NEVER
        self._may_be_registered = False
        """A registration was sent whose outcome is not known."""
        self._waits_for_outcome = False
        """Told to stop at such a time."""

    @property
    def serves_clients(self) -> bool:
        return self.state in (_RUNNING, _PENDING)

    @property
    def is_pending_shutdown(self) -> bool:
        return self.state is _PENDING

    @property
    def may_close(self) -> bool:
        """Whether a shutdown has begun and this broker may be closed."""
        return self.state is _SHUTTING_DOWN

    @property
    def is_caught_up(self) -> bool:
        """Whether this broker has read its own registration."""
        registration = self._image.brokers.get(self._config.node_id)
        return self.epoch != NO_EPOCH and registration is not None and registration.epoch == self.epoch

    @property
    def is_ready(self) -> bool:
        """Whether this broker has also applied its own registration and everything before it."""
        return self.is_caught_up and self._applied() >= self.epoch

    @property
    def clean_epoch(self) -> int:
        """The broker epoch that a clean stop proves.

        An incarnation that stops before it is registered has not changed the logs, so the previous incarnation's proof
        still holds.
        """
        return self._previous_epoch if self.registered_epoch == NO_EPOCH else self.registered_epoch

    def tick(self, now: int) -> None:
        if now >= self._shut_down_at and self.is_pending_shutdown:
            self._shut_down("its time is over without the controller's leave")
        elif now >= self._shut_down_at and self._waits_for_outcome:
            self._shut_down("it leads nothing, and does not know whether it is registered")
        if self._under_way or now < self._due or self.may_close:
            return
        if self.epoch == NO_EPOCH:
            self._register(now)
        else:
            self._heartbeat(now)

    def deadline(self) -> int:
        if self.may_close:
            return NEVER
        return self._shut_down_at if self._under_way else min(self._due, self._shut_down_at)

    def metadata_applied(self, now: int) -> None:
        """Metadata was applied: a fenced broker may have become ready."""
        if self.is_fenced and self.is_ready:
            self._due = min(self._due, now)

    # -- shutdown -------------------------------------------------------------------------------------------------

    def begin_shutdown(self, now: int) -> None:
        """Request a controlled shutdown from the controller, from the next heartbeat on. Idempotent."""
        if self.is_pending_shutdown or self.may_close or self._waits_for_outcome:
            return
        if self.epoch == NO_EPOCH and self._may_be_registered:
            self._waits_for_outcome = True
            self._due = now
            self._shut_down_at = now + OUTCOME_PATIENCE
        elif self.state is not _RUNNING or self.epoch == NO_EPOCH:
            self._shut_down("it leads nothing")
        elif not self._config.controlled_shutdown:
            self._shut_down("without a controlled shutdown, as configured")
        else:
            self.state = _PENDING
            self._shut_down_at = now + self._config.controlled_shutdown_timeout
            self._due = now
            self._trace.event("broker_stopping", broker=self._config.node_id, epoch=self.epoch)
            self._notify(f"broker {self._config.node_id} wants to stop and hands its leaderships over")

    def _shut_down(self, why: str, *, granted: bool = False) -> None:
        self.state = _SHUTTING_DOWN
        self._shut_down_at = NEVER
        self._trace.event("broker_shuts_down", broker=self._config.node_id, epoch=self.epoch, granted=granted)
        self._notify(f"broker {self._config.node_id} shuts down: {why}")

    # -- registration ---------------------------------------------------------------------------------------------

    def _register(self, now: int) -> None:
        config = self._config
        request = BrokerRegistrationRequest(
            broker_id=config.node_id,
            cluster_id=config.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[Listener(one.listener, one.host, one.port, 0) for one in config.endpoints],
            rack=config.rack,
            log_dirs=[config.directory_id],
            previous_broker_epoch=self._previous_epoch,
        )
        self._may_be_registered = True
        self._send(request, config.session_timeout, self._registered)

    def _registered(self, now: int, response: Message | None) -> None:
        self._under_way = False
        self._due = now + (IMPATIENT_INTERVAL if self._waits_for_outcome else REGISTRATION_PAUSE)
        if not isinstance(response, BrokerRegistrationResponse):
            return
        self._may_be_registered = response.error_code not in _OUTCOMES
        self._heed(now, response)
        if self._waits_for_outcome and not self._may_be_registered and not self.may_close:
            self._shut_down("it leads nothing")

    def _heed(self, now: int, response: BrokerRegistrationResponse) -> None:
        """Take what the controller says of the registration. Raises RegistrationRefused."""
        error = response.error_code
        if error == ErrorCode.NONE:
            self.epoch = self.registered_epoch = response.broker_epoch
            self._due = now if self.is_ready else now + self._config.heartbeat_interval
            self._trace.event("broker_registered", broker=self._config.node_id, epoch=self.epoch)
            return
        if error in _FATAL or (error == ErrorCode.DUPLICATE_BROKER_REGISTRATION and now >= self._give_up_at):
            raise RegistrationRefused(
                f"node.id={self._config.node_id}: the controller refuses to register this broker: {error_name(error)}; "
                "check node.id, cluster.id and that no other broker of this id runs"
            )
        if error == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._trace.event("broker_duplicate", broker=self._config.node_id)

    # -- heartbeats -----------------------------------------------------------------------------------------------

    def _heartbeat(self, now: int) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._applied(),
            want_fence=not self.is_ready,
            want_shut_down=self.is_pending_shutdown,
        )
        self._send(request, self._config.session_timeout // 2, self._heard)

    def _heard(self, now: int, response: Message | None) -> None:
        self._under_way = False
        impatient = now + min(IMPATIENT_INTERVAL, self._config.heartbeat_interval)
        if not isinstance(response, BrokerHeartbeatResponse):
            self._due = impatient
            return
        if self.is_pending_shutdown and self._hear_of_shutdown(response):
            return
        if response.error_code in _REGISTER_AGAIN:
            self.epoch = NO_EPOCH
            self.is_fenced = True
            self._give_up_at = now + self._config.registration_timeout
            self._due = now
            return
        if response.error_code == ErrorCode.NONE:
            self._learn_fencing(response.is_fenced)
        ready = self.is_fenced and self.is_ready
        self._due = impatient if ready or self.is_pending_shutdown else now + self._pause()

    def _pause(self) -> int:
        interval = self._config.heartbeat_interval
        return 2 * interval if self._buggify.happens("heartbeat-late") else interval

    def _hear_of_shutdown(self, response: BrokerHeartbeatResponse) -> bool:
        """Whether this response ends the request to stop."""
        if response.error_code == ErrorCode.NONE and response.should_shut_down:
            self.is_fenced = True
            self._shut_down("it leads nothing any more, and every active broker knows", granted=True)
        elif response.error_code in _REGISTER_AGAIN:
            self._shut_down("its registration is gone")
        return self.may_close

    def _learn_fencing(self, fenced: bool) -> None:
        if fenced == self.is_fenced:
            return
        self.is_fenced = fenced
        node = self._config.node_id
        self._trace.event("broker_fenced" if fenced else "broker_unfenced", broker=node, epoch=self.epoch)
        if fenced:
            self._notify(f"broker {node} is fenced: the controller received no heartbeat in time")
        elif self.state is BrokerState.FENCED:
            self.state = _RUNNING
            self._notify(f"broker {node} is ready: unfenced with broker epoch {self.epoch}")
        else:
            self._notify(f"broker {node} is unfenced again")

    def _send(self, message: Message, timeout: int, complete: Callable[[int, Message | None], None]) -> None:
        self._under_way = True
        self.requests.append(OutboundRequest(ToActiveController(), message, timeout, complete))

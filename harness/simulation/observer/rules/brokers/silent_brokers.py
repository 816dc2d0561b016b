"""FD-01: the active controller fences brokers that have been silent for long, and only those.

A dead broker that nobody fences leads on in the metadata: its topic-partitions have no leader, and whoever asks is sent
to it. A living one that is fenced loses its leaderships without a cause. Asserted after turns of an active controller:

* none of its unfenced brokers has been silent for more than the session timeout and half a second;
* a broker that it has fenced in this turn was silent for the session timeout at least. Only heartbeats that it has
  answered count: others may never have been served, as their connections have ended (seeds 950023 and 977432 of
  worlds);
* it keeps a session of each unfenced broker, and of no broker that is not registered: that one could not register again
  before the session is over.

A broker is silent while neither a heartbeat nor a registration of it arrives at this controller; silence begins anew
when a controller becomes active. Legal: a broker that lost the response to its registration and registers again, which
prolongs its session (seed 941269 of worlds); what has arrived and waits for an answer, behind other requests, counts as
heard until it has one; a controller that was paused, which fences in its first turn after. A broker that last asked to
be fenced, or registered, may be fenced later (seed 431 of worlds), and one that stops at any time. A controller that
has not written a large decision whole makes no other: that one may be to fence this broker (seed 1021272 of worlds).

Source: requirements FD-01, FD-04. All is read off the frames that arrive, whatever the controller makes of them. Of
heartbeats with another broker epoch than the registered one none proves that the broker lives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeGuard

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum, requests_of, wire_keys
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.metadata.image import BrokerRegistration, MetadataImage
from squall.nodes.node.base import BaseNode
from squall.nodes.node.channels import Inbound
from squall.nodes.node.node import Node
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest
from squall.nodes.protocol.records import Buffer
from squall.nodes.protocol.requests.headers import decode_request
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message

GRACE: Final = MICROSECONDS // 2
LOOK_EVERY: Final = MICROSECONDS // 4
SIGNS_OF_LIFE: Final = wire_keys(ApiKey.BROKER_HEARTBEAT, ApiKey.BROKER_REGISTRATION)


@dataclass(slots=True)
class _Leadership:
    """What one active controller has heard, since when, and when it is looked at next. Times in microseconds."""

    identity: tuple[int, int]
    """The process's incarnation and the quorum's epoch."""
    since: int
    look_at: int = 0
    heard: dict[int, int] = field(default_factory=dict)
    """By broker, its last sign of life."""
    served: dict[int, int] = field(default_factory=dict)
    """By broker, when the last heartbeat arrived of those that were accepted in earlier turns."""
    accepted: list[tuple[int, int]] = field(default_factory=list)
    """Broker and arrival of each heartbeat that was accepted in this turn."""
    may_be_fenced: set[int] = field(default_factory=set)
    """Brokers whose last message was a registration or asked to be fenced. The controller may fence them later."""
    unfenced: dict[int, int] = field(default_factory=dict)
    """The brokers that were not fenced after the last turn, and do not stop, with their epochs."""

    def hear(self, broker: int | None, now: int) -> None:
        if broker is not None:
            self.heard[broker] = now

    def note_request(self, message: Message, image: MetadataImage) -> None:
        """Note whether a broker asks to be fenced, registers, or does neither any more."""
        if _is_heartbeat_of_registered(message, image) and not message.want_fence and not message.want_shut_down:
            self.may_be_fenced.discard(message.broker_id)
        elif _is_heartbeat_of_registered(message, image) or isinstance(message, BrokerRegistrationRequest):
            self.may_be_fenced.add(message.broker_id)

    def note_accepted(self) -> None:
        """Count the heartbeats of this turn from now on."""
        for broker, arrived in self.accepted:
            self.served[broker] = max(arrived, self.served.get(broker, 0))
        self.accepted.clear()


def _is_heartbeat_of_registered(message: Message, image: MetadataImage) -> TypeGuard[BrokerHeartbeatRequest]:
    """Whether this is a heartbeat of the incarnation that is registered."""
    if not isinstance(message, BrokerHeartbeatRequest):
        return False
    registered = image.brokers.get(message.broker_id)
    return registered is not None and message.broker_epoch == registered.epoch


class SilentBrokers(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._leaderships: dict[str, _Leadership] = {}

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        kept, answer = self._leaderships.get(process.name), request.answer
        if kept is None or answer is None or not isinstance(answer.response, BrokerHeartbeatResponse):
            return
        if isinstance(request.body, BrokerHeartbeatRequest) and not answer.response.error_code:
            kept.accepted.append((request.body.broker_id, request.received_at))

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        with_quorum = node_of_quorum(node)
        if with_quorum is None or with_quorum.controller is None or (image := with_quorum.controller.image) is None:
            return
        now, identity = process.now, (process.incarnation, with_quorum.raft.epoch)
        kept = self._leaderships.get(process.name)
        if kept is None or kept.identity != identity:
            kept = self._leaderships[process.name] = _Leadership(identity, now)
        messages = list(requests_of(process, SIGNS_OF_LIFE))
        for message in messages:
            kept.hear(_sender_of(message), now)
            kept.note_request(message, image)
        self._check_fenced(process, with_quorum, kept, image)  # timers are looked at before requests are served
        kept.note_accepted()
        if now < kept.look_at or with_quorum.controller.has_unfinished:
            return
        kept.look_at = now + LOOK_EVERY
        _check_sessions(process, set(with_quorum.controller.sessions.brokers), image)
        for inbound in with_quorum.connections.unanswered():
            kept.hear(_waiting_sender(inbound), now)
        most = with_quorum.config.broker_session_timeout_ms * 1_000 + GRACE
        for broker in image.brokers.values():
            silent = now - kept.heard.get(broker.id, kept.since)
            if silent > most and not broker.fenced:
                raise InvariantBroken(
                    "FD-01",
                    f"controller {process.name} has heard nothing of broker {broker.id} for "
                    f"{silent / MICROSECONDS:.3f} s, and has not fenced it; the session timeout is "
                    f"{with_quorum.config.broker_session_timeout_ms} ms",
                )

    def _check_fenced(self, process: SimProcess, node: Node, kept: _Leadership, image: MetadataImage) -> None:
        """Check whom the controller has fenced in this turn, and note whom it could fence in the next."""
        now, least = process.now, node.config.broker_session_timeout_ms * 1_000
        fenced = [one for one, epoch in kept.unfenced.items() if _is_fenced(image.brokers.get(one), epoch)]
        waiting = {_waiting_sender(inbound) for inbound in node.connections.unanswered()} if fenced else set()
        for broker in fenced:
            silent = now - kept.served.get(broker, kept.since)
            if broker not in kept.may_be_fenced and broker not in waiting and silent < least:
                raise InvariantBroken(
                    "FD-01",
                    f"controller {process.name} has fenced broker {broker}, which it heard "
                    f"{silent / MICROSECONDS:.3f} s ago; the session timeout is {least // 1_000} ms",
                )
        kept.unfenced = {
            one.id: one.epoch for one in image.brokers.values() if not one.fenced and not one.in_controlled_shutdown
        }


def _check_sessions(process: SimProcess, kept: set[int], image: MetadataImage) -> None:
    missing = sorted({one.id for one in image.brokers.values() if not one.fenced} - kept)
    if missing:
        raise InvariantBroken("FD-01", f"controller {process.name} keeps no session of the unfenced brokers {missing}")
    strangers = sorted(kept - image.brokers.keys())
    if strangers:
        raise InvariantBroken(
            "FD-01", f"controller {process.name} keeps sessions of the brokers {strangers}, which are not registered"
        )


def _is_fenced(broker: BrokerRegistration | None, epoch: int) -> bool:
    """Whether the registration with this epoch is fenced by now, and not because it stops."""
    return broker is not None and broker.fenced and broker.epoch == epoch and not broker.in_controlled_shutdown


def _waiting_sender(inbound: Inbound) -> int | None:
    """The broker whose heartbeat or registration has no answer yet; None for any other request."""
    if inbound.request is not None:
        return _sender_of(inbound.request.body)
    frame = inbound.frame
    return _sender(frame) if frame is not None and frame[:2] in SIGNS_OF_LIFE else None


def _sender(frame: Buffer) -> int | None:
    _, message = decode_request(frame)
    return _sender_of(message)


def _sender_of(message: Message) -> int | None:
    """The broker that sends a heartbeat or registers; None for any other request."""
    return message.broker_id if isinstance(message, BrokerHeartbeatRequest | BrokerRegistrationRequest) else None

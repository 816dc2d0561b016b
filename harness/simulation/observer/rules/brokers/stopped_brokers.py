"""CS-04: a broker that has asked to stop does so once the controller lets it, not before.

While it waits, its leaderships move to others. A broker that stops meanwhile leaves topic-partitions without a leader
until its session is over, as if it had been killed. It stops

* by leave: a controller has told this broker epoch to shut down, in answer to a heartbeat;
* without leave: `controlled.shutdown.timeout.ms` is over since it asked, or a controller has told this epoch that it
  is not registered any more. Half of that time is required, as the turn in which it asked may have taken long.

A controller that allows a broker to shut down ends its session, so that the next incarnation can register at once.
Otherwise each restart of a broker takes as long as the session timeout.

A broker that never stops holds up who restarts it. So one that has taken note of SIGTERM is ready to close after
`controlled.shutdown.timeout.ms` at the latest, or after a second if it waits to learn whether it is registered.

Asserted when the broker begins to close, and when a registration is answered. In the turn after its host has sent
SIGTERM, a heartbeat of it is under way: were it to wait for the next that is due, its leaderships would stay for as
long. Legal: a broker that never asked, since it led nothing, or because its settings say so; a request that was under
way before SIGTERM, and may end in that turn, unsent as it is (`worlds` 1023938); a session that began again, with a
heartbeat that was served late. Clusters without a quorum ask by another request (ZK-08).

Source: CS-01, CS-04; KIP-631.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.lifecycle import OUTCOME_PATIENCE
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from squall.nodes.protocol.requests.session import ServerRequest

_GONE: Final = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)
Epoch = tuple[int, int]
"""A broker's id and epoch."""


class StoppedBrokers(Rule):
    """See the module."""

    events = ("broker_stopping", "broker_shuts_down", "request_expired")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._let_go: set[Epoch] = set()
        self._gone: set[Epoch] = set()
        """The brokers that a controller has allowed to shut down, and those that it has called no longer registered."""
        self._silent: set[Epoch] = set()
        """The brokers that were allowed to shut down, and of which nothing else was served since."""
        self._asked_at: dict[Epoch, int] = {}
        self._stops: list[tuple[str, Epoch, bool]] = []
        """The events of a turn that is not examined yet: name, broker, and whether it has leave."""
        self._expired = False
        """Whether a request has expired in that turn."""
        self._terminated: set[int] = set()
        """The brokers whose hosts have sent SIGTERM after their last turn."""

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        asked, told = request.body, None if request.answer is None else request.answer.response
        if isinstance(asked, BrokerRegistrationRequest) and isinstance(told, BrokerRegistrationResponse):
            self._registration_answered(process, node, asked, told)
        if not isinstance(asked, BrokerHeartbeatRequest) or not isinstance(told, BrokerHeartbeatResponse):
            return
        broker = asked.broker_id, asked.broker_epoch
        if told.error_code in _GONE:
            self._gone.add(broker)
        elif told.should_shut_down and not told.error_code:
            self._let_go.add(broker)
            self._silent.add(broker)
        else:
            self._silent.discard(broker)

    def _registration_answered(
        self, process: SimProcess, node: BaseNode, asked: BrokerRegistrationRequest, told: BrokerRegistrationResponse
    ) -> None:
        self._silent.discard((asked.broker_id, told.broker_epoch))
        with_quorum = node_of_quorum(node)
        if told.error_code != ErrorCode.DUPLICATE_BROKER_REGISTRATION or with_quorum is None:
            return
        image = None if with_quorum.controller is None else with_quorum.controller.image
        known = None if image is None else image.brokers.get(asked.broker_id)
        if known is not None and known.fenced and (known.id, known.epoch) in self._silent:
            raise InvariantBroken(
                "CS-04",
                f"controller {process.name} refuses the next incarnation of broker {known.id} as a duplicate, although "
                f"it has allowed epoch {known.epoch} to shut down and has served no other message of it since",
            )

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == "request_expired":
            self._expired = True
            return
        if name == "broker_stopping" and not self._has_asked(int(fields["broker"])):
            self._terminated.add(int(fields["broker"]))
        broker = int(fields["broker"]), int(fields["epoch"])
        self._stops.append((name, broker, bool(fields.get("granted"))))

    def _has_asked(self, number: int) -> bool:
        """Return whether a request of a broker is under way, whose end may make the next one wait."""
        process = self.cluster.processes[self.cluster.names[number]]
        broker = None if process.node is None else process.node.broker
        return broker is not None and broker.lifecycle.deadline() > process.now

    def died(self, process: SimProcess) -> None:
        self._stops.clear()
        self._expired = False

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        expired, self._expired = self._expired, False
        if self._terminated and node.config.node_id in self._terminated:
            self._terminated.remove(node.config.node_id)
            if not expired:
                _check_haste(process, node)
        if process.told_to_stop_at is not None:
            _check_end(process, process.told_to_stop_at, node_of_quorum(node))
        if not self._stops:
            return
        stops, self._stops = self._stops, []
        with_quorum = node_of_quorum(node)
        for name, broker, granted in stops if with_quorum is not None else ():
            if name == "broker_stopping":
                self._asked_at[broker] = process.now
            elif broker in self._asked_at:
                patience = node.config.controlled_shutdown_timeout_ms * 1000 // 2
                self._check(broker, granted=granted, is_over=process.now >= self._asked_at[broker] + patience)

    def _check(self, broker: Epoch, *, granted: bool, is_over: bool) -> None:
        number, epoch = broker
        if granted and broker not in self._let_go:
            raise InvariantBroken("CS-04", f"broker {number} of epoch {epoch} stops as if by leave, and has none")
        if not granted and not is_over and broker not in self._gone:
            raise InvariantBroken(
                "CS-04",
                f"broker {number} of epoch {epoch} has asked to stop, and stops before it has leave. It is registered, "
                "as far as it has been told, and its time to wait is not over",
            )


def _check_end(process: SimProcess, since: int, node: Node | None) -> None:
    """Check that a broker that was told to stop is ready to close, or has named a time in bounds at which it stops."""
    if node is None or node.broker is None or node.broker.lifecycle.may_close:
        return
    most = max(node.config.controlled_shutdown_timeout_ms * 1_000, OUTCOME_PATIENCE)
    if max(process.now, node.broker.lifecycle.deadline()) > since + most:
        raise InvariantBroken(
            "CS-04",
            f"{process.name} got SIGTERM {(process.now - since) / 1000:g} ms ago, and stops neither now nor by the "
            f"time that it names; {most / 1000:g} ms are the most",
        )


def _check_haste(process: SimProcess, node: BaseNode) -> None:
    """Check that a broker whose host has sent SIGTERM has asked its controller for leave.

    What ends an earlier request in this turn may make it wait: an answer, or the end of the connection.
    """
    broker = None if node_of_quorum(node) is None else cast("Node", node).broker
    if broker is None or any(of[0] < 0 for _, of in process.last_inputs):
        return
    due = broker.lifecycle.deadline()
    if (
        broker.lifecycle.is_pending_shutdown
        and process.now < due < process.now + node.config.controlled_shutdown_timeout_ms * 1000 // 2
    ):
        raise InvariantBroken(
            "CS-04",
            f"{process.name} got SIGTERM, and waits {(due - process.now) / 1000:g} ms before it asks for leave",
        )

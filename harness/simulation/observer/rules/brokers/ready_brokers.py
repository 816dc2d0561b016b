"""BL-02: a broker asks to be unfenced as soon as it has read its own registration in the metadata log, and not before.

Once it is unfenced it leads and serves, by what it knows of its topic-partitions. The controller does not rely on the
broker's word alone: it compares offsets as well (TOLD). So a broker that asks too early does no harm as long as both
are right, and nothing else sees it. One that asks late serves late, which looks like a slow network.

Asserted when a controller answers a heartbeat. What a broker has read meanwhile counts in its favour: an incarnation
reads on and never back. Legal: a heartbeat of an earlier incarnation, or of an earlier registration.

Asserted after each turn: a fenced broker that is ready sends its next heartbeat within `IMPATIENT_INTERVAL`. Legal: a
request that is under way, whose answer or end makes the next one due; a broker that stops.

Source: BL-02, BL-05; KIP-631; Kafka's `BrokerLifecycleManager`, which sends a heartbeat as soon as it may be unfenced.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import NEVER, SimProcess
from squall.nodes.broker.lifecycle import IMPATIENT_INTERVAL
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from squall.nodes.protocol.requests.session import ServerRequest


class ReadyBrokers(Rule):
    """See the module."""

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        with_quorum = node_of_quorum(node)
        if with_quorum is None or with_quorum.broker is None or not with_quorum.broker.lifecycle.is_fenced:
            return
        lifecycle = with_quorum.broker.lifecycle
        if not lifecycle.is_ready or lifecycle.is_pending_shutdown or lifecycle.deadline() == NEVER:
            return
        pause = lifecycle.deadline() - process.now
        if pause > IMPATIENT_INTERVAL:
            raise InvariantBroken(
                "BL-02",
                f"broker {with_quorum.config.node_id} is fenced and ready, and asks to be unfenced in {pause} µs",
            )

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        asked = request.body
        if (
            not isinstance(asked, BrokerHeartbeatRequest)
            or asked.want_fence
            or asked.broker_id not in self.cluster.names
        ):
            return
        sender = node_of_quorum(self.cluster.running(asked.broker_id))
        if sender is None or sender.broker is None or sender.broker.lifecycle.epoch != asked.broker_epoch:
            return
        read = sender.broker.image.last_offset
        if read < asked.broker_epoch:
            raise InvariantBroken(
                "BL-02",
                f"broker {asked.broker_id} of epoch {asked.broker_epoch} wants to be unfenced, and has read the "
                f"metadata log only up to offset {read}",
            )

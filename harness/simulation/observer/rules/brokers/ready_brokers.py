"""BL-02: a broker asks to be unfenced only when it has read its own registration in the metadata log.

Once it is unfenced it leads and serves, by what it knows of its topic-partitions. The controller does not rely on the
broker's word alone: it compares offsets as well (TOLD). So a broker that asks too early does no harm as long as both
are right, and nothing else sees it.

Asserted when a controller answers a heartbeat. What a broker has read meanwhile counts in its favour: an incarnation
reads on and never back. Legal: a heartbeat of an earlier incarnation, or of an earlier registration.

Source: BL-02, BL-05; KIP-631.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from squall.nodes.protocol.requests.session import ServerRequest


class ReadyBrokers(Rule):
    """See the module."""

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

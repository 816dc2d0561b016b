"""ZK-11: a broker that stops cleanly ends its ZooKeeper session.

The session's ephemeral nodes go with it, so the controller learns of the stop at once. A session that is left open
keeps the broker registered, and perhaps `/controller` taken, until ZooKeeper has not heard of it for its timeout.
Asserted when a process has stopped cleanly. Legal: a process that died, which has no time to say anything; a stop
without a connection to ZooKeeper, where the session's end cannot be sent: its client counts as closed all the same.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.zookeeper.session import Session, SessionState


class ClosedSessions(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._sessions: dict[str, Session] = {}
        """By host, of the incarnation that runs."""

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if isinstance(node, ZooKeeperNode):
            self._sessions[process.name] = node.client.session

    def died(self, process: SimProcess) -> None:
        session = self._sessions.pop(process.name, None)
        if session is None or process.how_it_ended != "stopped":
            return
        if session.state in (SessionState.CONNECTING, SessionState.CONNECTED):
            raise InvariantBroken(
                "ZK-11", f"broker {process.name} has stopped cleanly, and its ZooKeeper session goes on"
            )

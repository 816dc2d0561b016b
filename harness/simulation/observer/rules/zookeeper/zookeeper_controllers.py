"""ZK-14, ZK-08: brokers obey the newest controller. A stopping broker leads nothing; a returned broker may lead.

* An incarnation of a broker accepts no request of a controller with an older epoch than one that it has accepted.
* When a controller lets a broker stop, the broker leads no topic-partition that has another replica in the ISR, in the
  ensemble.
* A controller takes no broker for stopping whose registration is gone: it would not let it lead when it returns.

All are asserted at once, in the turn of the broker. Nothing traces these events in a cluster with a quorum, except the
end of a shutdown; there CS-04 has conditions of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.zookeeper.breach_in_turn import BreachInTurn
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.zookeeper_node import ZooKeeperNode


class ZooKeeperControllers(BreachInTurn):
    """See the module."""

    events = ("zk_request", "broker_shuts_down")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._newest: dict[int, int] = {}

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == "zk_request":
            self._accepted(int(fields["node"]), int(fields["epoch"]), int(fields["api"]))
        elif fields.get("granted") and isinstance(self.cluster.running(int(fields["broker"])), ZooKeeperNode):
            self._let_go(int(fields["broker"]))

    def _accepted(self, broker: int, epoch: int, api_key: int) -> None:
        newest = self._newest.get(broker, 0)
        if epoch < newest:
            self.raise_after_turn(
                InvariantBroken(
                    "ZK-14",
                    f"broker {broker} accepts a request (API {api_key}) of the controller with epoch {epoch}, after "
                    f"one of epoch {newest}",
                )
            )
        self._newest[broker] = max(newest, epoch)

    def _let_go(self, broker: int) -> None:
        for topic, number, one in self.cluster.metadata.image.all_partitions():
            if one.leader == broker and len(one.isr) > 1:
                self.raise_after_turn(
                    InvariantBroken(
                        "ZK-08", f"broker {broker} may stop, and leads {topic.name}-{number} with ISR {list(one.isr)}"
                    )
                )
                return

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if not isinstance(node, ZooKeeperNode) or not node.controller.is_active:
            return
        context = node.controller.context
        gone = context.shutting_down.keys() - context.brokers.keys()
        if gone:
            raise InvariantBroken(
                "ZK-08", f"controller {process.name} takes {sorted(gone)} for stopping, whose registrations are gone"
            )

    def died(self, process: SimProcess) -> None:
        """A new incarnation has accepted nothing yet."""
        numbers = {name: number for number, name in self.cluster.names.items()}
        self._newest.pop(numbers.get(process.name, -1), None)
        super().died(process)

"""RA-07: a whole cluster that returns leaderships to preferred replicas does so within two of its intervals.

A controller that never does leaves all leaderships with the brokers that did not fail, which are slow then. No promise
to a client is broken, so that nothing else shows it. Asserted at the end of a run, if the cluster was whole for two
intervals of the active controller, one to begin with and one to carry out: for each broker the topic-partitions whose
preferred replica it is and that another leads are not more than the tolerated share.

Source: `auto.leader.rebalance.enable` and its kin. Legal: a share that is tolerated; a topic-partition that changed
within that time; a run that ends before.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, TopicPartitionId, Watched
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.controller.config import ControllerConfig

INTERVALS = 2


class BalancedLeaders(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._whole_at: int | None = None
        self._changed_at: dict[TopicPartitionId, int] = {}

    def became_whole(self, now: int) -> None:
        self._whole_at = now

    def membership_changed(self, key: TopicPartitionId, watched: Watched) -> None:
        if self._whole_at is not None:
            self._changed_at[key] = self._now()

    def at_end(self) -> None:
        config, image = self._active_config(), self.cluster.images.newest_image
        if self._whole_at is None or config is None or image is None or not config.balances_leaders:
            return
        since = self._now() - INTERVALS * config.imbalance_check_interval
        if self._whole_at > since:
            return
        preferred: dict[int, list[str]] = {}
        elsewhere: dict[int, list[str]] = {}
        for topic in image.topics.values():
            for number, registration in topic.partitions.items():
                first = registration.replicas[0]
                preferred.setdefault(first, []).append(f"{topic.name}-{number}")
                if registration.leader != first and self._changed_at.get((topic.id, number), 0) <= since:
                    elsewhere.setdefault(first, []).append(f"{topic.name}-{number}")
        for broker, places in elsewhere.items():
            if len(places) * 100 > config.imbalance_percentage * len(preferred[broker]):
                raise InvariantBroken(
                    "RA-07",
                    f"{places} are led by others than {broker}, their preferred replica, {INTERVALS} intervals of "
                    f"{config.imbalance_check_interval / 1e6:g} s after all was whole",
                )

    def _now(self) -> int:
        return max((process.now for process in self.cluster.processes.values()), default=0)

    def _active_config(self) -> ControllerConfig | None:
        for process in self.cluster.processes.values():
            node = node_of_quorum(process.node)
            if node is not None and node.controller is not None and node.controller.is_active:
                return node.controller.config
        return None

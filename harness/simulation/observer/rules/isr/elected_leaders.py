"""LEADERLESS: a controller leaves no topic-partition without a leader that could have one.

An election that is left out costs availability only: what is acknowledged stays, clients wait, and a broker that comes
back ends it, in most runs long before anybody asks whether the cluster is whole. So the observer looks at each image by
which an active controller decides, once a decision is written whole. A topic-partition has no leader only if

* no member of its ISR is active,
* no member of its ELR is active, if the ISR is empty,
* the first of its last known members is not active, if ISR and ELR are empty, and that member may lead
  (`unclean.recovery.strategy`, or an unclean election is allowed),
* none of its replicas is active, if an unclean election is allowed.

Legal: a decision that takes several turns; a replica that is fenced or stops; one that a reassignment is only adding,
which has no records yet (`worlds` 1023464).

Source: KIP-966, KIP-841; requirements IS-02 and EL-04; `unclean.leader.election.enable`.
"""

from __future__ import annotations

from collections.abc import Iterator

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.config import NodeConfig
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.topic import PartitionRegistration
from squall.nodes.node.base import BaseNode

UNCLEAN = "unclean.leader.election.enable"
BALANCED = "Balanced"


class ElectedLeaders(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._seen: dict[str, tuple[int, int]] = {}
        """By host, its incarnation and the end of the image that was looked at last."""

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        decider = node_of_quorum(node)
        if decider is None or decider.controller is None or decider.controller.has_unfinished:
            return
        image = decider.controller.image
        if image is None or self._seen.get(process.name) == (process.incarnation, image.last_offset):
            return
        self._seen[process.name] = process.incarnation, image.last_offset
        for topic, number, found in image.all_partitions():
            if found.leader >= 0:
                continue
            could = next(_candidates(decider.config, image, topic.name, found), None)
            if could is not None:
                raise InvariantBroken(
                    "LEADERLESS",
                    f"{topic.name}-{number}: controller {process.name} leaves it without a leader; broker {could} is "
                    f"active: ISR {list(found.isr)}, ELR {list(found.elr)}, replicas {list(found.replicas)}",
                )


def _candidates(config: NodeConfig, image: MetadataImage, topic: str, found: PartitionRegistration) -> Iterator[int]:
    """Yield the active brokers that may lead a topic-partition."""
    settings = image.topic_settings(topic)
    default = config.unclean_leader_election_enable
    unclean = settings[UNCLEAN] == "true" if UNCLEAN in settings else default
    may_lead = list(found.isr or found.elr)
    if not may_lead and (unclean or config.unclean_recovery_strategy == BALANCED):
        may_lead = list(found.last_known_elr[:1])
    uncleanly = [one for one in found.replicas if one not in found.adding] if unclean else []
    for replica in [*may_lead, *uncleanly]:
        registered = image.brokers.get(replica)
        if registered is not None and registered.active:
            yield replica

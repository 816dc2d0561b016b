"""DP-12: the replicas of a broker work by the settings that its image holds.

Settings reach a replica with the metadata records that alter them, or all at once with a snapshot. A broker that misses
one goes on with another min ISR, segment size or retention than everybody sees. Asserted for every replica of a broker
when its image has moved: each setting of the topic in the image is the one by which the replica and its log work.
Source: requirement DP-12, KIP-631. Legal: a setting that the topic does not have, whose default is the node's own; a
topic that the image does not have any more; a broker that applies a batch over several turns, because it creates or
removes many logs with it, until it is done (seeds 910448, 910459, 910611, 910717); the min ISR of a leader that knows a
newer ISR than its image, since it takes nothing from an older decision (seed 911109).
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.hosted_partition import HostedPartition
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.topic_configs import MIN_ISR
from squall.nodes.node.base import BaseNode


class AppliedSettings(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._examined: dict[tuple[str, int], int] = {}
        """By host and incarnation, the offset of the image that was examined last."""

    def images_examined(self, process: SimProcess, node: BaseNode) -> None:
        if node.broker is None or node.broker.replicas.is_busy:
            return
        place, image = (process.name, process.incarnation), node.broker.image
        if self._examined.get(place) == image.last_offset:
            return
        self._examined[place] = image.last_offset
        for hosted in node.broker.replicas.all():
            self._check(process, image, hosted)

    def _check(self, process: SimProcess, image: MetadataImage, hosted: HostedPartition) -> None:
        topic, replica = image.topics.get(hosted.replica.topic_id), hosted.replica
        if topic is None or replica.state is None:
            return
        works_by = replica.log.config.described()
        if replica.partition_epoch <= topic.partitions[replica.partition].partition_epoch:
            works_by[MIN_ISR] = str(replica.state.min_insync_replicas)
        for name, value in image.topic_settings(topic.name).items():
            if works_by.get(name, value) != value:
                raise InvariantBroken(
                    "DP-12",
                    f"{topic.name}-{replica.partition}: {process.name} works by {name} {works_by[name]}, its image up "
                    f"to offset {image.last_offset} has {value}",
                )

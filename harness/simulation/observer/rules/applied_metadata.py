"""MD-03: a node applies only metadata that its own replica of the metadata log knows to be committed (rule 30).

A broker that says it has applied its metadata hosts what these give it, and nothing else: a replica that was moved away
while the broker was down would stay, and answer. The controller believes the offset that a broker states: it unfences
the broker, and lets another one stop whose topic-partitions this one is to lead (CS-04).

Source: KIP-631. Asserted in each turn that touches the quorum or an image, and at the end of a run. Legal: an image
behind the high watermark; a broker that states an earlier offset than that of its image, while it creates and deletes
logs.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node.node import Node


class AppliedMetadata(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._stated: dict[str, tuple[int, int]] = {}
        """By host, its incarnation and the offset up to which it has last said that it has applied its metadata."""

    def metadata_touched(self, process: SimProcess, node: Node) -> None:
        high_watermark = node.raft.high_watermark
        images = [] if node.controller is None else [("controller", node.controller.committed)]
        images += [] if node.broker is None else [("broker", node.broker.image)]
        for role, image in images:
            if image.last_offset >= high_watermark:
                raise InvariantBroken(
                    "MD-03",
                    f"{process.name} ({role}) has applied metadata up to {image.last_offset}, only what is below "
                    f"{high_watermark} is known to be committed",
                )
        if node.broker is not None and 0 <= node.broker.applied_offset == node.broker.image.last_offset:
            stated = process.incarnation, node.broker.applied_offset
            if stated != self._stated.get(process.name):
                self._stated[process.name] = stated
                broker = node.broker
                _check_hosted("having applied all", process.name, broker.image, node.config.node_id, broker.replicas)

    def at_end(self) -> None:
        for process in self.cluster.processes.values():
            node = node_of_quorum(process.node)
            if node is not None and node.broker is not None:
                _check_hosted(
                    "after healing", process.name, node.broker.image, node.config.node_id, node.broker.replicas
                )


def _check_hosted(when: str, name: str, image: MetadataImage, broker: int, replicas: Replicas) -> None:
    given = {(topic.id, number): topic.name for topic in image.topics.values() for number in topic.of_broker(broker)}
    hosted = {(one.topic_id, one.partition): one.topic for one in replicas.all() if not one.removed}
    for topic_id, number in given.keys() ^ hosted.keys():
        is_hosted = (topic_id, number) in hosted
        topic = hosted[topic_id, number] if is_hosted else given[topic_id, number]
        raise InvariantBroken(
            "MD-03",
            f"{when} {name} {'hosts' if is_hosted else 'does not host'} {topic}-{number}, and its metadata up "
            f"to offset {image.last_offset} {'give it to other brokers' if is_hosted else 'say that it has a replica'}",
        )

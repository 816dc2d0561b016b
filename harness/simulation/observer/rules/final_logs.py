"""ACK, UNIQ: once the cluster is healthy again, every replica in the ISR has the committed log, batch by batch.

And each broker of a quorum hosts what its metadata gives it, and nothing else (MD-03): a replica that was moved away
while the broker was down would stay, and answer.

Source: requirements ACK, UNIQ and MD-03. Asserted once, after the final reads. Legal: a replica outside the ISR;
records below the start of the replica's log; a topic deleted meanwhile.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import Watched
from squall.harness.simulation.observer.state.observed_log import Batch, InvariantBroken
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.replication.replica import TopicPartitionReplica


class FinalLogs(Rule):
    """See the module."""

    def at_end(self) -> None:
        cluster = self.cluster
        for process in cluster.processes.values():
            node = node_of_quorum(process.node)
            if node is not None and node.broker is not None:
                _check_hosted(process.name, node.broker.image, node.config.node_id, node.broker.replicas)
        for key, registration in cluster.images.newest.items():
            watched = cluster.watched.get(key)
            if watched is None or not cluster.images.is_current(watched.topic, key[0]):
                continue
            for member in registration.isr:
                replica = cluster.replica_of(cluster.names[member], key)
                if replica is not None:
                    self._check(watched, cluster.names[member], replica)

    def _check(self, watched: Watched, name: str, replica: TopicPartitionReplica) -> None:
        log = watched.log
        expected = {base: batch for base, batch in log.canonical.items() if batch.base >= replica.log.start_offset}
        found: dict[int, Batch] = {}
        for batch, _ in self.cluster.batches(replica, log.end):
            found[batch.base] = batch
        for base, batch in expected.items():
            if found.get(base) != batch:
                promised = [offset for offset in watched.promised.acknowledged if base <= offset <= batch.last]
                there = found.get(base)
                raise InvariantBroken(
                    "ACK" if promised and there is None else "UNIQ",
                    f"{log.name}: after healing {name} is in the ISR and has {there or 'nothing'} "
                    f"where {batch} is committed",
                )


def _check_hosted(name: str, image: MetadataImage, broker: int, replicas: Replicas) -> None:
    given = {(topic.id, number): topic.name for topic in image.topics.values() for number in topic.of_broker(broker)}
    hosted = {(one.topic_id, one.partition): one.topic for one in replicas.all() if not one.removed}
    for topic_id, number in given.keys() ^ hosted.keys():
        is_hosted = (topic_id, number) in hosted
        topic = hosted[topic_id, number] if is_hosted else given[topic_id, number]
        raise InvariantBroken(
            "MD-03",
            f"after healing {name} {'hosts' if is_hosted else 'does not host'} {topic}-{number}, and its metadata up "
            f"to offset {image.last_offset} {'give it to other brokers' if is_hosted else 'say that it has a replica'}",
        )

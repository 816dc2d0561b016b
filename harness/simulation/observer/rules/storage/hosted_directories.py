"""HOSTED: at the end a broker's host keeps the log of a topic-partition only if the broker hosts it.

A topic may be deleted, or a replica moved away, while the broker is down. When the broker starts it finds the
directory, and puts it aside as a stray once it has caught up with the metadata. What goes while it runs, it deletes. A
broker that forgets either serves just as well, until its disk is full; and a topic of the same name finds a log that is
not its own.

Asserted at the end of a run, of brokers of a quorum that have applied all that they have read: each directory with the
id of a topic is that of a topic-partition that the broker hosts; and the broker counts the traffic of no topic that is
gone, or it would count for ever more of them. Legal: a directory that was put aside; one without an
id, whose process died while it created it, and which no broker takes for a log.

Source: Kafka's `LogManager` (stray logs); requirement MD-05.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.broker import Broker
from squall.nodes.broker.hosting.log_manager import PARTITION_METADATA
from squall.nodes.protocol.topic_partition import METADATA_TOPIC, parse_id
from squall.nodes.storage.checkpoints import join, read_properties


class HostedDirectories(Rule):
    """See the module."""

    def at_end(self) -> None:
        for process in self.cluster.processes.values():
            node = node_of_quorum(process.node)
            if node is not None and node.broker is not None:
                _check(process, node.broker)


def _check(process: SimProcess, broker: Broker) -> None:
    if broker.applied_offset < broker.image.last_offset or broker.replicas.is_busy:
        return
    gone = sorted(broker.traffic.topics.keys() - broker.image.topic_ids.keys())
    if gone:
        raise InvariantBroken("HOSTED", f"{process.name} counts the traffic of {gone}, which are no topics any more")
    for directory in process.disk.list(""):
        topic, _, number = directory.rpartition("-")
        if not topic or not number.isdecimal() or topic == METADATA_TOPIC:
            continue
        topic_id = _stored_id(process.disk, directory)
        if topic_id is not None and broker.replicas.by_id(topic_id, int(number)) is None:
            raise InvariantBroken(
                "HOSTED",
                f"{process.name} keeps the log {directory} of a topic-partition that it does not host, and has applied "
                f"the metadata up to offset {broker.applied_offset}",
            )


def _stored_id(disk: SimDisk, directory: str) -> bytes | None:
    stored = read_properties(disk, join(directory, PARTITION_METADATA)) or {}
    return parse_id(stored["topic_id"]) if "topic_id" in stored else None

"""What METRIC expects of the gauges that say how a node stands: its part in the quorum, its brokers, ISRs and logs.

Each is computed from another source than the node's own count: from the committed image, from the files on its disk,
from the role and log of its quorum replica. Pure functions over one node between two turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.broker.broker import Broker
from squall.nodes.metadata.features import METADATA_VERSION
from squall.nodes.metadata.image import BrokerRegistration, MetadataImage, PartitionRegistration
from squall.nodes.metadata.topic_configs import MIN_ISR, effective_value
from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics.metric_names import Metric
from squall.nodes.node.metrics.samples import Labels
from squall.nodes.node.node import Node
from squall.nodes.node.timings import api_name
from squall.nodes.raft.roles import Leader
from squall.nodes.raft.voters import VoterSet
from squall.nodes.storage.checkpoints import join

Told = Mapping[tuple[Metric, Labels], float]
Finding = tuple[str, float, float, float]
"""The name of a gauge or counter, the value that the node reports, and the least and the most that it may be."""
FENCED, SHUTTING_DOWN, ACTIVE = 10, 20, 30
"""BrokerRegistrationState (KIP-1131)."""
_WATCHERS = frozenset(("follower", "unattached"))
"""Roles of a replica of the metadata log that does not vote."""


def of_the_quorum(told: Told, node: Node, committed_voters: VoterSet | None) -> Iterator[Finding]:
    """The node's part in the quorum (KIP-595). `committed_voters` are the last committed ones, None without any."""
    raft = node.raft
    role = raft.role.name
    state = "observer" if role in _WATCHERS and not raft.votes else role
    for (metric, labels), value in told.items():
        if metric is names.RAFT_STATE:
            yield f"{metric.name} of {labels[0][1]}", value, labels[0][1] == state, labels[0][1] == state
    leader, epoch = raft.leader_and_epoch
    known = -1 if leader is None else leader
    expected = [
        (names.RAFT_LEADER, known),
        (names.CURRENT_CONTROLLER, known),
        (names.RAFT_EPOCH, epoch),
        (names.RAFT_HIGH_WATERMARK, raft.high_watermark),
        (names.RAFT_END_OFFSET, raft.log.end_offset),
        (names.RAFT_END_EPOCH, raft.log.last_epoch),
    ]
    if node.controller is not None:
        expected.append((names.COMMITTED_OFFSET, raft.high_watermark - 1))
    image = node.broker.image if node.broker is not None else node.controller.committed if node.controller else None
    if image is not None:
        expected.append((names.METADATA_VERSION, image.features.get(METADATA_VERSION, -1)))
    if isinstance(raft.role, Leader):
        expected.append((names.RAFT_OBSERVERS, len(raft.role.observers)))
        if committed_voters is not None and not raft.voters_uncommitted:
            expected.append((names.RAFT_VOTERS, len(committed_voters.voters)))
    for metric, value in expected:
        yield metric.name, told[metric, ()], value, value


def of_snapshots(told: Told, node: Node, disk: SimDisk) -> Iterator[Finding]:
    """The size of the newest snapshot, by its file."""
    latest = node.raft.snapshots.latest
    content = b"" if latest is None else disk.content(node.raft.snapshots.path(latest)) or b""
    yield names.SNAPSHOT_BYTES.name, told[names.SNAPSHOT_BYTES, ()], len(content), len(content)


def of_registrations(told: Told, image: MetadataImage) -> Iterator[Finding]:
    """The brokers as a controller knows them that has committed all of `image`."""
    states = {one.id: _registered_as(one) for one in image.brokers.values()}
    by_label = {int(labels[0][1]): value for (one, labels), value in told.items() if one is names.BROKER_REGISTRATION}
    for broker in states.keys() | by_label.keys():
        state = states.get(broker, -1)
        yield f"{names.BROKER_REGISTRATION.name} of {broker}", by_label.get(broker, -1), state, state
    stopping = sum(one == SHUTTING_DOWN for one in states.values())
    yield names.SHUTTING_DOWN_BROKERS.name, told[names.SHUTTING_DOWN_BROKERS, ()], stopping, stopping
    yield names.APPLIED_OFFSET.name, told[names.APPLIED_OFFSET, ()], image.last_offset, image.last_offset


def _registered_as(broker: BrokerRegistration) -> int:
    if broker.fenced:
        return FENCED
    return SHUTTING_DOWN if broker.in_controlled_shutdown else ACTIVE


def leads_by_its_image(broker: Broker, number: int) -> bool:
    """Return whether what a broker leads is as its image says: it has applied all of it, and knows nothing newer."""
    if broker.applied_offset != broker.image.last_offset:
        return False
    led = {
        (topic.id, one): topic.partitions[one].partition_epoch
        for topic in broker.image.topics.values()
        for one in topic.of_broker(number)
        if topic.partitions[one].leader == number
    }
    replicas = ((one, one.replica) for one in broker.replicas.all() if one.replica.is_leader)
    return led == {(one.topic_id, one.partition): replica.partition_epoch for one, replica in replicas}


def of_leaders(told: Told, broker: Broker, number: int, min_isr: int) -> Iterator[Finding]:
    """The topic-partitions that a broker leads, by its image: how many are in sync, and whether that is enough.

    `min_isr` is the broker's own `min.insync.replicas`, for topics that have none.
    """
    below = at = reassigning = 0
    topic_defaults = {MIN_ISR: str(min_isr)}
    for topic in broker.image.topics.values():
        settings = broker.image.topic_settings(topic.name)
        configured = int(effective_value(settings, MIN_ISR, topic_defaults))
        for one in topic.of_broker(number):
            found = topic.partitions[one]
            if found.leader != number:
                continue
            labels = (("topic", topic.name), ("partition", str(one)))
            least = min(configured, len(found.replicas))
            below += len(found.isr) < least
            at += len(found.isr) == least
            reassigning += bool(found.adding or found.removing)
            for metric, value in _of_leader(found, least):
                yield f"{metric.name} of {topic.name}-{one}", told.get((metric, labels), -1), value, value
    for metric, value in (
        (names.UNDER_MIN_ISR, below),
        (names.AT_MIN_ISR, at),
        (names.REASSIGNING, reassigning),
        (names.BROKER_APPLIED_OFFSET, broker.image.last_offset),
    ):
        yield metric.name, told[metric, ()], value, value


def _of_leader(found: PartitionRegistration, least: int) -> Iterator[tuple[Metric, float]]:
    yield names.IN_SYNC, len(found.isr)
    yield names.REPLICA_COUNT, len(found.replicas)
    yield names.PARTITION_UNDER_REPLICATED, bool(set(found.replicas) - set(found.isr) - set(found.adding))
    yield names.PARTITION_UNDER_MIN_ISR, len(found.isr) < least
    yield names.PARTITION_AT_MIN_ISR, len(found.isr) == least


def of_parked(told: Told, broker: Broker) -> Iterator[Finding]:
    """The requests that wait at a broker, by what it keeps to complete them."""
    waiting = Counter(api_name(one.request.api_key) for one in broker.parked)
    for (metric, labels), value in told.items():
        if metric is names.PURGATORY:
            count = waiting[labels[0][1]]
            yield f"{metric.name} of {labels[0][1]}", value, count, count


def of_logs(told: Told, broker: Broker, disk: SimDisk) -> Iterator[Finding]:
    """The logs of a broker, by the segments on its disk."""
    for one in broker.replicas.all():
        log = one.replica.log
        if one.removed:
            continue
        segments = [name for name in disk.list(log.directory) if name.endswith(".log")]
        size = sum(len(disk.content(join(log.directory, name)) or b"") for name in segments)
        labels = (("topic", one.topic), ("partition", str(one.partition)))
        for metric, value in (
            (names.LOG_SIZE, size),
            (names.LOG_SEGMENTS, len(segments)),
            (names.LOG_START, log.start_offset),
            (names.LOG_END, log.end_offset),
        ):
            yield f"{metric.name} of {one.topic}-{one.partition}", told.get((metric, labels), -1), value, value

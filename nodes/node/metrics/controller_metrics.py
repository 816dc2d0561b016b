"""Metrics of a controller: registered brokers, the cluster by the committed image, request times.

Counting topic-partitions reads every one of them; this happens on request, in small parts.
"""

from __future__ import annotations

from squall.nodes.controller.controller import QuorumController
from squall.nodes.metadata.image import BrokerRegistration, MetadataImage
from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics import samples
from squall.nodes.node.metrics.samples import Collected, Sample, summary
from squall.nodes.node.timings import ApiTimes

FENCED, IN_CONTROLLED_SHUTDOWN, ACTIVE = 10, 20, 30
"""Kafka's numbers (KIP-1131)."""


def controller_metrics(controller: QuorumController, times: ApiTimes, high_watermark: int, now_ms: int) -> Collected:
    """`times` are those of the requests that it decided."""
    image = controller.committed
    fenced = controller.fenced_brokers
    written = controller.last_applied_ms
    behind = 0 if controller.is_active or written < 0 else max(0, now_ms - written)
    yield Sample(names.ACTIVE_CONTROLLERS, float(controller.is_active))
    yield Sample(names.FENCED_BROKERS, fenced)
    yield Sample(names.ACTIVE_BROKERS, len(image.brokers) - fenced)
    registered = {broker.id: registration_state(broker) for broker in image.brokers.values()}
    yield Sample(names.SHUTTING_DOWN_BROKERS, sum(one == IN_CONTROLLED_SHUTDOWN for one in registered.values()))
    for broker, state in sorted(registered.items()):
        yield Sample(names.BROKER_REGISTRATION, state, (("broker", str(broker)),))
    yield Sample(names.TIMED_OUT_HEARTBEATS, controller.timed_out_heartbeats)
    yield Sample(names.LONGEST_SILENCE, controller.sessions.longest_silence / 1000)
    yield Sample(names.UNCLEAN_ELECTIONS, controller.unclean_elections)
    yield Sample(names.ELIGIBLE_ELECTIONS, controller.eligible_elections)
    yield Sample(names.APPLIED_OFFSET, image.last_offset)
    yield Sample(names.APPLIED_TIMESTAMP, written)
    yield Sample(names.APPLIED_LAG, behind)
    yield Sample(names.COMMITTED_OFFSET, high_watermark - 1)
    queue, local, _, _ = times.values()
    yield Sample(names.EVENTS_STARTED, times.count)
    yield from summary(names.EVENT_QUEUE_TIME, (), queue, times.count, times.queue)
    yield from summary(names.EVENT_PROCESSING_TIME, (), local, times.count, times.local)
    yield from _census(image)


def registration_state(broker: BrokerRegistration) -> int:
    if broker.fenced:
        return FENCED
    return IN_CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else ACTIVE


def _census(image: MetadataImage) -> Collected:
    """Count the cluster's topic-partitions by reading every one; an image may have millions."""
    topics = list(image.topics.values())
    total = offline = imbalanced = 0
    for topic in topics:
        for partition in list(topic.partitions.values()):
            total += 1
            leader = partition.leader
            if leader < 0:
                offline += 1
            if leader != partition.replicas[0]:
                imbalanced += 1
            if total % samples.BREATH == 0:
                yield None
    yield Sample(names.TOPICS, len(topics))
    yield Sample(names.PARTITIONS, total)
    yield Sample(names.OFFLINE_PARTITIONS, offline)
    yield Sample(names.IMBALANCED_PARTITIONS, imbalanced)

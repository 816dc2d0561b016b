"""Metrics of a broker: its state, its traffic, its topic-partitions in total and individually."""

from __future__ import annotations

from squall.nodes.broker.broker import Broker
from squall.nodes.broker.hosting.hosted_partition import HostedPartition
from squall.nodes.broker.hosting.traffic import TopicTraffic
from squall.nodes.broker.lifecycle import BrokerState
from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics import samples
from squall.nodes.node.metrics.metric_names import Metric
from squall.nodes.node.metrics.samples import Collected, Labels, Sample

_STATES = {
    BrokerState.OFFLINE: 0,
    BrokerState.FENCED: 1,
    BrokerState.RUNNING: 3,
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: 6,
    BrokerState.SHUTTING_DOWN: 7,
}
"""Kafka's numbers of the same states."""
_OF_ALL_TOPICS = (
    names.BYTES_IN,
    names.MESSAGES_IN,
    names.BYTES_OUT,
    names.PRODUCES,
    names.FAILED_PRODUCES,
    names.FETCHES,
    names.FAILED_FETCHES,
)
_OF_EACH_TOPIC = (
    names.TOPIC_BYTES_IN,
    names.TOPIC_MESSAGES_IN,
    names.TOPIC_BYTES_OUT,
    names.TOPIC_PRODUCES,
    names.TOPIC_FAILED_PRODUCES,
    names.TOPIC_FETCHES,
    names.TOPIC_FAILED_FETCHES,
)


def metadata_lag(broker: Broker, now_ms: int) -> Collected:
    """How far a broker has applied the metadata log."""
    applied_ms = broker.observer.last_applied_ms
    yield Sample(names.BROKER_APPLIED_OFFSET, broker.applied_offset)
    yield Sample(names.BROKER_APPLIED_TIMESTAMP, applied_ms)
    yield Sample(names.BROKER_APPLIED_LAG, max(0, now_ms - applied_ms) if applied_ms >= 0 else 0)


def broker_metrics(broker: Broker) -> Collected:
    isr = broker.isr_sender
    yield Sample(names.BROKER_STATE, _STATES[broker.lifecycle.state])
    yield Sample(names.ISR_SHRINKS, isr.shrinks)
    yield Sample(names.ISR_EXPANDS, isr.expands)
    yield Sample(names.FAILED_ISR_UPDATES, isr.failures)
    yield Sample(names.FETCH_SESSIONS, len(broker.fetching.sessions))
    yield from _traffic(broker)
    yield from _replicas(broker)


def _traffic(broker: Broker) -> Collected:
    traffic = broker.traffic
    yield from _of_topic(_OF_ALL_TOPICS, traffic.total(), ())
    for topic, counters in sorted(traffic.topics.items()):
        yield from _of_topic(_OF_EACH_TOPIC, counters, (("topic", topic),))
    yield Sample(names.REPLICATION_IN, broker.replicas.replicated_bytes)
    yield Sample(names.REPLICATION_OUT, traffic.replication_bytes_out)
    yield None


def _of_topic(metrics: tuple[Metric, ...], counters: TopicTraffic, labels: Labels) -> Collected:
    values = (
        counters.bytes_in,
        counters.messages_in,
        counters.bytes_out,
        counters.produces,
        counters.produce_failures,
        counters.fetches,
        counters.fetch_failures,
    )
    for metric, value in zip(metrics, values, strict=True):
        yield Sample(metric, value, labels)


def _replicas(broker: Broker) -> Collected:
    """Topic-partitions of one broker, in total and individually."""
    led = under = below = at = offline = reassigning = 0
    hosted = broker.replicas.all()
    for number, one in enumerate(hosted, 1):
        replica = one.replica
        labels = (("topic", one.topic), ("partition", str(one.partition)))
        if not one.removed:
            log = replica.log
            yield Sample(names.LOG_SIZE, log.size, labels)
            yield Sample(names.LOG_START, log.start_offset, labels)
            yield Sample(names.LOG_END, log.end_offset, labels)
            yield Sample(names.LOG_SEGMENTS, log.segment_count, labels)
        if replica.is_leader:
            led += 1
            in_sync = len(replica.isr)
            replicas, adding, is_reassigned = _assignment(broker, one)
            is_under = any(member not in replica.isr and member not in adding for member in replicas)
            is_below, is_at = in_sync < replica.min_isr, in_sync == replica.min_isr
            under += is_under
            below += is_below
            at += is_at
            reassigning += is_reassigned
            yield Sample(names.IN_SYNC, in_sync, labels)
            yield Sample(names.REPLICA_COUNT, len(replicas), labels)
            yield Sample(names.PARTITION_UNDER_REPLICATED, is_under, labels)
            yield Sample(names.PARTITION_UNDER_MIN_ISR, is_below, labels)
            yield Sample(names.PARTITION_AT_MIN_ISR, is_at, labels)
        offline += replica.leader < 0
        if number % samples.BREATH == 0:
            yield None
    yield Sample(names.PARTITION_COUNT, len(hosted))
    yield Sample(names.LEADER_COUNT, led)
    yield Sample(names.UNDER_REPLICATED, under)
    yield Sample(names.UNDER_MIN_ISR, below)
    yield Sample(names.AT_MIN_ISR, at)
    yield Sample(names.REASSIGNING, reassigning)
    yield Sample(names.OFFLINE_REPLICAS, offline)


def _assignment(broker: Broker, hosted: HostedPartition) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Replicas, those that a reassignment adds (not yet expected in sync), and whether one is under way."""
    topic = broker.image.topics.get(hosted.topic_id)
    found = None if topic is None else topic.partitions.get(hosted.partition)
    if found is None:
        return (), (), False
    return found.replicas, found.adding, bool(found.adding or found.removing)

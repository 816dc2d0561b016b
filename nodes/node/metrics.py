"""A node's metrics: what its components have counted, read off when somebody asks (issue 4, requirements.md §1.16).

Nothing is computed ahead: components keep plain counters, and `Collector.collect` looks at them, at the images and at
the logs. That may take long at two million topic-partitions, so it is a generator that says by `None` where its host
may let the node do other things; what it tells of is then not of one instant, as with any metrics.

Sans-IO like the rest: what only the host knows, processor time and memory, the host adds (`nodes/server`). The table
of names is `metric_names.py`; the text is rendered by `nodes/server/metrics_endpoint.py`.

What the planes share. One thread serves both, so the network's idleness is the same figure for both; what keeps them
apart is the order within a turn (`node.py`), and queue and handlers have figures of their own. CL-18's names for the
control plane are used for the controller listener.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from squall.nodes.broker.broker import Broker
from squall.nodes.broker.lifecycle import BrokerState
from squall.nodes.controller.controller import QuorumController
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node import metric_names as names
from squall.nodes.node.metric_names import Metric
from squall.nodes.node.node import Node
from squall.nodes.node.timings import IdleMeter, PlaneTimes, api_name, quantile
from squall.nodes.ports import WallClock

QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
"""As Kafka's histograms have them; 1 is the largest."""
BREATH = 5_000
"""After so many topic-partitions the host may do something else."""
RAFT_STATES = ("leader", "candidate", "prospective", "follower", "unattached", "resigned", "observer")
_BROKER_STATES = {
    BrokerState.OFFLINE: 0,
    BrokerState.FENCED: 1,
    BrokerState.RUNNING: 3,
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: 6,
    BrokerState.SHUTTING_DOWN: 7,
}
_STOPPING = 6

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One line. `suffix` is `_sum` or `_count` of a summary, else empty."""

    metric: Metric
    value: float
    labels: Labels = ()
    suffix: str = ""


Collected = Iterator[Sample | None]


class Collector:
    """Reads one node. It keeps nothing but earlier readings of idleness."""

    def __init__(self, node: Node, clock: WallClock, now: int, busy: int) -> None:
        """`now` and `busy` as in `collect`: where idleness is counted from at first."""
        self._node = node
        self._clock = clock
        self._network_idle = IdleMeter(now, busy)
        self._data_idle = IdleMeter(now, node.data_times.busy)
        self._control_idle = IdleMeter(now, node.control_times.busy)

    def collect(self, now: int, busy: int) -> Collected:
        """All samples; None where the host may pause. `busy` is the processor time of the node's thread, in µs."""
        node = self._node
        yield from self._quorum()
        if node.controller is not None:
            yield from self._controller(node.controller)
        if node.broker is not None:
            yield from self._broker(node.broker)
        yield from self._planes(now, busy)
        yield from _requests(node.control_times)
        yield None
        yield from _requests(node.data_times)
        for api_key, recent in sorted(node.links.controller_times.items()):
            labels = (("request", api_name(api_key)),)
            yield from summary(names.CONTROLLER_REQUEST_TIME, labels, recent.values(), recent.count, recent.total)

    # -- the quorum -----------------------------------------------------------------------------------------------

    def _quorum(self) -> Collected:
        raft, watch = self._node.raft, self._node.quorum_watch
        leader, epoch = raft.leader_and_epoch
        state = raft.role.name if raft.config.votes else "observer"
        for one in RAFT_STATES:
            yield Sample(names.RAFT_STATE, float(one == state), (("state", one),))
        voted = raft.role.voted
        last_epoch = raft.log.last_epoch
        yield Sample(names.RAFT_LEADER, -1 if leader is None else leader)
        yield Sample(names.RAFT_VOTE, -1 if voted is None else voted.id)
        yield Sample(names.RAFT_EPOCH, epoch)
        yield Sample(names.RAFT_HIGH_WATERMARK, raft.high_watermark)
        yield Sample(names.RAFT_END_OFFSET, raft.end_offset)
        yield Sample(names.RAFT_END_EPOCH, -1 if last_epoch is None else last_epoch)
        for average, most, recent in (
            (names.RAFT_COMMIT_AVG, names.RAFT_COMMIT_MAX, watch.commits),
            (names.RAFT_ELECTION_AVG, names.RAFT_ELECTION_MAX, watch.elections),
        ):
            values = recent.values()
            yield Sample(average, sum(values) / len(values) / 1000 if values else float("nan"))
            yield Sample(most, quantile(values, 1) / 1000)
        yield Sample(names.NEW_CONTROLLERS, watch.new_leaders)

    # -- the controller -------------------------------------------------------------------------------------------

    def _controller(self, controller: QuorumController) -> Collected:
        image = controller.committed
        fenced = controller.fenced_brokers
        written = controller.last_applied_ms
        behind = 0 if controller.is_active or written < 0 else max(0, self._clock.now_ms() - written)
        yield Sample(names.ACTIVE_CONTROLLERS, float(controller.is_active))
        yield Sample(names.FENCED_BROKERS, fenced)
        yield Sample(names.ACTIVE_BROKERS, len(image.brokers) - fenced)
        yield Sample(names.TIMED_OUT_HEARTBEATS, controller.timed_out_heartbeats)
        yield Sample(names.APPLIED_OFFSET, image.last_offset)
        yield Sample(names.APPLIED_TIMESTAMP, written)
        yield Sample(names.APPLIED_LAG, behind)
        yield Sample(names.COMMITTED_OFFSET, self._node.raft.high_watermark - 1)
        times = self._node.controller_times
        queue, local, _, _ = times.values()
        yield from summary(names.EVENT_QUEUE_TIME, (), queue, times.count, times.queue)
        yield from summary(names.EVENT_PROCESSING_TIME, (), local, times.count, times.local)
        yield from _census(image)

    # -- the broker -----------------------------------------------------------------------------------------------

    def _broker(self, broker: Broker) -> Collected:
        traffic, isr = broker.traffic.total(), broker.isr_sender
        yield Sample(names.BROKER_STATE, _BROKER_STATES.get(broker.lifecycle.state, _STOPPING))
        yield Sample(names.BROKER_APPLIED_OFFSET, broker.image.last_offset)
        yield Sample(names.BYTES_IN, traffic.bytes_in)
        yield Sample(names.MESSAGES_IN, traffic.messages_in)
        yield Sample(names.BYTES_OUT, traffic.bytes_out)
        yield Sample(names.REPLICATION_IN, broker.replicas.replicated_bytes)
        yield Sample(names.REPLICATION_OUT, broker.traffic.replication_bytes_out)
        yield Sample(names.FAILED_PRODUCES, traffic.produce_failures)
        yield Sample(names.ISR_SHRINKS, isr.shrinks)
        yield Sample(names.ISR_EXPANDS, isr.expands)
        yield Sample(names.FAILED_ISR_UPDATES, isr.failures)
        yield from _replicas(broker)

    # -- the planes -----------------------------------------------------------------------------------------------

    def _planes(self, now: int, busy: int) -> Collected:
        node = self._node
        idle = self._network_idle.read(now, busy)
        control = self._control_idle.read(now, node.control_times.busy)
        data = self._data_idle.read(now, node.data_times.busy)
        nothing = float("nan")
        yield Sample(names.DATA_QUEUE, len(node.data))
        yield Sample(names.CONTROL_QUEUE, len(node.control))
        yield Sample(names.DATA_RESPONSES, node.connections.answers_waiting(node.data))
        yield Sample(names.CONTROL_RESPONSES, node.connections.answers_waiting(node.control))
        yield Sample(names.DATA_NETWORK_IDLE, idle if node.config.is_broker else nothing)
        yield Sample(names.CONTROL_NETWORK_IDLE, idle if node.config.is_controller else nothing)
        yield Sample(names.DATA_HANDLER_IDLE, data if node.config.is_broker else nothing)
        yield Sample(names.CONTROL_HANDLER_IDLE, control if node.config.is_controller else nothing)
        yield Sample(names.DATA_EXPIRED, node.data.expired)
        yield Sample(names.CONTROL_EXPIRED, node.control.expired)
        for channel in (node.data, node.control):
            yield Sample(names.CHANNEL_PAUSES, channel.pauses, (("plane", channel.name),))
        for listener, opened, total in node.connections.by_listener():
            labels = (("listener", listener),)
            yield Sample(names.CONNECTIONS, opened, labels)
            yield Sample(names.CONNECTIONS_OPENED, total, labels)


def _census(image: MetadataImage) -> Collected:
    """Topic-partitions of the cluster, counted by looking at every one; an image may have millions."""
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
            if total % BREATH == 0:
                yield None
    yield Sample(names.TOPICS, len(topics))
    yield Sample(names.PARTITIONS, total)
    yield Sample(names.OFFLINE_PARTITIONS, offline)
    yield Sample(names.IMBALANCED_PARTITIONS, imbalanced)


def _replicas(broker: Broker) -> Collected:
    """Topic-partitions of one broker, in all and one by one."""
    led = under = below = at = offline = 0
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
            in_sync, wanted = len(replica.isr), len(replica.state.replicas) if replica.state is not None else 0
            under += in_sync < wanted
            below += in_sync < replica.min_isr
            at += in_sync == replica.min_isr
            yield Sample(names.IN_SYNC, in_sync, labels)
            yield Sample(names.REPLICA_COUNT, wanted, labels)
        offline += replica.leader < 0
        if number % BREATH == 0:
            yield None
    yield Sample(names.PARTITION_COUNT, len(hosted))
    yield Sample(names.LEADER_COUNT, led)
    yield Sample(names.UNDER_REPLICATED, under)
    yield Sample(names.UNDER_MIN_ISR, below)
    yield Sample(names.AT_MIN_ISR, at)
    yield Sample(names.OFFLINE_REPLICAS, offline)


def _requests(plane: PlaneTimes) -> Collected:
    for api_key, times in sorted(plane.by_api.items()):
        labels = (("plane", plane.name), ("request", api_name(api_key)))
        yield Sample(names.REQUESTS, times.count, labels)
        queue, local, remote, total = times.values()
        for metric, ascending, all_of_them in (
            (names.QUEUE_TIME, queue, times.queue),
            (names.LOCAL_TIME, local, times.local),
            (names.REMOTE_TIME, remote, times.remote),
            (names.TOTAL_TIME, total, times.total),
        ):
            yield from summary(metric, labels, ascending, times.count, all_of_them)


def summary(metric: Metric, labels: Labels, ascending: Sequence[int], count: int, total: int) -> Collected:
    """Quantiles of microseconds in milliseconds, with their number and sum."""
    for of in QUANTILES:
        yield Sample(metric, quantile(ascending, of) / 1000, (*labels, ("quantile", f"{of:g}")))
    yield Sample(metric, total / 1000, labels, "_sum")
    yield Sample(metric, count, labels, "_count")

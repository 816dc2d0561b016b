"""Collect a node's metrics from the counters of its components, on request.

Nothing is computed ahead: components keep plain counters, and `Collector.collect` reads them, the images and the logs.
That may take long at two million topic-partitions, so it is a generator that yields None where its host may let the
node do other work; the samples are then not of one instant, as with any metrics.

Sans-IO like the rest: the host adds what only it knows, processor time and memory (`nodes/server`). The table of names
is `metric_names.py`; `nodes/server/metrics_endpoint.py` renders the text.

Shared by the planes: one thread serves both, so the network's idleness is the same figure for both. The order within a
turn separates them (`node.py`), and queue and handlers have separate figures. CL-18's names for the control plane are
used for the controller listener of a quorum, and for KIP-291's listener of a ZooKeeper-era broker.
"""

from __future__ import annotations

from squall.nodes.metadata.features import METADATA_VERSION
from squall.nodes.node.base import BaseNode
from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics.broker_metrics import broker_metrics, metadata_lag
from squall.nodes.node.metrics.controller_metrics import controller_metrics
from squall.nodes.node.metrics.samples import Collected, Sample, summary
from squall.nodes.node.metrics.zookeeper_metrics import zookeeper_metrics
from squall.nodes.node.node import Node
from squall.nodes.node.timings import IdleMeter, PlaneTimes, api_name, quantile
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.ports import WallClock
from squall.nodes.raft.roles import Leader

RAFT_STATES = ("leader", "candidate", "prospective", "follower", "unattached", "resigned", "observer")
PURGATORIES = ("Produce", "Fetch", "DeleteRecords")
"""What brokers park; reported even where nothing is parked."""


class Collector:
    """Reads one node. It keeps only earlier readings of idleness."""

    def __init__(self, node: BaseNode, clock: WallClock, now: int, busy: int) -> None:
        """`now` and `busy` as in `collect`: the first reading of idleness."""
        self._node = node
        self._clock = clock
        self._network_idle = IdleMeter(now, busy)
        self._data_idle = IdleMeter(now, node.data_times.busy)
        self._control_idle = IdleMeter(now, node.control_times.busy)

    def collect(self, now: int, busy: int) -> Collected:
        """Yield all samples; None where the host may pause.

        `busy` is the processor time of the node's thread, in µs.
        """
        node = self._node
        now_ms = self._clock.now_ms()
        if isinstance(node, Node):
            yield from _quorum(node)
            yield from _metadata(node, now)
            if node.controller is not None:
                yield from controller_metrics(node.controller, node.controller_times, node.raft.high_watermark, now_ms)
        if isinstance(node, ZooKeeperNode):
            yield from zookeeper_metrics(node.client, node.controller, node.times)
        if node.broker is not None:
            if isinstance(node, Node):
                yield from metadata_lag(node.broker, now_ms)
            yield from broker_metrics(node.broker)
            yield from _purgatories(node)
        yield from self._planes(now, busy)
        yield from _requests(node.control_times)
        yield None
        yield from _requests(node.data_times)
        for api_key, recent in sorted(node.links.controller_times.items()):
            labels = (("request", api_name(api_key)),)
            yield from summary(names.CONTROLLER_REQUEST_TIME, labels, recent.values(), recent.count, recent.total)

    # -- the planes -----------------------------------------------------------------------------------------------

    def _planes(self, now: int, busy: int) -> Collected:
        node = self._node
        idle = self._network_idle.read(now, busy)
        control = self._control_idle.read(now, node.control_times.busy)
        data = self._data_idle.read(now, node.data_times.busy)
        nothing = float("nan")
        has_control = bool(node.config.control_listeners)
        yield Sample(names.DATA_QUEUE, len(node.data))
        yield Sample(names.CONTROL_QUEUE, len(node.control))
        yield Sample(names.DATA_RESPONSES, node.connections.answers_waiting(node.data))
        yield Sample(names.CONTROL_RESPONSES, node.connections.answers_waiting(node.control))
        yield Sample(names.DATA_NETWORK_IDLE, idle if node.config.is_broker else nothing)
        yield Sample(names.CONTROL_NETWORK_IDLE, idle if has_control else nothing)
        yield Sample(names.DATA_HANDLER_IDLE, data if node.config.is_broker else nothing)
        yield Sample(names.CONTROL_HANDLER_IDLE, control if has_control else nothing)
        yield Sample(names.DATA_EXPIRED, node.data.expired)
        yield Sample(names.CONTROL_EXPIRED, node.control.expired)
        for channel in (node.data, node.control):
            yield Sample(names.CHANNEL_PAUSES, channel.pauses, (("plane", channel.name),))
        for listener, opened, total in node.connections.by_listener():
            labels = (("listener", listener),)
            yield Sample(names.CONNECTIONS, opened, labels)
            yield Sample(names.CONNECTIONS_OPENED, total, labels)


def _quorum(node: Node) -> Collected:
    raft, watch = node.raft, node.quorum_watch
    leader, epoch = raft.leader_and_epoch
    observes = not raft.votes and raft.role.name in ("follower", "unattached")
    state = "observer" if observes else raft.role.name
    for one in RAFT_STATES:
        yield Sample(names.RAFT_STATE, float(one == state), (("state", one),))
    voted = raft.role.voted
    last_epoch = raft.log.last_epoch
    yield Sample(names.RAFT_LEADER, -1 if leader is None else leader)
    yield Sample(names.RAFT_VOTE, -1 if voted is None else voted.id)
    yield Sample(names.RAFT_EPOCH, epoch)
    yield Sample(names.RAFT_HIGH_WATERMARK, raft.high_watermark)
    yield Sample(names.RAFT_END_OFFSET, raft.end_offset)
    yield Sample(names.RAFT_END_EPOCH, last_epoch)
    yield Sample(names.RAFT_VOTERS, len(raft.voters.voters))
    if isinstance(raft.role, Leader):
        yield Sample(names.RAFT_OBSERVERS, len(raft.role.observers))
        yield Sample(names.RAFT_VOTER_CHANGE, raft.voters_uncommitted)
    yield Sample(names.RAFT_APPENDED, raft.log.written_records)
    yield Sample(names.RAFT_FETCHED, raft.log.fetched_records)
    for average, most, recent in (
        (names.RAFT_COMMIT_AVG, names.RAFT_COMMIT_MAX, watch.commits),
        (names.RAFT_ELECTION_AVG, names.RAFT_ELECTION_MAX, watch.elections),
    ):
        values = recent.values()
        yield Sample(average, sum(values) / len(values) / 1000 if values else float("nan"))
        yield Sample(most, quantile(values, 1) / 1000)
    yield Sample(names.NEW_CONTROLLERS, watch.new_leaders)


def _metadata(node: Node, now: int) -> Collected:
    """Metrics common to controllers and brokers: an image, and snapshots of it."""
    features: dict[str, int] = {}
    loaded = 0
    if node.controller is not None:
        features = node.controller.committed.features
        loaded += node.controller.snapshots_loaded
    if node.broker is not None:
        features = node.broker.image.features
        loaded += node.broker.observer.snapshots_loaded
    leader = node.raft.leader_and_epoch[0]
    latest = node.raft.snapshots.latest
    yield Sample(names.METADATA_VERSION, features.get(METADATA_VERSION, -1))
    yield Sample(names.LOADED_SNAPSHOTS, loaded)
    yield Sample(names.CURRENT_CONTROLLER, -1 if leader is None else leader)
    yield Sample(names.SNAPSHOT_BYTES, 0 if latest is None else node.raft.snapshots.size_of(latest))
    yield Sample(names.SNAPSHOT_AGE, (now - node.snapshot_generator.made_at) // 1000)


def _purgatories(node: BaseNode) -> Collected:
    """Requests of the data plane that were handled and are not answered yet."""
    parked = dict.fromkeys(PURGATORIES, 0)
    for api_key, count in node.connections.parked(node.data):
        name = api_name(api_key)
        if name in parked:
            parked[name] = count
    for name, count in parked.items():
        yield Sample(names.PURGATORY, count, (("delayed_operation", name),))


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

"""METRIC: what a node says of itself by its metrics is what it has done, and what the cluster is.

Operators act by metrics, and nothing else that a node does depends on them: a counter that misses a path, or a gauge
with a wrong condition, shows nowhere. So the observer counts what it sees of each process, and compares at the end,
when all topic-partitions are whole and nobody asks:

* requests answered, by API; connections accepted, by listener; topic-partitions of produce requests, and those refused;
  topic-partitions of consumers' fetches that were refused, and the bytes that consumers and followers were sent;
  records and bytes from producers, by what leaders have appended; bytes that its followers have fetched, by what they
  have appended and what they were sent; requests that a controller has decided;
* topic-partitions that the broker hosts and leads, and those of them that lack members or a leader, by the metadata;
* brokers, topics and topic-partitions as the controllers count them; one of these is active;
* metadata records that it has appended, as the leader and as a follower; snapshots that it has loaded; leaders of the
  quorum that it has known after its turns;
* changes of ISRs: each that it has sent ended well, failed, or is under way, and no more ended well than controllers
  accepted;
* elections of eligible leaders and unclean ones that it has decided, by the records of its epochs;
* how it stands (`expected_gauges.py`): its part in the quorum, the ISRs of what it leads, its logs and its newest
  snapshot by the files on its disk, the requests that wait at it.

Legal: that no controller is active before an election is over (`voter-crash-storm` seed 70004); an answer that was made
for a connection which had ended, and that nobody saw. So what is sent may be more than what was seen, unless no
connection has ended. A produce request that fails while it waits was not refused. An election that was lost with the
leadership of the quorum counts nevertheless.

Source: docs/metrics.md (KIP-1131, CL-18). Asserted at the end of a run, on nodes of a quorum; of brokers, ISRs and
waiting requests also within it, after one in twenty of the turns that touch metadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from squall.harness.simulation.observer.rules.node.expected_gauges import (
    Finding,
    leads_by_its_image,
    of_leaders,
    of_logs,
    of_parked,
    of_registrations,
    of_snapshots,
    of_the_quorum,
)
from squall.harness.simulation.observer.rules.rule import Rule, is_of_follower, is_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.broker import Broker
from squall.nodes.broker.requests.fetch_sessions import fetcher_of
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node.base import BaseNode
from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics.collector import Collector
from squall.nodes.node.metrics.metric_names import Metric
from squall.nodes.node.metrics.samples import Labels
from squall.nodes.node.node import Node
from squall.nodes.node.timings import api_name
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse
from squall.nodes.protocol.messages.produce import ProduceResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.roles import Leader
from squall.nodes.replication.replica import TopicPartitionReplica

WHILE_IT_WAITED = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Errors with which a produce request may end that was not refused."""
RUNNING = 3
LOOK_EACH = 20
"""One in so many turns that touch metadata is followed by a look at the gauges."""
Told = dict[tuple[Metric, Labels], float]
ANY = float("inf")


@dataclass(slots=True)
class _Done:
    """What a process was seen to do in one incarnation."""

    incarnation: int
    is_known: bool = False
    """Whether it has been looked at after a turn."""
    examined: int = 0
    """Its turns that touched metadata."""
    answered: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    closed: int = 0
    produces: int = 0
    refused: int = 0
    failed: int = 0
    """Topic-partitions of produce requests that were refused, or failed while they waited."""
    fetches: int = 0
    refused_fetches: int = 0
    to_consumers: int = 0
    to_followers: int = 0
    appended: int = 0
    appended_bytes: int = 0
    """Records that its replicas have appended as leaders, and bytes."""
    replicated: int = 0
    sent: int = 0
    """Bytes that its replicas have appended as followers, and that leaders have sent them."""
    accepted: int = 0
    """Changes of ISRs that controllers have accepted from it, whether or not it has heard so."""
    written: Counter[int] = field(default_factory=Counter)
    """Metadata records that it has appended as the leader of the quorum, by epoch."""
    fetched: int = 0
    """Metadata records that it has appended as a follower."""
    leader: tuple[int | None, int] | None = None
    leaders: int = 0
    """The leader and epoch of the quorum that it knew after its last turn, and how many of them it has known."""
    loaded: int = 0
    """Snapshots from which its controller or broker has taken an image."""


class ToldMetrics(Rule):
    """See the module."""

    events = ("append", "snapshot_loaded")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._done: dict[str, _Done] = {}

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == "snapshot_loaded":
            self._of(self.cluster.processes[self.cluster.names[int(fields["node"])]]).loaded += 1
            return
        if "broker" not in fields:
            self._metadata_appended(fields)
            return
        process = self.cluster.processes[self.cluster.names[int(fields["broker"])]]
        if not isinstance(process.node, Node) or process.node.broker is None:
            return
        hosted = process.node.broker.replicas.by_name(str(fields["topic"]), int(fields["partition"]))
        if hosted is not None:
            self._replica_appended(process, hosted.replica, int(fields["first"]), int(fields["last"]) + 1)

    def _replica_appended(self, process: SimProcess, replica: TopicPartitionReplica, first: int, end: int) -> None:
        done = self._of(process)
        with process.disk.at_no_cost():
            begin = max(first, replica.log.start_offset)
            size = sum(len(content) for _, content in self.cluster.batches(replica, end, begin))
        if replica.is_leader:
            done.appended += end - first
            done.appended_bytes += size
        else:
            done.replicated += size

    def _metadata_appended(self, fields: Mapping[str, Any]) -> None:
        process = self.cluster.processes[self.cluster.names[int(fields["node"])]]
        if not isinstance(process.node, Node):
            return
        count = int(fields["last"]) - int(fields["first"]) + 1
        if process.node.raft.is_leader:
            self._of(process).written[int(fields["epoch"])] += count
        else:
            self._of(process).fetched += count

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if not isinstance(node, Node):
            return
        done = self._of(process)
        if not done.is_known:
            done.is_known = True
            done.answered += _answered_unseen(node)
        leader = node.raft.leader_and_epoch
        if leader != done.leader:
            done.leader = leader
            done.leaders += leader[0] is not None
        for method, arguments in process.last_inputs:
            if arguments[0] > 0 and method.__name__ == "opened":
                done.opened[str(arguments[1])] += 1
            elif arguments[0] > 0 and method.__name__ == "closed":
                done.closed += 1

    def images_examined(self, process: SimProcess, node: BaseNode) -> None:
        done = self._done.get(process.name)
        if done is None or not isinstance(node, Node):
            return
        done.examined += 1
        if done.examined % LOOK_EACH:
            return
        told = collected(node, process.now)
        findings: list[Finding] = []
        if node.controller is not None:
            findings += of_registrations(told, node.controller.committed)
        if node.broker is not None:
            findings += _of_broker(told, node, node.broker)
        for what, value, least, most in findings:
            check_metric(process.name, what, value, least, most)

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        answer = request.answer
        if answer is None or answer.close or not isinstance(node, Node):
            return
        done = self._of(process)
        done.answered[api_name(request.api_key)] += 1
        if isinstance(answer.response, ProduceResponse):
            _count_produced(done, answer.response)
        elif isinstance(answer.response, AlterPartitionResponse):
            self._count_accepted(request.body, answer.response)
        elif isinstance(answer.response, FetchResponse) and not is_of_quorum(request.body):
            follower, sent = _count_fetched(done, request, answer.response)
            if follower in self.cluster.names:
                self._of(self.cluster.processes[self.cluster.names[follower]]).sent += sent

    def _count_accepted(self, asked: Message, told: AlterPartitionResponse) -> None:
        if isinstance(asked, AlterPartitionRequest) and asked.broker_id in self.cluster.names:
            done = self._of(self.cluster.processes[self.cluster.names[asked.broker_id]])
            done.accepted += sum(not one.error_code for topic in told.topics for one in topic.partitions)

    def at_end(self) -> None:
        newest = self.cluster.images.newest_image
        processes = self.cluster.processes
        nodes = {name: one.node for name, one in processes.items() if isinstance(one.node, Node)}
        told = {name: collected(node, processes[name].now) for name, node in nodes.items()}
        for name, node in nodes.items():
            if newest is None:
                continue
            findings = [*_of_requests(told[name], self._of(processes[name])), *self._of_state(told[name], name, node)]
            if node.broker is not None:
                findings += _of_topic_partitions(told[name], node.broker, node.config.node_id)
            if node.controller is not None and node.controller.committed.last_offset == newest.last_offset:
                findings += [*_of_the_cluster(told[name], newest), *of_registrations(told[name], newest)]
                findings += self._of_elections(told[name], self._of(processes[name]))
            if node.controller is not None:
                findings.append(_of_decided(told[name], node, self._of(processes[name])))
            for what, value, least, most in findings:
                check_metric(name, what, value, least, most)
        active = [told[name][names.ACTIVE_CONTROLLERS, ()] for name, node in nodes.items() if node.controller]
        if active:
            least = int(any(_commits(node) for node in nodes.values()))
            check_metric("the controllers together", "active controllers", sum(active), least, 1)

    def _of_state(self, told: Told, name: str, node: Node) -> Iterator[Finding]:
        process = self.cluster.processes[name]
        done = self._of(process)
        yield from of_the_quorum(told, node, self.cluster.metadata.voters)
        yield names.RAFT_APPENDED.name, told[names.RAFT_APPENDED, ()], done.written.total(), done.written.total()
        yield names.RAFT_FETCHED.name, told[names.RAFT_FETCHED, ()], done.fetched, done.fetched
        yield names.NEW_CONTROLLERS.name, told[names.NEW_CONTROLLERS, ()], done.leaders, done.leaders
        yield names.LOADED_SNAPSHOTS.name, told[names.LOADED_SNAPSHOTS, ()], done.loaded, done.loaded
        yield from of_snapshots(told, node, process.disk)
        if node.broker is not None:
            yield from _of_broker(told, node, node.broker)
            yield from _of_isr_changes(told, node.broker, done)
            yield from of_logs(told, node.broker, process.disk)

    def _of_elections(self, told: Told, done: _Done) -> Iterator[Finding]:
        """Elections that a controller has decided: those committed, and those that were lost with its leadership."""
        metadata = self.cluster.metadata
        is_committed = all(metadata.records[epoch] == count for epoch, count in done.written.items())
        for metric, elected in (
            (names.UNCLEAN_ELECTIONS, metadata.unclean_elections),
            (names.ELIGIBLE_ELECTIONS, metadata.eligible_elections),
        ):
            least = sum(elected[epoch] for epoch in done.written)
            yield metric.name, told[metric, ()], least, least if is_committed else ANY

    def _of(self, process: SimProcess) -> _Done:
        done = self._done.get(process.name)
        if done is None or done.incarnation != process.incarnation:
            done = self._done[process.name] = _Done(process.incarnation)
        return done


def _of_broker(told: Told, node: Node, broker: Broker) -> Iterator[Finding]:
    yield from of_parked(told, broker)
    if leads_by_its_image(broker, node.config.node_id):
        yield from of_leaders(told, broker, node.config.node_id, node.config.min_insync_replicas)


def _of_isr_changes(told: Told, broker: Broker, done: _Done) -> Iterator[Finding]:
    ended_well = told[names.ISR_EXPANDS, ()] + told[names.ISR_SHRINKS, ()]
    yield "committed changes of ISRs", ended_well, 0, done.accepted
    ended = broker.isr_sender.sent_count - broker.isr_sender.in_flight
    yield "changes of ISRs that have ended", ended_well + told[names.FAILED_ISR_UPDATES, ()], ended, ended


def _commits(node: Node) -> bool:
    """Whether a node leads the quorum and has committed a record of its epoch."""
    return isinstance(node.raft.role, Leader) and node.raft.role.high_watermark is not None


def _answered_unseen(node: BaseNode) -> Counter[str]:
    """Return what a node has answered in its first turn, before anybody looked."""
    found: Counter[str] = Counter()
    for plane in (node.control_times, node.data_times):
        for api_key, times in plane.by_api.items():
            found[api_name(api_key)] += times.count
    return found


def collected(node: Node | ZooKeeperNode, now: int) -> Told:
    """Return what a node's metrics say, by metric and labels."""
    collector = Collector(node, _NoClock(), now, 0)
    samples = [sample for sample in collector.collect(now, 0) if sample is not None]
    return {(one.metric, one.labels): one.value for one in samples if not one.suffix}


class _NoClock:
    """Ages are not looked at."""

    def now_ms(self) -> int:
        return 0


def _count_produced(done: _Done, response: ProduceResponse) -> None:
    for topic in response.responses:
        for one in topic.partition_responses:
            done.produces += 1
            done.failed += one.error_code != 0
            done.refused += one.error_code != 0 and one.error_code not in WHILE_IT_WAITED


def _count_fetched(done: _Done, request: ServerRequest, response: FetchResponse) -> tuple[int, int]:
    """Count the answer of a fetch; return the follower that it is for, -1 for a consumer, and its bytes."""
    assert isinstance(request.body, FetchRequest)
    parts = [part for topic in response.responses for part in topic.partitions]
    size = sum(len(part.records or b"") for part in parts)
    if is_of_follower(request.body):
        done.to_followers += size
        return fetcher_of(request)[0], size
    done.fetches += len(parts)
    done.to_consumers += size
    done.refused_fetches += sum(part.error_code != 0 for part in parts)
    return -1, size


def _of_requests(told: Told, done: _Done) -> Iterator[Finding]:
    answered: Counter[str] = Counter()
    opened: Counter[str] = Counter()
    for (metric, labels), value in told.items():
        if metric is names.REQUESTS:
            answered[dict(labels)["request"]] += int(value)
        elif metric is names.CONNECTIONS_OPENED:
            opened[dict(labels)["listener"]] += int(value)
    for api in answered.keys() | done.answered.keys():
        yield f"answered requests of {api}", answered[api], done.answered[api], done.answered[api]
    for listener in opened.keys() | done.opened.keys():
        yield f"connections to {listener}", opened[listener], done.opened[listener], done.opened[listener]
    if (names.PRODUCES, ()) not in told:
        return
    yield names.MESSAGES_IN.name, told[names.MESSAGES_IN, ()], done.appended, done.appended
    yield names.REPLICATION_IN.name, told[names.REPLICATION_IN, ()], done.replicated, done.sent
    unseen = ANY if done.closed else 0
    for metric, least, most in (
        (names.PRODUCES, done.produces, done.produces),
        (names.FAILED_PRODUCES, done.refused, done.failed),
        (names.BYTES_IN, done.appended_bytes, done.appended_bytes),
        (names.BYTES_OUT, done.to_consumers, done.to_consumers),
        (names.REPLICATION_OUT, done.to_followers, done.to_followers),
        (names.FETCHES, done.fetches, ANY),
        (names.FAILED_FETCHES, done.refused_fetches, done.refused_fetches),
    ):
        yield metric.name, told[metric, ()], least, most + unseen


def _of_decided(told: Told, node: Node, done: _Done) -> Finding:
    """The requests that a controller has begun to decide: those answered, and those whose connection ended first."""
    assert node.controller is not None
    plane = ("plane", node.control_times.name)
    wanted = {api_name(api_key) for api_key in node.controller.api_keys}
    answered = sum(
        value
        for (metric, labels), value in told.items()
        if metric is names.REQUESTS and plane in labels and dict(labels)["request"] in wanted
    )
    return names.EVENTS_STARTED.name, told[names.EVENTS_STARTED, ()], answered, ANY if done.closed else answered


def _of_topic_partitions(told: Told, broker: Broker, number: int) -> Iterator[Finding]:
    hosted = led = lacking = leaderless = 0
    for topic in broker.image.topics.values():
        for one in topic.of_broker(number):
            found = topic.partitions[one]
            hosted += 1
            leaderless += found.leader < 0
            led += found.leader == number
            lacking += found.leader == number and bool(set(found.replicas) - set(found.isr) - set(found.adding))
    for metric, expected in (
        (names.BROKER_STATE, RUNNING),
        (names.PARTITION_COUNT, hosted),
        (names.LEADER_COUNT, led),
        (names.UNDER_REPLICATED, lacking),
        (names.OFFLINE_REPLICAS, leaderless),
    ):
        yield metric.name, told[metric, ()], expected, expected


def _of_the_cluster(told: Told, image: MetadataImage) -> Iterator[Finding]:
    registered = list(image.brokers.values())
    partitions = [found for _, _, found in image.all_partitions()]
    for metric, expected in (
        (names.FENCED_BROKERS, sum(one.fenced for one in registered)),
        (names.ACTIVE_BROKERS, sum(not one.fenced for one in registered)),
        (names.TOPICS, len(image.topics)),
        (names.PARTITIONS, len(partitions)),
        (names.OFFLINE_PARTITIONS, sum(one.leader < 0 for one in partitions)),
        (names.IMBALANCED_PARTITIONS, sum(one.leader != one.replicas[0] for one in partitions)),
    ):
        yield metric.name, told[metric, ()], expected, expected


def check_metric(who: str, what: str, value: float, least: float, most: float) -> None:
    """Check that a metric is within bounds. Raises InvariantBroken."""
    if not least <= value <= most:
        expected = f"{least:g}" if least == most else f"{least:g} or more" if most == ANY else f"{least:g} to {most:g}"
        raise InvariantBroken("METRIC", f"{what}: {who} says {value:g}, and it is {expected}")

"""The metrics of a node and their names, each mapping one to one to Kafka's (docs/metrics.md).

A metric is defined by the name that Kafka gives it in JMX, and its Prometheus name follows by rule:

    kafka.controller:type=KafkaController,name=ActiveControllerCount   kafka_controller_active_controller_count
    kafka.server:type=raft-metrics,attribute=current-epoch             kafka_server_raft_current_epoch
    kafka.server:type=ReplicaManager,name=IsrShrinksPerSec             kafka_server_isr_shrinks_total
    kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=     kafka_server_topic_bytes_in_total

the domain, the group where Kafka's metric is an attribute of one, the name in snake case. What Kafka keeps as a rate
(`…PerSec`, `…-rate`) is a counter here, and Prometheus' `rate()` makes the rate. A JMX name that ends in properties
without values has them as labels; where Kafka has the same metric for all topics and for each, the one for each has
`topic` in its name, so that no sum counts anything twice. Metrics without a counterpart in Kafka begin with `squall_`;
those of the process have the names that Prometheus' own clients use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GAUGE, COUNTER, SUMMARY = "gauge", "counter", "summary"
_GROUPS = {"raft-metrics": "raft", "socket-server-metrics": "socket_server", "broker-metadata-metrics": "broker"}
_RATES = {"PerSec": "Total", "-rate": "-total"}
_OF_EACH_TOPIC = re.compile(r".*:type=BrokerTopicMetrics,.*,topic=")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `jmx` is Kafka's name, None if Kafka has none."""

    name: str
    kind: str
    about: str
    jmx: str | None


def prometheus_name(jmx: str) -> str:
    """The Prometheus name of Kafka's metric. Raises ValueError if it is not a metric's name."""
    matched = re.fullmatch(r"([a-z.]+):type=([A-Za-z-]+),(?:name|attribute)=([A-Za-z0-9-]+)(?:,.*)?", jmx)
    if matched is None:
        raise ValueError(f"{jmx!r} is not domain:type=…,name=… or domain:type=…,attribute=…")
    domain, group, name = matched.groups()
    for rate, total in _RATES.items():
        if name.endswith(rate):
            name = name.removesuffix(rate) + total
    parts = [domain.replace(".", "_"), *([_GROUPS[group]] if group in _GROUPS else []), _snake(name)]
    if _OF_EACH_TOPIC.match(jmx):
        parts.insert(1, "topic")
    return "_".join(parts)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def _kafka(jmx: str, kind: str, about: str) -> Metric:
    return Metric(prometheus_name(jmx), kind, about, jmx)


# -- the quorum -----------------------------------------------------------------------------------------------------

_RAFT = "kafka.server:type=raft-metrics,attribute="
RAFT_STATE = _kafka(f"{_RAFT}current-state", GAUGE, "1 for the state this replica is in, 0 for the others")
RAFT_LEADER = _kafka(f"{_RAFT}current-leader", GAUGE, "id of the quorum's leader, -1 if unknown")
RAFT_VOTE = _kafka(f"{_RAFT}current-vote", GAUGE, "id of the voter voted for in this epoch, -1 if none")
RAFT_EPOCH = _kafka(f"{_RAFT}current-epoch", GAUGE, "the quorum's epoch")
RAFT_HIGH_WATERMARK = _kafka(f"{_RAFT}high-watermark", GAUGE, "all below this offset is committed; -1 if unknown")
RAFT_END_OFFSET = _kafka(f"{_RAFT}log-end-offset", GAUGE, "the next offset of the metadata log")
RAFT_END_EPOCH = _kafka(f"{_RAFT}log-end-epoch", GAUGE, "the epoch of the metadata log's last record")
RAFT_VOTERS = _kafka(f"{_RAFT}number-of-voters", GAUGE, "number of voters, according to this node's log")
RAFT_OBSERVERS = _kafka(
    f"{_RAFT}number-of-observers", GAUGE, "observers that fetch from here; reported by the leader only"
)
RAFT_VOTER_CHANGE = _kafka(
    f"{_RAFT}uncommitted-voter-change",
    GAUGE,
    "1 while a change of the voters is not committed, else 0; reported by the leader only",
)
RAFT_APPENDED = _kafka(f"{_RAFT}append-records-rate", COUNTER, "records written to the metadata log as its leader")
RAFT_FETCHED = _kafka(f"{_RAFT}fetch-records-rate", COUNTER, "records of the metadata log fetched from a leader")
RAFT_COMMIT_AVG = _kafka(f"{_RAFT}commit-latency-avg", GAUGE, "ms to commit a record, mean of the last 1024; leader")
RAFT_COMMIT_MAX = _kafka(f"{_RAFT}commit-latency-max", GAUGE, "ms to commit a record, most of the last 1024; leader")
RAFT_ELECTION_AVG = _kafka(f"{_RAFT}election-latency-avg", GAUGE, "ms from standing to knowing a leader, mean")
RAFT_ELECTION_MAX = _kafka(f"{_RAFT}election-latency-max", GAUGE, "ms from standing to knowing a leader, most")

# -- the metadata and its snapshots, on controllers and brokers ------------------------------------------------------

_LOADER = "kafka.server:type=MetadataLoader,name="
METADATA_VERSION = _kafka(f"{_LOADER}CurrentMetadataVersion", GAUGE, "the level of metadata.version; -1 if none yet")
LOADED_SNAPSHOTS = _kafka(f"{_LOADER}HandleLoadSnapshotCount", COUNTER, "snapshots loaded in place of the log")
CURRENT_CONTROLLER = _kafka(f"{_LOADER}CurrentControllerId", GAUGE, "id of the active controller, -1 if unknown")
_EMITTER = "kafka.server:type=SnapshotEmitter,name="
SNAPSHOT_BYTES = _kafka(f"{_EMITTER}LatestSnapshotGeneratedBytes", GAUGE, "size of the newest snapshot here; 0 if none")
SNAPSHOT_AGE = _kafka(
    f"{_EMITTER}LatestSnapshotGeneratedAgeMs", GAUGE, "ms since this node made a snapshot, or since its start"
)

# -- the controller -------------------------------------------------------------------------------------------------

_CONTROLLER = "kafka.controller:type=KafkaController,name="
ACTIVE_CONTROLLERS = _kafka(f"{_CONTROLLER}ActiveControllerCount", GAUGE, "1 on the active controller, else 0")
FENCED_BROKERS = _kafka(f"{_CONTROLLER}FencedBrokerCount", GAUGE, "registered brokers that are fenced")
ACTIVE_BROKERS = _kafka(f"{_CONTROLLER}ActiveBrokerCount", GAUGE, "registered brokers that are not fenced")
SHUTTING_DOWN_BROKERS = _kafka(
    f"{_CONTROLLER}ControlledShutdownBrokerCount", GAUGE, "registered brokers in a controlled shutdown"
)
BROKER_REGISTRATION = _kafka(
    f"{_CONTROLLER}BrokerRegistrationState,broker=", GAUGE, "10 fenced, 20 in a controlled shutdown, 30 active"
)
TOPICS = _kafka(f"{_CONTROLLER}GlobalTopicCount", GAUGE, "topics")
PARTITIONS = _kafka(f"{_CONTROLLER}GlobalPartitionCount", GAUGE, "topic-partitions")
OFFLINE_PARTITIONS = _kafka(f"{_CONTROLLER}OfflinePartitionsCount", GAUGE, "topic-partitions without a leader")
IMBALANCED_PARTITIONS = _kafka(
    f"{_CONTROLLER}PreferredReplicaImbalanceCount", GAUGE, "topic-partitions led by another than their first replica"
)
APPLIED_OFFSET = _kafka(f"{_CONTROLLER}LastAppliedRecordOffset", GAUGE, "offset of the last record replayed")
APPLIED_TIMESTAMP = _kafka(f"{_CONTROLLER}LastAppliedRecordTimestamp", GAUGE, "its timestamp in ms; -1 if none")
APPLIED_LAG = _kafka(f"{_CONTROLLER}LastAppliedRecordLagMs", GAUGE, "its age in ms; 0 on the active controller")
COMMITTED_OFFSET = _kafka(f"{_CONTROLLER}LastCommittedRecordOffset", GAUGE, "offset of the last committed record")
TIMED_OUT_HEARTBEATS = _kafka(
    f"{_CONTROLLER}TimedOutBrokerHeartbeatCount", COUNTER, "broker sessions that ended in silence, at this controller"
)
NEW_CONTROLLERS = _kafka(
    f"{_CONTROLLER}NewActiveControllersCount", COUNTER, "how often a controller became active, as seen here"
)
_STATS = "kafka.controller:type=ControllerStats,name="
UNCLEAN_ELECTIONS = _kafka(
    f"{_STATS}UncleanLeaderElectionsPerSec", COUNTER, "elections that may have lost records, by this controller"
)
ELIGIBLE_ELECTIONS = _kafka(
    f"{_STATS}ElectionFromEligibleLeaderReplicasPerSec",
    COUNTER,
    "elections of an eligible leader out of sync, by this controller",
)
EVENTS_STARTED = _kafka(
    f"{_CONTROLLER}EventQueueOperationsStartedCount", COUNTER, "requests that the controller has worked on"
)
_EVENTS = "kafka.controller:type=ControllerEventManager,name="
EVENT_QUEUE_TIME = _kafka(f"{_EVENTS}EventQueueTimeMs", SUMMARY, "ms a request waited for the controller")
EVENT_PROCESSING_TIME = _kafka(f"{_EVENTS}EventQueueProcessingTimeMs", SUMMARY, "ms the controller worked on a request")

# -- a ZooKeeper-era controller, and the session with the ensemble ---------------------------------------------------

TOPICS_TO_DELETE = _kafka(f"{_CONTROLLER}TopicsToDeleteCount", GAUGE, "topics whose deletion has not ended")
REPLICAS_TO_DELETE = _kafka(f"{_CONTROLLER}ReplicasToDeleteCount", GAUGE, "replicas of these topics")
TOPICS_INELIGIBLE = _kafka(
    f"{_CONTROLLER}TopicsIneligibleToDeleteCount", GAUGE, "topics whose deletion waits for a broker"
)
REPLICAS_INELIGIBLE = _kafka(
    f"{_CONTROLLER}ReplicasIneligibleToDeleteCount", GAUGE, "replicas whose deletion waits for their broker"
)
EVENT_QUEUE_SIZE = _kafka(f"{_EVENTS}EventQueueSize", GAUGE, "procedures that wait for the one under way")
CONTROLLER_CHANGES = _kafka(f"{_STATS}ControllerChangeRateAndTimeMs", SUMMARY, "ms to elect a controller and take over")
BROKER_CHANGES = _kafka(f"{_STATS}LeaderElectionRateAndTimeMs", SUMMARY, "ms to process brokers that came or went")
TOPIC_CHANGES = _kafka(f"{_STATS}TopicChangeRateAndTimeMs", SUMMARY, "ms to process new topics or topic-partitions")
TOPIC_DELETIONS = _kafka(f"{_STATS}TopicDeletionRateAndTimeMs", SUMMARY, "ms for one step of deleting topics")
ISR_CHANGES = _kafka(f"{_STATS}IsrChangeRateAndTimeMs", SUMMARY, "ms to process ISR changes that leaders announced")
REASSIGNMENTS = _kafka(f"{_STATS}PartitionReassignmentRateAndTimeMs", SUMMARY, "ms to begin or cancel reassignments")
REASSIGNMENT_LISTS = _kafka(f"{_STATS}ListPartitionReassignmentRateAndTimeMs", SUMMARY, "ms to list reassignments")
CONTROLLED_SHUTDOWNS = _kafka(f"{_STATS}ControlledShutdownRateAndTimeMs", SUMMARY, "ms for a broker's shutdown request")
MANUAL_ELECTIONS = _kafka(f"{_STATS}ManualLeaderBalanceRateAndTimeMs", SUMMARY, "ms for leader elections on request")
CONFIG_CHANGES = _kafka(
    f"{_STATS}UncleanLeaderElectionEnableRateAndTimeMs", SUMMARY, "ms to alter settings, and to elect leaders by them"
)
_BROKER_QUEUES = "kafka.controller:type=ControllerChannelManager,name="
REQUESTS_QUEUED = _kafka(f"{_BROKER_QUEUES}TotalQueueSize", GAUGE, "controller's requests that brokers have to answer")
BROKER_QUEUE = _kafka(f"{_BROKER_QUEUES}QueueSize,broker-id=", GAUGE, "the same of one broker")
_SESSION = "kafka.server:type=SessionExpireListener,name="
SESSION_STATE = _kafka(f"{_SESSION}SessionState", GAUGE, "1 for the state of the session with ZooKeeper, else 0")
SESSION_EXPIRIES = _kafka(f"{_SESSION}ZooKeeperExpiresPerSec", COUNTER, "sessions with ZooKeeper that expired")
SESSION_DISCONNECTS = _kafka(f"{_SESSION}ZooKeeperDisconnectsPerSec", COUNTER, "connections to ZooKeeper lost")
SESSION_CONNECTS = _kafka(f"{_SESSION}ZooKeeperSyncConnectsPerSec", COUNTER, "connections to ZooKeeper made")
ZOOKEEPER_LATENCY = _kafka(
    "kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs", SUMMARY, "ms to ZooKeeper's response"
)

# -- the broker -----------------------------------------------------------------------------------------------------

BROKER_STATE = _kafka(
    "kafka.server:type=KafkaServer,name=BrokerState",
    GAUGE,
    "0 offline, 1 fenced, 3 running, 6 handing over before it stops, 7 stopping",
)
BROKER_APPLIED_OFFSET = _kafka(
    "kafka.server:type=broker-metadata-metrics,attribute=last-applied-record-offset",
    GAUGE,
    "offset of the last metadata record this broker has applied",
)
BROKER_APPLIED_TIMESTAMP = _kafka(
    "kafka.server:type=broker-metadata-metrics,attribute=last-applied-record-timestamp",
    GAUGE,
    "its timestamp in ms; -1 if none",
)
BROKER_APPLIED_LAG = _kafka(
    "kafka.server:type=broker-metadata-metrics,attribute=last-applied-record-lag-ms", GAUGE, "its age in ms; 0 if none"
)
_REPLICAS = "kafka.server:type=ReplicaManager,name="
PARTITION_COUNT = _kafka(f"{_REPLICAS}PartitionCount", GAUGE, "topic-partitions on this broker")
LEADER_COUNT = _kafka(f"{_REPLICAS}LeaderCount", GAUGE, "topic-partitions this broker leads")
UNDER_REPLICATED = _kafka(f"{_REPLICAS}UnderReplicatedPartitions", GAUGE, "led here, with fewer in sync than replicas")
UNDER_MIN_ISR = _kafka(f"{_REPLICAS}UnderMinIsrPartitionCount", GAUGE, "led here, with fewer in sync than min ISR")
AT_MIN_ISR = _kafka(f"{_REPLICAS}AtMinIsrPartitionCount", GAUGE, "led here, with exactly min ISR in sync")
OFFLINE_REPLICAS = _kafka(f"{_REPLICAS}OfflineReplicaCount", GAUGE, "replicas here whose topic-partition has no leader")
REASSIGNING = _kafka(f"{_REPLICAS}ReassigningPartitions", GAUGE, "led here, with a reassignment under way")
ISR_SHRINKS = _kafka(f"{_REPLICAS}IsrShrinksPerSec", COUNTER, "ISR shrinks committed for leaders here")
ISR_EXPANDS = _kafka(f"{_REPLICAS}IsrExpandsPerSec", COUNTER, "ISR expansions committed for leaders here")
FAILED_ISR_UPDATES = _kafka(f"{_REPLICAS}FailedIsrUpdatesPerSec", COUNTER, "ISR changes refused or unanswered")
_TRAFFIC = "kafka.server:type=BrokerTopicMetrics,name="
BYTES_IN = _kafka(f"{_TRAFFIC}BytesInPerSec", COUNTER, "bytes of record batches from producers")
MESSAGES_IN = _kafka(f"{_TRAFFIC}MessagesInPerSec", COUNTER, "records from producers")
BYTES_OUT = _kafka(f"{_TRAFFIC}BytesOutPerSec", COUNTER, "bytes of record batches to consumers")
REPLICATION_IN = _kafka(f"{_TRAFFIC}ReplicationBytesInPerSec", COUNTER, "bytes of record batches from leaders")
REPLICATION_OUT = _kafka(f"{_TRAFFIC}ReplicationBytesOutPerSec", COUNTER, "bytes of record batches to followers")
PRODUCES = _kafka(f"{_TRAFFIC}TotalProduceRequestsPerSec", COUNTER, "topic-partitions of produce requests")
FAILED_PRODUCES = _kafka(
    f"{_TRAFFIC}FailedProduceRequestsPerSec", COUNTER, "topic-partitions of produce requests refused"
)
FETCHES = _kafka(f"{_TRAFFIC}TotalFetchRequestsPerSec", COUNTER, "topic-partitions looked into for consumers' fetches")
FAILED_FETCHES = _kafka(f"{_TRAFFIC}FailedFetchRequestsPerSec", COUNTER, "and those of them that were refused")
TOPIC_BYTES_IN = _kafka(f"{_TRAFFIC}BytesInPerSec,topic=", COUNTER, "the same of one topic")
TOPIC_MESSAGES_IN = _kafka(f"{_TRAFFIC}MessagesInPerSec,topic=", COUNTER, "the same of one topic")
TOPIC_BYTES_OUT = _kafka(f"{_TRAFFIC}BytesOutPerSec,topic=", COUNTER, "the same of one topic")
TOPIC_PRODUCES = _kafka(f"{_TRAFFIC}TotalProduceRequestsPerSec,topic=", COUNTER, "the same of one topic")
TOPIC_FAILED_PRODUCES = _kafka(f"{_TRAFFIC}FailedProduceRequestsPerSec,topic=", COUNTER, "the same of one topic")
TOPIC_FETCHES = _kafka(f"{_TRAFFIC}TotalFetchRequestsPerSec,topic=", COUNTER, "the same of one topic")
TOPIC_FAILED_FETCHES = _kafka(f"{_TRAFFIC}FailedFetchRequestsPerSec,topic=", COUNTER, "the same of one topic")
FETCH_SESSIONS = _kafka(
    "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions", GAUGE, "fetch sessions kept"
)
PURGATORY = _kafka(
    "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=",
    GAUGE,
    "requests parked, waiting for others or for time to pass",
)
_LOG = "kafka.log:type=Log,name="
LOG_SIZE = _kafka(f"{_LOG}Size,topic=,partition=", GAUGE, "bytes in the log's segments")
LOG_START = _kafka(f"{_LOG}LogStartOffset,topic=,partition=", GAUGE, "the log's first offset")
LOG_END = _kafka(f"{_LOG}LogEndOffset,topic=,partition=", GAUGE, "the log's next offset")
LOG_SEGMENTS = _kafka(f"{_LOG}NumLogSegments,topic=,partition=", GAUGE, "segments of the log")
_PARTITION = "kafka.cluster:type=Partition,name="
IN_SYNC = _kafka(f"{_PARTITION}InSyncReplicasCount,topic=,partition=", GAUGE, "replicas in sync; at the leader")
REPLICA_COUNT = _kafka(f"{_PARTITION}ReplicasCount,topic=,partition=", GAUGE, "replicas; at the leader")
PARTITION_UNDER_REPLICATED = _kafka(
    f"{_PARTITION}UnderReplicated,topic=,partition=", GAUGE, "1 with fewer in sync than replicas; at the leader"
)
PARTITION_UNDER_MIN_ISR = _kafka(
    f"{_PARTITION}UnderMinIsr,topic=,partition=", GAUGE, "1 with fewer in sync than min ISR; at the leader"
)
PARTITION_AT_MIN_ISR = _kafka(
    f"{_PARTITION}AtMinIsr,topic=,partition=", GAUGE, "1 with exactly min ISR in sync; at the leader"
)

# -- requests, channels, connections --------------------------------------------------------------------------------

_REQUESTS = "kafka.network:type=RequestMetrics,name="
REQUESTS = _kafka(f"{_REQUESTS}RequestsPerSec,request=", COUNTER, "requests answered, by plane and API")
TOTAL_TIME = _kafka(f"{_REQUESTS}TotalTimeMs,request=", SUMMARY, "ms from arrival to answer")
QUEUE_TIME = _kafka(f"{_REQUESTS}RequestQueueTimeMs,request=", SUMMARY, "ms in the request channel")
LOCAL_TIME = _kafka(f"{_REQUESTS}LocalTimeMs,request=", SUMMARY, "ms of work")
REMOTE_TIME = _kafka(f"{_REQUESTS}RemoteTimeMs,request=", SUMMARY, "ms parked, waiting for others")
_CHANNEL = "kafka.network:type=RequestChannel,name="
DATA_QUEUE = _kafka(f"{_CHANNEL}RequestQueueSize", GAUGE, "requests waiting in the data plane's channel")
DATA_RESPONSES = _kafka(f"{_CHANNEL}ResponseQueueSize", GAUGE, "answers that wait for those before them, data plane")
CONTROL_QUEUE = _kafka(f"{_CHANNEL}ControlPlaneRequestQueueSize", GAUGE, "the same for the control plane's channel")
CONTROL_RESPONSES = _kafka(
    f"{_CHANNEL}ControlPlaneResponseQueueSize", GAUGE, "answers that wait for those before them, control plane"
)
_SOCKETS = "kafka.network:type=SocketServer,name="
DATA_NETWORK_IDLE = _kafka(
    f"{_SOCKETS}NetworkProcessorAvgIdlePercent", GAUGE, "share of the last minute the event loop was idle; NaN if off"
)
CONTROL_NETWORK_IDLE = _kafka(
    f"{_SOCKETS}ControlPlaneNetworkProcessorAvgIdlePercent", GAUGE, "the same for the control plane; NaN if off"
)
DATA_EXPIRED = _kafka(f"{_SOCKETS}ExpiredConnectionsKilledCount", COUNTER, "idle connections closed, data plane")
CONTROL_EXPIRED = _kafka(
    f"{_SOCKETS}ControlPlaneExpiredConnectionsKilledCount", COUNTER, "idle connections closed, control plane"
)
_HANDLERS = "kafka.server:type=KafkaRequestHandlerPool,name="
DATA_HANDLER_IDLE = _kafka(
    f"{_HANDLERS}RequestHandlerAvgIdlePercent", GAUGE, "share of the last minute without data requests at work"
)
CONTROL_HANDLER_IDLE = _kafka(
    f"{_HANDLERS}ControlPlaneRequestHandlerAvgIdlePercent",
    GAUGE,
    "share of the last minute without control requests at work",
)
_SERVER = "kafka.server:type=socket-server-metrics,attribute="
CONNECTIONS = _kafka(f"{_SERVER}connection-count,listener=", GAUGE, "open connections")
CONNECTIONS_OPENED = _kafka(f"{_SERVER}connection-creation-total,listener=", COUNTER, "connections accepted")

# -- without a counterpart in Kafka, and the process -----------------------------------------------------------------

CHANNEL_PAUSES = Metric(
    "squall_request_channel_pauses_total", COUNTER, "connections paused because a channel was full", None
)
LONGEST_SILENCE = Metric(
    "squall_controller_longest_broker_silence_ms",
    GAUGE,
    "the most ms between two signs of life of a broker with a session, at this controller",
    None,
)
CONTROLLER_REQUEST_TIME = Metric(
    "squall_controller_request_time_ms",
    SUMMARY,
    "ms from a broker's request to the active controller to its receipt of the response",
    None,
)
ITERATION_TIME = Metric(
    "squall_iteration_time_ms",
    SUMMARY,
    "ms of one round of the node's thread; incoming requests wait this long",
    None,
)
PROCESS_CPU = Metric(
    "process_cpu_seconds_total",
    COUNTER,
    "processor time of the process",
    "java.lang:type=OperatingSystem,attribute=ProcessCpuTime",
)
PROCESS_MEMORY = Metric("process_resident_memory_bytes", GAUGE, "resident memory of the process", None)

OF_THE_HOST = (ITERATION_TIME, PROCESS_CPU, PROCESS_MEMORY)
"""Metrics that the node's host adds to the node's."""
OF_ZOOKEEPER = (
    TOPICS_TO_DELETE,
    REPLICAS_TO_DELETE,
    TOPICS_INELIGIBLE,
    REPLICAS_INELIGIBLE,
    EVENT_QUEUE_SIZE,
    CONTROLLER_CHANGES,
    BROKER_CHANGES,
    TOPIC_CHANGES,
    TOPIC_DELETIONS,
    ISR_CHANGES,
    REASSIGNMENTS,
    REASSIGNMENT_LISTS,
    CONTROLLED_SHUTDOWNS,
    MANUAL_ELECTIONS,
    CONFIG_CHANGES,
    REQUESTS_QUEUED,
    BROKER_QUEUE,
    SESSION_STATE,
    SESSION_EXPIRIES,
    SESSION_DISCONNECTS,
    SESSION_CONNECTS,
    ZOOKEEPER_LATENCY,
)
"""Metrics that only brokers on ZooKeeper have."""
METRICS = tuple(one for one in dict(globals()).values() if isinstance(one, Metric))
"""All metrics, in the order above."""

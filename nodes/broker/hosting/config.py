"""Configuration of a broker. Durations are in microseconds; a field's docstring names its Kafka property."""

from __future__ import annotations

from dataclasses import dataclass, field

from squall.nodes.metadata.image import Endpoint
from squall.nodes.replication.ports import ReplicationConfig
from squall.nodes.storage.config import LogConfig

NEVER = 2**63 - 1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """Settings of a topic that does not override them. The keys of `described` are Kafka's names of topic settings."""

    min_insync_replicas: int = 1
    log: LogConfig = field(default_factory=LogConfig)
    unclean_leader_election: bool = False

    def described(self) -> dict[str, str]:
        return {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(self.min_insync_replicas),
            **self.log.described(),
            "unclean.leader.election.enable": str(self.unclean_leader_election).lower(),
        }


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One broker."""

    node_id: int
    cluster_id: str
    endpoints: tuple[Endpoint, ...]
    """`advertised.listeners`."""
    rack: str | None = None
    rack_aware_reads: bool = False
    """`replica.selector.class` is Kafka's RackAwareReplicaSelector."""
    directory_id: bytes = bytes(16)
    log_dir: str = ""
    """`log.dirs`, as reported to clients; the node's own paths are relative to it."""
    heartbeat_interval: int = 2_000_000
    """`broker.heartbeat.interval.ms`."""
    session_timeout: int = 9_000_000
    """`broker.session.timeout.ms`: a heartbeat without a response for so long is given up."""
    registration_timeout: int = 60_000_000
    """`initial.broker.registration.timeout.ms`."""
    controlled_shutdown: bool = True
    """`controlled.shutdown.enable`."""
    controlled_shutdown_timeout: int = 8_000_000
    """`controlled.shutdown.timeout.ms`, a key that Kafka lacks.

    Kafka waits five minutes; tools that stop a process wait less.
    """
    request_timeout: int = 30_000_000
    """`request.timeout.ms`."""
    checkpoint_interval: int = 5_000_000
    """`replica.high.watermark.checkpoint.interval.ms`."""
    recovery_checkpoint_interval: int = 60_000_000
    """`log.flush.offset.checkpoint.interval.ms`."""
    retention_check_interval: int = 300_000_000
    """`log.retention.check.interval.ms`."""
    fetch_max_bytes: int = 57_671_680
    """`fetch.max.bytes`."""
    fetch_session_slots: int = 1000
    """`max.incremental.fetch.session.cache.slots`."""
    fetch_session_topic_partitions: int = 100_000
    """How many topic-partitions all fetch sessions together may name, not counting some per hosted topic-partition."""
    auto_create_topics: bool = False
    """`auto.create.topics.enable`."""
    topics: TopicDefaults = field(default_factory=TopicDefaults)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    described: tuple[tuple[str, str], ...] = ()
    """The node's own settings, for DescribeConfigs."""

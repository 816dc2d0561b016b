"""Configuration of a controller. Durations are in microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """One controller's settings; Kafka's property names are given beside the fields."""

    node_id: int
    cluster_id: str
    session_timeout: int = 9_000_000
    """`broker.session.timeout.ms`: a broker that has been silent for this long is fenced (FD-01)."""
    idle_interval: int = 500_000
    """`metadata.max.idle.interval.ms`: a record is written at least this often; 0 for never."""
    default_partitions: int = 1
    """`num.partitions`, where a request has -1."""
    default_replication_factor: int = 1
    """`default.replication.factor`, where a request has -1."""
    producer_id_block: int = 1000
    delete_topics: bool = True
    """`delete.topic.enable`."""
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Defaults of topic settings that differ from Kafka's, such as `min.insync.replicas`, by topic setting name."""
    eligible_leader_replicas: bool = True
    """`eligible.leader.replicas.version`: whether a new cluster starts with them (EL-06)."""
    last_known_leader: bool = True
    """`unclean.recovery.strategy`, for a topic-partition without any other replica known to have all records.

    `Balanced`: the last known leader may lead again. `None`: the topic-partition stays without a leader. See
    `elections`.
    """
    balances_leaders: bool = True
    """`auto.leader.rebalance.enable`: return leaderships to preferred replicas (RA-07)."""
    imbalance_check_interval: int = 300_000_000
    """`leader.imbalance.check.interval.seconds`."""
    imbalance_percentage: int = 10
    """`leader.imbalance.per.broker.percentage`: tolerated share of a broker's preferred leaderships held by others."""
    records_max: int = 10_000
    """The most records in one batch; one operation on topics may not write more (QC-21)."""

"""What a controller is told when it is made. Durations are in microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """One controller's settings; Kafka's property names stand beside the fields."""

    node_id: int
    cluster_id: str
    session_timeout: int = 9_000_000
    """`broker.session.timeout.ms`: a broker that has not been heard for so long is fenced (FD-01)."""
    idle_interval: int = 500_000
    """`metadata.max.idle.interval.ms`: a record is written at least this often; 0 for never."""
    default_partitions: int = 1
    """`num.partitions`, where a request says -1."""
    default_replication_factor: int = 1
    """`default.replication.factor`, where a request says -1."""
    producer_id_block: int = 1000
    delete_topics: bool = True
    """`delete.topic.enable`."""
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Defaults of topic settings that differ from Kafka's, such as `min.insync.replicas`, by topic setting name."""
    eligible_leader_replicas: bool = True
    """`eligible.leader.replicas.version`: whether a new cluster starts with them (EL-06)."""
    last_known_leader: bool = True
    """`unclean.recovery.strategy`: whether the last known leader may lead again when nobody else is known to have
    everything (`Balanced`), or the topic-partition stays without a leader (`None`). See `elections`."""
    balances_leaders: bool = True
    """`auto.leader.rebalance.enable`: leaderships go back to preferred replicas (RA-07)."""
    imbalance_check_interval: int = 300_000_000
    """`leader.imbalance.check.interval.seconds`."""
    imbalance_percentage: int = 10
    """`leader.imbalance.per.broker.percentage`: so much of what a broker should lead may be led by others."""
    records_max: int = 10_000
    """The most records in one batch; one operation on topics may not write more (QC-21)."""

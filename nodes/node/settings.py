"""Convert a node's configuration to those of its components: only names and units change."""

from __future__ import annotations

from dataclasses import fields

from squall.nodes.broker.hosting.config import BrokerConfig, TopicDefaults
from squall.nodes.config import RACK_AWARE_SELECTOR, NodeConfig
from squall.nodes.controller.config import ControllerConfig
from squall.nodes.metadata.image import Endpoint
from squall.nodes.metadata.snapshot_generator import SnapshotConfig
from squall.nodes.raft.config import BATCH_BYTES_MAX, FETCH_MAX_WAIT, RaftConfig, Voter
from squall.nodes.replication.ports import ReplicationConfig
from squall.nodes.storage.config import LOG_APPEND_TIME, LogConfig

MS = 1000
"""Microseconds in a millisecond."""


def raft_config(config: NodeConfig, directory_id: bytes) -> RaftConfig:
    return RaftConfig(
        node_id=config.node_id,
        cluster_id=config.cluster_id,
        directory_id=directory_id,
        voters=tuple(Voter(one.id, one.host, one.port) for one in config.controller_quorum_voters),
        dynamic_voters=config.has_dynamic_voters,
        bootstrap=tuple((one.host, one.port) for one in config.controller_quorum_bootstrap_servers),
        address=_voter_address(config),
        is_voter=config.is_controller,
        election_timeout=config.controller_quorum_election_timeout_ms * MS,
        election_backoff_max=config.controller_quorum_election_backoff_max_ms * MS,
        fetch_timeout=config.controller_quorum_fetch_timeout_ms * MS,
        fetch_max_wait=min(FETCH_MAX_WAIT, config.controller_quorum_fetch_timeout_ms * MS // 2),
        request_timeout=config.controller_quorum_request_timeout_ms * MS,
        retry_backoff=config.controller_quorum_retry_backoff_ms * MS,
        log=LogConfig(max_message_bytes=BATCH_BYTES_MAX, segment_bytes=config.metadata_log_segment_bytes),
        retention_bytes=config.metadata_max_retention_bytes,
        retention_ms=config.metadata_max_retention_ms,
    )


def _voter_address(config: NodeConfig) -> tuple[str, int] | None:
    """The address that a voter advertises; None for configured voters, whose address is in the configuration."""
    advertised = config.advertised_controller
    if not config.has_dynamic_voters or advertised is None:
        return None
    return advertised.host, advertised.port


def snapshot_config(config: NodeConfig) -> SnapshotConfig:
    return SnapshotConfig(
        bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
        interval=config.metadata_log_max_snapshot_interval_ms * MS,
    )


def topic_defaults(config: NodeConfig) -> TopicDefaults:
    return TopicDefaults(
        min_insync_replicas=config.min_insync_replicas,
        log=LogConfig(
            segment_bytes=config.log_segment_bytes,
            index_interval_bytes=config.log_index_interval_bytes,
            max_message_bytes=config.message_max_bytes,
            segment_ms=config.log_roll_ms,
            flush_messages=config.log_flush_interval_messages,
            flush_ms=config.log_flush_interval_ms,
            retention_ms=config.log_retention_ms,
            retention_bytes=config.log_retention_bytes,
            log_append_time=config.log_message_timestamp_type == LOG_APPEND_TIME,
            producer_expiration_ms=config.producer_id_expiration_ms,
        ),
        unclean_leader_election=config.unclean_leader_election_enable,
    )


def controller_config(config: NodeConfig) -> ControllerConfig:
    return ControllerConfig(
        node_id=config.node_id,
        cluster_id=config.cluster_id,
        session_timeout=config.broker_session_timeout_ms * MS,
        idle_interval=config.metadata_max_idle_interval_ms * MS,
        default_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        topic_defaults=topic_defaults(config).described(),
        eligible_leader_replicas=config.eligible_leader_replicas_version > 0,
        last_known_leader=config.unclean_recovery_strategy == "Balanced",
        balances_leaders=config.auto_leader_rebalance_enable,
        imbalance_check_interval=config.leader_imbalance_check_interval_seconds * 1000 * MS,
        imbalance_percentage=config.leader_imbalance_per_broker_percentage,
    )


def broker_config(config: NodeConfig, directory_id: bytes) -> BrokerConfig:
    return BrokerConfig(
        node_id=config.node_id,
        cluster_id=config.cluster_id,
        endpoints=tuple(Endpoint(one.listener, one.host, one.port) for one in config.advertised_broker_listeners),
        rack=config.broker_rack,
        rack_aware_reads=config.replica_selector_class == RACK_AWARE_SELECTOR,
        directory_id=directory_id,
        log_dir=str(config.log_dirs),
        heartbeat_interval=config.broker_heartbeat_interval_ms * MS,
        session_timeout=config.broker_session_timeout_ms * MS,
        registration_timeout=config.initial_broker_registration_timeout_ms * MS,
        controlled_shutdown=config.controlled_shutdown_enable,
        controlled_shutdown_timeout=config.controlled_shutdown_timeout_ms * MS,
        request_timeout=config.request_timeout_ms * MS,
        checkpoint_interval=config.replica_high_watermark_checkpoint_interval_ms * MS,
        recovery_checkpoint_interval=config.log_flush_offset_checkpoint_interval_ms * MS,
        retention_check_interval=config.log_retention_check_interval_ms * MS,
        fetch_max_bytes=config.fetch_max_bytes,
        fetch_session_slots=config.max_incremental_fetch_session_cache_slots,
        auto_create_topics=config.auto_create_topics_enable,
        topics=topic_defaults(config),
        replication=ReplicationConfig(
            lag_time_max=config.replica_lag_time_max_ms * MS,
            fetch_wait_max=config.replica_fetch_wait_max_ms * MS,
            fetch_min_bytes=config.replica_fetch_min_bytes,
            fetch_max_bytes=config.replica_fetch_max_bytes,
            fetch_response_max_bytes=config.replica_fetch_response_max_bytes,
            fetch_backoff=config.replica_fetch_backoff_ms * MS,
            request_timeout=config.replica_socket_timeout_ms * MS,
        ),
        described=described(config),
    )


def described(config: NodeConfig) -> tuple[tuple[str, str], ...]:
    """Every setting as text, for DescribeConfigs."""
    return tuple((item.name.replace("_", "."), _text(getattr(config, item.name))) for item in fields(config))


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(":".join(part) if isinstance(part, tuple) else str(part) for part in value)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)

"""Every error code of the protocol, by what it means for the record of one Produce request.

Each code is in exactly one group, and each group states its reason. `fail` is only what a broker decides *before* it
appends; all others are `info`. Codes that no broker returns for a Produce request are `info` as well: a broker that
sends one is in an unknown state.

The list is written out and not derived from the protocol's: a load worker on a client host has no code of nodes, and
the tests require that an engineer classifies every code that is new in the protocol
(tests/workloads/clients/common/test_errors.py).

Sources: Kafka's ReplicaManager, Partition and LogValidator (what is checked before the append, the response to a
request that is parked behind it), and the request that each code belongs to in Kafka's `Errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from squall.workloads.core.operation import FAIL, INFO, OK, CompletionType


@dataclass(frozen=True)
class Group:
    """Codes, with Kafka's names in lower case, that mean the same for a single Produce request."""

    type: CompletionType
    reason: str
    codes: Mapping[int, str]


ACKNOWLEDGED = Group(OK, "acknowledged", {0: "none"})

BEFORE_APPEND = Group(
    FAIL,
    "refused before the append",
    {
        2: "corrupt_message",
        10: "message_too_large",
        17: "invalid_topic",
        18: "record_list_too_large",
        21: "invalid_required_acks",
        29: "topic_authorization_failed",
        31: "cluster_authorization_failed",
        32: "invalid_timestamp",
        35: "unsupported_version",
        43: "unsupported_for_message_format",
        45: "out_of_order_sequence_number",
        47: "invalid_producer_epoch",
        59: "unknown_producer_id",
        76: "unsupported_compression_type",
        87: "invalid_record",
    },
)

TOO_FEW_IN_SYNC = Group(FAIL, "the ISR is checked before the append", {19: "not_enough_replicas"})

PARKED = Group(
    INFO,
    "also answers a request that was appended and waits for its replicas, when the leader moves or goes",
    {
        3: "unknown_topic_or_partition",
        5: "leader_not_available",
        6: "not_leader_or_follower",
        9: "replica_not_available",
        100: "unknown_topic_id",
        103: "inconsistent_topic_id",
    },
)

APPENDED = Group(
    INFO,
    "appended, and not yet on enough replicas",
    {7: "request_timed_out", 20: "not_enough_replicas_after_append"},
)

EARLIER_ATTEMPT = Group(INFO, "an earlier attempt was appended", {46: "duplicate_sequence_number"})

AT_ANY_POINT = Group(
    INFO,
    "something broke, and it may have been after the append",
    {
        -1: "unknown_server_error",
        8: "broker_not_available",
        13: "network",
        42: "invalid_request",
        56: "kafka_storage_error",
        57: "log_dir_not_found",
        89: "throttling_quota_exceeded",
        129: "rebootstrap_required",
    },
)

OF_FETCHES = Group(
    INFO,
    "belongs to requests that read logs",
    {
        1: "offset_out_of_range",
        4: "invalid_fetch_size",
        70: "fetch_session_id_not_found",
        71: "invalid_fetch_session_epoch",
        74: "fenced_leader_epoch",
        75: "unknown_leader_epoch",
        78: "offset_not_available",
        98: "snapshot_not_found",
        99: "position_out_of_range",
        106: "fetch_session_topic_id_error",
        108: "new_leader_elected",
        109: "offset_moved_to_tiered_storage",
    },
)

OF_GROUPS = Group(
    INFO,
    "belongs to requests of consumer groups, share groups and streams",
    {
        12: "offset_metadata_too_large",
        14: "coordinator_load_in_progress",
        15: "coordinator_not_available",
        16: "not_coordinator",
        22: "illegal_generation",
        23: "inconsistent_group_protocol",
        24: "invalid_group_id",
        25: "unknown_member_id",
        26: "invalid_session_timeout",
        27: "rebalance_in_progress",
        28: "invalid_commit_offset_size",
        30: "group_authorization_failed",
        68: "non_empty_group",
        69: "group_id_not_found",
        79: "member_id_required",
        81: "group_max_size_reached",
        82: "fenced_instance_id",
        86: "group_subscribed_to_topic",
        88: "unstable_offset_commit",
        110: "fenced_member_epoch",
        111: "unreleased_instance_id",
        112: "unsupported_assignor",
        113: "stale_member_epoch",
        121: "invalid_record_state",
        122: "share_session_not_found",
        123: "invalid_share_session_epoch",
        124: "fenced_state_epoch",
        128: "invalid_regular_expression",
        130: "streams_invalid_topology",
        131: "streams_invalid_topology_epoch",
        132: "streams_topology_fenced",
        133: "share_session_limit_reached",
    },
)

OF_TRANSACTIONS = Group(
    INFO,
    "belongs to transactions: what is uncommitted may have been appended",
    {
        48: "invalid_txn_state",
        49: "invalid_producer_id_mapping",
        50: "invalid_transaction_timeout",
        51: "concurrent_transactions",
        52: "transaction_coordinator_fenced",
        53: "transactional_id_authorization_failed",
        90: "producer_fenced",
        105: "transactional_id_not_found",
        120: "transaction_abortable",
    },
)

OF_ADMINISTRATION = Group(
    INFO,
    "belongs to requests that change the cluster",
    {
        36: "topic_already_exists",
        37: "invalid_partitions",
        38: "invalid_replication_factor",
        39: "invalid_replica_assignment",
        40: "invalid_config",
        44: "policy_violation",
        55: "operation_not_attempted",
        60: "reassignment_in_progress",
        73: "topic_deletion_disabled",
        80: "preferred_leader_not_available",
        83: "eligible_leaders_not_available",
        84: "election_not_needed",
        85: "no_reassignment_in_progress",
        91: "resource_not_found",
        92: "duplicate_resource",
        95: "invalid_update_version",
        96: "feature_update_failed",
    },
)

OF_CONTROLLERS = Group(
    INFO,
    "belongs to what nodes and controllers say to each other",
    {
        11: "stale_controller_epoch",
        41: "not_controller",
        72: "listener_not_found",
        77: "stale_broker_epoch",
        94: "inconsistent_voter_set",
        101: "duplicate_broker_registration",
        102: "broker_id_not_registered",
        104: "inconsistent_cluster_id",
        107: "ineligible_replica",
        114: "mismatched_endpoint_type",
        115: "unsupported_endpoint_type",
        116: "unknown_controller_id",
        119: "invalid_registration",
        125: "invalid_voter_key",
        126: "duplicate_voter",
        127: "voter_not_found",
    },
)

OF_SECURITY = Group(
    INFO,
    "belongs to authentication, delegation tokens and telemetry",
    {
        33: "unsupported_sasl_mechanism",
        34: "illegal_sasl_state",
        54: "security_disabled",
        58: "sasl_authentication_failed",
        61: "delegation_token_auth_disabled",
        62: "delegation_token_not_found",
        63: "delegation_token_owner_mismatch",
        64: "delegation_token_request_not_allowed",
        65: "delegation_token_authorization_failed",
        66: "delegation_token_expired",
        67: "invalid_principal_type",
        93: "unacceptable_credential",
        97: "principal_deserialization_failure",
        117: "unknown_subscription_id",
        118: "telemetry_too_large",
    },
)

GROUPS = (
    ACKNOWLEDGED,
    BEFORE_APPEND,
    TOO_FEW_IN_SYNC,
    PARKED,
    APPENDED,
    EARLIER_ATTEMPT,
    AT_ANY_POINT,
    OF_FETCHES,
    OF_GROUPS,
    OF_TRANSACTIONS,
    OF_ADMINISTRATION,
    OF_CONTROLLERS,
    OF_SECURITY,
)

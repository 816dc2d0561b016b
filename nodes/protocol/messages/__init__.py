"""Every message of the wire protocol that Squall supports: one module per API, and the table of APIs.

Classes whose name serves in both directions end in `Request` or `Response`. `APIS` maps an API key to its request, its
response and its versions; `node/dispatch.py` decides which of them a listener offers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from squall.nodes.protocol.messages import (
    add_raft_voter,
    allocate_producer_ids,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    append_entries,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leader_and_isr,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    remove_raft_voter,
    stop_replica,
    unregister_broker,
    update_features,
    update_metadata,
    update_raft_voter,
    vote,
)
from squall.nodes.protocol.schema import Message


class ApiKey(IntEnum):
    """Kafka's keys of the supported APIs, and one of Squall's own."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    ALLOCATE_PRODUCER_IDS = 67
    DESCRIBE_TOPIC_PARTITIONS = 75
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    APPEND_ENTRIES = 10_000
    """Raft's own RPC, for comparisons with it in simulation; no listener offers it elsewhere."""


@dataclass(frozen=True, slots=True)
class Api:
    """One row of the table of APIs; `versions` are inclusive."""

    key: ApiKey
    request: type[Message]
    response: type[Message]
    versions: tuple[int, int]


def _api(key: ApiKey, request: type[Message], response: type[Message]) -> Api:
    return Api(key, request, response, request.VERSIONS)


_TABLE = (
    _api(ApiKey.PRODUCE, produce.ProduceRequest, produce.ProduceResponse),
    _api(ApiKey.FETCH, fetch.FetchRequest, fetch.FetchResponse),
    _api(ApiKey.LIST_OFFSETS, list_offsets.ListOffsetsRequest, list_offsets.ListOffsetsResponse),
    _api(ApiKey.METADATA, metadata.MetadataRequest, metadata.MetadataResponse),
    _api(ApiKey.LEADER_AND_ISR, leader_and_isr.LeaderAndIsrRequest, leader_and_isr.LeaderAndIsrResponse),
    _api(ApiKey.STOP_REPLICA, stop_replica.StopReplicaRequest, stop_replica.StopReplicaResponse),
    _api(ApiKey.UPDATE_METADATA, update_metadata.UpdateMetadataRequest, update_metadata.UpdateMetadataResponse),
    _api(
        ApiKey.CONTROLLED_SHUTDOWN,
        controlled_shutdown.ControlledShutdownRequest,
        controlled_shutdown.ControlledShutdownResponse,
    ),
    _api(ApiKey.FIND_COORDINATOR, find_coordinator.FindCoordinatorRequest, find_coordinator.FindCoordinatorResponse),
    _api(ApiKey.OFFSET_FETCH, offset_fetch.OffsetFetchRequest, offset_fetch.OffsetFetchResponse),
    _api(ApiKey.JOIN_GROUP, join_group.JoinGroupRequest, join_group.JoinGroupResponse),
    _api(ApiKey.API_VERSIONS, api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse),
    _api(ApiKey.CREATE_TOPICS, create_topics.CreateTopicsRequest, create_topics.CreateTopicsResponse),
    _api(ApiKey.DELETE_TOPICS, delete_topics.DeleteTopicsRequest, delete_topics.DeleteTopicsResponse),
    _api(ApiKey.DELETE_RECORDS, delete_records.DeleteRecordsRequest, delete_records.DeleteRecordsResponse),
    _api(ApiKey.INIT_PRODUCER_ID, init_producer_id.InitProducerIdRequest, init_producer_id.InitProducerIdResponse),
    _api(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        offset_for_leader_epoch.OffsetForLeaderEpochRequest,
        offset_for_leader_epoch.OffsetForLeaderEpochResponse,
    ),
    _api(ApiKey.DESCRIBE_CONFIGS, describe_configs.DescribeConfigsRequest, describe_configs.DescribeConfigsResponse),
    _api(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        alter_replica_log_dirs.AlterReplicaLogDirsRequest,
        alter_replica_log_dirs.AlterReplicaLogDirsResponse,
    ),
    _api(ApiKey.DESCRIBE_LOG_DIRS, describe_log_dirs.DescribeLogDirsRequest, describe_log_dirs.DescribeLogDirsResponse),
    _api(
        ApiKey.CREATE_PARTITIONS, create_partitions.CreatePartitionsRequest, create_partitions.CreatePartitionsResponse
    ),
    _api(ApiKey.ELECT_LEADERS, elect_leaders.ElectLeadersRequest, elect_leaders.ElectLeadersResponse),
    _api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        incremental_alter_configs.IncrementalAlterConfigsRequest,
        incremental_alter_configs.IncrementalAlterConfigsResponse,
    ),
    _api(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        alter_partition_reassignments.AlterPartitionReassignmentsRequest,
        alter_partition_reassignments.AlterPartitionReassignmentsResponse,
    ),
    _api(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        list_partition_reassignments.ListPartitionReassignmentsRequest,
        list_partition_reassignments.ListPartitionReassignmentsResponse,
    ),
    _api(ApiKey.VOTE, vote.VoteRequest, vote.VoteResponse),
    _api(ApiKey.APPEND_ENTRIES, append_entries.AppendEntriesRequest, append_entries.AppendEntriesResponse),
    _api(
        ApiKey.BEGIN_QUORUM_EPOCH,
        begin_quorum_epoch.BeginQuorumEpochRequest,
        begin_quorum_epoch.BeginQuorumEpochResponse,
    ),
    _api(ApiKey.END_QUORUM_EPOCH, end_quorum_epoch.EndQuorumEpochRequest, end_quorum_epoch.EndQuorumEpochResponse),
    _api(ApiKey.DESCRIBE_QUORUM, describe_quorum.DescribeQuorumRequest, describe_quorum.DescribeQuorumResponse),
    _api(ApiKey.ALTER_PARTITION, alter_partition.AlterPartitionRequest, alter_partition.AlterPartitionResponse),
    _api(ApiKey.UPDATE_FEATURES, update_features.UpdateFeaturesRequest, update_features.UpdateFeaturesResponse),
    _api(ApiKey.FETCH_SNAPSHOT, fetch_snapshot.FetchSnapshotRequest, fetch_snapshot.FetchSnapshotResponse),
    _api(ApiKey.DESCRIBE_CLUSTER, describe_cluster.DescribeClusterRequest, describe_cluster.DescribeClusterResponse),
    _api(
        ApiKey.BROKER_REGISTRATION,
        broker_registration.BrokerRegistrationRequest,
        broker_registration.BrokerRegistrationResponse,
    ),
    _api(ApiKey.BROKER_HEARTBEAT, broker_heartbeat.BrokerHeartbeatRequest, broker_heartbeat.BrokerHeartbeatResponse),
    _api(
        ApiKey.ALLOCATE_PRODUCER_IDS,
        allocate_producer_ids.AllocateProducerIdsRequest,
        allocate_producer_ids.AllocateProducerIdsResponse,
    ),
    _api(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        describe_topic_partitions.DescribeTopicPartitionsRequest,
        describe_topic_partitions.DescribeTopicPartitionsResponse,
    ),
    _api(
        ApiKey.UNREGISTER_BROKER,
        unregister_broker.UnregisterBrokerRequest,
        unregister_broker.UnregisterBrokerResponse,
    ),
    _api(ApiKey.ADD_RAFT_VOTER, add_raft_voter.AddRaftVoterRequest, add_raft_voter.AddRaftVoterResponse),
    _api(ApiKey.REMOVE_RAFT_VOTER, remove_raft_voter.RemoveRaftVoterRequest, remove_raft_voter.RemoveRaftVoterResponse),
    _api(ApiKey.UPDATE_RAFT_VOTER, update_raft_voter.UpdateRaftVoterRequest, update_raft_voter.UpdateRaftVoterResponse),
)

APIS: dict[int, Api] = {int(api.key): api for api in _TABLE}
FLEXIBLE_FROM: dict[int, int] = {int(api.key): api.request.FLEXIBLE_FROM for api in _TABLE}
API_VERSIONS = int(ApiKey.API_VERSIONS)

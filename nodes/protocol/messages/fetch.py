"""Fetch (API key 1), versions 4 to 18.

Records from an offset on: for consumers, for followers, and for voters and observers of the metadata log.

Version 12 is flexible and adds the epoch of the last fetched record, by which a leader finds divergence (KIP-595
style); 13 names topics by id instead of by name; 15 moves the replica's id into `replica_state`, with the broker epoch
(KIP-903); 16 adds `node_endpoints`, 17 the replica's directory id, 18 the high watermark that a voter knows (KIP-1166).
Record buffers stay as they are: a response is encoded to a list of chunks, decoded to views of the frame.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import (
    Message,
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    records,
    string,
    struct,
    uuid,
)
from squall.nodes.protocol.wire import Buffer


@message()
class ReplicaState(Message):
    replica_id: int = int32(default=-1, versions="15+")
    replica_epoch: int = int64(default=-1, versions="15+")


@message()
class FetchPartition(Message):
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1, versions="9+")
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(default=-1, versions="12+")
    log_start_offset: int = int64(default=-1, versions="5+")
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid(versions="17+", tag=0)
    high_watermark: int = int64(default=2**63 - 1, versions="18+", tag=1)


@message()
class FetchTopic(Message):
    topic_id: bytes = uuid(versions="13+")
    topic: str = string(versions="4-12")
    partitions: list[FetchPartition] = array(FetchPartition)


@message()
class ForgottenTopic(Message):
    topic_id: bytes = uuid(versions="13+")
    topic: str = string(versions="7-12")
    partitions: list[int] = array("int32", versions="7+")


@message(api_key=1, kind="request", versions=(4, 18), flexible=12)
class FetchRequest(Message):
    cluster_id: str | None = string(default=None, versions="12+", nullable="12+", tag=0)
    replica_state: ReplicaState = struct(ReplicaState, versions="15+", tag=1)
    replica_id: int = int32(default=-1, versions="4-14")
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2147483647)
    isolation_level: int = int8()
    session_id: int = int32(versions="7+")
    session_epoch: int = int32(default=-1, versions="7+")
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, versions="7+")
    rack_id: str = string(versions="11+")


@message()
class EpochEndOffset(Message):
    epoch: int = int32(default=-1, versions="12+")
    end_offset: int = int64(default=-1, versions="12+")


@message()
class LeaderIdAndEpoch(Message):
    leader_id: int = int32(default=-1, versions="12+")
    leader_epoch: int = int32(default=-1, versions="12+")


@message()
class SnapshotId(Message):
    end_offset: int = int64(default=-1, versions="12+")
    epoch: int = int32(default=-1, versions="12+")


@message()
class AbortedTransaction(Message):
    producer_id: int = int64()
    first_offset: int = int64()


@message()
class PartitionData(Message):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64(default=-1, versions="5+")
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, versions="12+", tag=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, versions="12+", tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, versions="12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="0+")
    preferred_read_replica: int = int32(default=-1, versions="11+")
    records: Buffer | None = records()


@message()
class FetchableTopicResponse(Message):
    topic_id: bytes = uuid(versions="13+")
    topic: str = string(versions="4-12")
    partitions: list[PartitionData] = array(PartitionData)


@message()
class NodeEndpoint(Message):
    node_id: int = int32(versions="16+")
    host: str = string(versions="16+")
    port: int = int32(versions="16+")
    rack: str | None = string(default=None, versions="16+", nullable="16+")


@message(api_key=1, kind="response", versions=(4, 18), flexible=12)
class FetchResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16(versions="7+")
    session_id: int = int32(versions="7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="16+", tag=0)

"""FetchSnapshot (API key 59), versions 0 to 1.

A replica that is too far behind the metadata log downloads a snapshot by byte position instead (KIP-630). Version 1
adds the replica's directory id and the leader's endpoint (KIP-853). `unaligned_records` may begin and end anywhere
within a batch.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import (
    Message,
    array,
    int16,
    int32,
    int64,
    message,
    records,
    string,
    struct,
    uint16,
    uuid,
)
from squall.nodes.protocol.wire import Buffer


@message()
class SnapshotId(Message):
    end_offset: int = int64()
    epoch: int = int32()


@message()
class PartitionSnapshotRequest(Message):
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: bytes = uuid(versions="1+", tag=0)


@message()
class TopicSnapshotRequest(Message):
    name: str = string()
    partitions: list[PartitionSnapshotRequest] = array(PartitionSnapshotRequest)


@message(api_key=59, kind="request", versions=(0, 1), flexible=0)
class FetchSnapshotRequest(Message):
    cluster_id: str | None = string(default=None, nullable="0+", tag=0)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=2147483647)
    topics: list[TopicSnapshotRequest] = array(TopicSnapshotRequest)


@message()
class LeaderIdAndEpoch(Message):
    leader_id: int = int32()
    leader_epoch: int = int32()


@message()
class PartitionSnapshotResponse(Message):
    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct(SnapshotId)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, tag=0)
    size: int = int64()
    position: int = int64()
    unaligned_records: Buffer = records(default=b"", nullable="")


@message()
class TopicSnapshotResponse(Message):
    name: str = string()
    partitions: list[PartitionSnapshotResponse] = array(PartitionSnapshotResponse)


@message()
class NodeEndpoint(Message):
    node_id: int = int32(versions="1+")
    host: str = string(versions="1+")
    port: int = uint16(versions="1+")


@message(api_key=59, kind="response", versions=(0, 1), flexible=0)
class FetchSnapshotResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[TopicSnapshotResponse] = array(TopicSnapshotResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="1+", tag=0)

"""Build and read FetchSnapshot: request and response about one snapshot of `__cluster_metadata-0` (KIP-630).

See `messages`. Uses version 1. The position is a byte position in the file; the content of a response may begin and end
anywhere within a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from squall.nodes.protocol.compiler import Buffer
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import fetch_snapshot as schema
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.config import PARTITION, TOPIC, RaftConfig
from squall.nodes.raft.messages import NO_NEWS, Hint
from squall.nodes.raft.snapshots import SnapshotId

UNKNOWN = SnapshotId(-1, -1)


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A replica requests the bytes of a snapshot from `position` on."""

    cluster_id: str | None
    valid_partition: bool
    replica_id: int = -1
    epoch: int = -1
    snapshot_id: SnapshotId = UNKNOWN
    position: int = -1
    max_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotResponse:
    """Bytes of a snapshot whose file has `size` bytes in all, or the error."""

    error: int
    hint: Hint
    snapshot_id: SnapshotId = UNKNOWN
    size: int = 0
    position: int = 0
    content: Buffer = b""


def fetch_snapshot(
    config: RaftConfig, epoch: int, snapshot_id: SnapshotId, position: int
) -> schema.FetchSnapshotRequest:
    data = schema.PartitionSnapshotRequest(
        partition=PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=schema.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
        position=position,
        replica_directory_id=config.directory_id,
    )
    return schema.FetchSnapshotRequest(
        cluster_id=config.cluster_id,
        replica_id=config.node_id,
        max_bytes=config.snapshot_fetch_max_bytes,
        topics=[schema.TopicSnapshotRequest(name=TOPIC, partitions=[data])],
    )


def read_fetch_snapshot(body: Message) -> SnapshotRequest:
    request = cast(schema.FetchSnapshotRequest, body)
    data = None
    if len(request.topics) == 1 and len(request.topics[0].partitions) == 1 and request.topics[0].name == TOPIC:
        data = request.topics[0].partitions[0]
    if data is None or data.partition != PARTITION:
        return SnapshotRequest(request.cluster_id, False)
    return SnapshotRequest(
        cluster_id=request.cluster_id,
        valid_partition=True,
        replica_id=request.replica_id,
        epoch=data.current_leader_epoch,
        snapshot_id=SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch),
        position=data.position,
        max_bytes=request.max_bytes,
    )


def snapshot_refusal(error: int) -> schema.FetchSnapshotResponse:
    return schema.FetchSnapshotResponse(error_code=error)


def snapshot_response(config: RaftConfig, response: SnapshotResponse) -> schema.FetchSnapshotResponse:
    hint = response.hint
    data = schema.PartitionSnapshotResponse(
        index=PARTITION,
        error_code=response.error,
        snapshot_id=schema.SnapshotId(end_offset=response.snapshot_id.end_offset, epoch=response.snapshot_id.epoch),
        current_leader=schema.LeaderIdAndEpoch(
            leader_id=-1 if hint.leader_id is None else hint.leader_id, leader_epoch=hint.epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.content,
    )
    voter = None if hint.leader_id is None else config.endpoint(hint.leader_id)
    return schema.FetchSnapshotResponse(
        topics=[schema.TopicSnapshotResponse(name=TOPIC, partitions=[data])],
        node_endpoints=[] if voter is None else [schema.NodeEndpoint(voter.id, voter.host, voter.port)],
    )


def read_snapshot_response(body: Message) -> SnapshotResponse:
    response = cast(schema.FetchSnapshotResponse, body)
    if response.error_code != ErrorCode.NONE or len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        return SnapshotResponse(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR, NO_NEWS)
    data = response.topics[0].partitions[0]
    leader = data.current_leader
    return SnapshotResponse(
        error=data.error_code,
        hint=Hint(leader.leader_epoch, None if leader.leader_id < 0 else leader.leader_id),
        snapshot_id=SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch),
        size=data.size,
        position=data.position,
        content=data.unaligned_records,
    )

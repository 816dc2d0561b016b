"""AppendEntries, version 0: Raft's own RPC, which Kafka does not have.

A leader that pushes sends a voter the batches from one offset on, with the epoch of the record before them; the voter
accepts them only if it has that record. For comparisons with KRaft, which pulls, in simulation
(`raft/push/replication.py`).
"""

from __future__ import annotations

from squall.nodes.protocol.compiler import Buffer
from squall.nodes.protocol.schema import Message, boolean, int16, int32, int64, message, records, string


@message(api_key=10_000, kind="request", versions=(0, 0), flexible=0)
class AppendEntriesRequest(Message):
    cluster_id: str | None = string(default=None, nullable="0+")
    leader_id: int = int32()
    leader_epoch: int = int32()
    offset: int = int64()
    previous_epoch: int = int32()
    high_watermark: int = int64()
    snapshot_end_offset: int = int64(default=-1)
    snapshot_epoch: int = int32(default=-1)
    records: Buffer | None = records()


@message(api_key=10_000, kind="response", versions=(0, 0), flexible=0)
class AppendEntriesResponse(Message):
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    accepted: bool = boolean()
    end_offset: int = int64()
    conflicting_epoch: int = int32(default=-1)
    conflict_begins: int = int64(default=-1)

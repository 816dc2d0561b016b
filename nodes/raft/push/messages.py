"""Build and read AppendEntries, the one RPC of Raft that KRaft replaces by Fetch and BeginQuorumEpoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from squall.nodes.protocol.compiler import Buffer
from squall.nodes.protocol.messages.append_entries import AppendEntriesRequest, AppendEntriesResponse
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.config import RaftConfig
from squall.nodes.raft.messages import Hint


@dataclass(frozen=True, slots=True)
class Entries:
    """The batches from `offset` on, or none for a heartbeat; the record before them has `previous_epoch`."""

    epoch: int
    leader_id: int
    offset: int
    previous_epoch: int
    high_watermark: int
    records: Buffer = b""
    snapshot: tuple[int, int] | None = None
    """(end offset, epoch) of the snapshot that the voter must fetch: the leader no longer has these batches."""
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The response. Accepted: the voter has all of the leader's log below `end_offset`, durably.

    Refused: its own log ends there; the epoch of its record that conflicts, if it has one, and where to go on.
    """

    error: int
    hint: Hint
    accepted: bool = False
    end_offset: int = -1
    conflicting_epoch: int = -1
    conflict_begins: int = -1


def append_entries(config: RaftConfig, entries: Entries) -> AppendEntriesRequest:
    end_offset, epoch = entries.snapshot or (-1, -1)
    return AppendEntriesRequest(
        cluster_id=config.cluster_id,
        leader_id=entries.leader_id,
        leader_epoch=entries.epoch,
        offset=entries.offset,
        previous_epoch=entries.previous_epoch,
        high_watermark=entries.high_watermark,
        snapshot_end_offset=end_offset,
        snapshot_epoch=epoch,
        records=entries.records,
    )


def read_entries(body: Message) -> Entries:
    request = cast(AppendEntriesRequest, body)
    snapshot = (request.snapshot_end_offset, request.snapshot_epoch)
    return Entries(
        epoch=request.leader_epoch,
        leader_id=request.leader_id,
        offset=request.offset,
        previous_epoch=request.previous_epoch,
        high_watermark=request.high_watermark,
        records=b"" if request.records is None else request.records,
        snapshot=None if request.snapshot_end_offset < 0 else snapshot,
        cluster_id=request.cluster_id,
    )


def acknowledgement(answer: Acknowledged) -> AppendEntriesResponse:
    return AppendEntriesResponse(
        error_code=answer.error,
        leader_id=-1 if answer.hint.leader_id is None else answer.hint.leader_id,
        leader_epoch=answer.hint.epoch,
        accepted=answer.accepted,
        end_offset=answer.end_offset,
        conflicting_epoch=answer.conflicting_epoch,
        conflict_begins=answer.conflict_begins,
    )


def read_acknowledgement(body: Message) -> Acknowledged:
    response = cast(AppendEntriesResponse, body)
    leader_id = None if response.leader_id < 0 else response.leader_id
    return Acknowledged(
        error=response.error_code,
        hint=Hint(response.leader_epoch, leader_id),
        accepted=response.accepted,
        end_offset=response.end_offset,
        conflicting_epoch=response.conflicting_epoch,
        conflict_begins=response.conflict_begins,
    )

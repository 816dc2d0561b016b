"""Transfer snapshots between replicas: the leader serves bytes, a fetcher assembles them (SN-05, SN-06, rule 36).

If records cannot serve a fetch, the response names the leader's newest snapshot. The fetcher then requests that file by
byte position, one piece after another, in place of its fetches; each response proves that the leader is alive, and each
request that the fetcher is. After the last byte the file is synced, verified, and renamed; the log is emptied and
continues where the snapshot ends; the next fetch requests what follows.

A download belongs to one leader in one epoch: another node's snapshot of the same id need not have the same bytes. With
another leader, after a restart, or if the leader no longer has the snapshot, it starts again with the next fetch.
"""

from __future__ import annotations

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft import messages
from squall.nodes.raft.core import Core
from squall.nodes.raft.errors import Implausible
from squall.nodes.raft.roles import Follower
from squall.nodes.raft.snapshot_messages import (
    SnapshotRequest,
    SnapshotResponse,
    fetch_snapshot,
    read_fetch_snapshot,
    read_snapshot_response,
    snapshot_refusal,
    snapshot_response,
)
from squall.nodes.raft.snapshots import PositionOutOfRange, SnapshotId, SnapshotNotFound, SnapshotReceiver
from squall.nodes.storage.errors import CorruptFile

TINY_PIECE = 64
"""Bytes of a piece where `buggify` makes it tiny."""


class SnapshotService:
    """The leader's side."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def handle_fetch_snapshot(self, now: int, request: ServerRequest) -> None:
        config = self._core.config
        snapshot_request = read_fetch_snapshot(request.body)
        if snapshot_request.cluster_id is not None and snapshot_request.cluster_id != config.cluster_id:
            request.respond(snapshot_refusal(ErrorCode.INCONSISTENT_CLUSTER_ID))
        elif not snapshot_request.valid_partition:
            request.respond(snapshot_refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            request.respond(snapshot_response(config, self._answer(now, snapshot_request)))

    def _answer(self, now: int, snapshot_request: SnapshotRequest) -> SnapshotResponse:
        core = self._core
        error = core.epoch_error(snapshot_request.epoch)
        if error != ErrorCode.NONE:
            return SnapshotResponse(error, core.hint(), snapshot_request.snapshot_id)
        core.heard_from_fetcher(now, snapshot_request.replica_id)
        most = min(snapshot_request.max_bytes, core.config.snapshot_fetch_max_bytes)
        if core.buggify.happens("snapshot-piece-tiny"):
            most = min(most, TINY_PIECE)
        try:
            size, content = core.log.snapshots.read(snapshot_request.snapshot_id, snapshot_request.position, most)
        except SnapshotNotFound:
            return SnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, core.hint(), snapshot_request.snapshot_id)
        except PositionOutOfRange:
            return SnapshotResponse(ErrorCode.POSITION_OUT_OF_RANGE, core.hint(), snapshot_request.snapshot_id)
        return SnapshotResponse(
            ErrorCode.NONE, core.hint(), snapshot_request.snapshot_id, size, snapshot_request.position, content
        )


class SnapshotDownload:
    """The fetcher's side: at most one download at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._part: SnapshotReceiver | None = None
        self._role: Follower | None = None

    def is_under_way(self, role: Follower) -> bool:
        """Whether this follower must request the next piece. A download of another role is abandoned."""
        if self._role is not role:
            self.give_up()
        return self._part is not None

    def begin(self, role: Follower, snapshot_id: SnapshotId) -> None:
        """Download the snapshot that the leader names. Raises Implausible."""
        core = self._core
        if snapshot_id.end_offset < core.high_watermark or not 0 <= snapshot_id.epoch <= role.epoch:
            raise Implausible(
                f"leader {role.leader_id} of epoch {role.epoch} wants this node to start from snapshot {snapshot_id}, "
                f"which is below its high watermark {core.high_watermark} or of another time"
            )
        self.give_up()
        self._part, self._role = core.log.snapshots.receive(snapshot_id), role
        core.trace.event(
            "snapshot_fetch", node=core.config.node_id, end=snapshot_id.end_offset, epoch=snapshot_id.epoch
        )

    def give_up(self) -> None:
        if self._part is not None:
            self._part.abandon()
        self._part = self._role = None

    def ask(self, now: int, role: Follower) -> None:
        """Request the next piece from the leader."""
        part = self._part
        assert part is not None
        message = fetch_snapshot(self._core.config, role.epoch, part.id, part.size)
        self._core.ask(role.leader_id, message, role.fetch, self._answered(role, part))

    def _answered(self, role: Follower, part: SnapshotReceiver) -> messages.Answered:
        def answered(now: int, response: Message) -> None:
            core = self._core
            fetched = read_snapshot_response(response)
            core.observe_response(now, fetched.hint)
            if core.quorum.role is not role or self._part is not part:
                return
            if not self._continues(part, fetched):
                self.give_up()
                core.retry_later(now, role.fetch)
                return
            core.heard_from_leader(now, role)
            role.fetch.answered(now, 0)
            part.append(fetched.content)
            if part.size >= fetched.size:
                self._finish(now, role, part)

        return answered

    @staticmethod
    def _continues(part: SnapshotReceiver, fetched: SnapshotResponse) -> bool:
        """Whether the response holds the next bytes of this snapshot, at least one of them."""
        return (
            fetched.error == ErrorCode.NONE
            and fetched.snapshot_id == part.id
            and fetched.position == part.size
            and 0 < len(fetched.content) <= fetched.size - part.size
        )

    def _finish(self, now: int, role: Follower, part: SnapshotReceiver) -> None:
        """Complete the download: first put the snapshot in place, then empty the log that it replaces."""
        core = self._core
        self._part = self._role = None
        try:
            part.finish()
        except CorruptFile as trouble:
            core.log.snapshots.notices.append(
                f"node {core.config.node_id}: invalid snapshot from leader {role.leader_id}: {trouble}"
            )
            core.retry_later(now, role.fetch)
            return
        core.log.restart_at(part.id)
        core.reload_voters(now)
        if part.id.end_offset > core.high_watermark:
            core.raise_high_watermark(part.id.end_offset)

"""Push replication of the metadata log: Raft's AppendEntries beside KRaft's Fetch (PP-01..04).

What follows from who speaks first:

* the leader keeps, for each voter, the offset from which it sends next (nextIndex), and sends when there is something
  new or a heartbeat is due; the first AppendEntries announces the leader, so there is no BeginQuorumEpoch;
* a voter whose log lacks the record before that offset refuses, and the leader tries an earlier offset: one record
  earlier, or with a hint past the whole epoch that conflicts (Raft, section 5.3);
* a voter that was removed hears no more from the leader, and does not ask either: it stands for election.

All else is shared with pull: votes, epochs, the log, the rule for the high watermark, voter changes, snapshots.
Observers fetch, as does a voter that needs a snapshot. For simulations and benchmarks; Kafka has no such RPC.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft import messages
from squall.nodes.raft.config import NEVER, Replication, Variant
from squall.nodes.raft.core import Core
from squall.nodes.raft.errors import Implausible
from squall.nodes.raft.messages import LeaderNews
from squall.nodes.raft.push.messages import (
    Acknowledged,
    Entries,
    acknowledgement,
    append_entries,
    read_acknowledgement,
    read_entries,
)
from squall.nodes.raft.replication import Fetcher, FetchService
from squall.nodes.raft.roles import Follower, Leader, Prospective, ReplicaProgress
from squall.nodes.raft.snapshots import SnapshotId

HEARTBEATS_PER_TIMEOUT = 4
"""AppendEntries that a voter receives within its fetch timeout while nothing is new."""


@dataclass(slots=True)
class Position:
    """Where the leader stands with one voter: the next offset to send, and the high watermark last sent."""

    next_offset: int
    sent_high_watermark: int = -1


@dataclass(slots=True)
class Leadership:
    """The positions of all voters, for one leader role."""

    role: Leader
    positions: dict[int, Position] = field(default_factory=dict)

    def of(self, voter: int, progress: ReplicaProgress) -> Position:
        """Raft begins at the leader's end; a replica that fetched as an observer is known to have more."""
        if voter not in self.positions:
            self.positions[voter] = Position(max(self.role.epoch_start_offset, progress.end_offset))
        return self.positions[voter]


class PushReplication:
    """Both sides of AppendEntries. `service` keeps the high watermark, `fetcher` the download of snapshots."""

    def __init__(self, core: Core, service: FetchService, fetcher: Fetcher) -> None:
        self._core = core
        self._service = service
        self._fetcher = fetcher
        self._gives_hints = core.config.variant.replication is Replication.PUSH_WITH_HINT
        self._leadership: Leadership | None = None

    # -- the leader -------------------------------------------------------------------------------------------

    def run_leader(self, now: int, role: Leader) -> None:
        """Send to every voter whose heartbeat or retry is due."""
        for voter, progress in role.others.items():
            if progress.begin.deadline <= now:
                self._send(now, role, voter, progress)
        self._service.wake(now)

    def wake(self, now: int) -> None:
        """Send at once to every voter that lacks something, unless a request is under way or it does not respond."""
        role = self._core.quorum.role
        if not isinstance(role, Leader):
            return
        for voter, progress in role.others.items():
            if not progress.begin.in_flight and not progress.begin.failures and self._has_news(role, voter, progress):
                self._send(now, role, voter, progress)

    def _has_news(self, role: Leader, voter: int, progress: ReplicaProgress) -> bool:
        position = self._positions(role).of(voter, progress)
        return position.next_offset < self._core.log.end_offset or _exposed(role) > position.sent_high_watermark

    def _positions(self, role: Leader) -> Leadership:
        if self._leadership is None or self._leadership.role is not role:
            self._leadership = Leadership(role)
        return self._leadership

    def _send(self, now: int, role: Leader, voter: int, progress: ReplicaProgress) -> None:
        core = self._core
        position = self._positions(role).of(voter, progress)
        position.sent_high_watermark = _exposed(role)
        message = append_entries(core.config, self._entries(role, position.next_offset))
        core.ask(voter, message, progress.begin, self._answered(role, voter, position))

    def _entries(self, role: Leader, offset: int) -> Entries:
        """The batches from this offset on, or the snapshot that replaces them."""
        core = self._core
        epoch = core.log.epoch_before(offset)
        if epoch is None:
            latest = core.log.snapshots.latest
            assert latest is not None, "a log that does not begin at 0 has a snapshot"
            place = (latest.end_offset, latest.epoch)
            return Entries(role.epoch, role.leader_id, offset, -1, _exposed(role), snapshot=place)
        records = core.log.read(offset, core.config.fetch_max_bytes) if offset < core.log.end_offset else b""
        return Entries(role.epoch, role.leader_id, offset, epoch, _exposed(role), records)

    def _answered(self, role: Leader, voter: int, position: Position) -> messages.Answered:
        def answered(now: int, response: Message) -> None:
            core = self._core
            answer = read_acknowledgement(response)
            core.observe_response(now, answer.hint)
            progress = role.others.get(voter)
            if core.quorum.role is not role or progress is None:
                return
            if answer.error != ErrorCode.NONE:
                core.retry_later(now, progress.begin)
                return
            self._note(now, progress, answer)
            progress.begin.answered(now, core.config.fetch_timeout // HEARTBEATS_PER_TIMEOUT)
            if answer.accepted:
                position.next_offset = answer.end_offset
                self._service.advance(now)
                self.wake(now)
            elif core.log.epoch_before(position.next_offset) is not None:
                position.next_offset = self._earlier(position.next_offset, answer)
                self._send(now, role, voter, progress)
            else:  # it downloads the snapshot, and the next heartbeat finds it further on
                position.next_offset = max(answer.end_offset, 0)

        return answered

    def _note(self, now: int, progress: ReplicaProgress, answer: Acknowledged) -> None:
        """An acceptance acknowledges what it covers; a refusal shows only that the voter is there."""
        wall = self._core.clock.now_ms()
        progress.fetched_at, progress.fetched_at_ms = now, wall
        progress.end_offset = answer.end_offset if answer.accepted else min(progress.end_offset, answer.end_offset)
        if answer.accepted and answer.end_offset >= self._core.log.end_offset:
            progress.caught_up_at_ms = wall

    def _earlier(self, refused: int, answer: Acknowledged) -> int:
        """Where to try next: one record earlier, or past the epoch that conflicts."""
        if answer.conflict_begins > refused:
            return answer.conflict_begins  # its log begins there, after a snapshot
        if not self._gives_hints:
            return refused - 1
        if answer.conflicting_epoch >= 0:
            epoch, end = self._core.log.end_offset_for(answer.conflicting_epoch)
            if epoch == answer.conflicting_epoch and end < refused:
                return end
        return min(answer.conflict_begins, refused - 1)

    # -- the follower -----------------------------------------------------------------------------------------

    def run_follower(self, now: int, role: Follower) -> None:
        """A voter waits for its leader, and fetches only a snapshot; an observer fetches."""
        if self._core.quorum.votes and not self._fetcher.download.is_under_way(role):
            role.fetch.due = NEVER
        elif role.fetch.due == NEVER:
            role.fetch.due = now
        self._fetcher.run_follower(now, role)

    def handle_append_entries(self, now: int, request: ServerRequest) -> None:
        core = self._core
        entries = read_entries(request.body)
        if entries.cluster_id is not None and entries.cluster_id != core.config.cluster_id:
            answer = Acknowledged(ErrorCode.INCONSISTENT_CLUSTER_ID, messages.NO_NEWS)
        elif entries.epoch < core.quorum.epoch:
            answer = Acknowledged(ErrorCode.FENCED_LEADER_EPOCH, core.hint())
        else:
            try:
                answer = self._take(now, self._follow(now, entries), entries)
            except Implausible as why:
                core.refuse(now, f"AppendEntries of {entries.leader_id}", why)
                answer = Acknowledged(ErrorCode.INVALID_REQUEST, core.hint())
        request.respond(acknowledgement(answer))

    def _follow(self, now: int, entries: Entries) -> Follower:
        """Follow the sender: only the leader of an epoch sends AppendEntries. Raises Implausible."""
        core = self._core
        core.hear_leader(now, LeaderNews(entries.cluster_id, True, entries.epoch, entries.leader_id))
        if isinstance(core.quorum.role, Prospective):
            core.quorum.become_follower(now, entries.epoch, entries.leader_id)  # the lost leader is alive
        role = core.quorum.role
        if not isinstance(role, Follower):
            raise Implausible(f"this node is {role.name} in epoch {role.epoch}")
        core.heard_from_leader(now, role)
        return role

    def _take(self, now: int, role: Follower, entries: Entries) -> Acknowledged:
        """Append, download, or refuse. Raises Implausible."""
        core = self._core
        if entries.snapshot is not None:
            if core.log.end_offset < entries.snapshot[0] and not self._fetcher.download.is_under_way(role):
                self._fetcher.download.begin(role, SnapshotId(*entries.snapshot))
                role.fetch.due = now
            return Acknowledged(ErrorCode.NONE, core.hint(), end_offset=core.log.end_offset)
        if core.log.epoch_before(entries.offset) != entries.previous_epoch:
            return self._refusal(entries)
        end = self._append(now, role, entries)
        committed = min(entries.high_watermark, end)
        if committed > core.high_watermark:
            core.raise_high_watermark(committed)
        if not core.quorum.votes and role.fetch.due == NEVER:
            role.fetch.due = now  # these records made it an observer
        return Acknowledged(ErrorCode.NONE, core.hint(), accepted=True, end_offset=end)

    def _append(self, now: int, role: Follower, entries: Entries) -> int:
        """Append what is new; return the offset below which this log is known to be the leader's."""
        core = self._core
        if not len(entries.records):
            return entries.offset
        content = memoryview(entries.records)
        before = core.log.end_offset
        new = core.log.without_known(content, core.high_watermark)
        if core.log.end_offset < before:
            core.voters_truncated(now)
        if len(new):
            core.follow_voters(now, core.log.append_fetched(new, role.epoch))
            return core.log.end_offset
        return max(header.next_offset for header, _ in iterate_batches(content))

    def _refusal(self, entries: Entries) -> Acknowledged:
        """Name the epoch here that conflicts and where it begins; without one, this log is too short."""
        log = self._core.log
        epoch = log.epoch_before(entries.offset)
        if epoch is None:
            begins = max(min(log.end_offset, entries.offset), log.start_offset)
            return Acknowledged(ErrorCode.NONE, self._core.hint(), end_offset=log.end_offset, conflict_begins=begins)
        return Acknowledged(
            ErrorCode.NONE,
            self._core.hint(),
            end_offset=log.end_offset,
            conflicting_epoch=epoch,
            conflict_begins=log.epoch_start(epoch),
        )


def _exposed(role: Leader) -> int:
    """The high watermark as voters may see it: -1 until a record of this epoch is on a majority (QC-16)."""
    return -1 if role.high_watermark is None else role.high_watermark


def pusher_of(variant: Variant) -> type[PushReplication] | None:
    """The strategy of a replica with this variant; None if it pulls."""
    return PushReplication if variant.replication.pushes else None

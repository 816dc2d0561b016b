"""Change the voters as leader, one at a time, by a record that counts at once (KIP-853, rule 40, PP-02).

A request is refused unless the voters are kept in the log, this leader has committed a record of its epoch, and the
previous change is committed. A voter to be added must have caught up first, so that its majority is not one in name
only; the request waits for that until its timeout. The response is sent when the record is committed, by a majority of
the *new* voters.

A voter whose endpoint differs from the log requests the change (`Fetcher`); a leader writes its own entry.

A leader may remove itself. It then leads without counting itself until the record is committed, waits so that the
others learn it, and resigns (DA-06). A removed voter continues to fetch as an observer: so it receives its removal, and
so it disrupts no leader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from squall.nodes.protocol.messages.add_raft_voter import Listener as AddedListener
from squall.nodes.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from squall.nodes.protocol.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from squall.nodes.protocol.messages.update_raft_voter import Listener as UpdatedListener
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.config import NEVER, Voter
from squall.nodes.raft.core import Core
from squall.nodes.raft.plausibility import HOST_MAX
from squall.nodes.raft.quorum_state import ReplicaKey
from squall.nodes.raft.roles import Leader
from squall.nodes.raft.voters import VoterSet

Finish = Callable[[int, str | None], None]


def _is_place(listeners: Sequence[AddedListener | UpdatedListener]) -> bool:
    """Whether the first listener, which alone counts, has a usable host and port."""
    return bool(listeners) and 0 < listeners[0].port < 1 << 16 and 0 < len(listeners[0].host) <= HOST_MAX


def _nobody_asked(error: int, why: str | None) -> None:
    """End a change that the leader made for itself."""


@dataclass(slots=True)
class _Change:
    """The change under way. `offset` is that of its record, None while the new voter is still catching up."""

    finish: Finish
    deadline: int
    epoch: int
    added: Voter | None = None
    needed: int = 0
    """The log end that the added voter must reach."""
    offset: int | None = None
    answered: bool = False


class VoterChanges:
    """Serves AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._config = core.config
        self._change: _Change | None = None
        self._leave_at = NEVER

    # -- requests ---------------------------------------------------------------------------------------------

    def handle_add(self, now: int, request: ServerRequest) -> None:
        body = cast(AddRaftVoterRequest, request.body)

        def finish(error: int, why: str | None) -> None:
            if not request.closed:
                request.respond(AddRaftVoterResponse(error_code=error, error_message=why))

        refusal = self._refusal(body.cluster_id)
        if refusal is None and (body.voter_id < 0 or not _is_place(body.listeners)):
            refusal = ErrorCode.INVALID_REQUEST, "a voter needs an id and a listener with a host and a port"
        if refusal is None and self._voters.find(body.voter_id) is not None:
            refusal = ErrorCode.DUPLICATE_VOTER, f"{body.voter_id} is a voter already; remove it first"
        if refusal is not None:
            finish(*refusal)
            return
        listener = body.listeners[0]
        added = Voter(body.voter_id, listener.host, listener.port, body.voter_directory_id)
        deadline = now + max(body.timeout_ms, 0) * 1000
        self._change = _Change(finish, deadline, self._core.quorum.epoch, added, self._core.log.end_offset)
        self.advance(now)
        if self._change is not None and self._change.offset is not None and not body.ack_when_committed:
            self._answer(self._change, ErrorCode.NONE, None)

    def handle_remove(self, now: int, request: ServerRequest) -> None:
        body = cast(RemoveRaftVoterRequest, request.body)

        def finish(error: int, why: str | None) -> None:
            if not request.closed:
                request.respond(RemoveRaftVoterResponse(error_code=error, error_message=why))

        refusal = self._refusal(body.cluster_id)
        if refusal is None and not self._voters.has(ReplicaKey(body.voter_id, body.voter_directory_id)):
            refusal = ErrorCode.VOTER_NOT_FOUND, f"{body.voter_id} with that directory is not a voter"
        if refusal is None and len(self._voters.voters) == 1:
            refusal = ErrorCode.INVALID_REQUEST, "the last voter cannot be removed; add another first"
        if refusal is not None:
            finish(*refusal)
            return
        self._begin(now, finish, self._voters.without(body.voter_id))

    def handle_update(self, now: int, request: ServerRequest) -> None:
        body = cast(UpdateRaftVoterRequest, request.body)

        def finish(error: int, why: str | None) -> None:
            if not request.closed:
                request.respond(UpdateRaftVoterResponse(error_code=error, current_leader=self._current_leader()))

        refusal = self._refusal(body.cluster_id)
        epoch = body.current_leader_epoch
        if epoch != self._core.quorum.epoch:
            refusal = self._core.epoch_error(epoch), None
        if refusal is None and not self._voters.has(ReplicaKey(body.voter_id, body.voter_directory_id)):
            refusal = ErrorCode.VOTER_NOT_FOUND, None
        versions = body.k_raft_version_feature
        if refusal is None and (not _is_place(body.listeners) or not versions.min_supported_version <= 1):
            refusal = ErrorCode.INVALID_REQUEST, None
        if refusal is not None:
            finish(*refusal)
            return
        listener = body.listeners[0]
        self.update(now, Voter(body.voter_id, listener.host, listener.port, body.voter_directory_id), finish)

    def update(self, now: int, voter: Voter, finish: Finish) -> None:
        """Write a voter's endpoint to the log if it changed."""
        if self._voters.find(voter.id) == voter:
            finish(ErrorCode.NONE, None)
        else:
            self._begin(now, finish, self._voters.with_voter(voter))

    def _refusal(self, cluster_id: str | None) -> tuple[int, str | None] | None:
        """Why no change can begin now, None if one can."""
        core = self._core
        role = core.quorum.role
        if cluster_id is not None and cluster_id != self._config.cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID, f"this cluster is {self._config.cluster_id}"
        if not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, "only the leader of the quorum changes its voters"
        if not self._config.dynamic_voters:
            return ErrorCode.UNSUPPORTED_VERSION, "kraft.version is 0: the voters are those of the configuration"
        if role.high_watermark is None:
            return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed in its epoch yet; try again"
        if self._change is not None or core.voters.latest_offset >= core.high_watermark:
            return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is not committed yet; try again"
        return None

    # -- progress ---------------------------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Advance or finish the change under way."""
        core = self._core
        change = self._change
        leads = isinstance(core.quorum.role, Leader)
        if change is None and not leads:
            self._leave_at = NEVER
            return
        if change is not None and (not leads or core.quorum.epoch != change.epoch):
            self._end(change, ErrorCode.NOT_LEADER_OR_FOLLOWER, "leadership was lost; whether it holds is not known")
        elif change is not None and change.offset is None:
            self._let_catch_up(now, change)
        elif change is not None and change.offset is not None and change.offset < core.high_watermark:
            self._end(change, ErrorCode.NONE, None)
        self._write_own_place(now)
        self._leave(now)

    def _write_own_place(self, now: int) -> None:
        """Write this leader's own endpoint to the log if it changed; no other node does it for the leader."""
        if self._core.voters.latest_offset < 0 or not self._core.quorum.counts:
            return
        local = self._core.local_voter()
        if local is None or self._voters.find(local.id) == local:
            return
        if self._refusal(None) is None:
            self._begin(now, _nobody_asked, self._voters.with_voter(local))

    def _let_catch_up(self, now: int, change: _Change) -> None:
        role = self._core.quorum.role
        assert isinstance(role, Leader) and change.added is not None
        seen = role.observers.get(change.added.id)
        same = seen is not None and seen.directory_id == change.added.directory_id
        if seen is not None and same and seen.end_offset >= change.needed:
            change.offset = self._core.append_voters(now, self._voters.with_voter(change.added))
        elif now >= change.deadline:
            self._end(change, ErrorCode.REQUEST_TIMED_OUT, f"{change.added.id} has not caught up with the log")

    def _begin(self, now: int, finish: Finish, voters: VoterSet) -> None:
        offset = self._core.append_voters(now, voters)
        self._change = _Change(finish, NEVER, self._core.quorum.epoch, offset=offset)

    def _end(self, change: _Change, error: int, why: str | None) -> None:
        self._change = None
        self._answer(change, error, why)

    @staticmethod
    def _answer(change: _Change, error: int, why: str | None) -> None:
        if not change.answered:
            change.answered = True
            change.finish(error, why)

    def _leave(self, now: int) -> None:
        """Resign as a removed leader once the removal is committed, after a delay for the others to receive it."""
        core = self._core
        role = core.quorum.role
        gone = isinstance(role, Leader) and not core.quorum.counts and core.voters.latest_offset < core.high_watermark
        if not gone:
            self._leave_at = NEVER
        elif self._leave_at == NEVER:
            self._leave_at = now + self._config.fetch_timeout // 4
        elif now >= self._leave_at:
            self._leave_at = NEVER
            core.quorum.resign(now)
            core.fail_parked_unless_leading()

    def deadline(self) -> int:
        change = self._change
        if change is None or change.offset is not None:
            return self._leave_at
        return min(change.deadline, self._leave_at)

    @property
    def _voters(self) -> VoterSet:
        return self._core.voters.latest

    def _current_leader(self) -> CurrentLeader:
        hint = self._core.hint()
        voter = None if hint.leader_id is None else self._voters.find(hint.leader_id)
        return CurrentLeader(
            leader_id=-1 if hint.leader_id is None else hint.leader_id,
            leader_epoch=hint.epoch,
            host="" if voter is None else voter.host,
            port=0 if voter is None else voter.port,
        )

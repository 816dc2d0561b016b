"""Elections: both sides of Vote, BeginQuorumEpoch and EndQuorumEpoch (QC-05..12, rules 33, 34, 38, 41)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft import messages
from squall.nodes.raft.core import Core
from squall.nodes.raft.errors import Implausible
from squall.nodes.raft.quorum_state import ReplicaKey
from squall.nodes.raft.roles import Candidate, Follower, Leader, Peer, Prospective, Resigned, Unattached

Standing = TypeVar("Standing", Prospective, Candidate)


Asking = TypeVar("Asking", Prospective, Candidate)


class Elections:
    """Requests and grants votes; announces the begin and end of a leader's epoch."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._config = core.config
        self._quorum = core.quorum

    # -- giving votes -----------------------------------------------------------------------------------------

    def handle_vote(self, now: int, request: ServerRequest) -> None:
        vote_request = messages.read_vote(request.body)
        if self._wrong_cluster(vote_request.cluster_id):
            request.respond(messages.vote_refusal(ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        error = self._vote_error(vote_request) or self._heard(
            now, f"Vote of {vote_request.candidate.id}", lambda: self._core.hear_candidate(now, vote_request.epoch)
        )
        granted = False
        if error == ErrorCode.NONE:
            granted = self._would_grant(now, vote_request) if vote_request.pre_vote else self._grants(vote_request)
            if granted and not vote_request.pre_vote and self._quorum.role.voted is None:
                self._quorum.grant_vote(now, vote_request.candidate)
        request.respond(messages.vote_response(self._config, error, self._core.hint(), granted))

    def _heard(self, now: int, what: str, hear: Callable[[], None]) -> int:
        """Apply a request's epoch and leader; return an error if it is implausible."""
        try:
            hear()
        except Implausible as why:
            self._core.refuse(now, what, why)
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _vote_error(self, vote_request: messages.VoteRequest) -> int:
        # A candidate has no record of the epoch it stands for; in a pre-vote it is still in the epoch of its last
        # record.
        newest = vote_request.epoch if vote_request.pre_vote else vote_request.epoch - 1
        if not vote_request.valid_partition or not 0 <= vote_request.last_epoch <= newest:
            return ErrorCode.INVALID_REQUEST
        if vote_request.end_offset < 0 or vote_request.candidate.id in (-1, self._config.node_id):
            return ErrorCode.INVALID_REQUEST
        if not self._config.votes:
            return ErrorCode.INCONSISTENT_VOTER_SET
        if not self._is_meant(vote_request.voter):
            return ErrorCode.INVALID_VOTER_KEY
        return ErrorCode.FENCED_LEADER_EPOCH if vote_request.epoch < self._quorum.epoch else ErrorCode.NONE

    def _grants(self, vote_request: messages.VoteRequest) -> bool:
        """Grant only while no leader is known, to one candidate, whose log has at least what this one has (QC-07)."""
        role = self._quorum.role
        if not isinstance(role, Unattached | Prospective):
            return False
        if role.voted is not None:
            return role.voted.is_same_as(vote_request.candidate)
        return role.leader_id is None and self._covers(vote_request)

    def _would_grant(self, now: int, vote_request: messages.VoteRequest) -> bool:
        """Pre-vote: grant unless this replica knows a live leader.

        A vote cast in this epoch does not matter, since the candidate would stand for the next (rule 41). Changes
        nothing.
        """
        role = self._quorum.role
        hears_leader = isinstance(role, Follower) and role.heard and now < role.give_up_at
        return not isinstance(role, Leader) and not hears_leader and self._covers(vote_request)

    def _covers(self, vote_request: messages.VoteRequest) -> bool:
        """Whether the candidate's log has at least what this one has."""
        if self._core.mutants.has("vote-ignores-log"):
            return True
        return self._core.log.is_covered_by(vote_request.last_epoch, vote_request.end_offset)

    def _is_meant(self, voter: ReplicaKey | None) -> bool:
        return voter is None or voter.is_same_as(self._quorum.local)

    def _wrong_cluster(self, cluster_id: str | None) -> bool:
        return cluster_id is not None and cluster_id != self._config.cluster_id

    # -- asking for votes -------------------------------------------------------------------------------------

    def run_prospective(self, now: int, role: Prospective) -> None:
        """Request pre-votes from all voters.

        Retry those that refuse: they may lose the leader later than this one did.
        """
        if role.granted() >= self._quorum.majority:
            self._quorum.become_candidate(now)
        elif now >= role.election_at:
            self._quorum.withdraw(now)
        else:
            self._ask_for_votes(now, role, self._pre_vote_answered)

    def _pre_vote_answered(self, role: Prospective, voter: int, peer: Peer) -> messages.Answered:
        def answered(now: int, response: Message) -> None:
            decoded = messages.read_vote_response(response)
            self._core.observe_response(now, decoded.hint)
            if self._quorum.role is not role:
                return
            if decoded.error == ErrorCode.NONE:
                role.votes[voter] = decoded.granted
            if role.granted() >= self._quorum.majority:
                self._quorum.become_candidate(now)
            elif self._is_lost(role):
                self._quorum.withdraw(now)
            elif not role.votes.get(voter):
                self._core.retry_later(now, peer)

        return answered

    def _ask_for_votes(
        self, now: int, role: Standing, answered: Callable[[Standing, int, Peer], messages.Answered]
    ) -> None:
        log = self._core.log
        pre_vote = isinstance(role, Prospective)
        for voter, peer in role.peers.items():
            if peer.deadline <= now:
                end = (log.last_epoch, log.end_offset)
                directory = self._core.directory_of(voter)
                message = messages.vote(
                    self._config, role.epoch, voter, *end, voter_directory=directory, pre_vote=pre_vote
                )
                self._core.ask(voter, message, peer, answered(role, voter, peer))

    def run_candidate(self, now: int, role: Candidate) -> None:
        """Request votes from voters that have not responded; at the timeout, back off or stand again."""
        if now >= role.election_at:
            if role.backing_off:
                self._quorum.become_prospective(now)
            else:
                self._quorum.back_off(now)
            return
        if role.backing_off:
            return
        if role.granted() >= self._quorum.majority:
            self._lead(now, role)
            return
        self._ask_for_votes(now, role, self._vote_answered)

    def _vote_answered(self, role: Candidate, voter: int, peer: Peer) -> messages.Answered:
        def answered(now: int, response: Message) -> None:
            decoded = messages.read_vote_response(response)
            self._core.observe_response(now, decoded.hint)
            if self._quorum.role is not role:
                return
            if decoded.error != ErrorCode.NONE:
                self._core.retry_later(now, peer)
                return
            role.votes[voter] = decoded.granted
            if role.granted() >= self._quorum.majority:
                self._lead(now, role)
            elif self._is_lost(role) and not role.backing_off:
                self._quorum.back_off(now)

        return answered

    def _is_lost(self, role: Prospective | Candidate) -> bool:
        """Whether the refusals leave no majority to win."""
        return role.rejected() > len(self._quorum.voters.latest.voters) - self._quorum.majority

    def _lead(self, now: int, role: Candidate) -> None:
        """Begin the epoch with a record in it: nothing older is committed before that (QC-16)."""
        log = self._core.log
        granted = tuple(voter for voter, vote in role.votes.items() if vote)
        self._quorum.become_leader(now, log.end_offset)
        log.append_leader_change(self._quorum.voters.latest.ids, granted, role.epoch, self._core.clock.now_ms())
        self._core.begin_dynamic_voters(now)

    # -- a leader begins --------------------------------------------------------------------------------------

    def announce(self, now: int, role: Leader) -> None:
        """Announce this leader to every voter that has not fetched lately (QC-11)."""
        pause = self._config.fetch_timeout // 2
        for voter, progress in role.others.items():
            peer = progress.begin
            if peer.deadline > now:
                continue
            if progress.fetched_at >= 0 and now < progress.fetched_at + pause:
                peer.due = progress.fetched_at + pause
                continue
            message = messages.begin_quorum_epoch(
                self._config,
                role.epoch,
                voter,
                voter_directory=self._core.directory_of(voter),
                leader=self._core.local_voter(),
            )
            self._core.ask(voter, message, peer, self._begin_answered(role, peer))

    def _begin_answered(self, role: Leader, peer: Peer) -> messages.Answered:
        def answered(now: int, response: Message) -> None:
            decoded = messages.read_begin_response(response)
            self._core.observe_response(now, decoded.hint)
            if self._quorum.role is not role:
                return
            if decoded.error == ErrorCode.NONE:
                peer.answered(now, self._config.fetch_timeout // 2)
            else:
                self._core.retry_later(now, peer)

        return answered

    def handle_begin_quorum_epoch(self, now: int, request: ServerRequest) -> None:
        news = messages.read_begin(request.body)
        if self._wrong_cluster(news.cluster_id):
            request.respond(messages.begin_refusal(ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        error = self._news_error(news) or self._heard(
            now, f"BeginQuorumEpoch of {news.leader_id}", lambda: self._core.hear_leader(now, news)
        )
        if error == ErrorCode.NONE and isinstance(self._quorum.role, Prospective):
            self._quorum.become_follower(now, news.epoch, news.leader_id)  # the lost leader is alive
        request.respond(messages.begin_response(self._config, error, self._core.hint()))

    def _news_error(self, news: messages.LeaderNews) -> int:
        if not news.valid_partition or news.leader_id < 0:
            return ErrorCode.INVALID_REQUEST
        if not self._is_meant(news.voter):
            return ErrorCode.INVALID_VOTER_KEY
        return ErrorCode.FENCED_LEADER_EPOCH if news.epoch < self._quorum.epoch else ErrorCode.NONE

    # -- a leader ends ----------------------------------------------------------------------------------------

    def run_resigned(self, now: int, role: Resigned) -> None:
        """Send EndQuorumEpoch until it is acknowledged; without a new leader, stand for the next epoch."""
        if now >= role.election_at:
            if self._quorum.votes:
                self._quorum.become_prospective(now)
            else:
                self._quorum.become_unattached(now, role.epoch + 1)  # removed: find the leader of the other voters
            return
        self.send_end_quorum_epoch(now, role)

    def send_end_quorum_epoch(self, now: int, role: Resigned) -> None:
        for voter, peer in role.peers.items():
            if peer.deadline <= now:
                successors = [ReplicaKey(one, self._core.directory_of(one)) for one in role.successors]
                message = messages.end_quorum_epoch(self._config, role.epoch, successors, self._core.local_voter())
                self._core.ask(voter, message, peer, self._end_answered(peer))

    def _end_answered(self, peer: Peer) -> messages.Answered:
        def answered(now: int, response: Message) -> None:
            decoded = messages.read_end_response(response)
            self._core.observe_response(now, decoded.hint)
            if decoded.error == ErrorCode.NONE:
                peer.answered(now, self._config.election_timeout * 4)
            else:
                self._core.retry_later(now, peer)

        return answered

    def handle_end_quorum_epoch(self, now: int, request: ServerRequest) -> None:
        news = messages.read_end(request.body)
        if self._wrong_cluster(news.cluster_id):
            request.respond(messages.end_refusal(ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        error = self._news_error(news) or self._heard(
            now, f"EndQuorumEpoch of {news.leader_id}", lambda: self._core.hear_leader(now, news)
        )
        if error == ErrorCode.NONE:
            role = self._quorum.role
            if isinstance(role, Follower) and role.leader_id == news.leader_id and self._quorum.votes:
                role.give_up_at = min(role.give_up_at, now + self._succession_delay(news.successors))
                role.heard, role.abandoned = False, True
        request.respond(messages.end_response(self._config, error, self._core.hint()))

    def _succession_delay(self, successors: tuple[int, ...]) -> int:
        """The best successor stands at once, the others exponentially later, unlisted voters last (rule 38)."""
        longest = self._config.election_backoff_max
        if self._config.node_id not in successors:
            return longest
        position = successors.index(self._config.node_id)
        if position == 0:
            return 0
        return min(longest, (longest >> (len(successors) - 1)) << (position - 1))

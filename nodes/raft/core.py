"""State and helpers shared by the parts of a replica: role, log, high watermark, long polls, epochs and leaders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Trace, WallClock
from squall.nodes.protocol.errors import NO_ERROR, ErrorCode
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest, ToVoter
from squall.nodes.protocol.schema import Message
from squall.nodes.raft import messages
from squall.nodes.raft.bootstrap import BOOTSTRAP
from squall.nodes.raft.config import RaftConfig, Voter
from squall.nodes.raft.errors import Implausible, InvariantViolation
from squall.nodes.raft.metadata_log import MetadataLog
from squall.nodes.raft.plausibility import EpochAllowance, check_answered_epoch, check_endpoint
from squall.nodes.raft.purgatory import FetchPurgatory
from squall.nodes.raft.quorum_state import NO_DIRECTORY
from squall.nodes.raft.roles import Follower, Leader, Peer
from squall.nodes.raft.transitions import Quorum
from squall.nodes.raft.voters import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    VoterHistory,
    VoterSet,
    kraft_version_record,
    read_voters_record,
    voters_in,
    voters_record,
)

REFUSAL_TOLD_EVERY = 1_000_000
"""Minimum interval between log lines about implausible messages, in microseconds.

A peer that floods a node must not flood its log.
"""
FIRST_BOOTSTRAP = -2
"""Bootstrap servers have no ids yet; requests address them as -2, -3, … in the order of the configuration."""


def load_voters(voters: VoterHistory, log: MetadataLog) -> None:
    """Rebuild the voters: from the latest snapshot, then from the log."""
    voters.clear()
    latest = log.snapshots.latest
    if latest is not None:
        for record in log.snapshots.control_records(latest):
            if record.kind == KRAFT_VOTERS and latest == BOOTSTRAP:
                voters.begin_with(read_voters_record(record.value))
            elif record.kind == KRAFT_VOTERS:
                voters.append(latest.end_offset - 1, read_voters_record(record.value))
    begin = log.start_offset if latest is None else max(log.start_offset, latest.end_offset)
    for batch in log.raw_batches(begin, log.end_offset):
        for offset, found in voters_in(batch):
            voters.append(offset, found)


class Core:
    """The state of one replica, and the operations that every part of it shares."""

    def __init__(
        self,
        config: RaftConfig,
        quorum: Quorum,
        log: MetadataLog,
        *,
        clock: WallClock,
        trace: Trace,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
    ) -> None:
        self.config = config
        self.mutants = mutants
        self.buggify = buggify
        self.quorum = quorum
        self.log = log
        self.clock = clock
        self.trace = trace
        self.purgatory = FetchPurgatory()
        self.leader_address: Voter | None = None
        """Address of the leader: for a replica that does not know the voters yet, or if the leader has moved."""
        self._address_epoch = -1
        """The epoch in which `leader_address` was received."""
        self._told_by_leader = (-1, -1)
        """The epoch and leader that sent this address itself; addresses from other nodes do not replace it."""
        self.requests: list[OutboundRequest] = []
        self.implausible_count = 0
        """Messages refused since the start."""
        self._allowance = EpochAllowance()
        self._told_refusal_at = -REFUSAL_TOLD_EVERY
        latest = log.snapshots.latest
        self.high_watermark = 0 if latest is None else latest.end_offset
        """Everything in a snapshot was committed when it was made."""
        quorum.committed(self.high_watermark)

    # -- epochs and leaders -----------------------------------------------------------------------------------

    def observe_response(self, now: int, hint: messages.Hint) -> None:
        """Update epoch, leader and endpoint from a response. Raises Implausible."""
        check_answered_epoch(self.quorum.epoch, hint.epoch)
        check_endpoint(hint.endpoint)
        self._check_leader(hint.epoch, hint.leader_id)
        is_news = hint.epoch >= self.quorum.epoch and self._told_by_leader != (hint.epoch, hint.leader_id)
        if hint.endpoint is not None and is_news:
            self.leader_address, self._address_epoch = hint.endpoint, hint.epoch
        self.observe_epoch(now, hint.epoch, hint.leader_id)

    def hear_leader(self, now: int, news: messages.LeaderNews) -> None:
        """Update epoch and leader from a leader's own message, whose address takes precedence. Raises Implausible."""
        if news.leader_id == self.config.node_id:
            raise Implausible("it is this node that is said to say so")
        check_endpoint(news.endpoint)
        self._check_leader(news.epoch, news.leader_id)
        self._allowance.check(now, self.quorum.epoch, news.epoch)
        if news.endpoint is not None and self.config.dynamic_voters:
            self.leader_address, self._address_epoch = news.endpoint, news.epoch
            self._told_by_leader = (news.epoch, news.leader_id)
        self.observe_epoch(now, news.epoch, news.leader_id)

    def hear_candidate(self, now: int, epoch: int) -> None:
        """Update the epoch from a candidate's request. Raises Implausible."""
        self._allowance.check(now, self.quorum.epoch, epoch)
        self.observe_epoch(now, epoch, None)

    def _check_leader(self, epoch: int, leader_id: int | None) -> None:
        """Refuse a leader that cannot be one. Raises Implausible; nothing has changed."""
        quorum = self.quorum
        if leader_id is None or epoch < quorum.epoch:
            return
        known = quorum.role.leader_id
        if epoch == quorum.epoch and known is not None:
            if known != leader_id:
                raise Implausible(f"epoch {epoch} has two leaders, {known} and {leader_id}")
            return
        if leader_id == self.config.node_id:
            raise Implausible(f"this node is said to lead epoch {epoch}, and was never elected in it")
        voters = self.voters.latest.ids
        if voters and not self.config.dynamic_voters and leader_id not in voters:
            raise Implausible(f"{leader_id} is said to lead epoch {epoch}; the voters are {list(voters)}")

    def refuse(self, now: int, what: str, why: object) -> None:
        """Report a refused, implausible message of a peer, at a rate that people can read.

        The trace has every one of them: where messages are not forged, one means a bug of a node
        (`harness.simulation`).
        """
        self.implausible_count += 1
        self.trace.event("implausible", node=self.config.node_id, what=what, why=str(why))
        if now >= self._told_refusal_at + REFUSAL_TOLD_EVERY:
            self._told_refusal_at = now
            self.log.snapshots.notices.append(
                f"node {self.config.node_id}: refused {what}: {why} "
                f"({self.implausible_count} implausible messages of peers since the start)"
            )

    def observe_epoch(self, now: int, epoch: int, leader_id: int | None) -> None:
        """Update epoch and leader from a checked message if they are newer. Older epochs are ignored."""
        quorum = self.quorum
        if epoch < quorum.epoch:
            return
        if epoch > quorum.epoch:
            if leader_id is None:
                quorum.become_unattached(now, epoch)
            else:
                quorum.become_follower(now, epoch, leader_id)
        elif leader_id is not None and quorum.role.leader_id is None:
            quorum.become_follower(now, epoch, leader_id)
        self.fail_parked_unless_leading()

    def epoch_error(self, epoch: int) -> int:
        """The error for a request of this epoch if this replica cannot serve it as leader, else 0 (rule 36)."""
        if epoch < self.quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.quorum.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return NO_ERROR if isinstance(self.quorum.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def hint(self) -> messages.Hint:
        """Epoch and leader as every response carries them."""
        leader = self.quorum.leader_id
        if leader is None:
            return messages.Hint(self.quorum.epoch, None)
        endpoint = self.local_voter() if leader == self.config.node_id else self._place_of(leader)
        return messages.Hint(self.quorum.epoch, leader, endpoint)

    # -- voters -----------------------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterHistory:
        return self.quorum.voters

    def address_of(self, voter: int) -> tuple[str, int] | None:
        """Address of a voter, by log, configuration or other nodes' responses; -2 and below are bootstrap servers."""
        if voter <= FIRST_BOOTSTRAP:
            return self.config.bootstrap[FIRST_BOOTSTRAP - voter]
        found = self._place_of(voter)
        return None if found is None else (found.host, found.port)

    def _place_of(self, voter: int) -> Voter | None:
        """The leader's reported endpoint, else that of the log or, without dynamic voters, the configuration."""
        listed = self.voters.latest.find(voter) or self.config.endpoint(voter)
        told = self.leader_address
        if told is None or told.id != voter:
            return listed
        may_have_moved = self.config.dynamic_voters and self._address_epoch == self.quorum.epoch
        return told if listed is None or may_have_moved else listed

    def directory_of(self, voter: int) -> bytes:
        """The directory by which a voter is known; zeros if unknown."""
        found = self.voters.latest.find(voter)
        return NO_DIRECTORY if found is None else found.directory_id

    def local_voter(self) -> Voter | None:
        """This node's entry as it should be among the voters."""
        config = self.config
        listed = self.voters.latest.find(config.node_id)
        if config.address is not None:
            return Voter(config.node_id, *config.address, config.directory_id)
        return None if listed is None else replace(listed, directory_id=config.directory_id)

    def begin_dynamic_voters(self, now: int) -> None:
        """Write the initial voters, as the first leader of a quorum with dynamic voters."""
        if self.config.dynamic_voters and self.voters.latest_offset < 0:
            local = self.local_voter()
            voters = self.voters.latest
            self.append_voters(now, voters if local is None else voters.with_voter(local))

    def append_voters(self, now: int, voters: VoterSet) -> int:
        """Append a voters record, preceded by the version if it is the first; return its offset. It counts at once."""
        values = [(KRAFT_VOTERS, voters_record(voters))]
        if self.voters.latest_offset < 0:
            values.insert(0, (KRAFT_VERSION, kraft_version_record()))
        offset = self.log.append_control(values, self.quorum.epoch, self.clock.now_ms())
        self._voters_follow(now, offset, voters)
        return offset

    def follow_voters(self, now: int, changes: Sequence[tuple[int, VoterSet]]) -> None:
        """Apply the voters in fetched batches before they are committed (rule 40)."""
        for offset, voters in changes:
            self._voters_follow(now, offset, voters)

    def _voters_follow(self, now: int, offset: int, voters: VoterSet) -> None:
        self.voters.append(offset, voters)
        self.quorum.voters_changed(now)
        self.trace.event("voters", node=self.config.node_id, offset=offset, voters=list(voters.ids))

    def voters_truncated(self, now: int) -> None:
        """Restore the voters from the rest of the log after a truncation."""
        if self.voters.truncate(self.log.end_offset):
            self.quorum.voters_changed(now)

    def reload_voters(self, now: int) -> None:
        """Reload the voters after a snapshot replaced the log."""
        load_voters(self.voters, self.log)
        self.quorum.voters_changed(now)

    def fail_parked_unless_leading(self) -> None:
        """Fail fetches parked at a former leader, so that their senders look for the new leader."""
        if len(self.purgatory) and not isinstance(self.quorum.role, Leader):
            for fetch in self.purgatory.take_all():
                self.refuse_fetch(fetch.request, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def refuse_fetch(self, request: ServerRequest, error: int) -> None:
        request.respond(messages.fetch_response(self.config, error, self.hint()))

    # -- progress ---------------------------------------------------------------------------------------------

    def raise_high_watermark(self, offset: int) -> None:
        """Mark everything below `offset` as committed. It never falls (HWM) and never passes the log's end."""
        if offset < self.high_watermark or offset > self.log.end_offset:
            raise InvariantViolation(
                f"node {self.config.node_id}: high watermark from {self.high_watermark} to {offset}, "
                f"log end {self.log.end_offset}"
            )
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.quorum.committed(offset)
            self.trace.event("high_watermark", node=self.config.node_id, epoch=self.quorum.epoch, offset=offset)

    def heard_from_leader(self, now: int, role: Follower) -> None:
        """Extend this follower's fetch timeout: its leader has responded (QC-18)."""
        if not role.abandoned:
            patience = self.config.fetch_timeout
            role.give_up_at = now + (patience // 8 if self.buggify.happens("early-fetch-timeout") else patience)
            role.heard = True

    def heard_from_fetcher(self, now: int, replica_id: int) -> None:
        """Count a voter's snapshot fetch as a sign that it follows this leader (QC-18); it acknowledges nothing."""
        role = self.quorum.role
        if isinstance(role, Leader) and replica_id in role.others:
            role.others[replica_id].fetched_at = now
            role.others[replica_id].fetched_at_ms = self.clock.now_ms()

    # -- requests ---------------------------------------------------------------------------------------------

    def ask(self, voter: int, message: Message, peer: Peer, answered: messages.Answered) -> None:
        """Send one request to a voter. `answered` receives the response; without one, `peer` backs off."""
        config = self.config

        def complete(now: int, response: Message | None) -> None:
            if response is None:
                self.retry_later(now, peer)
                return
            try:
                answered(now, response)
            except Implausible as why:
                self.refuse(now, f"an answer of {voter} to {type(message).__name__}", why)
                self.retry_later(now, peer)

        peer.sent()
        self.requests.append(OutboundRequest(ToVoter(voter), message, config.request_timeout, complete))

    def retry_later(self, now: int, peer: Peer) -> None:
        peer.failed(now, self.config.retry_backoff, self.config.fetch_timeout // 4)

"""What the parts of a replica share: role, log, high watermark, long polls, and news of epochs and leaders."""

from __future__ import annotations

from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Trace, WallClock
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.session import OutboundRequest, ServerRequest, ToVoter
from squall.nodes.raft import messages
from squall.nodes.raft.config import RaftConfig
from squall.nodes.raft.errors import InvariantViolation
from squall.nodes.raft.metadata_log import MetadataLog
from squall.nodes.raft.purgatory import FetchPurgatory
from squall.nodes.raft.roles import Follower, Leader, Peer
from squall.nodes.raft.transitions import Quorum


class Core:
    """The state of one replica, and the few things that every part of it does alike."""

    def __init__(
        self,
        config: RaftConfig,
        quorum: Quorum,
        log: MetadataLog,
        *,
        clock: WallClock,
        trace: Trace,
        mutants: Mutants = HEALTHY,
    ) -> None:
        self.config = config
        self.mutants = mutants
        self.quorum = quorum
        self.log = log
        self.clock = clock
        self.trace = trace
        self.purgatory = FetchPurgatory()
        self.requests: list[OutboundRequest] = []
        latest = log.snapshots.latest
        self.high_watermark = 0 if latest is None else latest.end_offset
        """What a snapshot stands for was committed when it was made."""

    # -- news -------------------------------------------------------------------------------------------------

    def learn(self, now: int, epoch: int, leader_id: int | None) -> None:
        """Follow what a message says about epoch and leader, if it is news; old epochs are not."""
        quorum = self.quorum
        if epoch < quorum.epoch:
            return
        if leader_id is not None:
            quorum.check_leader(epoch, leader_id)
        if epoch > quorum.epoch:
            if leader_id is None:
                quorum.become_unattached(now, epoch)
            else:
                quorum.become_follower(now, epoch, leader_id)
        elif leader_id is not None and quorum.role.leader_id is None:
            quorum.become_follower(now, epoch, leader_id)
        self.fail_parked_unless_leading()

    def epoch_error(self, epoch: int) -> int:
        """Why a request of this epoch cannot be served by a leader here, 0 if it can (rule 36)."""
        if epoch < self.quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.quorum.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if isinstance(self.quorum.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def hint(self) -> messages.Hint:
        """Epoch and leader as every answer carries them."""
        return messages.Hint(self.quorum.epoch, self.quorum.leader_id)

    def fail_parked_unless_leading(self) -> None:
        """Whoever waits at a former leader must look for the new one."""
        if len(self.purgatory) and not isinstance(self.quorum.role, Leader):
            for fetch in self.purgatory.take_all():
                self.refuse_fetch(fetch.request, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def refuse_fetch(self, request: ServerRequest, error: int) -> None:
        request.respond(messages.fetch_answer(self.config, error, self.hint()))

    # -- progress ---------------------------------------------------------------------------------------------

    def raise_high_watermark(self, offset: int) -> None:
        """Everything below `offset` is committed. It never falls (HWM) and never passes the log's end."""
        if offset < self.high_watermark or offset > self.log.end_offset:
            raise InvariantViolation(
                f"node {self.config.node_id}: high watermark from {self.high_watermark} to {offset}, "
                f"log end {self.log.end_offset}"
            )
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.trace.event("high_watermark", node=self.config.node_id, epoch=self.quorum.epoch, offset=offset)

    def heard_from_leader(self, now: int, role: Follower) -> None:
        """Its leader has answered this follower, which therefore stays one for another while (QC-18)."""
        if not role.abandoned:
            role.give_up_at = now + self.config.fetch_timeout
            role.heard = True

    def heard_from_fetcher(self, now: int, replica_id: int) -> None:
        """A voter that is busy with a snapshot follows this leader (QC-18), though it acknowledges nothing by it."""
        role = self.quorum.role
        if isinstance(role, Leader) and replica_id in role.others:
            role.others[replica_id].fetched_at = now
            role.others[replica_id].fetched_at_ms = self.clock.now_ms()

    # -- requests ---------------------------------------------------------------------------------------------

    def ask(self, voter: int, message: Message, peer: Peer, answered: messages.Answered) -> None:
        """Send one request to a voter. `answered` hears of an answer; `peer` backs off without one."""
        config = self.config

        def complete(now: int, response: Message | None) -> None:
            if response is None:
                self.retry_later(now, peer)
            else:
                answered(now, response)

        peer.sent()
        self.requests.append(OutboundRequest(ToVoter(voter), message, config.request_timeout, complete))

    def retry_later(self, now: int, peer: Peer) -> None:
        peer.failed(now, self.config.retry_backoff, self.config.fetch_timeout // 4)

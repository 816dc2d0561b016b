"""Role transitions of a quorum replica, and what is made durable on the way (QC-03..05, QC-08, rules 32..37).

    from \\ to    unattached        prospective       candidate       leader    follower          resigned
    unattached    higher epoch, or  election timeout  -               -         leader known      -
                  vote granted
    prospective   higher epoch,     -                 majority would  -         leader known,     refused, having
                  vote granted, or                    vote for it               or refused,       led this epoch
                  refused                                                       knowing one
    candidate     higher epoch      next election     -               majority  leader known      -
    leader        higher epoch      -                 -               -         higher epoch and  no majority
                                                                                its leader        fetches, stop,
                                                                                                  or removed
    follower      higher epoch      no response for   its leader has  -         higher epoch and  -
                                    fetch timeout     resigned                  its leader
    resigned      higher epoch      election timeout  -               -         higher epoch and  -
                                                                                its leader

Only a candidate makes other voters change epochs, and before it stands it has asked whether a majority would vote for
it (KIP-996, rule 41). So a voter that was cut off returns in the epoch in which it left, and voters that have a live
leader refuse it. A successor that the resigning leader names need not ask: there is no leader to disrupt.

An observer is only ever unattached or follower. Epochs never fall. Within an epoch there is at most one vote and one
leader; both are written to `quorum-state` before `become_…` returns, so nothing that follows from a transition can be
sent before it is durable. A restarted leader is *resigned in the same epoch*: it may have sent records that it then
lost, and would otherwise write different records at the same offset and epoch (QC-04).
"""

from __future__ import annotations

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.ports import Rng, Trace
from squall.nodes.raft.config import NEVER, RaftConfig
from squall.nodes.raft.errors import InvariantViolation
from squall.nodes.raft.quorum_state import QuorumState, QuorumStateStore, ReplicaKey
from squall.nodes.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    ReplicaProgress,
    Resigned,
    Role,
    Unattached,
    peers_of,
)
from squall.nodes.raft.voters import VoterHistory

BACKOFF_BASE = 100_000
"""The first range of the random wait after a lost election; it doubles with each further loss (QC-10)."""


class Quorum:
    """The current role of this replica, and the only place where it changes."""

    def __init__(
        self, config: RaftConfig, store: QuorumStateStore, *, rng: Rng, trace: Trace, buggify: Buggify = OFF
    ) -> None:
        self._config = config
        self._store = store
        self._rng = rng
        self._trace = trace
        self._buggify = buggify
        self.local = ReplicaKey(config.node_id, config.directory_id)
        self.voters = VoterHistory(config.voters)
        self.role: Role = Unattached(epoch=0, voted=None, election_at=NEVER)

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def leader_id(self) -> int | None:
        """The leader of this epoch if known; a resigned leader does not count."""
        role = self.role
        return None if role.leader_id == self.local.id and not isinstance(role, Leader) else role.leader_id

    # -- voters -----------------------------------------------------------------------------------------------

    @property
    def votes(self) -> bool:
        """Whether this replica takes part in elections, as opposed to an observer."""
        return self._config.votes and self.voters.may_stand(self.local)

    @property
    def counts(self) -> bool:
        """Whether this replica counts for the majority."""
        return self._config.votes and self.voters.counts(self.local)

    @property
    def other_voters(self) -> tuple[int, ...]:
        return tuple(voter for voter in self.voters.latest.ids if voter != self.local.id)

    @property
    def majority(self) -> int:
        return self.voters.latest.majority

    def voters_changed(self, now: int) -> None:
        """Apply a change of the voters: count by the new set, and start or stop voting."""
        role = self.role
        if isinstance(role, Leader):
            role.reconfigure(now, self.voters.latest, self.local.id, votes=self.counts)
        elif isinstance(role, Follower):
            role.votes = self.votes
            role.update.due = now if self.votes else NEVER
        elif isinstance(role, Unattached) and self.votes != (role.election_at != NEVER):
            role.election_at = self._election_at(now)

    def committed(self, high_watermark: int) -> None:
        """Apply a higher high watermark; a removed voter no longer stands once its removal is committed."""
        self.voters.high_watermark = high_watermark
        if isinstance(self.role, Follower):
            self.role.votes = self.votes

    # -- start ------------------------------------------------------------------------------------------------

    def start(self, now: int, last_log_epoch: int | None) -> None:
        """Take up the role that the files allow (X24: the larger of the two epochs counts)."""
        state = self._store.read() or QuorumState()
        if last_log_epoch is not None and last_log_epoch > state.epoch:
            state = QuorumState(epoch=last_log_epoch)
        if state.leader_id == self.local.id and self._config.votes:
            self._enter(self._resigned(now, state.epoch, state.voted, ()))
        elif not self.votes:
            self._start_observer(now, state)
        elif state.leader_id is not None:
            self._enter(self._follower(now, state.epoch, state.leader_id, state.voted))
        else:
            self._enter(Unattached(state.epoch, state.voted, self._election_at(now)))
        if self.votes and not self.other_voters:
            self.become_candidate(now)

    def _start_observer(self, now: int, state: QuorumState) -> None:
        known = state.leader_id is not None and state.leader_id != self.local.id
        if known and state.leader_id is not None:
            self._enter(self._follower(now, state.epoch, state.leader_id, state.voted))
        else:
            self._enter(Unattached(state.epoch, state.voted, NEVER))

    # -- transitions ------------------------------------------------------------------------------------------

    def become_unattached(self, now: int, epoch: int) -> None:
        """Enter a higher epoch whose leader is unknown."""
        self._require(epoch > self.epoch, f"unattached in epoch {epoch}, being in {self.epoch} already")
        self._enter(Unattached(epoch, None, self._kept_election_at(now)))

    def grant_vote(self, now: int, candidate: ReplicaKey) -> None:
        """Vote for a candidate in this epoch. Durable on return."""
        role = self.role
        free = isinstance(role, Unattached | Prospective) and role.voted is None and role.leader_id is None
        self._require(free, f"second vote in epoch {self.epoch}: for {candidate.id} after {self.role.voted}")
        self._enter(Unattached(self.epoch, candidate, self._election_at(now)))
        self._trace.event("vote", node=self.local.id, epoch=self.epoch, candidate=candidate.id)

    def become_prospective(self, now: int) -> None:
        """Start a pre-vote. Epoch, vote and the last known leader stay the same. Without pre-votes: stand at once."""
        role = self.role
        if not self._config.variant.pre_vote:
            self.become_candidate(now)
            return
        self._require(self.votes, "an observer cannot stand for election")
        self._require(not isinstance(role, Leader), "a leader cannot stand for election")
        lost = role.elections_lost + 1 if isinstance(role, Candidate) else 0
        self._enter(
            Prospective(
                epoch=role.epoch,
                leader_id=role.leader_id,
                voted=role.voted,
                elections_lost=role.elections_lost if isinstance(role, Unattached) else lost,
                election_at=self._election_at(now),
                peers=peers_of(self.other_voters),
                votes={self.local.id: True} if self.counts else {},
            )
        )

    def withdraw(self, now: int) -> None:
        """Return to the previous role with a new timeout: a majority would not vote for this one."""
        role = self.role
        assert isinstance(role, Prospective)
        if role.leader_id is None:
            self._enter(Unattached(role.epoch, role.voted, self._election_at(now), role.elections_lost))
        elif role.leader_id == self.local.id:
            self._enter(self._resigned(now, role.epoch, role.voted, ()))
        else:
            follower = self._follower(now, role.epoch, role.leader_id, role.voted)
            follower.give_up_at = self._election_at(now)
            self._enter(follower)

    def become_candidate(self, now: int) -> None:
        """Stand for the next epoch, and vote for itself."""
        self._require(self.votes, "an observer cannot stand for election")
        self._require(not isinstance(self.role, Leader), "a leader cannot stand for election")
        lost = self.role.elections_lost if isinstance(self.role, Prospective) else 0
        if isinstance(self.role, Candidate):
            lost = self.role.elections_lost + 1
        self._enter(
            Candidate(
                epoch=self.epoch + 1,
                voted=self.local,
                elections_lost=lost,
                election_at=self._election_at(now),
                peers=peers_of(self.other_voters),
                votes={self.local.id: True} if self.counts else {},
            )
        )
        self._trace.event("vote", node=self.local.id, epoch=self.epoch, candidate=self.local.id)

    def back_off(self, now: int) -> None:
        """Wait a random time after a lost election, longer after each loss, then stand again."""
        role = self.role
        assert isinstance(role, Candidate)
        width = 2 << min(role.elections_lost, 20)
        role.backing_off = True
        role.election_at = now + min(BACKOFF_BASE * self._rng.randrange(0, width), self._config.election_backoff_max)

    def become_leader(self, now: int, epoch_start_offset: int) -> Leader:
        role = self.role
        assert isinstance(role, Candidate), f"from {role.name} to leader"
        self._require(role.granted() >= self.majority, f"leader of {role.epoch} without a majority")
        leader = Leader(
            epoch=role.epoch,
            leader_id=self.local.id,
            epoch_start_offset=epoch_start_offset,
            since=now,
            majority=self.majority,
            others={voter: ReplicaProgress() for voter in self.other_voters},
            voted=role.voted,
            votes=self.counts,
        )
        self._enter(leader)
        return leader

    def become_follower(self, now: int, epoch: int, leader_id: int) -> None:
        """Follow the leader of this or a higher epoch. A second leader for the same epoch is fatal (rule 37)."""
        self._require(epoch >= self.epoch, f"follower in epoch {epoch}, being in {self.epoch}")
        if epoch == self.epoch:
            known = self.role.leader_id
            self._require(known in (None, leader_id), f"epoch {epoch} has two leaders, {known} and {leader_id}")
            if isinstance(self.role, Follower):
                return
            self._require(not isinstance(self.role, Leader), f"asked to follow itself in epoch {epoch}")
        self._require(leader_id != self.local.id, f"asked to lead epoch {epoch} without having been elected in it")
        voted = self.role.voted if epoch == self.epoch else None
        self._enter(self._follower(now, epoch, leader_id, voted))

    def resign(self, now: int) -> None:
        """Stop leading and never lead this epoch again."""
        role = self.role
        assert isinstance(role, Leader)
        self._enter(self._resigned(now, role.epoch, role.voted, role.successors()))

    # -- making roles -----------------------------------------------------------------------------------------

    def _follower(self, now: int, epoch: int, leader_id: int, voted: ReplicaKey | None) -> Follower:
        give_up_at = now + self._config.fetch_timeout
        follower = Follower(epoch, leader_id, give_up_at, voted=voted, votes=self.votes)
        follower.update.due = now if self.votes else NEVER
        return follower

    def _resigned(self, now: int, epoch: int, voted: ReplicaKey | None, successors: tuple[int, ...]) -> Resigned:
        peers = peers_of(self.other_voters)
        timeout = self._config.election_timeout
        until = now + self._rng.randrange(timeout, 2 * timeout)
        return Resigned(epoch, self.local.id, successors, until, peers, voted)

    def _election_at(self, now: int) -> int:
        """A random time between one and two election timeouts away; never for an observer."""
        if not self.votes:
            return NEVER
        timeout = self._config.election_timeout
        wait = self._rng.randrange(timeout, 2 * timeout)
        return now + (wait // 8 if self._buggify.happens("early-election-timer") else wait)

    def _kept_election_at(self, now: int) -> int:
        """The election time as it was before the new epoch.

        A replica that reset it with every higher epoch would never stand, and a replica that keeps standing without
        success, its log being too short, could block the others forever.
        """
        role = self.role
        if isinstance(role, Leader) or not self.votes:
            return self._election_at(now)
        return max(now, role.give_up_at if isinstance(role, Follower) else role.election_at)

    def _enter(self, role: Role) -> None:
        state = QuorumState(role.epoch, role.leader_id, role.voted)
        if self._store.read_cached() != state:
            self._store.write(state)
        self.role = role
        self._trace.event(
            "state",
            node=self.local.id,
            role=role.name if self.votes else f"observer-{role.name}",
            epoch=role.epoch,
            leader=-1 if role.leader_id is None else role.leader_id,
        )

    def _require(self, condition: bool, broken: str) -> None:
        if not condition:
            raise InvariantViolation(f"node {self.local.id}: {broken}")

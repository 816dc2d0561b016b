"""The roles of a quorum replica, one class each, with the state of that role (QC-03).

A role holds no reference to the replica and decides no transition; `transitions.Quorum` does. `deadline` is the time of
the next action, `patience` how long a leader continues without a majority. All times are `now`, monotonic microseconds
(X32). An observer is an `Unattached` or a `Follower` of a replica that does not vote.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from squall.nodes.raft.config import NEVER
from squall.nodes.raft.quorum_state import NO_DIRECTORY, ReplicaKey
from squall.nodes.raft.voters import VoterSet


@dataclass(slots=True)
class Peer:
    """Requests of one kind to one voter: at most one under way, retried with exponential back-off."""

    in_flight: bool = False
    failures: int = 0
    due: int = 0

    def sent(self) -> None:
        self.in_flight = True

    def answered(self, now: int, again_in: int) -> None:
        self.in_flight = False
        self.failures = 0
        self.due = now + again_in

    def failed(self, now: int, backoff: int, backoff_max: int) -> None:
        self.in_flight = False
        self.due = now + min(backoff << min(self.failures, 10), backoff_max)
        self.failures += 1

    @property
    def deadline(self) -> int:
        return NEVER if self.in_flight else self.due


def peers_of(voters: Iterable[int]) -> dict[int, Peer]:
    return {voter: Peer() for voter in voters}


@dataclass(slots=True)
class Unattached:
    """Knows no leader in this epoch, and may have voted in it. A voter stands at `election_at`."""

    name = "unattached"
    epoch: int
    voted: ReplicaKey | None
    election_at: int
    elections_lost: int = 0
    """Unsuccessful requests for votes since it last knew a leader."""
    fetch: Peer = field(default_factory=Peer)
    """An observer asks any voter who the leader is."""
    leader_id: int | None = None

    def deadline(self, patience: int = 0) -> int:
        return min(self.election_at, self.fetch.deadline if self.election_at == NEVER else NEVER)


@dataclass(slots=True)
class Resigned:
    """Led this epoch and will not again. Notifies the other voters, then waits for a new leader or stands."""

    name = "resigned"
    epoch: int
    leader_id: int
    successors: tuple[int, ...]
    election_at: int
    peers: dict[int, Peer]
    voted: ReplicaKey | None = None

    def deadline(self, patience: int = 0) -> int:
        return min([self.election_at, *(peer.deadline for peer in self.peers.values())])


@dataclass(slots=True)
class Prospective:
    """Asks whether a majority would vote for it, before other voters have to change epochs (KIP-996, rule 41)."""

    name = "prospective"
    epoch: int
    leader_id: int | None
    """The leader it no longer reaches, and to which it returns unless a majority has lost it too."""
    voted: ReplicaKey | None
    elections_lost: int
    election_at: int
    """When it stops asking."""
    peers: dict[int, Peer]
    votes: dict[int, bool]

    def granted(self) -> int:
        return sum(self.votes.values())

    def rejected(self) -> int:
        return len(self.votes) - self.granted()

    def deadline(self, patience: int = 0) -> int:
        return min([self.election_at, *(peer.deadline for peer in self.peers.values())])


@dataclass(slots=True)
class Candidate:
    """Has voted for itself and requests other votes.

    After losing it waits, longer each time, and stands again (QC-10).
    """

    name = "candidate"
    epoch: int
    voted: ReplicaKey
    elections_lost: int
    election_at: int
    """The timeout of this election; while backing off, the start of the next one."""
    peers: dict[int, Peer]
    votes: dict[int, bool]
    """The responses so far by voter, including its own vote."""
    backing_off: bool = False
    leader_id: int | None = None

    def granted(self) -> int:
        return sum(self.votes.values())

    def rejected(self) -> int:
        return len(self.votes) - self.granted()

    def deadline(self, patience: int = 0) -> int:
        if self.backing_off:
            return self.election_at
        return min([self.election_at, *(peer.deadline for peer in self.peers.values())])


@dataclass(slots=True)
class ReplicaProgress:
    """Another replica's progress by its last fetch (QC-17: the fetch offset is the acknowledgement)."""

    end_offset: int = -1
    directory_id: bytes = NO_DIRECTORY
    fetched_at: int = -1
    fetched_at_ms: int = -1
    caught_up_at_ms: int = -1
    begin: Peer = field(default_factory=Peer)


@dataclass(slots=True)
class Leader:
    """The only writer of its epoch. Counts itself only up to what is durable (X14)."""

    name = "leader"
    epoch: int
    leader_id: int
    epoch_start_offset: int
    since: int
    majority: int
    others: dict[int, ReplicaProgress]
    voted: ReplicaKey | None = None
    observers: dict[int, ReplicaProgress] = field(default_factory=dict)
    own_durable_offset: int = -1
    votes: bool = True
    """False once it has removed itself: it leads until that is committed, and counts only the others (DA-06)."""
    high_watermark: int | None = None
    """Known once a record of this epoch is on a majority (QC-16); None before."""

    def majority_end_offset(self, besides: Iterable[ReplicaProgress] = ()) -> int:
        """The largest offset below which a majority of the voters has everything, -1 if unknown.

        Only mutants pass `besides`, which also counts.
        """
        ends = [progress.end_offset for progress in (*self.others.values(), *besides)]
        if self.votes:
            ends.append(self.own_durable_offset)
        ends.sort(reverse=True)
        return ends[self.majority - 1]

    def majority_heard_at(self) -> int:
        """The last time at which a majority, this leader included, was known to follow it."""
        needed = self.majority - 1 if self.votes else self.majority
        if needed == 0:
            return NEVER
        since = self.since
        heard = [since if progress.fetched_at < since else progress.fetched_at for progress in self.others.values()]
        heard.sort(reverse=True)
        return heard[needed - 1]

    def reconfigure(self, now: int, voters: VoterSet, local_id: int, *, votes: bool) -> None:
        """Count by another set of voters from now on. A removed voter remains as an observer."""
        known = {**self.observers, **self.others}
        self.votes = votes
        self.majority = voters.majority
        self.others = {}
        for voter in voters.voters:
            if voter.id == local_id:
                continue
            progress = known.get(voter.id)
            same = progress is not None and ReplicaKey(voter.id, voter.directory_id).is_same_as(
                ReplicaKey(voter.id, progress.directory_id)
            )
            self.others[voter.id] = progress if progress is not None and same else ReplicaProgress(fetched_at=now)
        self.observers = {replica: progress for replica, progress in known.items() if replica not in self.others}

    def resign_at(self, patience: int) -> int:
        """When the leader must resign, unless more voters fetch before that (QC-18)."""
        heard = self.majority_heard_at()
        return NEVER if heard == NEVER else heard + patience

    def successors(self) -> tuple[int, ...]:
        """The other voters, those with the longest logs first."""
        ranked = sorted(self.others.items(), key=lambda item: (-item[1].end_offset, item[0]))
        return tuple(voter for voter, _ in ranked)

    def deadline(self, patience: int = 0) -> int:
        nearest = self.resign_at(patience)
        for progress in self.others.values():
            begin = progress.begin
            if begin.due < nearest and not begin.in_flight:
                nearest = begin.due
        return nearest


@dataclass(slots=True)
class Follower:
    """Fetches from the leader of its epoch; each response proves that the leader is alive (QC-18)."""

    name = "follower"
    epoch: int
    leader_id: int
    give_up_at: int
    """When a voter stands, or an observer asks another voter for the leader, unless the leader responds before."""
    fetch: Peer = field(default_factory=Peer)
    voted: ReplicaKey | None = None
    votes: bool = True
    """False for an observer, which only fetches."""
    heard: bool = False
    """The leader has responded in this role, and has not resigned since: reason enough to refuse pre-votes."""
    abandoned: bool = False
    """The leader has resigned, so that a candidate disrupts no leader."""
    update: Peer = field(default_factory=lambda: Peer(due=NEVER))
    """When to compare this voter's endpoint with its entry in the log."""

    def deadline(self, patience: int = 0) -> int:
        fetch = self.fetch
        nearest = NEVER if fetch.in_flight else fetch.due
        return min(self.give_up_at, nearest, self.update.deadline) if self.votes else nearest


Role = Unattached | Resigned | Prospective | Candidate | Leader | Follower

"""ELECT: who stands for election gives up when it has lost, or when the time of that election is over, not before.

A candidate that gives up too early costs time only, and stands again. With a voter down, every vote is needed: then
nobody is elected for as long as one voter refuses. An election is lost once so many voters refuse that those left are
no majority. The same holds for pre-votes (KIP-996).

Source: QC-09, QC-10, KIP-595. Asserted in the turn in which a candidate begins to back off, or one that asks for
pre-votes goes back to waiting for a leader. Legal: a later epoch, or a leader of this one; an election during which the
voters changed; a vote for another candidate of that epoch (seed 5 of worlds); a return to the leader that was thought
lost, since it may have been heard again.

Asserted after each turn of a candidate as well: the time of its election stays what it was, unless it backs off. One
that grants itself more time never stands again.

Asserted after each turn of a voter that waits, stands or backs off: the time at which it does something else has not
come. One that lets it pass depends on the others to elect a leader. Nor is that time further away than two election
timeouts, or a fetch timeout, which a follower that learns of a later epoch keeps; while backing off, no further than
`controller.quorum.election.backoff.max.ms` and than the back-off after so many lost elections. And a member of the
voters that stands, or asks for pre-votes, counts its own vote.
"""

from __future__ import annotations

from typing import NamedTuple

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.config import NodeConfig
from squall.nodes.node.base import BaseNode
from squall.nodes.raft.config import NEVER
from squall.nodes.raft.roles import Candidate, Prospective, Resigned, Role, Unattached
from squall.nodes.raft.transitions import BACKOFF_BASE


class _Standing(NamedTuple):
    """An election as it was after the last turn. Answers are added to the same `role` later."""

    incarnation: int
    role: Candidate | Prospective
    ends_at: int
    voters: tuple[int, ...]


class GivenUpElections(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._standing: dict[str, _Standing] = {}

    def died(self, process: SimProcess) -> None:
        self._standing.pop(process.name, None)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        with_quorum = node_of_quorum(node)
        if with_quorum is None:
            return
        raft = with_quorum.raft
        role = raft.role
        stood = self._standing.pop(process.name, None) if self._standing else None
        if stood is not None and stood.incarnation == process.incarnation and stood.voters == tuple(raft.voters.ids):
            _check(process, stood, role)
        if isinstance(role, Unattached | Resigned | Prospective | Candidate):
            _check_wait(process, role, node.config)
        if isinstance(role, Candidate | Prospective) and not (isinstance(role, Candidate) and role.backing_off):
            voters = tuple(raft.voters.ids)
            _check_own_vote(process, role, node.config.node_id, voters)
            self._standing[process.name] = _Standing(process.incarnation, role, role.election_at, voters)


def _check(process: SimProcess, stood: _Standing, now: object) -> None:
    before, most = stood.role, len(stood.voters)
    if now is before and isinstance(before, Candidate) and not before.backing_off:
        _check_time(process, before, stood.ends_at)
    if isinstance(before, Candidate):
        gave_up = now is before and before.backing_off
    else:
        gave_up = isinstance(now, Unattached) and (now.epoch, now.voted) == (before.epoch, before.voted)
    if not gave_up or process.now >= stood.ends_at:
        return
    majority = most // 2 + 1
    if most - before.rejected() >= majority:
        raise InvariantBroken(
            "ELECT",
            f"{process.name} gives up an election in quorum epoch {before.epoch}, {stood.ends_at - process.now} us "
            f"before its time is over. {before.rejected()} of {most} voters have refused; {majority} are a majority",
        )


def _check_wait(process: SimProcess, role: Unattached | Resigned | Prospective | Candidate, config: NodeConfig) -> None:
    """Check the time at which a voter that has no leader does something else."""
    wait = role.election_at - process.now
    if wait <= 0:
        raise InvariantBroken(
            "ELECT",
            f"{process.name} is {role.name} in quorum epoch {role.epoch}, and has let the end of that time pass, "
            f"{-wait} us ago",
        )
    if role.election_at != NEVER and wait > _longest_wait(role, config):
        raise InvariantBroken(
            "ELECT",
            f"{process.name} is {role.name} in quorum epoch {role.epoch}, and will be for {wait} us; "
            f"{_longest_wait(role, config)} us are the most",
        )


def _longest_wait(role: Role, config: NodeConfig) -> int:
    """Microseconds."""
    if isinstance(role, Candidate) and role.backing_off:
        return min(config.controller_quorum_election_backoff_max_ms * 1_000, BACKOFF_BASE * (2 << role.elections_lost))
    return 1_000 * max(2 * config.controller_quorum_election_timeout_ms, config.controller_quorum_fetch_timeout_ms)


def _check_own_vote(process: SimProcess, role: Candidate | Prospective, own: int, voters: tuple[int, ...]) -> None:
    if own in voters and not role.votes.get(own):
        raise InvariantBroken(
            "ELECT", f"{process.name} is {role.name} in quorum epoch {role.epoch}, and does not count its own vote"
        )


def _check_time(process: SimProcess, role: Candidate, ends_at: int) -> None:
    if role.election_at != ends_at:
        raise InvariantBroken(
            "ELECT",
            f"{process.name} stands in quorum epoch {role.epoch}, does not back off, and its time ends at "
            f"{role.election_at} us instead of {ends_at} us",
        )

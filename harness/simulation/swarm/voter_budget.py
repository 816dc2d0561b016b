"""Which changes of the voters a swarm may combine: a voter moves only while all others can elect a leader without it.

Only UpdateRaftVoter, which a leader takes, tells where a voter is. Before that is in the log, nobody can ask the voter
for its vote, and it wins no vote itself if its log is behind. So a quorum that needs this vote is lost, with Kafka as
with our nodes, until an operator moves the voter back. Three voters do not need it once the other two run; a removal
of one of those two makes it needed, and is appended by the leader before anybody knows whether it can be committed.

* A voter moves only while all controllers are voters, by a committed record, and nobody removes one.
* No voter is removed before the one that has moved is where the log has it.
"""

from __future__ import annotations

from squall.harness.simulation.swarm.drawn.kinds import MOVE_VOTER, REMOVE_VOTER
from squall.harness.simulation.world.voter_places import leading, misplaced_voter
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.node.node import Node


class VoterBudget:
    """See the module."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._voters = {place.node_id for place in world.places if place.is_controller}
        self._removals = 0
        self._moved: tuple[str, int] | None = None
        """The host that moved last, and the incarnation that still was at its former place."""

    def allows(self, kind: str, host: str) -> bool:
        """Return whether a change of this kind fits now; if it does, count it. Any other kind fits."""
        if kind == MOVE_VOTER:
            if self._removals or self._is_away() or not self._is_whole():
                return False
            self._moved = host, self._world.processes[host].incarnation
        elif kind == REMOVE_VOTER:
            if self._is_away():
                return False
            self._removals += 1
        return True

    def ended(self, kind: str) -> None:
        """An allowed change is over: a removed voter is back, or was given up."""
        self._removals -= kind == REMOVE_VOTER

    def _is_away(self) -> bool:
        """Whether a voter that has moved may not yet be where the log has it."""
        if self._moved is None:
            return False
        host, incarnation = self._moved
        process, leader = self._world.processes[host], leading(self._nodes())
        if process.incarnation == incarnation or process.node is None or leader is None:
            return True
        if leader.raft.voters_uncommitted or misplaced_voter(self._nodes()) is not None:
            return True
        self._moved = None
        return False

    def _is_whole(self) -> bool:
        leader = leading(self._nodes())
        return leader is not None and not leader.raft.voters_uncommitted and set(leader.raft.voters.ids) == self._voters

    def _nodes(self) -> dict[str, Node | None]:
        processes = self._world.processes.items()
        return {name: one.node if isinstance(one.node, Node) else None for name, one in processes}

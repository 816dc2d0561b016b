"""VOTERS: a leader adds a voter as soon as that has fetched what the log held when the request arrived (KIP-853).

`quorum_voters.py` asserts that no voter is added earlier. One that is added too late keeps its administrator waiting,
and no other change of the voters can begin meanwhile; a leader that waits for one record more waits for ever in a
cluster where nothing happens. Asserted after each turn of a leader of the quorum:

* a node that it was asked to add is a voter by the turn after it has fetched all that the log held when the request had
  been handled.

Source: KIP-853, AddVoter steps 4 to 6. Legal: another directory than the one asked for; a request that has been
answered, whatever the answer; one whose connection has ended, perhaps before it was handled (`worlds` 1028878), so that
it gets no answer (1028671); a leader that is not the leader any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum, wire_keys
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.add_raft_voter import AddRaftVoterRequest
from squall.nodes.protocol.requests.headers import decode_request
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.roles import Leader

ADDITIONS: Final = wire_keys(ApiKey.ADD_RAFT_VOTER)


@dataclass(slots=True)
class _Awaited:
    """A node that a leader was asked to add, in an epoch of the quorum.

    `needed` is the log's end after the request was handled, None while it may still wait; `since` the end up to which
    the node had fetched after the turn before, if that was enough.
    """

    epoch: int
    voter: int
    directory: bytes
    connection: int
    needed: int | None = None
    since: int | None = None


class AwaitedVoters(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._awaited: dict[str, list[_Awaited]] = {}
        """By host, what was asked and is not answered."""
        self._answered: set[int] = set()
        """The voters of the requests that were answered in a turn that is not examined yet."""

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if isinstance(request.body, AddRaftVoterRequest):
            self._answered.add(request.body.voter_id)

    def died(self, process: SimProcess) -> None:
        self._awaited.pop(process.name, None)
        self._answered.clear()

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        answered, self._answered = self._answered, set()
        with_quorum = node_of_quorum(node)
        if with_quorum is None:
            return
        role = with_quorum.raft.role
        for method, arguments in process.last_inputs:
            if method.__name__ == "received" and arguments[0] >= 0 and arguments[1][:2] in ADDITIONS:
                asked = cast("AddRaftVoterRequest", decode_request(arguments[1])[1])
                one = _Awaited(role.epoch, asked.voter_id, asked.voter_directory_id, int(arguments[0]))
                self._awaited.setdefault(process.name, []).append(one)
        awaited = self._awaited.pop(process.name, None)
        if awaited is None or not isinstance(role, Leader):
            return
        left = [one for one in awaited if one.voter not in answered and _may_be_waited_for(with_quorum, one)]
        for one in left:
            self._examine(process, with_quorum, role, one)
        if left:
            self._awaited[process.name] = left

    @staticmethod
    def _examine(process: SimProcess, node: Node, role: Leader, one: _Awaited) -> None:
        if one.needed is None:
            one.needed = node.raft.end_offset if not len(node.control) else None
            return
        progress = role.observers.get(one.voter)
        if progress is None or progress.directory_id != one.directory or progress.end_offset < one.needed:
            one.since = None
            return
        if one.since is not None and one.voter not in node.raft.voters.ids:
            raise InvariantBroken(
                "VOTERS",
                f"{process.name} leads quorum epoch {role.epoch} and was asked to add voter {one.voter}, which has "
                f"fetched up to {one.since}; the log ended at {one.needed} then",
            )
        one.since = progress.end_offset


def _may_be_waited_for(node: Node, one: _Awaited) -> bool:
    return one.epoch == node.raft.role.epoch and node.connections.find(one.connection) is not None

"""VOTERS: a request to add a voter is decided as soon as it can be (KIP-853).

`quorum_voters.py` asserts that no voter is added earlier. One that is added too late keeps its administrator waiting,
and no other change of the voters can begin meanwhile; a leader that waits for one record more waits for ever in a
cluster where nothing happens. Asserted after each turn of a replica of the quorum:

* a node that a leader was asked to add is a voter by the turn after it has fetched all that the log held when the
  request had been handled;
* a replica that has lost the epoch in which it was asked has answered by the turn after.

Source: KIP-853, AddVoter steps 4 to 6. Legal: another directory than the one asked for; a request that has been
answered, whatever the answer; one whose connection has ended, perhaps before it was handled (`worlds` 1028878), so that
it gets no answer (1028671); one that waits to be handled, also because its client reads no responses (1029149).
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
from squall.nodes.raft.roles import Leader, Role

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
    is_lost: bool = False
    """Whether the epoch was over after the turn before."""


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
        if awaited is None:
            return
        left = [one for one in awaited if one.voter not in answered and node.connections.find(one.connection)]
        for one in left:
            if one.needed is None:
                one.epoch = role.epoch
                one.needed = None if _may_wait(node, one.connection) else with_quorum.raft.end_offset
            elif isinstance(role, Leader) and role.epoch == one.epoch:
                _examine(process, with_quorum, role, one)
            else:
                _examine_lost(process, role, one)
        if left:
            self._awaited[process.name] = left


def _may_wait(node: BaseNode, connection: int) -> bool:
    """Whether a request of this connection may not be handled yet: in the queue, or until its peer reads responses."""
    found = node.connections.find(connection)
    return len(node.control) > 0 or (found is not None and len(found.held) > 0)


def _examine(process: SimProcess, node: Node, role: Leader, one: _Awaited) -> None:
    assert one.needed is not None
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


def _examine_lost(process: SimProcess, role: Role, one: _Awaited) -> None:
    if one.is_lost:
        raise InvariantBroken(
            "VOTERS",
            f"{process.name} led quorum epoch {one.epoch} when it was asked to add voter {one.voter}; it is a "
            f"{role.name} of epoch {role.epoch} now, and has not answered",
        )
    one.is_lost = True

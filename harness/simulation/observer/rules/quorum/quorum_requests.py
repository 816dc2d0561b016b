"""PENDING: a replica of the quorum waits for responses only where requests are under way, and for one at a time.

A replica notes for each peer whether a request to it is under way, and sends no other until that ends. A note that is
never taken back silences it towards this peer for as long as its role lasts, which shows only when somebody needs the
request: a voter that does not know the leader. One that is not heeded sends the same again and again, and that shows
nowhere at all. Asserted after every 16th turn of a node:

* where the present role waits for a response of a peer, such a request is under way to it, or waits to be sent;
* of each kind one is under way to a voter, once role and voters have lasted longer than a request may: it may wait for
  its connection for as long as its time-out, and then for its response (`worlds` seed 1025022).

Source: KIP-595, and Kafka's RequestManager. Legal: requests of an earlier role, whose responses count for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.raft.roles import Candidate, Follower, Leader, Peer, Prospective, Resigned, Role, Unattached
from squall.nodes.raft.voters import VoterSet

EVERY: Final = 16
KINDS: Final = {
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.APPEND_ENTRIES,
    ApiKey.UPDATE_RAFT_VOTER,
}
_TELLS: Final = (ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.APPEND_ENTRIES)
_FETCHES: Final = (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT)
ANYBODY: Final = -1
Waits = tuple[int, tuple[ApiKey, ...], Peer]
"""A voter or ANYBODY, the kinds of request of which one is under way to it, and the note of that."""


class QuorumRequests(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._roles: dict[str, tuple[Role, VoterSet, int]] = {}
        """By host, role and voters of its replica when it was last looked at, and since when it has had both."""

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if self.cluster.turns[process.name] % EVERY:
            return
        voter = node_of_quorum(node)
        if voter is None or voter.raft.role is None:
            return
        role, voters = voter.raft.role, voter.raft.voters
        known = self._roles.get(process.name)
        if known is None or known[0] is not role or known[1] != voters:
            known = self._roles[process.name] = role, voters, process.now
        under_way = Counter(voter.links.to_voters())
        for to, kinds, peer in _waits(role):
            if peer.in_flight and not any(
                key in kinds and (to in (ANYBODY, asked)) for (asked, key), count in under_way.items() if count
            ):
                raise InvariantBroken(
                    "PENDING",
                    f"{process.name}, {role.name} of quorum epoch {role.epoch}, waits for node {to} to answer "
                    f"{' or '.join(one.name for one in kinds)}, and no such request is under way",
                )
        if process.now > known[2] + 2 * node.config.controller_quorum_request_timeout_ms * 1000:
            for (asked, key), count in under_way.items():
                if key in KINDS and count > 1:
                    raise InvariantBroken(
                        "PENDING",
                        f"{process.name}, {role.name} of quorum epoch {role.epoch}, has {count} {ApiKey(key).name} "
                        f"requests to node {asked} under way",
                    )


def _waits(role: Role) -> Iterator[Waits]:
    match role:
        case Unattached():
            yield ANYBODY, _FETCHES, role.fetch
        case Follower():
            yield ANYBODY, _FETCHES, role.fetch  # an observer may ask another voter who leads
            yield role.leader_id, (ApiKey.UPDATE_RAFT_VOTER,), role.update
        case Leader():
            for voter, progress in role.others.items():
                yield voter, _TELLS, progress.begin
        case Prospective() | Candidate():
            for voter, peer in role.peers.items():
                if voter not in role.votes:  # a vote is asked for once
                    yield voter, (ApiKey.VOTE,), peer
        case Resigned():
            for voter, peer in role.peers.items():
                yield voter, (ApiKey.END_QUORUM_EPOCH,), peer

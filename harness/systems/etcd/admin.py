"""What the harness asks of an etcd cluster beside load: which members live, and who leads.

All keys are one replicated log, so that each topic of a suite is one topic-partition, led by the cluster's leader, with
every member as a replica; the active controller is the leader, too. A member is in sync if it answers and follows the
same leader in the same term. A leader that is cut off may believe for a while that it still leads; of different
answers, the one with the highest term is taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from squall.harness.load.tcp import Sockets
from squall.harness.systems.etcd.gateway import TROUBLES, Gateway
from squall.harness.systems.go_servers import Member
from squall.workloads.clients.common.client import ClusterState, PartitionState, Topic

ANSWER_SECONDS: Final = 1.5
NO_LEADER: Final = 0


@dataclass(frozen=True)
class Status:
    """What a member says of itself. Members are named by etcd's own numbers."""

    number: int
    member_id: int
    leader_id: int
    term: int

    @classmethod
    def of(cls, number: int, said: dict[str, Any]) -> Status:
        """Read the answer to a status request; the gateway writes 64-bit numbers as text."""
        header = said.get("header", {})
        leader, term = int(said.get("leader", NO_LEADER)), int(said.get("raftTerm", 0))
        return cls(number, int(header.get("member_id", 0)), leader, term)


class EtcdAdmin:
    """Asks the members of a cluster."""

    def __init__(self, sockets: Sockets, members: Sequence[Member], port: int) -> None:
        self._members = {member.number: member for member in members}
        self._port = port
        self._gateways = {
            member.number: Gateway(f"{member.address}:{port}", ANSWER_SECONDS, sockets.socket) for member in members
        }

    async def describe(self, topics: Sequence[str] | None = None) -> ClusterState:
        """Describe the cluster. Raises ConnectionError if no member answers."""
        asked = (asyncio.to_thread(self._status, number) for number in self._members)
        live = [one for one in await asyncio.gather(*asked) if one is not None]
        if not live:
            raise ConnectionError("no member answers")
        return state_of(live, {number: one.address for number, one in self._members.items()}, self._port, topics or ())

    async def create_topics(self, topics: Sequence[Topic]) -> None:
        """Wait for nothing: a key exists when it is written. Raises ConnectionError if no member answers."""
        await self.describe()

    async def close(self) -> None:
        """Each request has a connection of its own; nothing is left."""

    def _status(self, number: int) -> Status | None:
        try:
            return Status.of(number, self._gateways[number].status())
        except TROUBLES:
            return None


def state_of(live: Sequence[Status], addresses: dict[int, str], port: int, topics: Sequence[str]) -> ClusterState:
    """Return the state that the answers of the members add up to."""
    newest = max(live, key=lambda one: (one.leader_id != NO_LEADER, one.term))
    leader = next((one.number for one in live if one.member_id == newest.leader_id), None)
    agreed = (newest.leader_id, newest.term)
    in_sync = tuple(one.number for one in live if (one.leader_id, one.term) == agreed) if leader is not None else ()
    replicas = tuple(sorted(addresses))
    return ClusterState(
        tuple((one.number, addresses[one.number], port) for one in live),
        tuple(PartitionState(topic, 0, leader, newest.term, replicas, in_sync) for topic in topics),
        leader,
        newest.term,
    )

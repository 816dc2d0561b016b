"""QC-18: a leader of the quorum leads as long as a majority fetches from it, and no longer.

A leader that resigns although it is followed costs an election each time; one that stays although it is not followed
commits nothing, and clients that ask it do not look for another leader. Asserted after turns of a leader whose
followers pull:

* in the turn in which it resigns, no majority of the voters, itself included, had asked it for records or a snapshot
  within the fetch timeout, and been served: not with an error, and not with a divergence, after which the voter
  truncates its log and follows only then (seed 945014). What arrived on a connection that has ended is never served
  (seeds 971046, 981706);
* while it leads, a majority has sent it a fetch of any kind within one and a half times that, and half a second more.

Legal: a leader that stops, or has removed itself; a leader that was paused, which resigns in its first turn after,
before it serves the fetches of that turn (seed 948035); a voter that was added since.

Source: KIP-595, requirement QC-18.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum, requests_of, wire_keys
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse
from squall.nodes.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import METADATA_TOPIC_ID
from squall.nodes.raft.roles import Leader

GRACE: Final = MICROSECONDS // 2
FETCHES: Final = wire_keys(ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT)


@dataclass(slots=True)
class _Followed:
    """Who has asked one leader, and when; what it counts by. Times are in microseconds."""

    identity: tuple[int, int]
    """The process's incarnation and the quorum's epoch."""
    since: int
    voters: tuple[int, ...] = ()
    majority: int = 1
    timeout: int = 0
    heard: dict[int, int] = field(default_factory=dict)
    """By voter, its last fetch of whatever kind."""
    served: dict[int, int] = field(default_factory=dict)
    """By voter, when its last fetch arrived that this leader has served."""

    def majority_served_at(self, leader: int) -> int | None:
        """Return when a majority had last fetched and been served; None if the leader alone is a majority."""
        return self._majority(leader, self.served)

    def majority_heard_at(self, leader: int) -> int | None:
        """Return when a majority, with the leader, had last fetched; None if the leader alone is a majority."""
        return self._majority(leader, self.heard)

    def _majority(self, leader: int, times: dict[int, int]) -> int | None:
        others = sorted((times.get(one, self.since) for one in self.voters if one != leader), reverse=True)
        needed = self.majority - (leader in self.voters)
        return others[needed - 1] if needed > 0 else None


class QuorumFollowing(Rule):
    """See the module."""

    events = ("state",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._followed: dict[str, _Followed] = {}
        self._resigned: set[tuple[int, int]] = set()
        """Node and epoch, in a turn that is not examined yet."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if fields["role"] == "resigned":
            self._resigned.add((int(fields["node"]), int(fields["epoch"])))

    def died(self, process: SimProcess) -> None:
        self._resigned.clear()
        self._followed.pop(process.name, None)

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        followed = self._followed.get(process.name)
        if followed is None or request.answer is None or request.answer.response is None:
            return
        if request.api_key in (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT) and _is_served(request.answer.response):
            asked = _fetch(request.body)
            if asked is not None and asked[1] == followed.identity[1]:
                followed.served[asked[0]] = max(request.received_at, followed.served.get(asked[0], 0))

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        resigned, self._resigned = self._resigned, set()
        with_quorum = node_of_quorum(node)
        if with_quorum is None:
            return
        followed, number = self._followed.get(process.name), with_quorum.config.node_id
        leads = isinstance(with_quorum.raft.role, Leader)
        if (followed is None and not leads) or not with_quorum.raft.pulls:
            return
        counts = number in with_quorum.raft.voters.ids
        if followed is not None and counts and (number, followed.identity[1]) in resigned:
            followed_before = followed.majority_served_at(number)
            self._count_by(process, followed, with_quorum)
            self._check_resigned(process, followed, followed_before, followed.majority_served_at(number))
        if not leads:
            self._followed.pop(process.name, None)
            return
        identity = (process.incarnation, with_quorum.raft.epoch)
        if followed is None or followed.identity != identity:
            followed = self._followed[process.name] = _Followed(identity, process.now)
        self._hear(process, followed)
        self._count_by(process, followed, with_quorum)
        self._check_leading(process, followed, number)

    def _count_by(self, process: SimProcess, followed: _Followed, node: Node) -> None:
        voters = node.raft.voters
        for added in set(voters.ids) - set(followed.voters):
            followed.heard[added] = process.now
        followed.voters, followed.majority = voters.ids, voters.majority
        followed.timeout = node.config.controller_quorum_fetch_timeout_ms * 1_000

    @staticmethod
    def _hear(process: SimProcess, followed: _Followed) -> None:
        for message in requests_of(process, FETCHES):
            fetch = _fetch(message)
            if fetch is not None:
                followed.heard[fetch[0]] = process.now

    def _check_resigned(self, process: SimProcess, followed: _Followed, *heard: int | None) -> None:
        """Check when a majority was heard, of the voters before this turn and after it."""
        if all(one is None or process.now - one < followed.timeout for one in heard):
            raise InvariantBroken(
                "QC-18",
                f"{process.name} resigns as leader of quorum epoch {followed.identity[1]}, although a majority of "
                f"{list(followed.voters)} has fetched within {followed.timeout / MICROSECONDS:.3f} s",
            )

    def _check_leading(self, process: SimProcess, followed: _Followed, number: int) -> None:
        heard = followed.majority_heard_at(number)
        if heard is not None and process.now - heard > followed.timeout * 3 // 2 + GRACE:
            raise InvariantBroken(
                "QC-18",
                f"{process.name} still leads quorum epoch {followed.identity[1]}, and for "
                f"{(process.now - heard) / MICROSECONDS:.3f} s no majority of {list(followed.voters)} has fetched",
            )


def _is_served(response: Message) -> bool:
    """Return whether an answer to a fetch of the metadata log is neither an error nor a divergence."""
    if isinstance(response, FetchSnapshotResponse):
        parts = [part for topic in response.topics for part in topic.partitions]
        return not response.error_code and not any(part.error_code for part in parts)
    assert isinstance(response, FetchResponse)
    data = [part for topic in response.responses for part in topic.partitions]
    return not response.error_code and not any(one.error_code or one.diverging_epoch.epoch >= 0 for one in data)


def _fetch(message: Message) -> tuple[int, int] | None:
    """Return which replica fetches metadata, and in which epoch; None for a fetch of topics."""
    if isinstance(message, FetchSnapshotRequest):
        epochs = [part.current_leader_epoch for topic in message.topics for part in topic.partitions]
        return message.replica_id, epochs[0] if epochs else -1
    assert isinstance(message, FetchRequest)
    epochs = [
        part.current_leader_epoch
        for topic in message.topics
        for part in topic.partitions
        if topic.topic_id == METADATA_TOPIC_ID
    ]
    if not epochs:
        return None
    return message.replica_id if message.replica_id >= 0 else message.replica_state.replica_id, epochs[0]

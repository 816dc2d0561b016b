"""DP-14: a fetch brings records of each topic-partition that has some, as long as there is room for them.

A broker that sends less than it may is slower, and nothing is wrong: the next fetch brings the rest. A consumer of many
topic-partitions may starve in some of them. Asserted when a broker answers a Fetch, for each topic-partition that the
fetch names without a session, or that the answer names, and that is not answered with an error:

* if it had records from the position on when the turn before was over, to where who fetches may read, it brings some;
  unless its first batch would make it, or the whole response, larger than the fetch allows.

Source: KIP-74. Legal: who is sent to another replica, or told to truncate; a node whose memory is limited, which may
have no room; a fetch that buggify shortens. What a session leaves out is the concern of `session_news.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import (
    ReplicaTurn,
    Rule,
    is_of_follower,
    is_of_quorum,
    node_of_quorum,
    replica_named,
)
from squall.harness.simulation.observer.state.fetch_positions import place_of, positions_asked
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import TopicPartitionReplica

NOBODY, NO_EPOCH = -1, -1
SHORTENED = "fetch-"


class FilledFetches(Rule):
    """See the module."""

    events = ("buggify",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._is_shortened = False
        """Whether buggify has shortened a fetch in a turn that is not over."""
        self._ends: dict[tuple[str, bytes, int], tuple[int, int]] = {}
        """By host and topic-partition, end and high watermark after the turn before."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        self._is_shortened = self._is_shortened or fields["place"].startswith(SHORTENED)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        self._is_shortened = False

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        replica = turn.replica
        place = turn.process.name, bytes(replica.topic_id), replica.partition
        self._ends[place] = replica.end_offset, replica.high_watermark

    def died(self, process: SimProcess) -> None:
        self._is_shortened = False
        for place in [one for one in self._ends if one[0] == process.name]:
            del self._ends[place]

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.FETCH or request.answer is None or node.broker is None or self._is_shortened:
            return
        asked, told = request.body, request.answer.response
        if not isinstance(asked, FetchRequest) or not isinstance(told, FetchResponse) or is_of_quorum(asked):
            return
        if told.error_code or node_of_quorum(node) is None:
            return
        parts = {place_of(topic, one.partition_index): one for topic in told.responses for one in topic.partitions}
        sent = sum(len(one.records or b"") for one in parts.values())
        most = min(asked.max_bytes, node.config.fetch_max_bytes)
        room = most - sent
        if room <= 0 or node.data.budget.room < most:
            return
        is_follower = is_of_follower(asked)
        for place, position in positions_asked(node, asked, told).items():
            if _is_empty(parts[place]) if place in parts else not told.session_id:
                replica = replica_named(node.broker.replicas, *place)
                if replica is None:
                    continue
                end, high_watermark = self._ends.get((process.name, bytes(replica.topic_id), replica.partition), (0, 0))
                end = end if is_follower and replica.is_leader else high_watermark
                _check(process.name, replica, position, end, room, is_first=sent == 0)


def _is_empty(one: PartitionData) -> bool:
    """Whether it brings no records, and nothing that forbids to bring some."""
    is_diverging = one.diverging_epoch.epoch != NO_EPOCH or one.diverging_epoch.end_offset != NO_EPOCH
    return not (one.records or one.error_code or is_diverging or one.preferred_read_replica != NOBODY)


def _check(
    name: str, replica: TopicPartitionReplica, asked: FetchPartition, end: int, room: int, *, is_first: bool
) -> None:
    end = min(end, replica.end_offset)
    if not replica.log.start_offset <= asked.fetch_offset < end:
        return
    content = replica.read(asked.fetch_offset, 1, end, at_least_one=True)
    first = next(iterate_batches(content), None)
    if first is None:
        return
    size = first[0].size
    if is_first or size <= min(room, asked.partition_max_bytes):
        raise InvariantBroken(
            "DP-14",
            f"{name} answers a fetch of {replica.topic}-{replica.partition} from {asked.fetch_offset} with no records; "
            f"it has some up to {end}, the first batch has {size} bytes, and there is room for {room}",
        )

"""DP-04: within a fetch session, a response names a topic-partition only if it has something new about it (KIP-227).

Sessions exist so that an idle topic-partition costs nothing. A broker that forgets what it has sent repeats it in each
response. No client fails, but with many topic-partitions the session saves nothing. The rule runs when a broker answers
a fetch of a session that had begun before. Each topic-partition in the response has records, an error, a divergence, a
nearer replica, or another high watermark or log start than the session's last response about it.

Legal: a topic-partition that the fetch itself names; one whose last response was an error.

Source: DP-04; `CachedPartition.maybeUpdateResponseData` of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from squall.harness.simulation.observer.rules.rule import Rule, is_of_quorum
from squall.harness.simulation.observer.state.fetch_positions import Place, place_of
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.requests.fetch_sessions import NEW_SESSION
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from squall.nodes.protocol.requests.session import ServerRequest

_Sent = dict[Place, tuple[int, int]]
"""By topic-partition, the high watermark and log start of the session's last response about it."""


class SessionNews(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._sessions: dict[str, dict[int, _Sent]] = {}
        """By host and session."""

    def died(self, process: SimProcess) -> None:
        self._sessions.pop(process.name, None)

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.FETCH or request.answer is None or node.broker is None:
            return
        asked, response = request.body, request.answer.response
        if not isinstance(asked, FetchRequest) or not isinstance(response, FetchResponse) or is_of_quorum(asked):
            return
        sessions, kept = self._sessions.setdefault(process.name, {}), node.broker.fetching.sessions
        if asked.session_id != response.session_id or asked.session_epoch <= NEW_SESSION:
            for ended in [number for number in sessions if kept.find(number) is None]:
                del sessions[ended]
            if response.session_id:
                sessions[response.session_id] = {}
        sent = sessions.get(response.session_id)
        if sent is None:
            return
        for place in _named_or_forgotten(asked):
            sent.pop(place, None)
        for topic in response.responses:
            for part in topic.partitions:
                place, state = place_of(topic, part.partition_index), (part.high_watermark, part.log_start_offset)
                if sent.get(place) == state and not _has_more(part):
                    raise InvariantBroken(
                        "DP-04",
                        f"{process.name} repeats to {request.client_id}, in epoch {asked.session_epoch} of fetch "
                        f"session {response.session_id}, that the high watermark of {place[0] or place[1].hex()}-"
                        f"{place[2]} is {state[0]} and its log start {state[1]}",
                    )
                if part.error_code:
                    sent.pop(place, None)
                else:
                    sent[place] = state


def _has_more(part: PartitionData) -> bool:
    """Whether a response has more about a topic-partition than its high watermark and log start."""
    return bool(part.records or part.error_code or part.diverging_epoch.epoch >= 0 or part.preferred_read_replica >= 0)


def _named_or_forgotten(asked: FetchRequest) -> Iterator[Place]:
    for topic in asked.topics:
        for one in topic.partitions:
            yield place_of(topic, one.partition)
    for forgotten in asked.forgotten_topics_data:
        for number in forgotten.partitions:
            yield place_of(forgotten, number)

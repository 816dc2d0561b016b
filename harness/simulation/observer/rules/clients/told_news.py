"""DP-04: within a fetch session a broker says of a topic-partition only what is new (KIP-227).

Sessions are there so that an idle topic-partition costs nothing. A broker that forgets what it has said says it again
with each answer: nothing is wrong with that, and with many topic-partitions nothing is left of what sessions save.
Asserted when a broker answers a fetch of a session that had begun before: a topic-partition that it names has records,
an error, a divergence, a nearer replica, or another high watermark or log start than the session was last told.

Legal: a topic-partition that the fetch itself names; one of which an error was told last.

Source: DP-04; `CachedPartition.maybeUpdateResponseData` of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from squall.harness.simulation.observer.rules.rule import Rule, is_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.requests.fetch_sessions import NEW_SESSION
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from squall.nodes.protocol.requests.session import ServerRequest

_Key = tuple[bytes, str, int]
_Told = dict[_Key, tuple[int, int]]
"""By topic-partition, the high watermark and log start that were told last."""


class ToldNews(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._sessions: dict[str, dict[int, _Told]] = {}
        """By host and session."""

    def died(self, process: SimProcess) -> None:
        self._sessions.pop(process.name, None)

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.FETCH or request.answer is None or node.broker is None:
            return
        asked, told = request.body, request.answer.response
        if not isinstance(asked, FetchRequest) or not isinstance(told, FetchResponse) or is_of_quorum(asked):
            return
        sessions, kept = self._sessions.setdefault(process.name, {}), node.broker.fetching.sessions
        if asked.session_id != told.session_id or asked.session_epoch <= NEW_SESSION:
            for ended in [number for number in sessions if kept.find(number) is None]:
                del sessions[ended]
            if told.session_id:
                sessions[told.session_id] = {}
        known = sessions.get(told.session_id)
        if known is None:
            return
        for key in (*_forgotten(asked), *_named(asked)):
            known.pop(key, None)
        for key, part in _parts(told):
            state = (part.high_watermark, part.log_start_offset)
            if known.get(key) == state and not _has_more(part):
                raise InvariantBroken(
                    "DP-04",
                    f"{process.name} says of a topic-partition of {request.client_id} in session {told.session_id}, "
                    f"epoch {asked.session_epoch}, that the high watermark is {state[0]} and the log start {state[1]}, "
                    f"and has said so before: {key[1] or key[0].hex()}-{key[2]}",
                )
            if part.error_code:
                known.pop(key, None)
            else:
                known[key] = state


def _has_more(part: PartitionData) -> bool:
    """Whether an answer says more of a topic-partition than its high watermark and log start."""
    return bool(part.records or part.error_code or part.diverging_epoch.epoch >= 0 or part.preferred_read_replica >= 0)


def _named(asked: FetchRequest) -> Iterator[_Key]:
    return ((bytes(one.topic_id), one.topic, part.partition) for one in asked.topics for part in one.partitions)


def _forgotten(asked: FetchRequest) -> Iterator[_Key]:
    return ((bytes(one.topic_id), one.topic, part) for one in asked.forgotten_topics_data for part in one.partitions)


def _parts(told: FetchResponse) -> Iterator[tuple[_Key, PartitionData]]:
    for topic in told.responses:
        for part in topic.partitions:
            yield (bytes(topic.topic_id), topic.topic, part.partition_index), part

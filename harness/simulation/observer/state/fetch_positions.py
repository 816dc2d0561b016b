"""What a Fetch asks for: the topic-partitions that it names, and those that its session holds from earlier requests.

Most fetches of a session name nothing, and are answered all the same, so what the session holds is judged as well
(KIP-227). That the broker holds what the fetcher has named is the concern of `session_contents`.
"""

from __future__ import annotations

from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

Place = tuple[str, bytes, int]
"""Name of the topic, its id, either of them empty, and the partition."""


def place_of(topic: FetchTopic | FetchableTopicResponse | ForgottenTopic, partition: int) -> Place:
    """Return the key of `positions_asked` for a topic-partition of a request or response."""
    return topic.topic, bytes(topic.topic_id), partition


def positions_asked(node: BaseNode, asked: FetchRequest, told: FetchResponse) -> dict[Place, FetchPartition]:
    """Return what a fetch that is being answered asks of each topic-partition."""
    asked_for: dict[Place, FetchPartition] = {}
    session = (
        None if node.broker is None or not told.session_id else node.broker.fetching.sessions.find(told.session_id)
    )
    if session is not None:
        for watch in session.watches.values():
            asked_for[place_of(watch.topic, watch.wanted.partition)] = watch.wanted
    for topic in asked.topics:
        for one in topic.partitions:
            asked_for[place_of(topic, one.partition)] = one
    return asked_for

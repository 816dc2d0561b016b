"""What a broker has taken in and given out since it started, by topic: plain counters, read by the metrics.

Bytes are those of record batches, as they stand in the log. What followers fetch is counted apart, and not by topic, as
in Kafka; what this broker fetches itself, its fetchers count (`Replicas.replicated_bytes`).

A topic that is deleted takes its counters along; what they had come to stays in the sum of all (`total`), because a
counter must not fall. Names that no topic has, which anybody may send any number of, count in that sum only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class TopicTraffic:
    """The counters of one topic. Requests and failures are those of single topic-partitions."""

    bytes_in: int = 0
    messages_in: int = 0
    bytes_out: int = 0
    produces: int = 0
    produce_failures: int = 0
    fetches: int = 0
    fetch_failures: int = 0

    def add(self, other: TopicTraffic) -> None:
        for one in fields(TopicTraffic):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


class Traffic:
    """See the module."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        self.elsewhere = TopicTraffic()
        """Of names that are no topic here, and of topics that are gone."""
        self.replication_bytes_out = 0

    def of(self, topic: str) -> TopicTraffic:
        """The counters of a topic that this broker has a part of."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def forget(self, topic: str) -> None:
        """The topic is deleted."""
        gone = self.topics.pop(topic, None)
        if gone is not None:
            self.elsewhere.add(gone)

    def total(self) -> TopicTraffic:
        """All topics that are or were, together."""
        total = TopicTraffic()
        for one in (self.elsewhere, *self.topics.values()):
            total.add(one)
        return total

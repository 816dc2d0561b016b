"""Count what a broker has received and served since it started, per topic; the metrics read these plain counters.

Bytes are those of record batches as stored in the log. What followers fetch is counted separately and not per topic, as
in Kafka. The fetchers count what this broker fetches itself (`Replicas.replicated_bytes`).

When a topic is deleted its counters are deleted too, but their values stay in the sum of all (`total`), because a
counter must not fall. Names of topics that do not exist, of which a client may send any number, count only in that sum.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class TopicTraffic:
    """The counters of one topic. Requests and failures are counted per topic-partition."""

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
    """The traffic counters of a broker."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        self.elsewhere = TopicTraffic()
        """For names that are no topic here, and for deleted topics."""
        self.replication_bytes_out = 0

    def of(self, topic: str) -> TopicTraffic:
        """The counters of a topic of which this broker hosts a part."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def forget(self, topic: str) -> None:
        """Remove the counters of a deleted topic; their values stay in the sum."""
        gone = self.topics.pop(topic, None)
        if gone is not None:
            self.elsewhere.add(gone)

    def total(self) -> TopicTraffic:
        """The sum over all present and deleted topics."""
        total = TopicTraffic()
        for one in (self.elsewhere, *self.topics.values()):
            total.add(one)
        return total

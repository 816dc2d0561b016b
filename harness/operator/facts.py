"""The facts about a cluster as values: brokers, topic-partitions, the quorum, moves under way.

Counting and the field names of `--json` are here; queries are in `describe`, tables in `show`. Names are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

RUNNING, ABSENT = "running", "fenced or stopped"


@dataclass(frozen=True)
class BrokerFacts:
    """One broker, and how much of the cluster is on it."""

    id: int
    host: str | None
    port: int | None
    rack: str | None
    state: str
    """`running` if clients are sent to it; otherwise the protocol does not distinguish fenced from stopped."""
    partitions: int = 0
    leaders: int = 0
    out_of_sync: int = 0


@dataclass(frozen=True)
class PartitionFacts:
    """One topic-partition. What the queried nodes do not report is None."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    start_offset: int | None = None
    end_offset: int | None = None

    @property
    def is_offline(self) -> bool:
        return self.leader is None

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True)
class TopicFacts:
    """One topic."""

    name: str
    topic_id: str
    partitions: tuple[PartitionFacts, ...]
    configs: dict[str, str | None] = field(default_factory=dict)
    """The configs that were set for this topic."""


@dataclass(frozen=True)
class ClusterFacts:
    """The cluster as one broker sees it."""

    cluster_id: str
    controller: int | None
    controller_epoch: int | None
    brokers: tuple[BrokerFacts, ...]
    topics: tuple[TopicFacts, ...]

    @property
    def partitions(self) -> list[PartitionFacts]:
        return [one for topic in self.topics for one in topic.partitions]

    @property
    def under_replicated(self) -> list[PartitionFacts]:
        return [one for one in self.partitions if one.is_under_replicated]

    @property
    def offline(self) -> list[PartitionFacts]:
        return [one for one in self.partitions if one.is_offline]

    def as_json(self) -> dict[str, Any]:
        return {
            "cluster_id": self.cluster_id,
            "controller": self.controller,
            "controller_epoch": self.controller_epoch,
            "brokers": [asdict(one) for one in self.brokers],
            "topics": [_topic_of_metadata(one) for one in self.topics],
            "partitions": len(self.partitions),
            "under_replicated": [f"{one.topic}-{one.partition}" for one in self.under_replicated],
            "offline": [f"{one.topic}-{one.partition}" for one in self.offline],
        }


def _topic_of_metadata(topic: TopicFacts) -> dict[str, Any]:
    """Return what Metadata alone reports about a topic."""
    names = ("partition", "leader", "leader_epoch", "replicas", "isr")
    partitions = [{name: getattr(one, name) for name in names} for one in topic.partitions]
    return {"name": topic.name, "topic_id": topic.topic_id, "partitions": partitions}


def topic_as_json(topic: TopicFacts) -> dict[str, Any]:
    """Return a topic as in `--json`; the name of the topic is not repeated in each topic-partition."""
    partitions = [{name: value for name, value in asdict(one).items() if name != "topic"} for one in topic.partitions]
    return {"name": topic.name, "topic_id": topic.topic_id, "partitions": partitions, "configs": topic.configs}


def counted_brokers(
    known: Iterable[tuple[int, str, int, str | None]], topics: Iterable[TopicFacts]
) -> tuple[BrokerFacts, ...]:
    """Return brokers with their replicas: those clients are sent to, and those that only assignments still name."""
    hosted: dict[int, int] = {}
    led: dict[int, int] = {}
    behind: dict[int, int] = {}
    for one in (partition for topic in topics for partition in topic.partitions):
        for replica in one.replicas:
            hosted[replica] = hosted.get(replica, 0) + 1
            if replica not in one.isr:
                behind[replica] = behind.get(replica, 0) + 1
        if one.leader is not None:
            led[one.leader] = led.get(one.leader, 0) + 1
    running = {broker: (host, port, rack) for broker, host, port, rack in known}
    found = []
    for broker in sorted({*running, *hosted}):
        host, port, rack = running.get(broker, (None, None, None))
        state = RUNNING if broker in running else ABSENT
        counts = (hosted.get(broker, 0), led.get(broker, 0), behind.get(broker, 0))
        found.append(BrokerFacts(broker, host, port, rack, state, *counts))
    return tuple(found)


@dataclass(frozen=True)
class QuorumMember:
    """A voter or an observer of the metadata quorum, as its leader reports it."""

    id: int
    directory_id: str | None
    log_end_offset: int
    lag: int | None
    """Records behind the leader; None for a member from which the leader has received nothing."""
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


@dataclass(frozen=True)
class QuorumFacts:
    """The response of DescribeQuorum."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class OngoingMove:
    """A topic-partition that is being reassigned."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the move."""
        return tuple(one for one in self.replicas if one not in self.removing_replicas)

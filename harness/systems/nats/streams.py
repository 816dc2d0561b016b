"""Streams of JetStream as topics of one topic-partition: their leader and replicas, in numbers of servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nats.js.api import StreamConfig, StreamInfo

NOBODY: Final = -1


def stream_config(name: str, replicas: int) -> StreamConfig:
    """Return the configuration of a stream that takes the subject of its name."""
    return StreamConfig(name=name, subjects=[name], num_replicas=replicas)


def replicas_of(info: StreamInfo, numbers: Mapping[str, int]) -> tuple[int, tuple[int, ...]]:
    """Return the leader of a stream (-1: none), and the servers that are in sync with it."""
    cluster = info.cluster
    if cluster is None or not cluster.leader:
        return NOBODY, ()
    leader = numbers[cluster.leader]
    current = [numbers[one.name] for one in cluster.replicas or () if one.name and one.current and not one.offline]
    return leader, tuple(sorted([leader, *current]))


def all_replicas(info: StreamInfo, numbers: Mapping[str, int]) -> tuple[int, ...]:
    """Return the servers that have the stream, in sync or not."""
    cluster = info.cluster
    if cluster is None:
        return ()
    names = [cluster.leader, *(one.name for one in cluster.replicas or ())]
    return tuple(sorted(numbers[name] for name in names if name))


def wrong_with_stream(name: str, topic: Any) -> str | None:
    """Return why a stream cannot be what a suite says of its topic; None if it can."""
    majority = topic.replication_factor // 2 + 1
    if topic.partitions != 1:
        return f"a stream is one topic-partition; partitions must be 1, and is {topic.partitions}"
    if topic.replication_factor > 5:
        return f"a stream has at most 5 replicas, and not {topic.replication_factor}"
    if topic.min_insync_replicas != majority:
        return (
            f"a stream of {topic.replication_factor} replicas acknowledges what {majority} of them have;"
            f" min_insync_replicas must be {majority}"
        )
    if "." in name:
        return "a stream's name has no dots"
    return f"config: {next(iter(topic.config))}: topics of Kafka have settings; leave it out" if topic.config else None

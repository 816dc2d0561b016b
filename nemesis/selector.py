"""Whom a fault hits: text such as `leader of events/*`, parsed early and resolved late.

A suite is validated before there is a cluster, so `parse_selector` checks the form at once and its `ValueError`
says which forms exist. Who the leader *is* can only be known when the fault starts: `resolve` asks the
`ClusterView` at injection and the answer is recorded with the fault (a fault that hit somebody else proves
nothing about leaders). Where a choice is left (`one broker`, `events/*`) it is drawn from the fault's own seeded
random numbers, from sorted candidates, so that the same seed chooses alike in both worlds.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Literal

from squall.nemesis.ports import ClusterView

Group = Literal["brokers", "controllers", "nodes"]
Amount = Literal["one", "minority", "majority", "all"]

FORMS = (
    "leader of TOPIC/PARTITION, leader of TOPIC/*, followers of TOPIC/PARTITION, active controller, "
    "one broker, minority of brokers, majority of controllers, all nodes, or host names"
)

_OF_TOPIC_PARTITION = re.compile(r"(?:the )?(leader|followers?) of (\S+)/(\d+|\*)")
_TOPIC_PARTITION = re.compile(r"(\S+)/(\d+|\*)")
_GROUP = re.compile(r"(?:(one)|(?:a )?(minority|majority) of|(all))(?: the)? (broker|controller|node)s?")
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class NoTarget(Exception):
    """Nobody answers to the selector now: no leader, no such host, nobody in sync."""


@dataclass(frozen=True)
class TopicPartitionPattern:
    """`events/3`, or `events/*` for any one of its topic-partitions."""

    topic: str
    partition: int | None

    def __str__(self) -> str:
        return f"{self.topic}/{'*' if self.partition is None else self.partition}"


@dataclass(frozen=True)
class LeaderOf:
    pattern: TopicPartitionPattern


@dataclass(frozen=True)
class FollowersOf:
    pattern: TopicPartitionPattern


@dataclass(frozen=True)
class ActiveController:
    pass


@dataclass(frozen=True)
class SomeOf:
    amount: Amount
    group: Group


@dataclass(frozen=True)
class Named:
    hosts: tuple[str, ...]


Selector = LeaderOf | FollowersOf | ActiveController | SomeOf | Named


@dataclass(frozen=True)
class Target:
    """Who was chosen, and in what capacity: `b2` as `leader of events/3`."""

    hosts: tuple[str, ...]
    role: str


def parse_selector(text: str) -> Selector:
    """The selector that `text` names. Raises ValueError with the known forms."""
    words = " ".join(text.split())
    lowered = words.lower()
    if lowered in ("active controller", "the active controller"):
        return ActiveController()
    if match := _OF_TOPIC_PARTITION.fullmatch(words):
        pattern = _pattern(match[2], match[3])
        return LeaderOf(pattern) if match[1] == "leader" else FollowersOf(pattern)
    if match := _GROUP.fullmatch(lowered):
        return SomeOf(_amount(match), _group(match[4]))
    names = tuple(part for part in re.split(r"[,\s]+", words) if part)
    looks_like_a_phrase = len(names) > 1 and "," not in words
    if names and not looks_like_a_phrase and all(_HOST_NAME.fullmatch(name) for name in names):
        return Named(names)
    raise ValueError(f"is not a target; known are: {FORMS}")


def parse_topic_partition(text: str) -> TopicPartitionPattern:
    """`events/0`, `events/*`, or the same after `leader of`. Raises ValueError."""
    words = " ".join(text.split())
    match = _OF_TOPIC_PARTITION.fullmatch(words)
    if match and match[1] == "leader":
        return _pattern(match[2], match[3])
    if match := _TOPIC_PARTITION.fullmatch(words):
        return _pattern(match[1], match[2])
    raise ValueError("is not a topic-partition; write TOPIC/PARTITION or TOPIC/*")


def topic_partition_in(text: str) -> TopicPartitionPattern | None:
    """The topic-partition that a valid target is about, if it is about one."""
    try:
        selector = parse_selector(text)
    except ValueError:
        return parse_topic_partition(text)
    return selector.pattern if isinstance(selector, LeaderOf | FollowersOf) else None


def named_hosts(text: str | None) -> tuple[str, ...]:
    """The hosts that a target lists by name; none if it says something else."""
    try:
        selector = parse_selector(text or "")
    except ValueError:
        return ()
    return selector.hosts if isinstance(selector, Named) else ()


def _pattern(topic: str, partition: str) -> TopicPartitionPattern:
    return TopicPartitionPattern(topic, None if partition == "*" else int(partition))


def _amount(match: re.Match[str]) -> Amount:
    if match[1]:
        return "one"
    if match[3]:
        return "all"
    return "minority" if match[2] == "minority" else "majority"


def _group(word: str) -> Group:
    groups: dict[str, Group] = {"broker": "brokers", "controller": "controllers", "node": "nodes"}
    return groups[word]


def members(group: Group, cluster: ClusterView) -> list[str]:
    """The hosts of a group, sorted, each once (a combined node is broker and controller)."""
    if group == "brokers":
        names = set(cluster.brokers)
    elif group == "controllers":
        names = set(cluster.controllers)
    else:
        names = {*cluster.brokers, *cluster.controllers}
    return sorted(names)


def how_many(amount: Amount, size: int) -> int:
    """A minority is the largest number that is less than half; a majority the smallest that is more."""
    counts = {"one": min(1, size), "minority": (size - 1) // 2, "majority": size // 2 + 1, "all": size}
    return counts[amount] if size else 0


async def resolve(selector: Selector, cluster: ClusterView, rng: random.Random) -> Target:
    """Asks the cluster who that is now. Raises NoTarget."""
    if isinstance(selector, Named):
        return _named(selector, cluster)
    if isinstance(selector, SomeOf):
        return _some_of(selector, cluster, rng)
    if isinstance(selector, ActiveController):
        host = await cluster.active_controller()
        if host is None:
            raise NoTarget("no controller is active")
        return Target((host,), "active controller")
    if isinstance(selector, LeaderOf):
        topic, partition, host = await led_topic_partition(selector.pattern, cluster, rng)
        return Target((host,), f"leader of {topic}/{partition}")
    topic, partition, host = await led_topic_partition(selector.pattern, cluster, rng)
    followers = tuple(sorted(set(await cluster.in_sync(topic, partition)) - {host}))
    if not followers:
        raise NoTarget(f"{topic}/{partition} has no followers in sync")
    return Target(followers, f"followers of {topic}/{partition}")


def _named(selector: Named, cluster: ClusterView) -> Target:
    known = members("nodes", cluster)
    strangers = [name for name in selector.hosts if name not in known]
    if strangers:
        raise NoTarget(f"no node is called {', '.join(strangers)}; known are {', '.join(known)}")
    return Target(selector.hosts, "by name")


def _some_of(selector: SomeOf, cluster: ClusterView, rng: random.Random) -> Target:
    candidates = members(selector.group, cluster)
    count = how_many(selector.amount, len(candidates))
    if count == 0:
        raise NoTarget(f"{len(candidates)} {selector.group} have no {selector.amount}")
    chosen = tuple(sorted(rng.sample(candidates, count)))
    one_of = selector.group.removesuffix("s")
    role = f"one {one_of}" if selector.amount == "one" else f"{selector.amount} of {selector.group}"
    return Target(chosen, f"all {selector.group}" if selector.amount == "all" else role)


async def led_topic_partition(
    pattern: TopicPartitionPattern, cluster: ClusterView, rng: random.Random
) -> tuple[str, int, str]:
    """A topic-partition of the pattern that has a leader now: (topic, partition, leader's host)."""
    if pattern.topic not in cluster.topics:
        known = ", ".join(sorted(cluster.topics)) or "none"
        raise NoTarget(f"there is no topic {pattern.topic}; known are {known}")
    partitions = list(range(cluster.topics[pattern.topic]))
    if pattern.partition is None:
        rng.shuffle(partitions)
    elif pattern.partition not in partitions:
        raise NoTarget(f"{pattern.topic} has {len(partitions)} topic-partitions, none is {pattern.partition}")
    else:
        partitions = [pattern.partition]
    for partition in partitions:
        leader = await cluster.leader(pattern.topic, partition)
        if leader is not None:
            return pattern.topic, partition, leader
    raise NoTarget(f"{pattern} has no leader")

"""Parses the targets of faults, such as `leader of events/*`, early, and resolves them late.

A suite is validated before there is a cluster, so `parse_selector` checks the form at once, and its `ValueError` lists
the known forms. Which node leads is known only when the fault starts: `resolve` asks the `ClusterView` at injection,
and the result is recorded with the fault (a fault that affected another node proves nothing about leaders). Where a
choice is left (`one broker`, `events/*`), it is drawn from the fault's own seeded random numbers, from sorted
candidates, so that the same seed makes the same choice in both worlds.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from squall.nemesis.core.ports import ClusterView

Group = Literal["brokers", "controllers", "zookeeper", "nodes"]
Amount = Literal["one", "minority third", "minority", "majority", "all"]

FORMS = (
    "leader of TOPIC/PARTITION, leader of TOPIC/*, followers of TOPIC/PARTITION, one follower of TOPIC/PARTITION, "
    "replicas of TOPIC/PARTITION out of sync, active controller, one broker, minority of brokers, "
    "minority third of nodes, "
    "majority of controllers, one zookeeper server, all nodes, same as NAME (another fault's `as`), host names, "
    "and any of these `but` another"
)

_OF_TOPIC_PARTITION = re.compile(r"(?:the )?(leader|one follower|followers?) of (\S+)/(\d+|\*)")
_OUT_OF_SYNC = re.compile(r"(one )?replicas? of (\S+)/(\d+|\*) out of sync")
_SAME_AS = re.compile(r"same as ([A-Za-z][A-Za-z0-9_-]*)")
_BUT = " but "
_TOPIC_PARTITION = re.compile(r"(\S+)/(\d+|\*)")
_GROUP = re.compile(
    r"(?:(one)|(?:a )?(minority third|minority|majority) of|(all))(?: the)? "
    r"(broker|controller|zookeeper server|node)s?"
)
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class NoTarget(Exception):
    """The selector matches no host now: no leader, no such host, no replica in sync."""


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
    """The followers that are in sync: all of them, or a random `one`."""

    pattern: TopicPartitionPattern
    one: bool = False


@dataclass(frozen=True)
class OutOfSync:
    """The replicas that are not in the ISR: all of them, or a random `one`."""

    pattern: TopicPartitionPattern
    one: bool = False


@dataclass(frozen=True)
class SameAs:
    """The hosts that the fault of this name affected last."""

    label: str


@dataclass(frozen=True)
class Except:
    """The first without the second."""

    these: Selector
    those: Selector


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


Selector = LeaderOf | FollowersOf | OutOfSync | ActiveController | SomeOf | Named | SameAs | Except
OfTopicPartition = LeaderOf | FollowersOf | OutOfSync

Earlier = Callable[[str], tuple[str, ...] | None]
"""The hosts at which a fault was last aimed, by the fault's name; None if it has not been aimed yet."""


def nobody_yet(label: str) -> tuple[str, ...] | None:
    """For a fault without earlier faults."""
    return None


@dataclass(frozen=True)
class Target:
    """The chosen hosts, and their role: `b2` as `leader of events/3`."""

    hosts: tuple[str, ...]
    role: str


def parse_selector(text: str) -> Selector:
    """Parse a selector. Raises ValueError with the known forms."""
    words = " ".join(text.split())
    if _BUT in words:
        these, _, those = words.rpartition(_BUT)
        return Except(parse_selector(these), parse_selector(those))
    lowered = words.lower()
    if lowered in ("active controller", "the active controller"):
        return ActiveController()
    if match := _OF_TOPIC_PARTITION.fullmatch(words):
        pattern = _pattern(match[2], match[3])
        return LeaderOf(pattern) if match[1] == "leader" else FollowersOf(pattern, match[1] == "one follower")
    if match := _OUT_OF_SYNC.fullmatch(words):
        return OutOfSync(_pattern(match[2], match[3]), match[1] is not None)
    if match := _SAME_AS.fullmatch(words):
        return SameAs(match[1])
    if match := _GROUP.fullmatch(lowered):
        return SomeOf(_amount(match), _group(match[4]))
    names = tuple(part for part in re.split(r"[,\s]+", words) if part)
    looks_like_a_phrase = len(names) > 1 and "," not in words
    if names and not looks_like_a_phrase and all(_HOST_NAME.fullmatch(name) for name in names):
        return Named(names)
    raise ValueError(f"is not a target; known are: {FORMS}")


def parse_topic_partition(text: str) -> TopicPartitionPattern:
    """Parse `events/0`, `events/*`, or the same after `leader of`. Raises ValueError."""
    words = " ".join(text.split())
    match = _OF_TOPIC_PARTITION.fullmatch(words)
    if match and match[1] == "leader":
        return _pattern(match[2], match[3])
    if match := _TOPIC_PARTITION.fullmatch(words):
        return _pattern(match[1], match[2])
    raise ValueError("is not a topic-partition; write TOPIC/PARTITION or TOPIC/*")


def parts_of(text: str) -> tuple[Selector, ...]:
    """The parts of a target, split at `but`; empty for a bare topic-partition."""
    try:
        selector = parse_selector(text)
    except ValueError:
        return ()
    parts: list[Selector] = []
    while isinstance(selector, Except):
        parts.append(selector.those)
        selector = selector.these
    return (selector, *reversed(parts))


def topic_partitions_in(text: str) -> tuple[TopicPartitionPattern, ...]:
    """The topic-partitions that a valid target concerns."""
    parts = parts_of(text)
    if not parts:
        return (parse_topic_partition(text),)
    return tuple(part.pattern for part in parts if isinstance(part, OfTopicPartition))


def named_hosts(text: str | None) -> tuple[str, ...]:
    """The hosts that a target lists by name; empty if it has another form."""
    return tuple(host for part in parts_of(text or "") if isinstance(part, Named) for host in part.hosts)


def is_of_ensemble(text: str) -> bool:
    """Whether a target names servers of a ZooKeeper ensemble."""
    return any(isinstance(part, SomeOf) and part.group == "zookeeper" for part in parts_of(text))


def labels_in(text: str) -> tuple[str, ...]:
    """The names of other faults to which a target refers."""
    return tuple(part.label for part in parts_of(text) if isinstance(part, SameAs))


def _pattern(topic: str, partition: str) -> TopicPartitionPattern:
    return TopicPartitionPattern(topic, None if partition == "*" else int(partition))


def _amount(match: re.Match[str]) -> Amount:
    if match[1]:
        return "one"
    if match[3]:
        return "all"
    amounts: dict[str, Amount] = {"minority third": "minority third", "minority": "minority", "majority": "majority"}
    return amounts[match[2]]


def _group(word: str) -> Group:
    groups: dict[str, Group] = {
        "broker": "brokers",
        "controller": "controllers",
        "zookeeper server": "zookeeper",
        "node": "nodes",
    }
    return groups[word]


def members(group: Group, cluster: ClusterView) -> list[str]:
    """The hosts of a group, sorted, each once (a combined node is broker and controller)."""
    if group == "brokers":
        names = set(cluster.brokers)
    elif group == "controllers":
        names = set(cluster.controllers)
    elif group == "zookeeper":
        names = set(cluster.zookeeper)
    else:
        names = {*cluster.brokers, *cluster.controllers, *cluster.zookeeper}
    return sorted(names)


def how_many(amount: Amount, size: int) -> int:
    """The number of hosts. A minority is the largest number less than half, a minority third the largest less than a
    third; a majority is the smallest number more than half.
    """
    counts = {
        "one": min(1, size),
        "minority third": (size - 1) // 3,
        "minority": (size - 1) // 2,
        "majority": size // 2 + 1,
        "all": size,
    }
    return counts[amount] if size else 0


async def resolve(
    selector: Selector, cluster: ClusterView, rng: random.Random, earlier: Earlier = nobody_yet
) -> Target:
    """Ask the cluster which hosts these are now. Raises NoTarget."""
    if isinstance(selector, Except):
        return await _without(selector, cluster, rng, earlier)
    if isinstance(selector, SameAs):
        return _same_as(selector, earlier)
    if isinstance(selector, Named):
        return _named(selector, cluster)
    if isinstance(selector, SomeOf):
        return _some_of(selector, cluster, rng)
    if isinstance(selector, ActiveController):
        host = await cluster.active_controller()
        if host is None:
            raise NoTarget("no controller is active")
        return Target((host,), "active controller")
    return await _of_topic_partition(selector, cluster, rng)


async def _without(selector: Except, cluster: ClusterView, rng: random.Random, earlier: Earlier) -> Target:
    """Resolve the exclusion first: it must not depend on a choice among the rest."""
    those = await resolve(selector.those, cluster, rng, earlier)
    these = await resolve(selector.these, cluster, rng, earlier)
    left = tuple(host for host in these.hosts if host not in those.hosts)
    if not left:
        raise NoTarget(f"{these.role} but {those.role} leaves none of {', '.join(these.hosts)}")
    return Target(left, f"{these.role} but {', '.join(those.hosts)}")


def _same_as(selector: SameAs, earlier: Earlier) -> Target:
    hosts = earlier(selector.label)
    if not hosts:
        raise NoTarget(f"the fault {selector.label} has had no target yet")
    return Target(hosts, f"same as {selector.label}")


async def _of_topic_partition(selector: OfTopicPartition, cluster: ClusterView, rng: random.Random) -> Target:
    topic, partition, leader = await led_topic_partition(selector.pattern, cluster, rng)
    where = f"{topic}/{partition}"
    if isinstance(selector, LeaderOf):
        return Target((leader,), f"leader of {where}")
    in_sync = await cluster.in_sync(topic, partition)
    if isinstance(selector, FollowersOf):
        candidates, nobody, role = set(in_sync) - {leader}, f"{where} has no followers in sync", f"followers of {where}"
        one_of = f"follower of {where}"
    else:
        candidates = set(await cluster.replicas(topic, partition)) - set(in_sync)
        nobody, role = f"all replicas of {where} are in sync", f"replicas of {where} out of sync"
        one_of = f"replica of {where} out of sync"
    if not candidates:
        raise NoTarget(nobody)
    if selector.one:
        return Target((rng.choice(sorted(candidates)),), f"one {one_of}")
    return Target(tuple(sorted(candidates)), role)


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
    group = "zookeeper servers" if selector.group == "zookeeper" else selector.group
    role = f"one {group.removesuffix('s')}" if selector.amount == "one" else f"{selector.amount} of {group}"
    return Target(chosen, f"all {group}" if selector.amount == "all" else role)


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

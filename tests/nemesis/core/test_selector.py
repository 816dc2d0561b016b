"""Targets are parsed before there is a cluster and resolved when the fault starts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from squall.nemesis.core.selector import (
    NoTarget,
    Target,
    how_many,
    is_of_ensemble,
    labels_in,
    named_hosts,
    parse_selector,
    parse_topic_partition,
    resolve,
    topic_partitions_in,
)


def resolved(world: Any, drive: Any, text: str, seed: int = 1) -> Target:
    return drive(resolve(parse_selector(text), world, random.Random(seed)))


@pytest.mark.parametrize(
    ("text", "hosts", "role"),
    [
        ("leader of events/1", ("b3",), "leader of events/1"),
        ("followers of events/1", ("b1", "b2"), "followers of events/1"),
        ("active controller", ("c2",), "active controller"),
        ("the active controller", ("c2",), "active controller"),
        ("all brokers", ("b1", "b2", "b3", "b4", "b5"), "all brokers"),
        ("all controllers", ("c1", "c2", "c3"), "all controllers"),
        ("b4", ("b4",), "by name"),
        ("b4, c1", ("b4", "c1"), "by name"),
        ("replicas of events/1 out of sync", ("b4", "b5"), "replicas of events/1 out of sync"),
        ("leader of events/0 but active controller", ("b2",), "leader of events/0 but c2"),
        ("all brokers but b2", ("b1", "b3", "b4", "b5"), "all brokers but b2"),
        ("all brokers but followers of events/1", ("b3", "b4", "b5"), "all brokers but b1, b2"),
        ("all brokers but leader of events/1 but b1, b4", ("b2", "b5"), "all brokers but b3 but b1, b4"),
    ],
)
def test_it_says_who_that_is_now(world: Any, drive: Any, text: str, hosts: tuple[str, ...], role: str) -> None:
    assert resolved(world, drive, text) == Target(hosts, role)


@pytest.mark.parametrize(
    ("text", "count", "prefix"),
    [
        ("one broker", 1, "b"),
        ("one controller", 1, "c"),
        ("minority of brokers", 2, "b"),
        ("a majority of the brokers", 3, "b"),
        ("minority of controllers", 1, "c"),
        ("majority of controllers", 2, "c"),
        ("a minority third of the brokers", 1, "b"),
    ],
)
def test_some_of_a_group_are_drawn_from_the_seed(world: Any, drive: Any, text: str, count: int, prefix: str) -> None:
    draws = {resolved(world, drive, text, seed).hosts for seed in range(30)}
    assert all(len(hosts) == count and all(name[0] == prefix for name in hosts) for hosts in draws)
    assert len(draws) > 1
    assert resolved(world, drive, text, seed=7) == resolved(world, drive, text, seed=7)


@pytest.mark.parametrize(
    ("text", "candidates"),
    [("one follower of events/1", {"b1", "b2"}), ("one replica of events/1 out of sync", {"b4", "b5"})],
)
def test_one_of_several_replicas_is_drawn_from_the_seed(
    world: Any, drive: Any, text: str, candidates: set[str]
) -> None:
    draws = [resolved(world, drive, text, seed) for seed in range(30)]
    assert {draw.hosts for draw in draws} == {(name,) for name in candidates}
    assert all(draw.role == text for draw in draws)


def test_the_same_as_another_fault_are_those_it_was_aimed_at(world: Any, drive: Any) -> None:
    def again(text: str) -> Target:
        hit = {"outsider": ("b4",)}
        return drive(resolve(parse_selector(text), world, random.Random(1), hit.get))

    assert again("same as outsider") == Target(("b4",), "same as outsider")
    assert again("all brokers but same as outsider").hosts == ("b1", "b2", "b3", "b5")
    with pytest.raises(NoTarget, match="no target yet"):
        again("same as stranger")


def test_nobody_is_left_if_those_are_all_of_these(world: Any, drive: Any) -> None:
    with pytest.raises(NoTarget, match="leaves none of"):
        resolved(world, drive, "b1, b2 but all brokers")


def test_what_a_target_is_about_is_known_before_there_is_a_cluster() -> None:
    text = "followers of events/1 but leader of other/2 but same as outsider but b7"
    assert [str(pattern) for pattern in topic_partitions_in(text)] == ["events/1", "other/2"]
    assert labels_in(text) == ("outsider",)
    assert named_hosts(text) == ("b7",)
    assert [str(pattern) for pattern in topic_partitions_in("events/3")] == ["events/3"]


def test_any_topic_partition_means_one_that_has_a_leader(world: Any, drive: Any) -> None:
    world.leaders = {0: None, 1: None, 2: "b1", 3: None}
    for seed in range(10):
        assert resolved(world, drive, "leader of events/*", seed) == Target(("b1",), "leader of events/2")


def test_a_combined_node_counts_once(world: Any, drive: Any) -> None:
    world.controllers = world.brokers = ("n1", "n2", "n3")
    assert resolved(world, drive, "all nodes").hosts == ("n1", "n2", "n3")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("leader of orders/0", "there is no topic orders; known are events"),
        ("leader of events/9", "events has 4 topic-partitions, none is 9"),
        ("b9", "no node is called b9; known are b1, b2, b3, b4, b5, c1, c2, c3"),
    ],
)
def test_nobody_there_says_who_is(world: Any, drive: Any, text: str, reason: str) -> None:
    with pytest.raises(NoTarget, match=reason):
        resolved(world, drive, text)


@pytest.mark.parametrize("text", ["", "leader of", "leader of events", "some brokers", "leader in events/0"])
def test_other_texts_are_no_targets(text: str) -> None:
    with pytest.raises(ValueError, match="is not a target; known are: leader of"):
        parse_selector(text)


def test_a_topic_partition_may_be_written_as_its_leader() -> None:
    assert parse_topic_partition("leader of events/*") == parse_topic_partition("events/*")
    with pytest.raises(ValueError, match="TOPIC/PARTITION"):
        parse_topic_partition("followers of events/0")


@pytest.mark.parametrize(("size", "minority", "majority"), [(1, 0, 1), (2, 0, 2), (3, 1, 2), (4, 1, 3), (5, 2, 3)])
def test_a_minority_is_less_than_half_and_a_majority_more(size: int, minority: int, majority: int) -> None:
    assert (how_many("minority", size), how_many("majority", size)) == (minority, majority)


def test_servers_of_an_ensemble_are_nodes_and_a_group(world: Any, drive: Any) -> None:
    world.zookeeper = ("z1", "z2", "z3")

    def chosen(text: str) -> set[str]:
        return set(drive(resolve(parse_selector(text), world, random.Random(1))).hosts)

    assert chosen("all zookeeper servers") == {"z1", "z2", "z3"}
    assert len(chosen("majority of zookeeper servers")) == 2
    assert chosen("z2") == {"z2"}
    assert {"z1", "b1", "c1"} <= chosen("all nodes")
    assert is_of_ensemble("one broker but one zookeeper server") and not is_of_ensemble("one broker")

"""Moves that an operator's tool asks for by `/admin/reassign_partitions`, as Kafka's controller carries them out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from squall.nodes.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from squall.nodes.zookeeper.session import Create, Delete, SetData
from squall.nodes.zookeeper.znodes import REASSIGN_PARTITIONS, MalformedZnode, decode_reassignment, encode_reassignment
from tests.nodes.zookeeper.conftest import Cluster
from tests.nodes.zookeeper.test_reassignment import joins, move, znode

TOOLS_JSON = '{"version":1,"partitions":[{"topic":"events","partition":0,"replicas":[3,4],"log_dirs":["any","any"]}]}'
"""As the tool of Kafka 2.8 writes it."""


@pytest.fixture
def four() -> Cluster:
    """Four brokers, and a topic of two topic-partitions on the first two."""
    cluster = Cluster(brokers=4)
    cluster.start()
    placed = [CreatableReplicaAssignment(number, [1, 2]) for number in range(2)]
    cluster.ask(CreateTopicsRequest(topics=[CreatableTopic("events", -1, -1, placed)]))
    cluster.sent.clear()
    return cluster


def ask(cluster: Cluster, moves: Mapping[int, Sequence[int]], topic: str = "events") -> None:
    write(cluster, encode_reassignment({(topic, number): ids for number, ids in moves.items()}))


def write(cluster: Cluster, data: bytes) -> None:
    cluster.ensemble.write(Create(REASSIGN_PARTITIONS, data))
    cluster.run()


def left(cluster: Cluster) -> dict[int, list[int]] | None:
    """The entries that the znode still has; None without a znode."""
    if REASSIGN_PARTITIONS not in cluster.ensemble.tree.nodes:
        return None
    found = json.loads(cluster.ensemble.data(REASSIGN_PARTITIONS))
    return {one["partition"]: one["replicas"] for one in found["partitions"]}


def test_a_move_runs_until_its_target_is_in_sync_and_the_znode_goes(four: Cluster) -> None:
    write(four, TOOLS_JSON.encode())
    assert znode(four) == ([3, 4, 1, 2], [3, 4], [1, 2])
    assert left(four) == {0: [3, 4]}, "it is under way"
    joins(four, 3, 4)
    assert znode(four) == ([3, 4], [], [])
    assert four.sent_to(1, ApiKey.STOP_REPLICA) and left(four) is None


def test_the_entry_of_each_move_goes_when_it_ends(four: Cluster) -> None:
    ask(four, {0: [2, 3], 1: [2, 4]})
    assert left(four) == {0: [2, 3], 1: [2, 4]}
    joins(four, 3)
    assert left(four) == {1: [2, 4]}


def test_a_move_to_where_it_is_ends_at_once(four: Cluster) -> None:
    ask(four, {0: [1, 2]})
    assert left(four) is None and znode(four) == ([1, 2], [], [])


def test_another_order_of_the_same_replicas_ends_at_once(four: Cluster) -> None:
    ask(four, {0: [2, 1]})
    assert left(four) is None and znode(four) == ([2, 1], [], [])


def test_what_cannot_be_is_removed_and_the_log_says_why(four: Cluster) -> None:
    ask(four, {0: [3, 4], 7: [3, 4], 1: []})
    assert left(four) == {0: [3, 4]}
    (notice,) = [one for one in four.controller.notices if "reassignment" in one]
    assert notice == (
        "Failed reassignment through zk with the following errors: "
        "events-7: UNKNOWN_TOPIC_OR_PARTITION, events-1: INVALID_REPLICA_ASSIGNMENT"
    )


def test_an_unknown_topic_leaves_no_znode(four: Cluster) -> None:
    ask(four, {0: [3, 4]}, topic="nothing")
    assert left(four) is None


def test_a_move_waits_for_a_broker_that_is_not_there(four: Cluster) -> None:
    """Kafka's controller does not check the brokers of the znode; only requests of clients are refused."""
    ask(four, {0: [1, 5]})
    assert znode(four) == ([1, 5, 2], [5], [2]) and left(four) == {0: [1, 5]}
    four.add(5)
    four.run()
    told = [one for one in four.sent_to(5, ApiKey.LEADER_AND_ISR) if isinstance(one, LeaderAndIsrRequest)]
    assert any(one.topic_states for one in told), "it learns that it is a replica"
    joins(four, 5)
    assert znode(four) == ([1, 5], [], []) and left(four) is None


@pytest.mark.parametrize("data", [b"not JSON", b"[]", b'{"partitions":[{"topic":"events"}]}', b'{"partitions":[3]}'])
def test_what_is_malformed_is_ignored(four: Cluster, data: bytes) -> None:
    write(four, data)
    assert any("invalid json" in one for one in four.controller.notices)
    assert znode(four) == ([1, 2], [], []) and REASSIGN_PARTITIONS in four.ensemble.tree.nodes


def test_the_next_znode_is_seen_after_one_has_gone(four: Cluster) -> None:
    write(four, b"not JSON")
    four.ensemble.write(Delete(REASSIGN_PARTITIONS))
    four.run()
    ask(four, {0: [1, 3]})
    joins(four, 3)
    assert znode(four) == ([1, 3], [], []) and left(four) is None


def test_a_change_of_the_data_is_no_request(four: Cluster) -> None:
    """The controller itself changes it; Kafka's controller looks at a znode that is created."""
    ask(four, {0: [1, 3]})
    four.ensemble.write(SetData(REASSIGN_PARTITIONS, encode_reassignment({("events", 1): [1, 4]})))
    four.run()
    assert four.controller.context.assignment("events", 1).adding == ()


def test_another_controller_goes_on_and_removes_the_entry(four: Cluster) -> None:
    ask(four, {0: [2, 3]})
    four.expire(1)
    assert left(four) == {0: [2, 3]}
    epoch = four.state("events").leader_epoch
    joins(four, 3)
    assert znode(four) == ([2, 3], [], []) and left(four) is None
    assert four.state("events").leader_epoch > epoch


def test_a_controller_that_takes_over_reads_what_was_asked_meanwhile(four: Cluster) -> None:
    four.ensemble.expire(four.sessions[1])
    four.ensemble.write(Create(REASSIGN_PARTITIONS, encode_reassignment({("events", 0): [2, 3]})))
    four.run()
    assert left(four) == {0: [2, 3]} and four.controller.context.assignment("events", 0).adding == (3,)


def test_a_later_request_of_a_client_replaces_the_entry(four: Cluster) -> None:
    ask(four, {0: [1, 3], 1: [1, 3]})
    assert move(four, 1, 4) == 0
    assert left(four) == {1: [1, 3]}
    joins(four, 4)
    assert znode(four) == ([1, 4], [], [])


def test_the_entries_of_a_deleted_topic_go_with_it(four: Cluster) -> None:
    ask(four, {0: [1, 3], 1: [1, 4]})
    four.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="events")]))
    assert left(four) is None and "/brokers/topics/events" not in four.ensemble.tree.nodes


def test_what_the_tool_writes_is_read() -> None:
    assert decode_reassignment(TOOLS_JSON.encode()) == {("events", 0): (3, 4)}
    with pytest.raises(MalformedZnode, match="/admin/reassign_partitions"):
        decode_reassignment(b'{"partitions":[{"topic":"events","partition":"x","replicas":[1]}]}')

"""Moving topic-partitions in a ZooKeeper-era cluster (RA-01 to RA-04): znodes, requests, and who goes on with it."""

from __future__ import annotations

import json

import pytest

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from squall.nodes.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from squall.nodes.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from squall.nodes.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from squall.nodes.protocol.messages.stop_replica import StopReplicaRequest
from squall.nodes.zookeeper.controller.reassignment import moved
from squall.nodes.zookeeper.session import Create, SetData
from squall.nodes.zookeeper.znodes import (
    ISR_CHANGES,
    Assignment,
    StateZnode,
    encode_isr_change,
    encode_state,
    state_path,
)
from tests.nodes.zookeeper.conftest import Cluster


@pytest.fixture
def four() -> Cluster:
    """Four brokers and a topic-partition on the first two, led by the first."""
    cluster = Cluster(brokers=4)
    cluster.start()
    placed = [CreatableReplicaAssignment(0, [1, 2])]
    cluster.ask(CreateTopicsRequest(topics=[CreatableTopic("events", -1, -1, placed)]))
    cluster.sent.clear()
    return cluster


def move(cluster: Cluster, *replicas: int, cancel: bool = False) -> int:
    wanted = ReassignablePartition(0, None if cancel else list(replicas))
    answer = cluster.ask(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("events", [wanted])])).answer
    assert answer is not None and isinstance(answer.response, AlterPartitionReassignmentsResponse)
    return answer.response.responses[0].partitions[0].error_code


def joins(cluster: Cluster, *brokers: int) -> None:
    """Let the leader write brokers into the ISR and announce it."""
    before = cluster.state("events")
    state = StateZnode(before.leader, before.leader_epoch, (*before.isr, *brokers), before.controller_epoch)
    cluster.ensemble.write(SetData(state_path("events", 0), encode_state(state), before.version))
    cluster.ensemble.write(Create(f"{ISR_CHANGES}/isr_change_", encode_isr_change([("events", 0)]), sequential=True))
    cluster.run()


def znode(cluster: Cluster) -> tuple[list[int], list[int], list[int]]:
    found = json.loads(cluster.ensemble.data("/brokers/topics/events"))
    return (
        found["partitions"]["0"],
        found["adding_replicas"].get("0", []),
        found["removing_replicas"].get("0", []),
    )


def test_a_move_keeps_the_old_replicas_until_the_new_ones_are_in_sync(four: Cluster) -> None:
    """RA-01, RA-02."""
    epoch = four.state("events").leader_epoch
    assert move(four, 3, 4) == 0
    assert znode(four) == ([3, 4, 1, 2], [3, 4], [1, 2])
    assert four.state("events").leader == 1 and four.state("events").leader_epoch > epoch
    assert four.sent_to(3, ApiKey.LEADER_AND_ISR) and four.sent_to(4, ApiKey.LEADER_AND_ISR)
    joins(four, 3)
    assert znode(four)[2] == [1, 2], "one of the target is not in the ISR yet"


def test_a_completed_move_leaves_the_target_alone(four: Cluster) -> None:
    """RA-03: the leader is one of the target, and the others delete their logs."""
    move(four, 3, 4)
    joins(four, 3, 4)
    assert znode(four) == ([3, 4], [], [])
    after = four.state("events")
    assert after.leader == 3 and set(after.isr) == {3, 4}
    for broker in (1, 2):
        (stop,) = four.sent_to(broker, ApiKey.STOP_REPLICA)
        assert isinstance(stop, StopReplicaRequest)
        assert stop.topic_states[0].partition_states[0].delete_partition


def test_a_cancelled_move_restores_the_replicas(four: Cluster) -> None:
    """RA-04."""
    move(four, 3, 4)
    joins(four, 3)
    assert move(four, cancel=True) == 0
    assert znode(four) == ([1, 2], [], [])
    assert set(four.state("events").isr) == {1, 2} and four.state("events").leader == 1
    assert four.sent_to(3, ApiKey.STOP_REPLICA) and four.sent_to(4, ApiKey.STOP_REPLICA)


def test_a_cancelled_replica_cannot_join_the_isr_while_it_is_taken_out(four: Cluster) -> None:
    """RA-04: the leader has another state before the replicas change, so its write of an older ISR fails."""
    move(four, 3, 4)
    before = four.state("events")
    four.sent.clear()
    move(four, cancel=True)
    told = [one for one in four.sent_to(1, ApiKey.LEADER_AND_ISR) if isinstance(one, LeaderAndIsrRequest)]
    states = [one.topic_states[0].partition_states[0] for one in told]
    assert [(one.leader_epoch, one.replicas) for one in states] == [
        (before.leader_epoch + 1, [1, 2]),
        (before.leader_epoch + 2, [1, 2]),
    ]


def test_another_controller_tells_the_leader_of_the_replicas_again() -> None:
    """The former one may have died before it did, and a leader takes other replicas with another epoch only."""
    cluster = Cluster(brokers=4)
    cluster.start()
    placed = [CreatableReplicaAssignment(0, [2, 3])]
    cluster.ask(CreateTopicsRequest(topics=[CreatableTopic("events", -1, -1, placed)]))
    move(cluster, 2, 4)
    before = cluster.state("events")
    cluster.sent.clear()
    cluster.expire(1)
    after = cluster.state("events")
    assert (after.leader, after.leader_epoch) == (2, before.leader_epoch + 1)
    told = [one for one in cluster.sent_to(2, ApiKey.LEADER_AND_ISR) if isinstance(one, LeaderAndIsrRequest)]
    (state,) = told[-1].topic_states[0].partition_states
    assert state.replicas == [2, 4, 3] and state.leader_epoch == after.leader_epoch


def test_another_controller_goes_on_with_a_move(four: Cluster) -> None:
    move(four, 2, 3)
    four.expire(1)
    assert four.controller is not four.controllers[1]
    joins(four, 3)
    assert znode(four) == ([2, 3], [], [])


@pytest.mark.parametrize(
    ("replicas", "cancel", "error"),
    [
        ((), False, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((3, 3), False, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((3, 9), False, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((), True, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_moves_that_cannot_be_are_refused(
    four: Cluster, replicas: tuple[int, ...], cancel: bool, error: ErrorCode
) -> None:
    assert move(four, *replicas, cancel=cancel) == error


def test_moves_under_way_are_listed(four: Cluster) -> None:
    move(four, 1, 3)
    answer = four.ask(ListPartitionReassignmentsRequest(topics=None)).answer
    assert answer is not None and isinstance(answer.response, ListPartitionReassignmentsResponse)
    (part,) = answer.response.topics[0].partitions
    assert (part.replicas, part.adding_replicas, part.removing_replicas) == ([1, 3, 2], [3], [2])


def test_a_move_in_the_midst_of_another_keeps_the_original_replicas() -> None:
    first = moved(Assignment((1, 2)), (3, 4))
    second = moved(first, (2, 5))
    assert second == Assignment((2, 5, 1), (5,), (1,))

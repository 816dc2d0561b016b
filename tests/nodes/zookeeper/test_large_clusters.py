"""A controller of many topic-partitions works in slices, so that its session's pings go on (ZK-09, ZK-12)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest

from squall.nodes.node.channels import ELEMENTS_MAX, PLAIN_REQUEST_MAX
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from squall.nodes.protocol.messages.leader_and_isr import FULL, INCREMENTAL, LeaderAndIsrRequest
from squall.nodes.protocol.messages.stop_replica import StopReplicaRequest
from squall.nodes.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from squall.nodes.protocol.requests.headers import encode_request
from squall.nodes.protocol.requests.session import ServerSession, ToBroker
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.controller import replica_machine, request_batch, request_queues, state_store
from squall.nodes.zookeeper.controller.event_loop import PAUSE, EventLoop, Steps
from squall.nodes.zookeeper.controller.request_queues import RequestQueues
from tests.nodes.zookeeper.conftest import Cluster
from tests.nodes.zookeeper.ensemble import Ensemble


def make_loop() -> EventLoop:
    return EventLoop(1, ZooKeeperClient(Ensemble().session()), NullTrace(), lambda now, error: None)


def test_a_procedure_that_pauses_goes_on_in_the_next_turn_and_before_any_other() -> None:
    """ZK-05: nothing else of the controller runs in between."""
    happened: list[str] = []

    def long() -> Steps:
        happened.append("begins")
        yield PAUSE
        happened.append("ends")

    def other() -> Steps:
        happened.append("other")
        yield from ()

    loop = make_loop()
    loop.put(0, "long", long)
    loop.put(0, "other", other)
    loop.advance(0)
    assert (happened, loop.is_paused, loop.is_idle) == (["begins"], True, False)
    loop.advance(1)
    assert (happened, loop.is_paused, loop.is_idle) == (["begins", "ends", "other"], False, True)


def test_a_procedure_that_has_paused_ends_with_the_session() -> None:
    ended: list[bool] = []

    def long() -> Steps:
        try:
            yield PAUSE
        finally:
            ended.append(True)

    loop = make_loop()
    loop.put(0, "long", long)
    loop.advance(0)
    loop.clear()
    loop.advance(1)
    assert ended == [True] and loop.is_idle and not loop.is_paused


def update_of(partitions: int) -> UpdateMetadataRequest:
    states = [UpdateMetadataPartitionState(partition_index=number) for number in range(partitions)]
    return UpdateMetadataRequest(topic_states=[UpdateMetadataTopicState("events", partition_states=states)])


def test_a_turn_sends_large_requests_to_some_brokers_and_the_next_turn_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_queues, "STATES_OF_A_TURN", 10)
    queues = RequestQueues(timeout=1_000)
    for broker in range(5):
        queues.add_broker(broker)
        queues.put(broker, update_of(6))
    sent = []
    for _ in range(3):
        assert queues.deadline() == 0
        queues.advance(0)
        sent.append([str(one.destination) for one in queues.requests])
        queues.requests.clear()
    assert sent == [[str(ToBroker(one)) for one in turn] for turn in ([0, 1], [2, 3], [4])]
    assert queues.deadline() == request_queues.NEVER


def parts_of(states: UpdateMetadataRequest | LeaderAndIsrRequest) -> set[tuple[str, int, int]]:
    return {
        (topic.topic_name, one.partition_index, one.leader)
        for topic in states.topic_states
        for one in topic.partition_states
    }


def orders_to(cluster: Cluster, broker: int) -> list[LeaderAndIsrRequest]:
    """The LeaderAndIsr that a broker has been sent, up to the first that is full."""
    found = [one for one in cluster.sent_to(broker, ApiKey.LEADER_AND_ISR) if isinstance(one, LeaderAndIsrRequest)]
    return found[: [one.type for one in found].index(FULL) + 1]


def test_an_update_of_many_topic_partitions_is_sent_as_several_that_name_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ZK-06: brokers bound the items of a request. Two topic-partitions of three replicas have fourteen of them."""

    def told() -> list[UpdateMetadataRequest]:
        cluster = Cluster()
        cluster.start()
        cluster.create("events", partitions=7)
        cluster.sent.clear()
        cluster.add(4)
        cluster.run()
        return [one for one in cluster.sent_to(4, ApiKey.UPDATE_METADATA) if isinstance(one, UpdateMetadataRequest)]

    (whole,) = (one for one in told() if one.topic_states)
    monkeypatch.setattr(request_batch, "ITEMS_OF_A_REQUEST", 15)
    divided = [one for one in told() if one.topic_states]
    assert [len(parts_of(one)) for one in divided] == [2, 2, 2, 1]
    assert set().union(*map(parts_of, divided)) == parts_of(whole) and len(parts_of(whole)) == 7
    assert all(one.live_brokers == whole.live_brokers for one in divided)


def test_the_last_leader_and_isr_of_many_topic_partitions_is_the_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZK-06: only then a broker has been named all that it has. A new controller names everything again."""

    def told() -> list[LeaderAndIsrRequest]:
        cluster = Cluster()
        cluster.start()
        cluster.create("events", partitions=7)
        cluster.sent.clear()
        cluster.expire(1)
        return orders_to(cluster, 2)

    (whole,) = told()
    monkeypatch.setattr(request_batch, "ITEMS_OF_A_REQUEST", 15)
    divided = told()
    assert [one.type for one in divided] == [*[INCREMENTAL] * (len(divided) - 1), FULL]
    assert [len(parts_of(one)) for one in divided] == [2, 2, 2, 1], "each names two of seven items"
    assert set().union(*map(parts_of, divided)) == parts_of(whole) and len(parts_of(whole)) == 7
    for one in divided:
        leaders = {state.leader for topic in one.topic_states for state in topic.partition_states}
        assert {leader.broker_id for leader in one.live_leaders} == leaders - {1}


def test_a_broker_without_a_topic_partition_gets_one_full_leader_and_isr() -> None:
    cluster = Cluster()
    cluster.start()
    assert [(one.type, one.topic_states) for one in orders_to(cluster, 2)] == [(FULL, [])]


def test_a_deletion_of_many_topic_partitions_ends_when_every_part_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZK-06."""
    monkeypatch.setattr(request_batch, "ITEMS_OF_A_REQUEST", 3)
    cluster = Cluster()
    cluster.start()
    cluster.create("events", partitions=7)
    cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState("events")]))
    stops = [one for one in cluster.sent_to(2, ApiKey.STOP_REPLICA) if isinstance(one, StopReplicaRequest)]
    named = [[state.partition_index for state in one.topic_states[0].partition_states] for one in stops]
    assert [len(one) for one in named] == [3, 3, 1] and sorted(chain(*named)) == list(range(7))
    assert cluster.ensemble.children("/brokers/topics") == []


def test_a_broker_takes_what_it_is_told_of_more_topic_partitions_than_one_request_may_name() -> None:
    """ZK-06, ZK-12: with the bounds as they are. A topic-partition of eight replicas has seventeen items."""
    cluster = Cluster(brokers=8)
    cluster.start()
    for topic in ("events", "orders"):
        cluster.create(topic, partitions=4_000, replicas=8)
    cluster.add(9)
    cluster.run()
    updates = [one for one in cluster.sent_to(9, ApiKey.UPDATE_METADATA) if isinstance(one, UpdateMetadataRequest)]
    cluster.sent.clear()
    cluster.expire(1)
    orders = orders_to(cluster, 2)
    requests: tuple[tuple[ApiKey, int, Sequence[UpdateMetadataRequest | LeaderAndIsrRequest]], ...] = (
        (ApiKey.UPDATE_METADATA, 8, updates), (ApiKey.LEADER_AND_ISR, 7, orders),
    )  # fmt: skip
    for api, version, sent in requests:
        assert sum(len(parts_of(one)) for one in sent) == 8_000 > ELEMENTS_MAX // 17
        broker = ServerSession(1, "PLAINTEXT", {api: (version, version)})
        for one in sent:
            frame = b"".join(encode_request(api, version, 1, None, one))
            assert len(frame) <= PLAIN_REQUEST_MAX
            assert broker.received(0, frame, ELEMENTS_MAX).elements > 0


def test_brokers_get_the_same_requests_in_slices_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZK-12: with slices of two topic-partitions, brokers receive the same requests as without slices."""

    def told() -> dict[int, list[object]]:
        cluster = Cluster()
        cluster.start()
        cluster.create("events", partitions=7)
        cluster.expire(1)
        return {broker: list(cluster.sent_to(broker, ApiKey.UPDATE_METADATA)) for broker in (2, 3)}

    at_once = told()
    assert all(requests for requests in at_once.values())
    for module, name in (
        (request_batch, "WITHOUT_PAUSE"), (replica_machine, "WITHOUT_PAUSE"), (state_store, "AT_ONCE"),
        (request_queues, "STATES_OF_A_TURN"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, 2)
    assert told() == at_once

"""The controller that ZooKeeper elects: who it is, what it reads and writes, whom it tells what (ZK-01 to ZK-14)."""

from __future__ import annotations

import json

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from squall.nodes.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from squall.nodes.protocol.messages.leader_and_isr import FULL, LeaderAndIsrRequest
from squall.nodes.protocol.messages.stop_replica import StopReplicaRequest
from squall.nodes.protocol.messages.update_metadata import UpdateMetadataRequest
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.zookeeper.session import Check, Create, Delete, GetData, Multi, SetData
from squall.nodes.zookeeper.znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    ISR_CHANGES,
    StateZnode,
    encode_isr_change,
    encode_state,
    state_path,
)
from tests.nodes.zookeeper.conftest import LISTENER, Cluster


def test_of_ten_brokers_that_race_one_is_the_controller() -> None:
    """ZK-01, ZK-02."""
    cluster = Cluster(brokers=10)
    cluster.start()
    assert [broker for broker, one in cluster.controllers.items() if one.is_active] == [1]
    assert {one.active_id for one in cluster.controllers.values()} == {1}
    assert cluster.ensemble.data(CONTROLLER_EPOCH) == b"1"
    assert json.loads(cluster.ensemble.data(CONTROLLER))["brokerid"] == 1


def test_a_successor_has_the_next_epoch_and_gives_every_broker_everything(running: Cluster) -> None:
    """ZK-11, ZK-12."""
    leader = running.state("events").leader
    running.expire(1)
    assert running.controller.context.epoch == 2
    assert set(running.controller.context.brokers) == {2, 3}
    for broker in (2, 3):
        (full,) = [
            one
            for one in running.sent_to(broker, ApiKey.LEADER_AND_ISR)
            if isinstance(one, LeaderAndIsrRequest) and one.type == FULL
        ]
        assert full.controller_epoch == 2
        assert [part.topic_name for part in full.topic_states] == ["events"]
        assert running.sent_to(broker, ApiKey.UPDATE_METADATA)
    assert running.state("events").leader in (2, 3)
    assert running.state("events").leader_epoch > 0 or leader != 1


def test_a_controller_whose_answer_was_lost_knows_that_it_was_elected(cluster: Cluster) -> None:
    cluster.sessions[1].loses = 4
    cluster.start()
    assert cluster.controller is cluster.controllers[1]
    assert cluster.ensemble.data(CONTROLLER_EPOCH) == b"1"


def test_a_deposed_controller_writes_nothing(running: Cluster) -> None:
    """ZK-14: the transaction with the epoch check fails, and the controller resigns."""
    running.ensemble.write(SetData(CONTROLLER_EPOCH, b"7"))
    before = running.state("events")
    follower = next(one for one in before.isr if one not in (before.leader, 1))
    running.ensemble.expire(running.sessions[follower])
    for client in running.clients.values():
        client.deliver(1)
    assert running.state("events") == before
    assert not running.controllers[1].is_active


def test_topics_znodes_are_those_of_kafka(running: Cluster) -> None:
    """ZK-03."""
    topic = json.loads(running.ensemble.data("/brokers/topics/events"))
    assert topic["version"] == 3 and len(topic["topic_id"]) == 22
    assert topic["adding_replicas"] == {} and topic["removing_replicas"] == {}
    assert sorted(topic["partitions"]["0"]) == [1, 2, 3]
    state = json.loads(running.ensemble.data("/brokers/topics/events/partitions/0/state"))
    assert state == {
        "controller_epoch": 1, "leader": topic["partitions"]["0"][0], "version": 1, "leader_epoch": 0,
        "isr": topic["partitions"]["0"],
    }  # fmt: skip


def test_replicas_get_leaders_and_all_brokers_get_metadata() -> None:
    """ZK-06: recipients of each request."""
    cluster = Cluster(brokers=4)
    cluster.start()
    cluster.sent.clear()
    cluster.create("events", replicas=2)
    replicas = set(cluster.state("events").isr)
    assert {to for to, message in cluster.sent if message.API_KEY == ApiKey.LEADER_AND_ISR} == replicas
    assert {to for to, message in cluster.sent if message.API_KEY == ApiKey.UPDATE_METADATA} == {1, 2, 3, 4}
    assert not [one for one in cluster.sent if one[1].API_KEY == ApiKey.STOP_REPLICA]


def test_one_request_is_in_flight_to_each_broker(running: Cluster) -> None:
    """ZK-06, CL-20: what follows waits for the answer."""
    running.silent.add(2)
    for name in ("first", "second"):
        running.create(name)
    assert not running.sent_to(2, ApiKey.LEADER_AND_ISR)
    assert running.controller.queues.waiting_for(2) > 1
    assert running.sent_to(3, ApiKey.LEADER_AND_ISR)


def test_a_dead_leader_is_followed_by_one_of_the_isr(running: Cluster) -> None:
    """ZK-11."""
    before = running.state("events")
    victim = before.leader if before.leader != 1 else None
    if victim is None:
        running.ask(ElectLeadersRequest(election_type=0, topic_partitions=None))
        victim = next(one for one in before.isr if one != 1)
    running.expire(victim)
    after = running.state("events")
    assert victim not in after.isr and after.leader in after.isr
    assert after.leader_epoch > before.leader_epoch


def test_the_last_of_an_isr_stays_in_it_without_leading(running: Cluster) -> None:
    for broker in (3, 2):
        running.expire(broker)
    last = running.state("events")
    assert last.isr == (1,) and last.leader == 1
    running.ensemble.expire(running.sessions[1])
    running.add(2)
    running.controllers[2].registered(running.now)
    running.run()
    after = running.state("events")
    assert (after.leader, after.isr) == (-1, (1,)), "broker 2 may lack committed records"


def test_a_leaders_own_isr_change_is_never_overwritten_unseen(running: Cluster) -> None:
    """ZK-07: the controller reads the state again where its version shows a change."""
    before = running.state("events")
    gone = before.isr[-1]
    shrunk = StateZnode(before.leader, before.leader_epoch, before.isr[:-1], 1)
    running.ensemble.write(SetData(state_path("events", 0), encode_state(shrunk), before.version))
    running.ask(ElectLeadersRequest(election_type=0, topic_partitions=None))
    running.expire(before.leader)
    assert gone not in running.state("events").isr


def test_a_notification_of_leaders_updates_everybody_and_is_deleted(running: Cluster) -> None:
    """ZK-04, ZK-07."""
    before = running.state("events")
    shrunk = StateZnode(before.leader, before.leader_epoch, before.isr[:1], 1)
    running.ensemble.write(SetData(state_path("events", 0), encode_state(shrunk), before.version))
    running.ensemble.write(Create(f"{ISR_CHANGES}/isr_change_", encode_isr_change([("events", 0)]), sequential=True))
    running.run()
    for broker in (1, 2, 3):
        (update,) = running.sent_to(broker, ApiKey.UPDATE_METADATA)
        assert isinstance(update, UpdateMetadataRequest)
        (part,) = update.topic_states[0].partition_states
        assert (tuple(part.isr), part.zk_version) == (before.isr[:1], before.version + 1)
    assert running.ensemble.children(ISR_CHANGES) == []


def test_a_controlled_shutdown_reads_writes_and_tells_in_this_order(running: Cluster) -> None:
    """ZK-08: one topic-partition, replicas 1 to 3; the leader stops."""
    before = running.state("events")
    leader, path = before.leader, state_path("events", 0)
    running.ensemble.carried_out.clear()
    epoch = running.controller.context.brokers[leader].epoch
    answer = running.ask(ControlledShutdownRequest(leader, epoch)).answer
    assert answer is not None and answer.response == ControlledShutdownResponse()
    after = running.state("events")
    assert after.leader == next(one for one in before.isr if one != leader)
    assert leader not in after.isr
    steps = [operation for _, operation in running.ensemble.carried_out]
    assert steps[0] == GetData(path)
    assert isinstance(steps[1], Multi) and isinstance(steps[1].operations[0], Check)
    assert isinstance(steps[1].operations[1], SetData) and steps[1].operations[1].path == path
    for broker in (1, 2, 3):
        (led,) = running.sent_to(broker, ApiKey.LEADER_AND_ISR)[:1]
        assert isinstance(led, LeaderAndIsrRequest)
        assert led.topic_states[0].partition_states[0].leader == after.leader


def test_a_follower_that_stops_is_stopped_and_leaves_the_isr(running: Cluster) -> None:
    before = running.state("events")
    follower = before.isr[-1]
    epoch = running.controller.context.brokers[follower].epoch
    running.ask(ControlledShutdownRequest(follower, epoch))
    assert follower not in running.state("events").isr
    (stop,) = running.sent_to(follower, ApiKey.STOP_REPLICA)
    assert isinstance(stop, StopReplicaRequest)
    assert not stop.topic_states[0].partition_states[0].delete_partition


def test_a_shutdown_of_an_older_incarnation_is_refused(running: Cluster) -> None:
    """ZK-14, KIP-380."""
    epoch = running.controller.context.brokers[2].epoch
    answer = running.ask(ControlledShutdownRequest(2, epoch - 1)).answer
    assert answer is not None
    assert answer.response == ControlledShutdownResponse(int(ErrorCode.STALE_BROKER_EPOCH))


def test_requests_wait_until_a_new_controller_has_read_everything(cluster: Cluster) -> None:
    """ZK-13, ZK-05."""
    for controller in cluster.controllers.values():
        controller.registered(0)
    first = cluster.controllers[1]
    while not first.is_active:
        cluster.sessions[1].deliver_one(0, cluster.clients[1]._on_event)
    body = CreateTopicsRequest(topics=[CreatableTopic("events", 1, 3)])
    request = ServerRequest(body.API_KEY, 0, body, "admin", LISTENER, 1, 0)
    first.handle(0, request)
    assert request.answer is None and not first.context.brokers
    cluster.run()
    assert request.answer is not None and isinstance(request.answer.response, CreateTopicsResponse)
    assert request.answer.response.topics[0].error_code == 0


def test_a_deleted_topic_is_gone_once_every_replica_is(running: Cluster) -> None:
    running.ask(DeleteTopicsRequest(topics=[DeleteTopicState("events")]))
    for broker in (1, 2, 3):
        (stop,) = running.sent_to(broker, ApiKey.STOP_REPLICA)
        assert isinstance(stop, StopReplicaRequest)
        assert stop.topic_states[0].partition_states[0].delete_partition
    assert running.ensemble.children("/brokers/topics") == []
    assert running.ensemble.children("/admin/delete_topics") == []
    assert running.ensemble.children("/config/topics") == []


def test_a_deletion_waits_for_a_broker_that_does_not_live(running: Cluster) -> None:
    running.expire(3)
    running.ask(DeleteTopicsRequest(topics=[DeleteTopicState("events")]))
    assert running.ensemble.children("/brokers/topics") == ["events"]
    running.add(3)
    running.controllers[3].registered(running.now)
    running.run()
    assert running.ensemble.children("/brokers/topics") == []


def test_a_bounced_broker_is_taken_out_and_given_everything_again(running: Cluster) -> None:
    """KIP-380: the czxid shows that it is another incarnation, though the watch fires once for both changes."""
    before = running.state("events")
    bounced = before.isr[-1] if before.isr[-1] != 1 else before.isr[1]
    old = running.controller.context.brokers[bounced].epoch
    session = running.sessions[bounced]
    running.ensemble.expire(session)
    session.renew(0)
    running.register(bounced)
    running.run()
    assert running.controller.context.brokers[bounced].epoch > old
    assert bounced not in running.state("events").isr
    newest = running.sent_to(bounced, ApiKey.LEADER_AND_ISR)[-1]
    assert isinstance(newest, LeaderAndIsrRequest)
    assert newest.broker_epoch > old


def test_preferred_leaders_are_elected_on_request(running: Cluster) -> None:
    leader = running.state("events").leader
    epoch = running.controller.context.brokers[leader].epoch
    running.ask(ControlledShutdownRequest(leader, epoch))
    answer = running.ask(ElectLeadersRequest(election_type=0, topic_partitions=None)).answer
    assert answer is not None and isinstance(answer.response, ElectLeadersResponse)
    (result,) = answer.response.replica_election_results[0].partition_result
    assert result.error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_an_operators_deletion_of_the_controller_znode_deposes_it(running: Cluster) -> None:
    """ZK-01."""
    running.ensemble.write(Delete(CONTROLLER))
    running.run()
    assert running.controller.context.epoch == 2

"""Registration, heartbeats, fencing and unfencing (BL-05, FD-01, FD-02, FD-04, IS-02, IS-09, rules 24, 25, 27)."""

from __future__ import annotations

from typing import Any

from squall.nodes.metadata.records import FenceBrokerRecord, PartitionChangeRecord, UnfenceBrokerRecord
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest


def test_a_broker_registers_fenced_and_its_epoch_is_the_offset_of_its_record(make_controller: Any) -> None:
    controller = make_controller()
    expected = controller.raft.end_offset
    response = controller.register(7)
    assert (response.error_code, response.broker_epoch) == (ErrorCode.NONE, expected)
    assert controller.image.brokers[7].fenced
    assert controller.image.brokers[7].endpoints[0].host == "host7"


def test_another_cluster_id_is_refused(make_controller: Any) -> None:
    request = BrokerRegistrationRequest(broker_id=1, cluster_id="other")
    assert make_controller().ask(request).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_second_incarnation_is_refused_while_the_first_has_a_session(make_controller: Any) -> None:
    controller = make_controller()
    controller.bring_up(1)
    assert controller.register(1, incarnation=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    controller.pass_time(9)
    response = controller.register(1, incarnation=2)
    assert response.error_code == ErrorCode.NONE
    assert controller.image.brokers[1].epoch == response.broker_epoch


def test_the_same_incarnation_keeps_epoch_and_fencing(make_controller: Any) -> None:
    controller = make_controller()
    first = controller.register(1).broker_epoch
    controller.heartbeat(1)
    assert controller.register(1).broker_epoch == first
    assert not controller.image.brokers[1].fenced


def test_a_broker_is_unfenced_only_once_it_has_read_its_own_registration(make_controller: Any) -> None:
    controller = make_controller()
    epoch = controller.register(1).broker_epoch
    behind = controller.heartbeat(1, offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    assert controller.heartbeat(1, want_fence=True).is_fenced
    there = controller.heartbeat(1, offset=epoch)
    assert (there.is_caught_up, there.is_fenced) == (True, False)
    assert not controller.image.brokers[1].fenced


def test_a_heartbeat_of_another_epoch_is_stale(make_controller: Any) -> None:
    controller = make_controller()
    epoch = controller.register(1).broker_epoch
    assert controller.heartbeat(1, epoch=epoch + 1).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert controller.heartbeat(9, epoch=3).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_silent_broker_is_fenced_after_its_session_and_not_before(controller: Any) -> None:
    for _ in range(4):
        controller.pass_time(2)
        controller.heartbeat(2), controller.heartbeat(3)
    controller.pass_time(0.9)
    assert not controller.image.brokers[1].fenced
    controller.pass_time(0.2)
    assert controller.image.brokers[1].fenced
    assert not controller.image.brokers[2].fenced


def test_the_longest_silence_of_a_broker_is_kept_for_metrics(controller: Any) -> None:
    """Signs of life of the broker's own incarnation count, and no others."""
    controller.pass_time(3)
    controller.heartbeat(1)
    controller.pass_time(5)
    controller.heartbeat(1, epoch=10**6)
    controller.heartbeat(2), controller.heartbeat(3)
    assert controller.controller.sessions.longest_silence == 8_000_000
    controller.pass_time(20)
    controller.register(1)
    assert controller.controller.sessions.longest_silence == 8_000_000, "a session that ended is no silence within one"


def test_fencing_moves_leaders_first_and_fences_last_in_one_batch(controller: Any) -> None:
    before = controller.raft.end_offset
    controller.live_on(10, 2, 3)
    batch = next(one for one in controller.raft.committed(before) if len(one.values) > 1)
    assert len(batch.values) == 2
    change, fence = controller.records(before)
    assert isinstance(change, PartitionChangeRecord) and (change.leader, change.isr) == (2, [2, 3])
    assert isinstance(fence, FenceBrokerRecord) and fence.id == 1


def test_a_new_leader_raises_both_epochs_a_mere_shrink_only_the_partition_epoch(controller: Any) -> None:
    controller.live_on(10, 1, 2)
    shrunk = controller.partition()
    assert (shrunk.leader, shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch) == (1, (1, 2), 0, 1)
    controller.live_on(10, 2)
    moved = controller.partition()
    assert (moved.leader, moved.isr, moved.leader_epoch, moved.partition_epoch) == (2, (2,), 1, 2)


def test_without_elr_the_last_member_stays_in_the_isr_when_it_goes(controller_without_elr: Any) -> None:
    """IS-09: offline, not lossy; and only that member ends it."""
    controller = controller_without_elr
    controller.live_on(10, 2, 3)
    controller.live_on(10, 3)
    controller.pass_time(10)
    gone = controller.partition()
    assert (gone.leader, gone.isr) == (-1, (3,))
    controller.heartbeat(1)
    assert controller.partition().leader == -1
    before = controller.raft.end_offset
    controller.heartbeat(3)
    back = controller.partition()
    assert (back.leader, back.isr, back.leader_epoch) == (3, (3,), gone.leader_epoch + 1)
    unfence, elect = controller.records(before)
    assert isinstance(unfence, UnfenceBrokerRecord) and isinstance(elect, PartitionChangeRecord)


def test_unclean_election_where_allowed_leaves_a_recovering_leader_alone(controller: Any) -> None:
    controller.create_topic("lossy", assignment={0: [1, 2]}, configs={"unclean.leader.election.enable": "true"})
    controller.alter_partition(1, [1], topic="lossy")
    controller.live_on(10, 2, 3)
    registration = controller.partition("lossy")
    assert (registration.leader, registration.isr, registration.recovery_state) == (2, (2,), 1)


def test_a_new_incarnation_of_an_unfenced_broker_is_fenced_before_it_registers(controller: Any) -> None:
    """A controller that has just taken over may know the old incarnation as unfenced, with a fresh session."""
    controller.pass_time(8)
    controller.start()
    assert controller.register(1, incarnation=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    controller.live_on(8, 2, 3)
    before = controller.raft.end_offset
    controller.pass_time(2)
    assert controller.register(1, incarnation=2).error_code == ErrorCode.NONE
    assert controller.partition().leader == 2
    assert [type(record).__name__ for record in controller.records(before)] == [
        "PartitionChangeRecord",
        "FenceBrokerRecord",
        "RegisterBrokerRecord",
    ]


def test_sessions_start_anew_with_a_new_active_controller(controller: Any) -> None:
    """FD-04: no false fence, and a broker that is really gone is fenced a session later."""
    controller.pass_time(8)
    controller.start()
    controller.pass_time(8.9)
    assert not any(broker.fenced for broker in controller.image.brokers.values())
    controller.pass_time(0.2)
    assert all(broker.fenced for broker in controller.image.brokers.values())


def test_producer_ids_are_handed_out_in_blocks_that_never_repeat(controller: Any) -> None:
    epoch = controller.image.brokers[1].epoch
    first = controller.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
    assert (first.producer_id_start, first.producer_id_len) == (0, 1000)
    controller.start()
    second = controller.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
    assert second.producer_id_start == 1000
    stale = controller.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1))
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH

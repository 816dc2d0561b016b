"""Eligible leader replicas as the controller keeps them: over fencing, restarts, and switching (EL-01..06, FD-03)."""

from __future__ import annotations

from typing import Any

import pytest

from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.image import PartitionRegistration
from squall.nodes.metadata.records import decode_record
from squall.nodes.mutants import Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from squall.nodes.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.nodes.controller.conftest import MIN_ISR_2, SECOND, with_events

NOBODY = -1


def seats(registration: PartitionRegistration) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    return registration.leader, registration.isr, registration.elr


# -- the course of experiment E6 -----------------------------------------------------------------------------------


def test_the_last_replica_standing_is_not_the_only_one_that_may_lead(durable: Any) -> None:
    """EL-01, P17: 1 leads; 3 goes, 2 goes, 1 loses power; 3 and 2 return; at last 1, without its records."""
    durable.alter_partition(1, [1, 2])
    assert seats(durable.partition()) == (1, (1, 2), ())
    durable.alter_partition(1, [1])
    assert seats(durable.partition()) == (1, (1,), (2,)), "3 left while enough were in sync, and may miss records"
    durable.fence(2, 3, 1)
    assert seats(durable.partition()) == (NOBODY, (), (1, 2))
    durable.heartbeat(3)
    assert durable.partition().leader == NOBODY
    durable.heartbeat(2)
    assert seats(durable.partition()) == (2, (2,), (1,))
    durable.return_of(1, clean=False)
    assert seats(durable.partition()) == (2, (2,), ()), "its unclean restart ended its eligibility"
    durable.alter_partition(2, [2, 1])
    assert seats(durable.partition()) == (2, (2, 1), ())


def test_without_elr_the_last_replica_standing_leads_again_whatever_it_has(controller_without_elr: Any) -> None:
    """N09, IS-09."""
    controller = controller_without_elr
    controller.alter_partition(1, [1])
    controller.fence(2, 3, 1)
    controller.heartbeat(2)
    assert seats(controller.partition()) == (NOBODY, (1,), ())
    controller.return_of(1, clean=False)
    assert seats(controller.partition()) == (1, (1,), ())


# -- restarts ------------------------------------------------------------------------------------------------------


def test_an_unclean_restart_leaves_every_isr_and_elr_in_the_batch_that_registers(durable: Any) -> None:
    """EL-05, FD-03, rules 25 and 28. The old incarnation's session is over, but nobody has fenced it yet."""
    durable.create_topic("more", assignment={0: [2, 1], 1: [3, 2], 2: [2, 1]}, configs=MIN_ISR_2)
    durable.alter_partition(2, [2], topic="more", number=2)
    assert seats(durable.partition("more", 2)) == (2, (2,), (1,))
    durable.pass_time(8)
    durable.heartbeat(2)
    durable.heartbeat(3)
    before = durable.raft.end_offset
    durable.now += 2 * SECOND
    durable.register(1, incarnation=2)
    assert seats(durable.partition()) == (2, (2, 3), ())
    assert seats(durable.partition("more", 0)) == (2, (2,), ())
    assert seats(durable.partition("more", 1)) == (3, (3, 2), ())
    assert seats(durable.partition("more", 2)) == (2, (2,), ())
    [batch] = [batch for batch in durable.raft.committed(before) if not batch.is_control]
    kinds = [type(decode_record(value)).__name__ for value in batch.values]
    assert kinds == [*["PartitionChangeRecord"] * 3, "FenceBrokerRecord", "RegisterBrokerRecord"]


def test_a_clean_restart_keeps_its_place(durable: Any) -> None:
    """EL-05: the epoch of the incarnation that stopped is the proof."""
    durable.alter_partition(1, [1, 2])
    durable.fence(2)
    assert seats(durable.partition()) == (1, (1,), (2,))
    durable.return_of(2, clean=True)
    assert seats(durable.partition()) == (1, (1,), (2,))
    durable.fence(1)
    assert seats(durable.partition()) == (2, (2,), (1,))


@pytest.mark.parametrize("previous", [-1, 0, 10_000])
def test_any_other_epoch_than_its_last_one_proves_nothing(durable: Any, previous: int) -> None:
    """Two clean stops apart, say: the incarnation in between may have lost what it got."""
    durable.alter_partition(1, [1, 2])
    durable.fence(2)
    durable.ask(
        BrokerRegistrationRequest(
            broker_id=2,
            cluster_id="cluster",
            incarnation_id=b"another".ljust(16),
            listeners=[Listener(name="PLAINTEXT", host="host2", port=9092)],
            previous_broker_epoch=previous,
        )
    )
    assert seats(durable.partition()) == (1, (1,), ())
    assert durable.partition().last_known_elr == (2,)


def test_the_same_incarnation_registering_again_is_no_restart(durable: Any) -> None:
    durable.alter_partition(1, [1, 2])
    durable.fence(2)
    durable.register(2, incarnation=1)
    assert seats(durable.partition()) == (1, (1,), (2,))


def test_with_a_mutant_an_unclean_restart_stays_eligible(make_controller: Any) -> None:
    """The bug that the simulation must catch: a leader without the records it once acknowledged."""
    mutant = Mutants(frozenset({"unclean-restart-stays-eligible"}))
    controller = with_events(make_controller(mutant), MIN_ISR_2)
    controller.alter_partition(1, [1, 2])
    controller.fence(2)
    controller.return_of(2, clean=False)
    assert seats(controller.partition()) == (1, (1,), (2,))


# -- nobody left ---------------------------------------------------------------------------------------------------


def all_restart_uncleanly(controller: Any) -> None:
    controller.fence(1, 2, 3)
    assert controller.partition().isr == ()
    for broker in (1, 2, 3):
        controller.register(broker, incarnation=2)


def test_when_all_were_killed_the_last_known_leader_leads_again_recovering(durable: Any) -> None:
    """EL-04: nobody is known to have everything; an election of the last leader is an unclean one."""
    all_restart_uncleanly(durable)
    assert seats(durable.partition()) == (NOBODY, (), ())
    assert durable.partition().last_known_elr == (3, 2)
    durable.heartbeat(1), durable.heartbeat(2)
    assert durable.partition().leader == NOBODY, "not a leader that is not alive, not one that did not lead last"
    durable.heartbeat(3)
    found = durable.partition()
    assert seats(found) == (3, (3,), ())
    assert (found.recovery_state, found.last_known_elr) == (1, ())
    durable.alter_partition(3, [3, 1])
    assert durable.partition().recovery_state == 0


def test_with_the_strategy_none_an_operator_must_say_so(make_controller: Any) -> None:
    controller = with_events(make_controller(last_known_leader=False), MIN_ISR_2)
    all_restart_uncleanly(controller)
    for broker in (1, 2, 3):
        controller.heartbeat(broker)
    assert controller.partition().leader == NOBODY


def test_unclean_election_loses_what_only_the_eligible_have(make_controller: Any) -> None:
    """Experiment E6, control (iv)."""
    configs = MIN_ISR_2 | {"unclean.leader.election.enable": "true"}
    controller = with_events(make_controller(), configs)
    controller.alter_partition(1, [1, 2])
    controller.fence(2, 1)
    found = controller.partition()
    assert seats(found) == (3, (3,), ())
    assert (found.recovery_state, found.last_known_elr) == (1, ())


def test_elections_of_the_eligible_and_unclean_ones_are_counted(durable: Any, make_controller: Any) -> None:
    """Kafka's ElectionFromEligibleLeaderReplicasPerSec and UncleanLeaderElectionsPerSec."""
    durable.alter_partition(1, [1])
    counted = [(durable.controller.eligible_elections, durable.controller.unclean_elections)]
    for broker, next_leader in ((1, 2), (2, 3)):
        durable.fence(broker)
        assert durable.partition().leader == next_leader
        counted.append((durable.controller.eligible_elections, durable.controller.unclean_elections))
    assert counted == [(0, 0), (1, 0), (2, 0)]
    unclean = with_events(make_controller(), MIN_ISR_2 | {"unclean.leader.election.enable": "true"})
    unclean.alter_partition(1, [1, 2])
    unclean.fence(2, 1)
    assert (unclean.controller.eligible_elections, unclean.controller.unclean_elections) == (0, 1)


# -- the switch (EL-06) --------------------------------------------------------------------------------------------


def test_a_new_cluster_keeps_eligible_leaders_unless_it_is_told_otherwise(
    durable: Any, controller_without_elr: Any
) -> None:
    assert durable.image.features[ELIGIBLE_LEADER_REPLICAS] == 1
    assert ELIGIBLE_LEADER_REPLICAS not in controller_without_elr.image.features


def test_switched_off_the_isr_keeps_those_who_had_everything(durable: Any) -> None:
    durable.create_topic("more", assignment={0: [1, 2, 3]}, configs=MIN_ISR_2)
    durable.alter_partition(1, [1], topic="more")
    durable.alter_partition(1, [1, 2])
    durable.fence(3, 2, 1)
    assert seats(durable.partition()) == (NOBODY, (), (1, 2))
    assert durable.keep_eligible_leaders(0).error_code == ErrorCode.NONE
    assert seats(durable.partition()) == (NOBODY, (1, 2), ())
    assert durable.partition().last_known_elr == ()
    assert seats(durable.partition("more")) == (NOBODY, (1, 2, 3), ())
    durable.heartbeat(2)
    assert durable.partition().leader == 2


def test_without_elr_after_unclean_restarts_the_last_leader_is_in_the_isr(make_controller: Any) -> None:
    controller = with_events(make_controller(last_known_leader=False), MIN_ISR_2)
    all_restart_uncleanly(controller)
    controller.keep_eligible_leaders(0)
    assert seats(controller.partition()) == (NOBODY, (3,), ())
    controller.heartbeat(3)
    assert seats(controller.partition()) == (3, (3,), ())


def test_switched_on_the_next_change_fills_the_elr(controller_without_elr: Any) -> None:
    controller = controller_without_elr
    controller.alter_config("min.insync.replicas", "2")
    controller.alter_partition(1, [1, 2])
    assert controller.keep_eligible_leaders(1).error_code == ErrorCode.NONE
    assert controller.image.config(4, "") == {"min.insync.replicas": "1"}, "the same for all nodes from now on"
    controller.alter_partition(1, [1])
    assert seats(controller.partition()) == (1, (1,), (2,))


def test_switched_on_a_leader_that_has_not_heard_of_it_changes_no_isr(controller_without_elr: Any) -> None:
    """EL-03, EP-03: it may go by another min ISR, that of its own file, and commit alone what the eligible lack."""
    controller = controller_without_elr
    before = controller.partition()
    controller.keep_eligible_leaders(1)
    answer = controller.alter_partition(1, [1], partition_epoch=before.partition_epoch)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert seats(controller.partition()) == (1, (1, 2, 3), ())
    assert controller.partition().leader_epoch == before.leader_epoch, "nobody is elected for it"


def test_switched_on_again_a_leader_with_an_older_setting_changes_no_isr(durable: Any) -> None:
    """A change of min ISR moves no epoch while no eligible leaders are kept, so the switch has to do it for all."""
    durable.keep_eligible_leaders(0)
    before = durable.partition()
    durable.alter_config("min.insync.replicas", "3")
    durable.keep_eligible_leaders(1)
    answer = durable.alter_partition(1, [1, 2], partition_epoch=before.partition_epoch)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
    durable.alter_partition(1, [1, 2])
    assert seats(durable.partition()) == (1, (1, 2), (3,)), "with the news it may"


def test_a_switch_that_changes_nothing_moves_no_epoch(durable: Any) -> None:
    before = durable.partition()
    durable.keep_eligible_leaders(1)
    assert durable.partition() == before


def test_features_are_updated_all_or_none(durable: Any) -> None:
    def update(*updates: FeatureUpdateKey, **fields: Any) -> list[ErrorCode]:
        answer = durable.ask(UpdateFeaturesRequest(feature_updates=list(updates), **fields), 1)
        return [ErrorCode(result.error_code) for result in answer.results]

    off = FeatureUpdateKey(ELIGIBLE_LEADER_REPLICAS, 0, upgrade_type=2)
    assert update(FeatureUpdateKey(ELIGIBLE_LEADER_REPLICAS, 0)) == [ErrorCode.INVALID_UPDATE_VERSION]
    assert update(FeatureUpdateKey(ELIGIBLE_LEADER_REPLICAS, 2)) == [ErrorCode.INVALID_UPDATE_VERSION]
    assert update(FeatureUpdateKey("no.such.feature", 1)) == [ErrorCode.INVALID_UPDATE_VERSION]
    assert update(off, off) == [ErrorCode.INVALID_REQUEST] * 2
    assert update(off, FeatureUpdateKey("no.such.feature", 1)) == [
        ErrorCode.FEATURE_UPDATE_FAILED,
        ErrorCode.INVALID_UPDATE_VERSION,
    ]
    assert update(off, validate_only=True) == [ErrorCode.NONE]
    assert update(FeatureUpdateKey(ELIGIBLE_LEADER_REPLICAS, 1)) == [ErrorCode.NONE], "as it is"
    assert durable.image.features[ELIGIBLE_LEADER_REPLICAS] == 1
    assert update(off) == [ErrorCode.NONE]
    assert ELIGIBLE_LEADER_REPLICAS not in durable.image.features

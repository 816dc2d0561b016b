"""The broker's half of a controlled shutdown (CS-01, CS-04, CS-06, BL-04, KIP-631)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from squall.nodes.broker.lifecycle import BrokerState
from squall.nodes.metadata.records import BrokerRegistrationChangeRecord
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest
from squall.nodes.protocol.messages.fetch import FetchRequest
from squall.nodes.protocol.requests.session import ToBroker
from tests.nodes.broker.world import OTHER, OWN, SECOND, THIRD, World, produced

PENDING, OVER = BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN
NOT_YET = BrokerHeartbeatResponse(is_caught_up=True)
GRANTED = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True, should_shut_down=True)


def test_the_wish_goes_with_the_next_heartbeat_which_is_sent_at_once(world: World) -> None:
    """CS-01."""
    world.broker.begin_shutdown(world.now)
    _, heartbeat = world.asked(BrokerHeartbeatRequest)
    assert heartbeat.want_shut_down and not heartbeat.want_fence
    assert world.broker.lifecycle.state is PENDING and not world.broker.may_close


def test_a_heartbeat_under_way_is_awaited_before_the_wish_is_sent(world: World) -> None:
    request, heartbeat = world.asked(BrokerHeartbeatRequest, after=2 * SECOND)
    assert not heartbeat.want_shut_down
    world.broker.begin_shutdown(world.now)
    assert world.asked_nothing(BrokerHeartbeatRequest)
    request.complete(world.now, NOT_YET)
    _, heartbeat = world.asked(BrokerHeartbeatRequest, after=SECOND // 10)
    assert heartbeat.want_shut_down


def test_it_asks_again_soon_and_serves_clients_until_it_has_leave(world: World) -> None:
    """CS-04; a leader serves until the record that takes the leadership away is here."""
    world.create()
    world.broker.begin_shutdown(world.now)
    for _ in range(5):
        request, heartbeat = world.asked(BrokerHeartbeatRequest, after=SECOND // 10)
        assert heartbeat.want_shut_down
        request.complete(world.now, NOT_YET)
    assert world.broker.is_serving and not world.broker.may_close
    assert produced(world.produce(acks=1))[0].error_code == ErrorCode.NONE
    request, _ = world.asked(BrokerHeartbeatRequest, after=SECOND // 10)
    request.complete(world.now, GRANTED)
    assert world.broker.may_close and world.broker.lifecycle.state is OVER
    assert world.asked_nothing(BrokerHeartbeatRequest, after=10 * SECOND), "what was granted is not asked for again"


def test_who_is_about_to_stop_does_not_begin_to_follow_what_it_handed_over(world: World) -> None:
    """As in Kafka: nobody waits for its copy. Where it has stayed in the ISR it follows, for there it is waited for."""
    world.create("t", partitions=2)
    world.broker.begin_shutdown(world.now)
    epoch = world.broker.lifecycle.epoch
    world.commit(BrokerRegistrationChangeRecord(OWN, epoch, in_controlled_shutdown=1))
    world.change("t", 0, isr=[OTHER, THIRD], leader=OTHER)
    world.change("t", 1, isr=[OWN, OTHER], leader=OTHER)
    (request, asked), *more = world.all_asked(FetchRequest)
    assert not more and request.destination == ToBroker(OTHER)
    assert [[part.partition for part in topic.partitions] for topic in asked.topics] == [[1]]


def test_without_a_controller_it_ends_in_time(world: World) -> None:
    world.broker.begin_shutdown(world.now)
    began = world.now
    while not world.broker.may_close:
        for request, _ in world.all_asked(BrokerHeartbeatRequest):
            request.complete(world.now, None)
        world.run(after=min(SECOND // 10, world.broker.deadline() - world.now))
    assert world.now - began == world.config.controlled_shutdown_timeout


def test_a_heartbeat_that_is_never_answered_does_not_hold_up_the_end(world: World) -> None:
    world.broker.begin_shutdown(world.now)
    world.asked(BrokerHeartbeatRequest)
    assert world.broker.lifecycle.deadline() == world.now + world.config.controlled_shutdown_timeout
    world.run(after=world.config.controlled_shutdown_timeout)
    assert world.broker.may_close
    assert any("its time is over" in line for line in world.broker.notices)


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_who_is_not_registered_any_more_has_nothing_to_hand_over(world: World, error: ErrorCode) -> None:
    world.broker.begin_shutdown(world.now)
    request, _ = world.asked(BrokerHeartbeatRequest)
    request.complete(world.now, BrokerHeartbeatResponse(error_code=int(error)))
    assert world.broker.may_close
    assert world.asked_nothing(BrokerRegistrationRequest, after=SECOND)


def test_another_error_is_no_answer(world: World) -> None:
    world.broker.begin_shutdown(world.now)
    request, _ = world.asked(BrokerHeartbeatRequest)
    request.complete(world.now, BrokerHeartbeatResponse(error_code=int(ErrorCode.NOT_CONTROLLER)))
    assert world.broker.lifecycle.state is PENDING


def test_who_never_ran_may_close_at_once() -> None:
    world = World()
    world.register()
    world.broker.begin_shutdown(world.now)
    assert world.broker.may_close


def test_it_can_be_switched_off() -> None:
    """`controlled.shutdown.enable`."""
    world = World()
    world.config = replace(world.config, controlled_shutdown=False)
    world.broker = world._make()
    world.start()
    world.broker.begin_shutdown(world.now)
    assert world.broker.may_close


def test_the_mark_of_a_clean_stop_is_left_as_ever(world: World) -> None:
    """CS-06, FD-03: the next incarnation proves how this one ended."""
    epoch = world.broker.lifecycle.epoch
    world.broker.begin_shutdown(world.now)
    request, _ = world.asked(BrokerHeartbeatRequest)
    request.complete(world.now, GRANTED)
    world.broker.close(world.now)
    world.outgoing.clear()
    world.broker = world._make()
    _, registration = world.asked(BrokerRegistrationRequest)
    assert registration.previous_broker_epoch == epoch


# -- the broker's automaton (BL-01 to BL-04, BL-07) ------------------------------------------------------------------

LEGAL = {
    BrokerState.FENCED: {BrokerState.RUNNING, OVER},
    BrokerState.RUNNING: {PENDING, OVER},
    PENDING: {OVER},
    OVER: set(),
}


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_answered_only_legal_transitions_happen(seed: int) -> None:
    """BL-07; the seed is in the test's name."""
    rng = Random(seed)
    world = World()
    world.register()
    lifecycle = world.broker.lifecycle
    answers = [None, NOT_YET, GRANTED, *(BrokerHeartbeatResponse(is_fenced=fenced) for fenced in (True, False))]
    answers += [BrokerHeartbeatResponse(error_code=int(error)) for error in (ErrorCode.NOT_CONTROLLER,)]
    asked_at, states = None, [lifecycle.state]

    def looked_at() -> None:
        if lifecycle.state is not states[-1]:
            assert lifecycle.state in LEGAL[states[-1]], f"{states} to {lifecycle.state}"
            states.append(lifecycle.state)
        assert lifecycle.serves_clients == (lifecycle.state in (BrokerState.RUNNING, PENDING))
        assert asked_at is not None or lifecycle.state not in (PENDING, OVER), "nobody asked it to stop"

    for _ in range(60):
        if asked_at is None and rng.random() < 0.05:
            asked_at = world.now
            world.broker.begin_shutdown(world.now)
            looked_at()
        for request, heartbeat in world.all_asked(BrokerHeartbeatRequest):
            answer = rng.choice(answers)
            if answer is GRANTED and not heartbeat.want_shut_down:
                answer = NOT_YET
            request.complete(world.now, answer)
            looked_at()
        world.run(after=rng.choice([1, SECOND // 10, SECOND]))
        looked_at()
        if asked_at is not None and world.now >= asked_at + world.config.controlled_shutdown_timeout:
            assert lifecycle.state is OVER

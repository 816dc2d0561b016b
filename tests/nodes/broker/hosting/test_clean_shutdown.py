"""A clean stop leaves its broker epoch for the next incarnation to show; any other leaves nothing (FD-03, EL-05)."""

from __future__ import annotations

import pytest

from squall.nodes.broker.hosting.clean_shutdown import clean_epoch, clean_marker
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from squall.nodes.storage import checkpoints
from tests.nodes.broker.world import SECOND, World

UNKNOWN = -1


def next_incarnation(world: World, *, clean: bool) -> int:
    """End the broker, start it again, and return the epoch that it shows at registration."""
    if clean:
        world.broker.close(world.now)
    world.outgoing.clear()
    world.broker = world._make()
    _, message = world.asked(BrokerRegistrationRequest)
    return message.previous_broker_epoch


def test_a_marker_carries_the_epoch_as_kafka_writes_it() -> None:
    assert clean_marker(42) == '{"version":0,"brokerEpoch":42}'
    assert clean_epoch(clean_marker(42)) == 42


UNREADABLE = [
    None,
    "",
    "42",
    "[]",
    "{",
    '{"version":1,"brokerEpoch":42}',
    '{"version":0}',
    '{"version":0,"brokerEpoch":"42"}',
    '{"version":0,"brokerEpoch":-5}',
    '{"version":0,"brokerEpoch":true}',
    clean_marker(UNKNOWN),
]


@pytest.mark.parametrize("marker", UNREADABLE)
def test_what_cannot_be_read_proves_nothing(marker: str | None) -> None:
    assert clean_epoch(marker) == UNKNOWN


def test_the_first_start_has_nothing_to_show() -> None:
    world = World()
    _, message = world.asked(BrokerRegistrationRequest)
    assert message.previous_broker_epoch == UNKNOWN


def test_a_clean_stop_is_shown_by_its_epoch(world: World) -> None:
    epoch = world.broker.lifecycle.epoch
    assert next_incarnation(world, clean=True) == epoch


def test_a_kill_shows_nothing(world: World) -> None:
    """FD-03: kill and stop differ, though a killed process loses no record."""
    assert next_incarnation(world, clean=False) == UNKNOWN


def test_the_mark_is_used_up_by_the_start_that_found_it(world: World) -> None:
    """Were it still there, a kill after a clean restart would pass for a clean stop."""
    next_incarnation(world, clean=True)
    assert not world.disk.exists(checkpoints.CLEAN_SHUTDOWN)
    assert next_incarnation(world, clean=False) == UNKNOWN


def test_the_mark_does_not_come_back_when_power_is_lost(world: World) -> None:
    """Its removal is durable before the broker does anything."""
    next_incarnation(world, clean=True)
    world.disk.lose_power()
    assert next_incarnation(world, clean=False) == UNKNOWN


def test_stopping_before_it_is_registered_leaves_the_earlier_proof_as_it_was(world: World) -> None:
    epoch = world.broker.lifecycle.epoch
    assert next_incarnation(world, clean=True) == epoch
    assert next_incarnation(world, clean=True) == epoch


def test_a_registration_whose_answer_came_is_the_newest_even_if_it_is_gone_since(world: World) -> None:
    newest = world.broker.lifecycle.epoch
    request, _ = world.asked(BrokerHeartbeatRequest, after=2 * SECOND)
    request.complete(world.now, BrokerHeartbeatResponse(error_code=int(ErrorCode.STALE_BROKER_EPOCH)))
    request, _ = world.asked(BrokerRegistrationRequest)
    request.complete(world.now, BrokerRegistrationResponse(error_code=int(ErrorCode.NOT_CONTROLLER)))
    assert next_incarnation(world, clean=True) == newest

"""A broker's standing with the controller (BL-01 to BL-05, BL-07)."""

from __future__ import annotations

import pytest

from squall.nodes.broker.lifecycle import BrokerState, RegistrationRefused
from squall.nodes.metadata.records import NoOpRecord, RegisterBrokerRecord
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from squall.nodes.protocol.requests.session import ToActiveController
from tests.nodes.broker.world import LISTENER, OWN, SECOND, World


def test_a_broker_registers_first_of_all() -> None:
    world = World()
    request, message = world.asked(BrokerRegistrationRequest)
    assert request.destination == ToActiveController()
    assert (message.broker_id, message.cluster_id) == (OWN, "cluster")
    assert [(one.name, one.host, one.port) for one in message.listeners] == [(LISTENER, "10.0.0.1", 9092)]
    assert any(message.incarnation_id)
    assert world.asked_nothing(BrokerRegistrationRequest, after=SECOND), "one request at a time"


def test_it_stays_fenced_until_it_has_seen_its_own_registration() -> None:
    """BL-02: the registration is answered, but its record is not applied yet."""
    world = World()
    request, _ = world.asked(BrokerRegistrationRequest)
    request.complete(world.now, BrokerRegistrationResponse(broker_epoch=5))
    request, heartbeat = world.asked(BrokerHeartbeatRequest, after=2 * SECOND)
    assert heartbeat.want_fence
    request.complete(world.now, BrokerHeartbeatResponse(is_fenced=True))
    while world.log.high_watermark < 5:
        world.log.commit(NoOpRecord())
    world.log.commit(RegisterBrokerRecord(broker_id=OWN, broker_epoch=5))
    world.run()
    request, heartbeat = world.asked(BrokerHeartbeatRequest)
    assert not heartbeat.want_fence
    assert heartbeat.current_metadata_offset == 5
    assert not world.broker.is_serving
    request.complete(world.now, BrokerHeartbeatResponse(is_fenced=False))
    assert world.broker.is_serving


def test_it_serves_once_unfenced_and_says_so(world: World) -> None:
    """BL-03."""
    assert world.broker.lifecycle.state is BrokerState.RUNNING
    assert any("is ready" in line for line in world.broker.notices)


def test_heartbeats_come_at_their_interval(world: World) -> None:
    request, _ = world.asked(BrokerHeartbeatRequest, after=2 * SECOND)
    request.complete(world.now, BrokerHeartbeatResponse(is_fenced=False))
    assert world.asked_nothing(BrokerHeartbeatRequest, after=2 * SECOND - 1)
    world.asked(BrokerHeartbeatRequest, after=1)


def test_a_lost_heartbeat_is_repeated_soon(world: World) -> None:
    request, _ = world.asked(BrokerHeartbeatRequest, after=2 * SECOND)
    request.complete(world.now, None)
    world.asked(BrokerHeartbeatRequest, after=SECOND // 5)


def test_a_running_broker_that_is_fenced_keeps_its_ports_open(world: World) -> None:
    """Disagreement X12."""
    request, _ = world.asked(BrokerHeartbeatRequest, after=2 * SECOND)
    request.complete(world.now, BrokerHeartbeatResponse(is_fenced=True))
    assert world.broker.is_fenced
    assert world.broker.is_serving
    request, heartbeat = world.asked(BrokerHeartbeatRequest, after=SECOND // 5)
    assert not heartbeat.want_fence
    request.complete(world.now, BrokerHeartbeatResponse(is_fenced=False))
    assert not world.broker.is_fenced


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_a_registration_that_is_gone_is_made_again_by_the_same_incarnation(world: World, error: ErrorCode) -> None:
    request, _ = world.asked(BrokerHeartbeatRequest, after=2 * SECOND)
    before = world.broker.lifecycle.incarnation_id
    request.complete(world.now, BrokerHeartbeatResponse(error_code=int(error)))
    _, message = world.asked(BrokerRegistrationRequest)
    assert message.incarnation_id == before


def test_a_duplicate_waits_for_the_other_session_to_end_but_not_for_ever() -> None:
    """BL-05."""
    world = World()
    request, _ = world.asked(BrokerRegistrationRequest)
    request.complete(world.now, DUPLICATE)
    request, _ = world.asked(BrokerRegistrationRequest, after=SECOND)
    world.now += world.config.registration_timeout
    with pytest.raises(RegistrationRefused, match=r"node\.id=1: .*DUPLICATE_BROKER_REGISTRATION"):
        request.complete(world.now, DUPLICATE)


def test_another_cluster_refuses_at_once() -> None:
    world = World()
    request, _ = world.asked(BrokerRegistrationRequest)
    with pytest.raises(RegistrationRefused, match="INCONSISTENT_CLUSTER_ID"):
        request.complete(world.now, BrokerRegistrationResponse(error_code=int(ErrorCode.INCONSISTENT_CLUSTER_ID)))


DUPLICATE = BrokerRegistrationResponse(error_code=int(ErrorCode.DUPLICATE_BROKER_REGISTRATION))


@pytest.mark.parametrize(("response", "epoch"), [(BrokerRegistrationResponse(broker_epoch=5), 5), (DUPLICATE, -1)])
def test_a_stop_waits_for_the_outcome_of_a_registration_that_is_under_way(
    response: BrokerRegistrationResponse, epoch: int
) -> None:
    """EL-05: else the marker names an epoch that the controller takes for an unclean stop (seed 502996 of worlds)."""
    world = World()
    lifecycle = world.broker.lifecycle
    request, _ = world.asked(BrokerRegistrationRequest)
    world.broker.begin_shutdown(world.now)
    assert not lifecycle.may_close
    request.complete(world.now, response)
    assert lifecycle.may_close
    assert lifecycle.clean_epoch == epoch


@pytest.mark.parametrize("stops_first", [True, False])
@pytest.mark.parametrize(
    "response", [None, BrokerRegistrationResponse(error_code=int(ErrorCode.NOT_CONTROLLER))], ids=["none", "resigned"]
)
def test_a_stop_asks_again_where_the_outcome_of_a_registration_is_unknown(
    stops_first: bool, response: BrokerRegistrationResponse | None
) -> None:
    """EL-05: the controller resigned after it had written the registration, which its successor committed."""
    world = World()
    lifecycle = world.broker.lifecycle
    request, _ = world.asked(BrokerRegistrationRequest)
    if stops_first:
        world.broker.begin_shutdown(world.now)
    request.complete(world.now, response)
    if not stops_first:
        world.broker.begin_shutdown(world.now)
    assert not lifecycle.may_close
    request, again = world.asked(BrokerRegistrationRequest, after=SECOND // 4)
    assert again.incarnation_id == lifecycle.incarnation_id
    request.complete(world.now, BrokerRegistrationResponse(broker_epoch=5))
    assert lifecycle.may_close and lifecycle.clean_epoch == 5


def test_it_waits_a_second_at_most() -> None:
    world = World()
    world.asked(BrokerRegistrationRequest)
    world.broker.begin_shutdown(world.now)
    world.run(SECOND - 1)
    assert not world.broker.lifecycle.may_close
    assert world.broker.lifecycle.deadline() == world.now + 1
    world.run(1)
    assert world.broker.lifecycle.may_close

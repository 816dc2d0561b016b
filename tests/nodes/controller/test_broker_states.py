"""A broker's states at the controller and what leads from one to another (BL-07), as a table; detection of failures by
a new controller and under skewed clocks (FD-04, FD-05); forgetting a broker (UnregisterBroker).

The reference is Kafka's `BrokerControlState`: FENCED, UNFENCED, CONTROLLED_SHUTDOWN and SHUTDOWN_NOW. The last is no
state that lasts here: it is the answer to the heartbeat that fences the broker.
"""

from __future__ import annotations

from typing import Any

import pytest

from squall.nodes.controller.controller import QuorumController
from squall.nodes.metadata.records import UnregisterBrokerRecord
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.nodes.controller.conftest import MIN_ISR_2, Controller

FENCED, UNFENCED, STOPPING = "FENCED", "UNFENCED", "CONTROLLED_SHUTDOWN"


def state(controller: Any, broker: int = 1) -> str:
    found = controller.image.brokers[broker]
    return FENCED if found.fenced else STOPPING if found.in_controlled_shutdown else UNFENCED


def brought_to(kind: str, *, leads: bool) -> Controller:
    """Broker 1 in a state; 2 and 3 are up and know of everything."""
    controller = Controller()
    controller.bring_up(1, 2, 3)
    controller.create_topic(assignment={0: [1, 2, 3] if leads or kind == STOPPING else [2, 1, 3]})
    if kind == STOPPING:
        controller.heartbeat(1, want_shut_down=True)
        if not leads:
            controller.heartbeat(1, want_shut_down=True)
            controller.heartbeat(2)
            controller.heartbeat(3)
    elif kind == FENCED:
        controller.fence(1)
    assert state(controller) == kind
    return controller


# wants: "run" is a heartbeat of a broker that has caught up, "fence" asks to be fenced, "stop" to stop;
# "behind" has not applied its own registration; "silence" is the end of its session
TABLE = [
    # from      leads  wants      to        may stop
    (FENCED,   False, "run",     UNFENCED, False),
    (FENCED,   False, "behind",  FENCED,   False),
    (FENCED,   False, "fence",   FENCED,   False),
    (FENCED,   False, "stop",    FENCED,   True),
    (UNFENCED, False, "run",     UNFENCED, False),
    (UNFENCED, True,  "run",     UNFENCED, False),
    (UNFENCED, False, "fence",   FENCED,   False),
    (UNFENCED, True,  "fence",   FENCED,   False),
    (UNFENCED, False, "stop",    FENCED,   True),
    (UNFENCED, True,  "stop",    STOPPING, False),
    (UNFENCED, True,  "silence", FENCED,   None),
    (STOPPING, True,  "stop",    STOPPING, False),
    (STOPPING, False, "stop",    FENCED,   True),
    (STOPPING, True,  "fence",   FENCED,   False),
    (STOPPING, True,  "run",     STOPPING, False),
    (STOPPING, True,  "silence", FENCED,   None),
]  # fmt: skip
"""`leads` for a stopping broker: whether everybody knows of its last leadership's end yet (it may not go before)."""


@pytest.mark.parametrize(("before", "leads", "wants", "after", "may_stop"), TABLE)
def test_the_table_of_states(before: str, leads: bool, wants: str, after: str, may_stop: bool | None) -> None:
    controller = brought_to(before, leads=leads)
    if wants == "silence":
        controller.live_on(10, 2, 3)
    else:
        wishes = {"fence": {"want_fence": True}, "stop": {"want_shut_down": True}}.get(wants, {})
        offset = controller.image.brokers[1].epoch - 1 if wants == "behind" else None
        answer = controller.heartbeat(1, offset=offset, **wishes)
        assert (answer.error_code, answer.should_shut_down) == (ErrorCode.NONE, may_stop)
        assert answer.is_fenced == (after == FENCED)
    assert state(controller) == after
    assert (controller.partition().leader == 1) <= (after == UNFENCED), "who leads is unfenced (KIP-841)"


def test_every_state_and_every_wish_is_in_the_table() -> None:
    assert {(before, wants) for before, _, wants, _, _ in TABLE} >= {
        (before, wants) for before in (FENCED, UNFENCED, STOPPING) for wants in ("run", "fence", "stop")
    }


# -- FD-04, FD-05 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("silent_for", [0, 4, 8])
def test_a_new_controller_fences_silent_brokers_after_one_session(controller: Any, silent_for: int) -> None:
    """FD-04: what the old one knew of sessions is gone, so the outage may last up to one session longer, never less."""
    controller.live_on(silent_for, 2, 3)
    controller.start()
    active_at = controller.now
    for _ in range(8):
        controller.live_on(2, 2, 3)
        silent = controller.now - active_at
        assert state(controller) == (FENCED if silent >= controller.config.session_timeout else UNFENCED)
    assert [state(controller, broker) for broker in (2, 3)] == [UNFENCED, UNFENCED], "no false fence"


def test_failovers_one_after_the_other_fence_nobody_who_is_heard(controller: Any) -> None:
    """FD-04: each new controller gives everybody a whole session."""
    for _ in range(6):
        controller.live_on(4, 1, 2)
        controller.start()
    assert [state(controller, broker) for broker in (1, 2, 3)] == [UNFENCED] * 3


@pytest.mark.parametrize("skew_ms", [3_600_000, -3_600_000])
def test_jumps_of_the_wall_clock_fence_nobody(controller: Any, skew_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """FD-05: sessions are of monotonic time."""
    before = controller.raft.end_offset
    for jump in range(10):
        monkeypatch.setattr("tests.nodes.controller.conftest.Clock.now_ms", lambda _, jump=jump: 1_000 + jump * skew_ms)
        controller.live_on(2, 1, 2, 3)
    assert controller.records(before) == []
    assert [state(controller, broker) for broker in (1, 2, 3)] == [UNFENCED] * 3


def test_the_controller_has_no_wall_clock_at_all() -> None:
    """FD-05: nothing it decides can depend on one."""
    assert "clock" not in QuorumController.__init__.__annotations__


# -- UnregisterBroker --------------------------------------------------------------------------------------------------


def unregister(controller: Any, broker: int) -> Any:
    return controller.ask(UnregisterBrokerRequest(broker))


def test_a_broker_that_is_gone_for_good_is_forgotten_and_leads_and_holds_nothing(durable: Any) -> None:
    before = durable.raft.end_offset
    assert unregister(durable, 1).error_code == ErrorCode.NONE
    assert 1 not in durable.image.brokers
    assert (durable.partition().leader, durable.partition().isr, durable.partition().replicas) == (
        2, (2, 3), (1, 2, 3),
    )  # fmt: skip
    assert isinstance(durable.records(before)[-1], UnregisterBrokerRecord), "out of everything first"
    durable.live_on(30, 2, 3)
    assert 1 not in durable.image.brokers


def test_who_was_forgotten_is_not_eligible_when_it_returns(make_controller: Any) -> None:
    """EL-05: with the registration went the proof of how the last incarnation ended."""
    controller = make_controller()
    controller.bring_up(1, 2, 3)
    controller.create_topic(assignment={0: [1, 2, 3]}, configs=MIN_ISR_2)
    controller.fence(2, 1)
    assert controller.partition().elr == (1,)
    assert unregister(controller, 1).error_code == ErrorCode.NONE
    assert controller.partition().elr == ()
    controller.fence(3)
    controller.bring_up(1)
    assert controller.partition().leader != 1


def test_a_broker_that_is_not_registered_cannot_be_forgotten(controller: Any) -> None:
    answer = unregister(controller, 9)
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert "9" in answer.error_message


def test_one_that_is_forgotten_while_it_lives_is_told_and_registers_anew(controller: Any) -> None:
    epoch = controller.image.brokers[1].epoch
    unregister(controller, 1)
    assert controller.heartbeat(1, epoch=epoch).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert controller.register(1).broker_epoch > epoch

"""CS-04 as the observer asserts it of brokers that stop: by leave, or after a time, or unregistered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.brokers.stopped_brokers import StoppedBrokers
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from squall.nodes.protocol.requests.session import Answer, ServerRequest

ASKED, PATIENCE_MS = 1_000_000, 8_000


class Broker:
    """Broker 1 of epoch 7, which has asked to stop at second 1."""

    def __init__(
        self, *, asks: bool = True, due_ms: int = PATIENCE_MS, hears: bool = False, has_asked: bool = False
    ) -> None:
        """`due_ms` after SIGTERM, it asks its controller, or gives up.

        `hears`: an answer, or the end of its connection to a controller, comes then. `has_asked`: a request was under
        way when SIGTERM came.
        """
        cluster: Any = SimpleNamespace(names={1: "b1"}, processes={})
        self.rule = StoppedBrokers(cluster)
        self.due = ASKED + PATIENCE_MS * 1000 if has_asked else ASKED
        """What the broker names as the time of its next action; at once, when SIGTERM has come."""
        self.lifecycle = SimpleNamespace(deadline=lambda: self.due, is_pending_shutdown=True, may_close=False)
        self.node: Any = SimpleNamespace(
            config=SimpleNamespace(controlled_shutdown_timeout_ms=PATIENCE_MS, node_id=1),
            broker=SimpleNamespace(lifecycle=self.lifecycle),
        )
        inputs = [(None, (-3 if hears else 3, b""))]
        self.process: Any = SimpleNamespace(
            name="b1", now=ASKED, last_inputs=inputs, node=self.node, told_to_stop_at=None
        )
        cluster.processes["b1"] = self.process
        self._next = ASKED + due_ms * 1000
        if asks:
            self.traces("broker_stopping")

    def traces(self, name: str, *, now: int = ASKED, epoch: int = 7, **fields: bool) -> None:
        self.rule.traced(name, {"broker": 1, "epoch": epoch, **fields})
        self.process.now, self.due = now, self._next
        self.rule.turned(self.process, self.node)

    def is_told(self, *, epoch: int = 7, error: int = 0, leave: bool = False) -> Broker:
        asked = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, want_shut_down=True)
        request = ServerRequest(int(ApiKey.BROKER_HEARTBEAT), 1, asked, "node-1", "CONTROLLER", 5, 0)
        request.answer = Answer(response=BrokerHeartbeatResponse(error_code=error, should_shut_down=leave))
        self.rule.answered(self.process, self.node, request)
        return self

    def stops(self, *, granted: bool = False, after_ms: int = 10) -> None:
        self.traces("broker_shuts_down", now=ASKED + after_ms * 1000, granted=granted)


def test_a_broker_stops_by_leave() -> None:
    Broker().is_told(leave=True).stops(granted=True)


@pytest.mark.parametrize("told", [{}, {"leave": True, "epoch": 6}, {"leave": True, "error": 41}])
def test_leave_that_nobody_gave_is_none(told: dict[str, Any]) -> None:
    with pytest.raises(InvariantBroken, match=r"^CS-04: broker 1 of epoch 7 stops as if by leave, and has none"):
        Broker().is_told(**told).stops(granted=True)


@pytest.mark.parametrize("error", [0, ErrorCode.NOT_CONTROLLER])
def test_a_broker_that_waits_does_not_stop(error: int) -> None:
    with pytest.raises(InvariantBroken, match=r"^CS-04: broker 1 of epoch 7 has asked to stop, and stops before"):
        Broker().is_told(error=error).stops()


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_one_that_is_not_registered_any_more_need_not_wait(error: int) -> None:
    Broker().is_told(error=error).stops()


def test_its_patience_may_be_over() -> None:
    Broker().stops(after_ms=PATIENCE_MS)


def test_a_broker_that_waits_for_its_next_heartbeat_breaks_it() -> None:
    with pytest.raises(InvariantBroken, match=r"^CS-04: b1 got SIGTERM, and waits 400 ms before it asks for leave"):
        Broker(due_ms=400)


def test_an_answer_that_comes_at_that_moment_may_say_when_it_asks_next() -> None:
    Broker(due_ms=400, hears=True)


def test_so_may_the_end_of_an_earlier_request() -> None:
    broker = Broker(asks=False, due_ms=400)
    broker.rule.traced("request_expired", {"client": "node-1", "to": 3, "api": 63, "sent": 0})
    broker.traces("broker_stopping")


def test_a_request_that_was_under_way_before_may_end_then_unsent() -> None:
    """Seed 1023938 of worlds: it waited for a connection, and its time was over."""
    Broker(due_ms=400, has_asked=True)


def test_what_another_broker_does_next_says_nothing() -> None:
    """SIGTERM comes between two turns, and the next turn may be that of another broker."""
    broker = Broker(asks=False, due_ms=400)
    broker.node.config.node_id = 2
    broker.traces("broker_stopping")


def test_its_next_incarnation_got_no_sigterm() -> None:
    broker = Broker(asks=False, due_ms=400)
    broker.node.broker.lifecycle.is_pending_shutdown = False
    broker.traces("broker_stopping")


def test_a_broker_that_asks_at_once_is_sound() -> None:
    Broker(due_ms=0)


def test_one_that_never_asked_needs_no_leave() -> None:
    Broker(asks=False).stops()


def test_what_was_traced_in_a_turn_in_which_the_process_died_is_forgotten() -> None:
    broker = Broker()
    broker.rule.traced("broker_shuts_down", {"broker": 1, "epoch": 7, "granted": False})
    broker.rule.died(broker.process)
    broker.rule.turned(broker.process, broker.node)


# -- the next incarnation ------------------------------------------------------------------------------------------


def registers(broker: Broker, error: ErrorCode, *, fenced: bool = True, epoch: int = -1) -> None:
    """The next incarnation of the broker registers, while the last one is registered with epoch 7."""
    known = SimpleNamespace(id=1, epoch=7, fenced=fenced)
    broker.node.controller = SimpleNamespace(image=SimpleNamespace(brokers={1: known}))
    asked = BrokerRegistrationRequest(broker_id=1, incarnation_id=bytes(16))
    request = ServerRequest(int(ApiKey.BROKER_REGISTRATION), 1, asked, "node-1", "CONTROLLER", 5, 0)
    request.answer = Answer(response=BrokerRegistrationResponse(error_code=error, broker_epoch=epoch))
    broker.rule.answered(broker.process, broker.node, request)


def is_heard(broker: Broker, *, want_shut_down: bool) -> None:
    asked = BrokerHeartbeatRequest(broker_id=1, broker_epoch=7, want_shut_down=want_shut_down)
    request = ServerRequest(int(ApiKey.BROKER_HEARTBEAT), 1, asked, "node-1", "CONTROLLER", 5, 0)
    request.answer = Answer(response=BrokerHeartbeatResponse(should_shut_down=want_shut_down))
    broker.rule.answered(broker.process, broker.node, request)


def test_a_controller_that_keeps_the_session_of_a_stopped_broker_breaks_cs_04() -> None:
    broker = Broker().is_told(leave=True)
    is_heard(broker, want_shut_down=True)
    with pytest.raises(InvariantBroken, match=r"^CS-04: controller b1 refuses .* of broker 1 .* epoch 7 to"):
        registers(broker, ErrorCode.DUPLICATE_BROKER_REGISTRATION)


def test_a_broker_that_was_allowed_to_stop_registers_at_once() -> None:
    registers(Broker().is_told(leave=True), ErrorCode.NONE, epoch=9)


@pytest.mark.parametrize("leave", [False, True], ids=["not allowed to stop", "fenced in no record yet"])
def test_a_broker_that_may_still_run_is_not_replaced(leave: bool) -> None:
    registers(Broker().is_told(leave=leave), ErrorCode.DUPLICATE_BROKER_REGISTRATION, fenced=not leave)


@pytest.mark.parametrize("by", ["a heartbeat", "a registration"])
def test_a_message_that_is_served_late_begins_another_session(by: str) -> None:
    broker = Broker().is_told(leave=True)
    if by == "a heartbeat":
        is_heard(broker, want_shut_down=False)
    else:
        registers(broker, ErrorCode.NONE, epoch=7)
    registers(broker, ErrorCode.DUPLICATE_BROKER_REGISTRATION)


# -- it ends ------------------------------------------------------------------------------------------------------


def was_told_to_stop(*, after_ms: int, names_ms: int, patience_ms: int = PATIENCE_MS) -> Broker:
    """Broker 1 takes a turn so long after SIGTERM, and names a time so long after it."""
    broker = Broker(asks=False)
    broker.node.config.controlled_shutdown_timeout_ms = patience_ms
    broker.process.told_to_stop_at = ASKED
    broker.process.now, broker.due = ASKED + after_ms * 1000, ASKED + names_ms * 1000
    return broker


@pytest.mark.parametrize(
    ("after_ms", "names_ms", "patience_ms"),
    [(0, PATIENCE_MS, PATIENCE_MS), (PATIENCE_MS, 0, PATIENCE_MS), (1_000, 1_000, 10)],
)
def test_a_broker_may_take_its_time_to_stop(after_ms: int, names_ms: int, patience_ms: int) -> None:
    """A second, if it does not know whether it is registered."""
    broker = was_told_to_stop(after_ms=after_ms, names_ms=names_ms, patience_ms=patience_ms)
    broker.rule.turned(broker.process, broker.node)


@pytest.mark.parametrize(("after_ms", "names_ms"), [(0, PATIENCE_MS + 1), (PATIENCE_MS + 1, 0), (0, 1 << 60)])
def test_one_that_takes_longer_breaks_cs_04_unless_it_is_ready_to_close(after_ms: int, names_ms: int) -> None:
    broker = was_told_to_stop(after_ms=after_ms, names_ms=names_ms)
    broker.lifecycle.may_close = True
    broker.rule.turned(broker.process, broker.node)
    broker.lifecycle.may_close = False
    with pytest.raises(InvariantBroken, match=r"^CS-04: b1 got SIGTERM \d+ ms ago, .* 8000 ms are the most$"):
        broker.rule.turned(broker.process, broker.node)

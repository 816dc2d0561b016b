"""QC-21 as the observer asserts it: the active controller answers when what the answer may depend on is committed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.quorum.controller_answers import ControllerAnswers
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.controller.error_responses import not_controller
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.schema import Message


class Watched:
    """C1 is the active controller; its log and its image end at 10, and all of that is committed."""

    def __init__(self) -> None:
        self.rule = ControllerAnswers(None)  # type: ignore[arg-type]
        controller = SimpleNamespace(
            image=SimpleNamespace(last_offset=9), is_active=True, api_keys=(int(ApiKey.BROKER_HEARTBEAT),)
        )
        raft = SimpleNamespace(epoch=3, high_watermark=10)
        config = SimpleNamespace(control_listeners=[SimpleNamespace(listener="CONTROLLER")])
        self.node: Any = SimpleNamespace(controller=controller, raft=raft, config=config)
        self.process: Any = SimpleNamespace(name="c1", incarnation=1, now=0)
        self.turn(0)

    def turn(self, now: int, *, end: int | None = None, committed: int | None = None) -> None:
        self.process.now = now
        if end is not None:
            self.node.controller.image.last_offset = end - 1
        if committed is not None:
            self.node.raft.high_watermark = committed
        self.rule.turned(self.process, self.node)

    def answers(self, received_at: int, *, listener: str = "CONTROLLER", response: Message | None = None) -> None:
        request = ServerRequest(
            int(ApiKey.BROKER_HEARTBEAT), 1, BrokerHeartbeatRequest(), "node-1", listener, 5, received_at
        )
        request.answer = Answer(response=response or BrokerHeartbeatResponse())
        self.rule.answered(self.process, self.node, request)


def test_an_answer_that_does_not_wait_for_what_was_written_before_breaks_qc_21() -> None:
    watched = Watched()
    watched.turn(100, end=12)
    with pytest.raises(InvariantBroken, match=r"^QC-21: c1 answers BROKER_HEARTBEAT of node-1, and all below 12,"):
        watched.answers(200)


def test_an_answer_may_leave_in_the_turn_in_which_all_of_that_is_committed() -> None:
    watched = Watched()
    watched.turn(100, end=12)
    watched.node.raft.high_watermark = 12
    watched.answers(200)


def test_what_is_written_after_a_request_has_arrived_does_not_count() -> None:
    watched = Watched()
    watched.turn(100, end=12)
    watched.answers(100)
    watched.turn(300, committed=12)
    watched.turn(400, end=14)
    watched.answers(350)


def test_records_of_the_quorum_itself_do_not_count() -> None:
    """Seeds 970058 and 970063 of worlds: its voters are in the log, and the controller's image does not reach them."""
    watched = Watched()
    watched.node.raft.end_offset = 11
    watched.turn(100)
    watched.answers(200)


def test_not_controller_depends_on_nothing() -> None:
    watched = Watched()
    watched.turn(100, end=12)
    request = ServerRequest(int(ApiKey.BROKER_HEARTBEAT), 1, BrokerHeartbeatRequest(), "node-1", "CONTROLLER", 5, 200)
    watched.answers(200, response=not_controller(request))


def test_a_controller_that_is_not_active_any_more_may_answer() -> None:
    watched = Watched()
    watched.turn(100, end=12)
    watched.node.controller.is_active = False
    watched.answers(200)
    watched.node.controller.is_active = True
    watched.node.raft.epoch = 4
    watched.answers(200)


def test_a_request_that_a_combined_node_gets_as_a_broker_is_not_meant() -> None:
    watched = Watched()
    watched.turn(100, end=12)
    watched.answers(200, listener="PLAINTEXT")


def test_the_next_process_has_written_nothing_yet() -> None:
    watched = Watched()
    watched.turn(100, end=12)
    watched.rule.died(watched.process)
    watched.answers(200)

"""CS-04 as the observer asserts it of heartbeats.

A broker that was told to shut down stays fenced; one that may shut down does not wait; none reports too much.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.brokers.controlled_shutdown import ControlledShutdown
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.requests.session import Answer, ServerRequest


class Controller:
    """Its image ends at offset 10, and it has answered a heartbeat of broker 1, of epoch 7, with these fields."""

    def __init__(self, **told: Any) -> None:
        self.images = SimpleNamespace(newest_image=None)
        self.rule = ControlledShutdown(
            SimpleNamespace(images=self.images, running=lambda broker: None)  # type: ignore[arg-type]
        )
        asked = BrokerHeartbeatRequest(broker_id=1, broker_epoch=7, want_shut_down=True)
        request = ServerRequest(int(ApiKey.BROKER_HEARTBEAT), 1, asked, "node-1", "CONTROLLER", 5, 0)
        request.answer = Answer(response=BrokerHeartbeatResponse(is_fenced=True, **told))
        image = SimpleNamespace(last_offset=10, brokers={})
        decides = SimpleNamespace(image=image, reported_offsets={})
        node: Any = SimpleNamespace(controller=decides, raft=SimpleNamespace(epoch=5))
        process: Any = SimpleNamespace(name="c1", incarnation=1, now=0)
        self.rule.answered(process, node, request)

    def decides(self, offset: int, *, epoch: int = 7, fenced: bool) -> None:
        broker = SimpleNamespace(epoch=epoch, fenced=fenced)
        self.images.newest_image = SimpleNamespace(last_offset=offset, brokers={1: broker})
        self.rule.images_examined(SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]


def test_a_broker_that_was_told_to_stop_is_not_unfenced() -> None:
    controller = Controller(should_shut_down=True)
    controller.decides(10, fenced=True)
    with pytest.raises(InvariantBroken, match=r"^CS-04: broker 1 of epoch 7 was told to shut down, .* at offset 11 "):
        controller.decides(11, fenced=False)


def test_an_image_from_before_the_decision_may_have_it_unfenced() -> None:
    Controller(should_shut_down=True).decides(9, fenced=False)


def test_its_next_incarnation_is() -> None:
    Controller(should_shut_down=True).decides(11, epoch=12, fenced=False)


@pytest.mark.parametrize("told", [{}, {"should_shut_down": True, "error_code": 41}])
def test_one_that_was_not_told_so_may_be(told: dict[str, Any]) -> None:
    Controller(**told).decides(11, fenced=False)


# -- who waits ------------------------------------------------------------------------------------------------------


class Waiting:
    """Broker 1, of epoch 7, is marked as stopping and leads nothing; brokers 2 and 3 are active."""

    def __init__(self) -> None:
        self.brokers = {
            1: SimpleNamespace(id=1, epoch=7, active=False, in_controlled_shutdown=True),
            2: SimpleNamespace(id=2, epoch=8, active=True),
            3: SimpleNamespace(id=3, epoch=9, active=True),
        }
        self.image = SimpleNamespace(last_offset=10, brokers=self.brokers, topics={})
        self.applied = {2: 99, 3: 99}
        self.reported: dict[int, int] = {}
        self.requests: list[Any] = []
        self.node: Any = SimpleNamespace(
            controller=SimpleNamespace(image=self.image, reported_offsets=self.reported),
            raft=SimpleNamespace(epoch=5),
            connections=SimpleNamespace(unanswered=lambda: iter(self.requests)),
        )
        self.process: Any = SimpleNamespace(name="c1", incarnation=1, now=0)
        self.rule = ControlledShutdown(SimpleNamespace(running=self._running))  # type: ignore[arg-type]

    def _running(self, number: int) -> Any:
        if number not in self.applied:
            return None
        lifecycle = SimpleNamespace(epoch=self.brokers[number].epoch)
        return SimpleNamespace(broker=SimpleNamespace(lifecycle=lifecycle, applied_offset=self.applied[number]))

    def answers(self, at: int, broker: int, applied: int = 10, *, stops: bool = False, arrived: int = -1) -> None:
        self.rule.turned(self.process, self.node)
        self.answers_in_that_turn(at, broker, applied, stops=stops, arrived=arrived)

    def answers_in_that_turn(
        self, at: int, broker: int, applied: int = 10, *, stops: bool = False, arrived: int = -1
    ) -> None:
        self.process.now = at
        asked = BrokerHeartbeatRequest(broker, self.brokers[broker].epoch, applied, want_shut_down=stops)
        received = at if arrived < 0 else arrived
        request = ServerRequest(int(ApiKey.BROKER_HEARTBEAT), 1, asked, f"node-{broker}", "CONTROLLER", 5, received)
        request.answer = Answer(response=BrokerHeartbeatResponse())
        self.rule.answered(self.process, self.node, request)


def test_a_broker_does_not_wait_once_all_active_brokers_know_that_it_leads_nothing() -> None:
    waiting = Waiting()
    waiting.answers(0, 1, stops=True)
    waiting.answers(1, 1, stops=True)
    waiting.answers(2, 2)
    waiting.answers(3, 3)
    with pytest.raises(InvariantBroken, match=r"^CS-04: c1 lets broker 1 wait, which led nothing when .* ended at 10;"):
        waiting.answers(4, 1, stops=True)


def test_the_wait_that_had_it_marked_settles_nothing_yet() -> None:
    waiting = Waiting()
    waiting.answers(1, 1, stops=True)
    waiting.answers(2, 2)
    waiting.answers(3, 3)
    waiting.answers(4, 1, stops=True)


def test_it_waits_while_one_of_them_has_not_said_so() -> None:
    waiting = Waiting()
    waiting.answers(0, 1, stops=True)
    waiting.answers(1, 1, stops=True)
    waiting.answers(2, 2)
    waiting.answers(3, 3, applied=9)
    waiting.answers(4, 1, stops=True)


def test_it_waits_while_it_leads_something() -> None:
    waiting = Waiting()
    partition = SimpleNamespace(leader=1)
    waiting.image.topics = {b"t": SimpleNamespace(partitions={0: partition}, of_broker=lambda broker: [0])}
    for time, broker in enumerate((1, 2, 3, 1)):
        waiting.answers(time, broker, stops=broker == 1)


def test_an_answer_that_waited_to_be_committed_was_decided_before() -> None:
    waiting = Waiting()
    waiting.answers(0, 1, stops=True)
    waiting.answers(1, 1, stops=True)
    waiting.answers(2, 2)
    waiting.answers(3, 3)
    waiting.answers(4, 1, stops=True, arrived=2)


def test_what_another_request_of_the_turn_has_changed_was_not_known() -> None:
    """Seed 153 of worlds: broker 3, which had reported nothing, registers anew, and is active no more."""
    waiting = Waiting()
    waiting.answers(0, 1, stops=True)
    waiting.answers(1, 1, stops=True)
    waiting.answers(2, 2)
    waiting.rule.turned(waiting.process, waiting.node)
    waiting.brokers[3].active = False
    waiting.image.last_offset += 1
    waiting.answers_in_that_turn(4, 1, stops=True)


def test_another_controller_has_heard_nothing_yet() -> None:
    waiting = Waiting()
    waiting.answers(0, 1, stops=True)
    waiting.answers(1, 1, stops=True)
    waiting.answers(2, 2)
    waiting.answers(3, 3)
    waiting.node.raft.epoch = 6
    waiting.answers(4, 1, stops=True)


def test_a_broker_reports_no_more_than_it_has_applied() -> None:
    waiting = Waiting()
    waiting.applied[2] = 9
    with pytest.raises(InvariantBroken, match=r"^CS-04: broker 2 reports .* up to 10, and has up to 9"):
        waiting.answers(1, 2, applied=10)
    waiting.answers(1, 2, applied=9)


def test_an_earlier_incarnation_may_have_applied_more() -> None:
    waiting = Waiting()
    waiting.answers(1, 2, applied=10)
    del waiting.applied[2]
    waiting.answers(2, 2, applied=10)


def test_a_new_controller_does_not_know_what_brokers_told_it_in_an_earlier_epoch() -> None:
    waiting = Waiting()
    waiting.answers(1, 2)
    waiting.reported[2] = 10
    waiting.answers(2, 3)
    waiting.node.raft.epoch = 6
    with pytest.raises(InvariantBroken, match=r"^CS-04: controller c1 of epoch 6 has noted in .* brokers \[2\] have"):
        waiting.rule.turned(waiting.process, waiting.node)


@pytest.mark.parametrize("answered", [True, False])
def test_what_a_broker_tells_it_in_its_first_turn_it_knows(answered: bool) -> None:
    """Whether that heartbeat is answered at once, or waits for a record to be committed."""
    waiting = Waiting()
    waiting.reported[2] = 10
    if answered:
        waiting.answers_in_that_turn(1, 2)
    else:
        waiting.requests = [SimpleNamespace(request=None), SimpleNamespace(request=SimpleNamespace(body=object()))]
        waiting.requests.append(SimpleNamespace(request=SimpleNamespace(body=BrokerHeartbeatRequest(2, 8, 10))))
    waiting.rule.turned(waiting.process, waiting.node)


def test_a_node_that_is_no_active_controller_may_remember_anything() -> None:
    waiting = Waiting()
    waiting.reported[2] = 10
    waiting.node.controller.image = None
    waiting.rule.turned(waiting.process, waiting.node)


def test_what_the_controller_has_noted_of_a_broker_it_has_applied() -> None:
    """Also of a broker that registered again since, of which only the new incarnation counts."""
    waiting = Waiting()
    waiting.answers(1, 3)
    waiting.applied[2], waiting.reported[2] = 9, 10
    with pytest.raises(InvariantBroken, match=r"^CS-04: broker 2 reports .* up to 10, and has up to 9"):
        waiting.answers(2, 3)
    del waiting.applied[2]
    waiting.answers(3, 3)
    del waiting.brokers[2]
    waiting.answers(4, 3)

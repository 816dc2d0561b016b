"""CS-04 after the permission: a broker that was told to shut down stays fenced."""

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
        self.rule = ControlledShutdown(SimpleNamespace(images=self.images))  # type: ignore[arg-type]
        asked = BrokerHeartbeatRequest(broker_id=1, broker_epoch=7, want_shut_down=True)
        request = ServerRequest(int(ApiKey.BROKER_HEARTBEAT), 1, asked, "node-1", "CONTROLLER", 5, 0)
        request.answer = Answer(response=BrokerHeartbeatResponse(is_fenced=True, **told))
        node = SimpleNamespace(controller=SimpleNamespace(image=SimpleNamespace(last_offset=10)))
        self.rule.answered(SimpleNamespace(), node, request)  # type: ignore[arg-type]

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

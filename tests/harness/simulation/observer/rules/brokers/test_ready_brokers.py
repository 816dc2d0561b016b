"""BL-02 as the observer asserts it: a broker asks to be unfenced when it has read its registration, and at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.brokers.ready_brokers import ReadyBrokers
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import NEVER
from squall.nodes.broker.lifecycle import IMPATIENT_INTERVAL
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from squall.nodes.protocol.requests.session import ServerRequest

EPOCH = 40


def asks(*, read: int, epoch: int = EPOCH, want_fence: bool = False, broker: int = 1, runs: bool = True) -> None:
    """A heartbeat of broker 1 arrives, which is now registered with `EPOCH` and has read up to an offset."""
    sender = SimpleNamespace(
        broker=SimpleNamespace(lifecycle=SimpleNamespace(epoch=EPOCH), image=SimpleNamespace(last_offset=read))
    )
    cluster: Any = SimpleNamespace(names={1: "b1"}, running=lambda number: sender if runs else None)
    heartbeat = BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch, want_fence=want_fence)
    request = ServerRequest(int(ApiKey.BROKER_HEARTBEAT), 1, heartbeat, "node-1", "CONTROLLER", 5, 0)
    controller: Any = SimpleNamespace()
    ReadyBrokers(cluster).answered(controller, controller, request)


def test_a_broker_that_has_read_its_registration_asks_to_be_unfenced() -> None:
    asks(read=EPOCH)


def test_one_that_has_not_breaks_it() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^BL-02: broker 1 of epoch 40 wants to be unfenced, and has read .* 39$"
    ):
        asks(read=EPOCH - 1)


def test_it_may_ask_to_stay_fenced() -> None:
    asks(read=-1, want_fence=True)


@pytest.mark.parametrize("other", [{"epoch": 30}, {"broker": 2}, {"runs": False}])
def test_of_another_registration_or_a_broker_that_is_gone_nothing_is_known(other: dict[str, Any]) -> None:
    asks(read=-1, **other)


NOW = 1_000_000


def waits(*, until: int, fenced: bool = True, ready: bool = True, stops: bool = False) -> None:
    """A turn of broker 1 has ended, which sends something to the controller at a time."""
    lifecycle = SimpleNamespace(is_fenced=fenced, is_ready=ready, is_pending_shutdown=stops, deadline=lambda: until)
    process: Any = SimpleNamespace(now=NOW)
    node: Any = SimpleNamespace(broker=SimpleNamespace(lifecycle=lifecycle), config=SimpleNamespace(node_id=1))
    ReadyBrokers(SimpleNamespace()).turned(process, node)  # type: ignore[arg-type]


def test_a_fenced_broker_that_is_ready_asks_soon() -> None:
    waits(until=NOW)
    waits(until=NOW + IMPATIENT_INTERVAL)


def test_one_that_waits_longer_breaks_it() -> None:
    with pytest.raises(InvariantBroken, match=r"^BL-02: broker 1 is fenced and ready, and asks .* in 100001 µs$"):
        waits(until=NOW + IMPATIENT_INTERVAL + 1)


def test_a_broker_whose_heartbeat_is_under_way_or_that_stops_may_wait() -> None:
    waits(until=NEVER)
    waits(until=2 * NOW, stops=True)


@pytest.mark.parametrize("state", [{"fenced": False}, {"ready": False}])
def test_one_that_serves_or_is_not_ready_sends_its_heartbeats_regularly(state: dict[str, Any]) -> None:
    waits(until=3 * NOW, **state)

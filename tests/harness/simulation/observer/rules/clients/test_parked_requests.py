"""PARKED as the observer asserts it: no request waits at a broker for what has happened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients.parked_requests import ParkedRequests
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.messages import ApiKey


def parks(*, in_vain: bool = False, connected: bool = True) -> None:
    """B1 has one Produce parked, and a turn that touched metadata is over."""
    request = SimpleNamespace(api_key=int(ApiKey.PRODUCE), client_id="producer")
    parked = SimpleNamespace(request=request, waits_in_vain=lambda: in_vain)
    unanswered = [SimpleNamespace(request=request)] if connected else []
    node: Any = SimpleNamespace(
        broker=SimpleNamespace(parked=[parked]), connections=SimpleNamespace(unanswered=lambda: unanswered)
    )
    process: Any = SimpleNamespace(name="b1")
    ParkedRequests(None).images_examined(process, node)  # type: ignore[arg-type]


def test_a_request_that_waits_for_something_is_parked() -> None:
    parks()


def test_one_that_has_nothing_to_wait_for_is_answered() -> None:
    with pytest.raises(InvariantBroken, match=r"^PARKED: b1 keeps PRODUCE of producer parked, which has nothing to "):
        parks(in_vain=True)


def test_one_whose_connection_has_ended_is_dropped() -> None:
    with pytest.raises(InvariantBroken, match=r"^PARKED: .* parked, whose connection has ended$"):
        parks(connected=False)


def test_a_node_that_is_no_broker_parks_none() -> None:
    ParkedRequests(None).images_examined(SimpleNamespace(name="c1"), SimpleNamespace(broker=None))  # type: ignore[arg-type]

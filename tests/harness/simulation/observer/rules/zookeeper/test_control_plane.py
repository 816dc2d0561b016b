"""CL-16 as the observer asserts it: nothing waits on the control plane's listener."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from tests.harness.simulation.observer.observed import Cluster


def takes(waited: int, *, separate: bool, dies: bool = False) -> None:
    """B2 takes a controller's request after so many microseconds; it may die in that turn."""
    cluster = Cluster()
    process = cluster.processes["b2"]
    cluster.observer.event("zk_request_taken", node=2, api=4, listener="CONTROLLER", separate=separate, waited=waited)
    process.up = not dies
    cluster.observer.look(process)  # type: ignore[arg-type]
    process.up = True
    cluster.observer.look(process)  # type: ignore[arg-type]


def test_a_request_that_waited_on_the_control_planes_listener_breaks_cl_16() -> None:
    with pytest.raises(InvariantBroken, match=r"^CL-16: broker 2 .* \(API 4\) 70 µs after it came in on CONTROLLER"):
        takes(70, separate=True)


def test_a_request_that_is_taken_in_the_turn_of_its_arrival_is_legal() -> None:
    takes(0, separate=True)


def test_a_request_on_another_listener_may_wait() -> None:
    """CL-21: its controller is not configured with the listener yet."""
    takes(5_000_000, separate=False)


def test_what_a_broker_did_in_the_turn_of_its_death_is_not_judged() -> None:
    takes(70, separate=True, dies=True)

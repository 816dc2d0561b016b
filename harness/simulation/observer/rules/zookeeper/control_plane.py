"""CL-16, CL-17: what comes in on the control plane's listener never waits behind clients' requests (KIP-291).

A broker with `control.plane.listener.name` takes every controller's request from that listener in the turn in which it
arrives, however many requests of clients are in their queue. A request of a controller that arrives before the broker
serves anything, because it is not registered yet, is taken in the first turn in which it does.

Asserted when the request is taken. Legal: requests of a controller that come in on another listener, from a controller
that is not configured with it yet (CL-21); these wait with those of clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.zookeeper.breach_in_turn import BreachInTurn
from squall.harness.simulation.observer.state.observed_log import InvariantBroken


class ControlPlane(BreachInTurn):
    """See the module."""

    events = ("zk_request_taken",)

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if fields["separate"] and fields["waited"] > 0:
            self.raise_after_turn(
                InvariantBroken(
                    "CL-16",
                    f"broker {fields['node']} takes a controller's request (API {fields['api']}) {fields['waited']} µs "
                    f"after it came in on {fields['listener']}, the control plane's listener",
                )
            )

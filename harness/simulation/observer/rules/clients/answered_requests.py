"""ANSWER: in a whole cluster every request is answered in time.

A node may park a request until something happens: records arrive, an ISR catches up, metadata is committed. If it is
never answered, its sender waits until its own time-out, then asks again, and all heals itself, slowly. So the rule is
asserted once faults are over and the cluster is whole, in two ways:

* no request of a node to another, sent since then, expires;
* at the end, no request has waited at a node for longer than `BOUND`, beyond the time that the request itself allows.

Source: requirement FD-01, a healthy cluster serves at once; Kafka's purgatories answer each request once (rule 16).
Legal: a request sent before the cluster was whole, whose receiver may never have got it; a fetch that waits for records
for as long as it asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.nodes.node.channels import Inbound
from squall.nodes.protocol.messages import ApiKey

BOUND = 1 * MICROSECONDS
"""In microseconds. A healthy node answers within milliseconds; the slowest simulated sync takes 80."""


class AnsweredRequests(Rule):
    """See the module."""

    events = ("request_expired",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._whole_since: int | None = None
        self._expired: list[Mapping[str, Any]] = []

    def became_whole(self, now: int) -> None:
        self._whole_since = now

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if self._whole_since is not None and int(fields["sent"]) >= self._whole_since:
            self._expired.append(fields)

    def at_end(self) -> None:
        for fields in self._expired:
            raise InvariantBroken(
                "ANSWER",
                f"{fields['client']} waited for node {fields['to']} to answer {_api(int(fields['api']))} until its "
                f"request expired, in a cluster that was whole",
            )
        for process in self.cluster.processes.values():
            if process.node is not None:
                for inbound in process.node.connections.unanswered():
                    self._check(process.name, inbound, process.now)

    def _check(self, name: str, inbound: Inbound, now: int) -> None:
        if self._whole_since is None:
            return
        waited = now - max(inbound.received_at, self._whole_since) - _allowed(inbound)
        if waited > BOUND:
            request = inbound.request
            api = "a request that is not decoded" if request is None else _api(request.api_key)
            sender = "" if request is None else f" of {request.client_id}"
            raise InvariantBroken(
                "ANSWER",
                f"{name} leaves {api}{sender} unanswered for {(waited + _allowed(inbound)) / MICROSECONDS:.3f} s, "
                f"in a cluster that is whole",
            )


def _allowed(inbound: Inbound) -> int:
    """Return how long the request itself allows to wait, in microseconds."""
    body = None if inbound.request is None else inbound.request.body
    return int(getattr(body, "max_wait_ms", 0)) * 1000


def _api(key: int) -> str:
    return ApiKey(key).name

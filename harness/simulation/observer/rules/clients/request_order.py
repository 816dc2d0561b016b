"""ORDER: a node handles the requests of one connection in the order in which they were sent.

A producer with several batches under way relies on it, and Kafka's protocol promises it. Responses leave in the order
of the requests in any case, so a client does not see that a later request was handled first. Asserted when a request is
answered: every earlier one of its connection has been handled, though it may still wait to be answered.

What a node receives from another is the answer to its oldest request of that connection, and only one: it closes the
connection otherwise, asks again on another, and all that is lost is time. So no node refuses an answer: asserted after
the turn of the node that receives it.

Source: the network protocol of Kafka ("Network"), rule 3. Legal: requests that are parked; those of another connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import ServerRequest


class RequestOrder(Rule):
    """See the module."""

    events = ("answer_refused",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._refused: list[Mapping[str, Any]] = []
        """Answers that were refused in a turn that is not examined yet."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        self._refused.append(fields)

    def died(self, process: SimProcess) -> None:
        self._refused.clear()

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if self._refused:
            raise InvariantBroken(
                "ORDER",
                f"{process.name} closes its connection to node {self._refused[0]['to']}, from which it has received "
                f"{self._refused[0]['why']}",
            )

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        for inbound in node.connections.in_flight(request.connection):
            if inbound.request is request:
                return
            if not inbound.began_at and not inbound.answered:
                raise InvariantBroken(
                    "ORDER",
                    f"{process.name} answers {ApiKey(request.api_key).name} of {request.client_id}, correlation id "
                    f"{request.correlation_id}, and has not handled an earlier request of the same connection yet",
                )

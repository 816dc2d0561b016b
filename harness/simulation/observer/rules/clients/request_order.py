"""ORDER: a node handles the requests of one connection in the order in which they were sent.

A producer with several batches under way relies on it, and Kafka's protocol promises it. Responses leave in the order
of the requests in any case, so a client does not see that a later request was handled first. Asserted when a request is
answered: every earlier one of its connection has been handled, though it may still wait to be answered.

Source: the network protocol of Kafka ("Network"), rule 3. Legal: requests that are parked; those of another connection.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import ServerRequest


class RequestOrder(Rule):
    """See the module."""

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

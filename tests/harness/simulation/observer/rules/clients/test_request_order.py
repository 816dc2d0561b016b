"""ORDER as the observer asserts it: requests of one connection are handled in the order in which they were sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients.request_order import RequestOrder
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchRequest
from squall.nodes.protocol.requests.session import ServerRequest


class Broker:
    """A broker with these requests under way, as (connection, when their handling began or 0)."""

    def __init__(self, *waiting: tuple[int, int]) -> None:
        self.waiting = [
            SimpleNamespace(
                began_at=began_at,
                answered=False,
                request=ServerRequest(
                    int(ApiKey.FETCH), 12, FetchRequest(), "client", "PLAINTEXT", connection, 0, number
                ),
            )
            for number, (connection, began_at) in enumerate(waiting)
        ]
        connections = SimpleNamespace(
            in_flight=lambda connection: [one for one in self.waiting if one.request.connection == connection]
        )
        self.node: Any = SimpleNamespace(connections=connections)

    def answers(self, number: int) -> None:
        process: Any = SimpleNamespace(name="b1")
        RequestOrder(None).answered(process, self.node, self.waiting[number].request)  # type: ignore[arg-type]


def test_a_request_that_is_handled_before_an_earlier_one_breaks_order() -> None:
    with pytest.raises(InvariantBroken, match=r"^ORDER: b1 answers FETCH of client, correlation id 1, and has not"):
        Broker((5, 0), (5, 7)).answers(1)


def test_an_earlier_one_may_have_been_handled_and_wait() -> None:
    """A fetch that is parked; the responses still leave in the order of the requests."""
    Broker((5, 3), (5, 0)).answers(1)


def test_later_ones_and_those_of_other_connections_may_wait_to_be_handled() -> None:
    Broker((4, 0), (5, 3), (5, 0)).answers(1)


REFUSED = {"client": "node-1", "to": 2, "why": "a response with correlation id 7 to no request"}


def test_an_answer_to_no_request_breaks_order() -> None:
    rule = RequestOrder(None)  # type: ignore[arg-type]
    process: Any = SimpleNamespace(name="b1")
    rule.turned(process, Broker().node)
    rule.traced("answer_refused", REFUSED)
    with pytest.raises(InvariantBroken, match=r"^ORDER: b1 closes its connection to node 2, .* 7 to no request$"):
        rule.turned(process, Broker().node)


def test_of_a_node_that_died_in_its_turn_nothing_is_said() -> None:
    rule = RequestOrder(None)  # type: ignore[arg-type]
    process: Any = SimpleNamespace(name="b1")
    rule.traced("answer_refused", REFUSED)
    rule.died(process)
    rule.turned(process, Broker().node)

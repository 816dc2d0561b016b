"""The queue that KIP-291 rejected: the controller's requests overtake in the queue, and wait outside of it (CL-23)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from squall.nodes.node.channels import Connections, RequestChannel
from squall.nodes.node.controller_first import ControllerFirstChannel
from squall.nodes.node.dispatch import CONTROLLER_REQUESTS, ZOOKEEPER_VERSIONS
from squall.nodes.node.effects import Effect
from squall.nodes.protocol.messages import ApiKey

CAPACITY, CONTROLLER = 4, 1_000_000
ORDERS, PRODUCE = ApiKey.LEADER_AND_ISR, ApiKey.PRODUCE


class Queue:
    """A channel and connections that feed it; connection `CONTROLLER` is the controller's."""

    def __init__(self, make: Callable[[str, int], RequestChannel]) -> None:
        self.channel = make("data", CAPACITY)
        outbox: list[Effect] = []
        self.connections = Connections({"PLAINTEXT": self.channel}, {"PLAINTEXT": ZOOKEEPER_VERSIONS}, outbox)

    def flood(self, requests: int) -> None:
        for connection in range(1, requests + 1):
            self.connections.opened(0, connection, "PLAINTEXT")
            self.send(connection, PRODUCE)

    def send(self, connection: int, api: ApiKey) -> None:
        self.connections.received(0, connection, int(api).to_bytes(2, "big") + bytes(10))

    def order(self, api: ApiKey = ORDERS) -> int:
        """Send the controller's request. Returns how many requests are served before it."""
        self.connections.opened(0, CONTROLLER, "PLAINTEXT")
        self.send(CONTROLLER, api)
        served = [one.connection.id for one in iter(self.channel.take, None)]
        assert len(served) == len(dict.fromkeys(served)), "each request is served once"
        return served.index(CONTROLLER)


@pytest.mark.parametrize("api", sorted(CONTROLLER_REQUESTS))
def test_a_controllers_request_overtakes_what_is_in_the_queue(api: int) -> None:
    queue = Queue(ControllerFirstChannel)
    queue.flood(CAPACITY - 1)
    assert queue.order(ApiKey(api)) == 0


@pytest.mark.parametrize("api", [ApiKey.METADATA, ApiKey.FETCH, ApiKey.CONTROLLED_SHUTDOWN])
def test_other_requests_wait_their_turn(api: ApiKey) -> None:
    queue = Queue(ControllerFirstChannel)
    queue.flood(CAPACITY - 1)
    assert queue.order(api) == CAPACITY - 1


@pytest.mark.parametrize("beyond", [1, 10, 100, 1000])
def test_a_full_queue_blocks_it_as_long_as_there_is_a_flood(beyond: int) -> None:
    """CL-23: it saves the length of the queue, and the rest has no bound."""
    queue = Queue(ControllerFirstChannel)
    queue.flood(CAPACITY + beyond)
    assert len(queue.channel) == CAPACITY
    assert queue.order() == beyond + 1, "those outside, and the one whose place it gets"


@pytest.mark.parametrize("flood", [1, CAPACITY, 100])
def test_in_the_shared_queue_it_waits_for_everything(flood: int) -> None:
    """CL-01, CL-02: one queue, one priority."""
    queue = Queue(RequestChannel)
    queue.flood(flood)
    assert queue.order() == flood


def test_a_controllers_requests_keep_their_order() -> None:
    queue = Queue(ControllerFirstChannel)
    queue.connections.opened(0, 1, "PLAINTEXT")
    for api in (PRODUCE, ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, PRODUCE, ApiKey.STOP_REPLICA):
        queue.send(1, api)
    served = [bytes(one.frame or b"")[:2] for one in iter(queue.channel.take, None)]
    first = [ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA]
    assert served == [int(api).to_bytes(2, "big") for api in (*first, PRODUCE, PRODUCE)]

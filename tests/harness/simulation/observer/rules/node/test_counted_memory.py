"""BUDGET as the observer asserts it: a real node, with memory that its connections hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node.counted_memory import EVERY, CountedMemory
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.node.channels import ELEMENT_COST, FETCHES_MAX, Connection
from squall.nodes.protocol.messages.metadata import MetadataRequest
from tests.nodes.node.test_node import CLIENT, Host

HOLDER = 7


class Watched:
    """A combined node, for one of whose connections the host holds a hundred bytes."""

    def __init__(self) -> None:
        self.host = Host()
        self.node = self.host.node
        self.process: Any = SimpleNamespace(name="n1", node=self.node)
        self.cluster = ObservedCluster()
        self.cluster.processes = {"n1": self.process}
        self.host.run()
        self.host.open(HOLDER, CLIENT)
        self.node.host_holds(self.host.now, HOLDER, 100)

    def turn(self, number: int = EVERY) -> None:
        self.cluster.turns["n1"] = number
        CountedMemory(self.cluster).turned(self.process, self.node)


def test_what_is_held_counts_until_its_connection_ends() -> None:
    watched = Watched()
    assert watched.node.data.budget.used == 100
    watched.turn()
    watched.node.closed(watched.host.now, HOLDER)
    assert watched.node.data.budget.used == 0
    watched.turn()
    CountedMemory(watched.cluster).at_end()


def test_what_counts_and_is_held_by_nobody_breaks_budget() -> None:
    watched = Watched()
    watched.node.closed(watched.host.now, HOLDER)
    watched.node.data.budget.used += 100
    with pytest.raises(InvariantBroken, match=r"^BUDGET: n1: the data plane counts 100 bytes, and .* hold 0$"):
        watched.turn()
    with pytest.raises(InvariantBroken, match=r"^BUDGET"):
        CountedMemory(watched.cluster).at_end()
    watched.turn(EVERY + 1)


def has(watched: Watched, charge: int, *, size: int = 10, is_fetch: bool = False, **state: Any) -> Connection:
    """A request of so many bytes, which counts as `charge`; `state` is how far it has come."""
    inbound = SimpleNamespace(charge=charge, size=size, is_fetch=is_fetch, **{**UNSERVED, **state})
    connection = watched.node.connections.find(HOLDER)
    assert connection is not None
    connection.in_flight.append(inbound)  # type: ignore[arg-type]
    connection.use(charge)
    return connection


UNSERVED = {"request": None, "answered": False, "chunks": None}
PARKED = {"request": SimpleNamespace(elements=3)}


def test_a_response_that_waits_counts_with_its_size() -> None:
    watched = Watched()
    answered = PARKED | {"answered": True, "chunks": [b"12345", b"67890"]}
    has(watched, 10, size=99, **answered)
    watched.turn()
    has(watched, 9, size=99, **answered)
    with pytest.raises(InvariantBroken, match=r"a response that waits for earlier ones of 10 bytes, .* counts as 9$"):
        watched.turn()


def test_a_request_that_waits_for_its_answer_counts_with_its_decoded_items() -> None:
    watched = Watched()
    has(watched, 3 * ELEMENT_COST, **PARKED)
    watched.turn()
    has(watched, 10, **PARKED)
    with pytest.raises(InvariantBroken, match=r"connection 7 .* that waits for its answer of 768 bytes, .* as 10$"):
        watched.turn()


def test_a_request_that_waits_to_be_served_counts_with_its_frame_also_when_its_connection_has_ended() -> None:
    watched = Watched()
    watched.host.send(HOLDER, MetadataRequest(), 12)
    connection = watched.node.connections.find(HOLDER)
    assert connection is not None
    assert connection.queued_bytes == watched.node.data.bytes > 0
    watched.turn()
    connection.queued_bytes -= 1
    with pytest.raises(
        InvariantBroken, match=r"^BUDGET: n1: connection 7 .* bytes of requests to be served, and \d+ are$"
    ):
        watched.turn()
    watched.node.closed(watched.host.now, HOLDER)
    assert watched.node.data.bytes
    watched.turn()


def test_what_a_connection_counts_is_what_it_holds() -> None:
    watched = Watched()
    connection = watched.node.connections.find(HOLDER)
    assert connection is not None
    connection.use(5)
    with pytest.raises(InvariantBroken, match=r"counts 105 bytes; its host holds 100, 0 leave .* its requests have 0$"):
        watched.turn()


@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_channel_counts_the_bytes_that_wait_in_it(wrong: int) -> None:
    watched = Watched()
    watched.node.data.bytes += wrong
    with pytest.raises(InvariantBroken, match=rf"the data plane counts {wrong} bytes of 0 requests that wait"):
        watched.turn()


def test_a_connection_has_no_more_fetches_without_an_answer_than_it_may() -> None:
    watched = Watched()
    for _ in range(FETCHES_MAX):
        has(watched, 3 * ELEMENT_COST, is_fetch=True, **PARKED).fetches += 1
    has(watched, 10, is_fetch=True).queued_bytes += 10
    watched.node.data.bytes += 10
    watched.node.data._queue.append(SimpleNamespace())  # type: ignore[arg-type]
    watched.turn()
    connection = has(watched, 3 * ELEMENT_COST, is_fetch=True, **PARKED)
    with pytest.raises(InvariantBroken, match=r"counts 2 fetches without an answer; there are 3, and may be 2$"):
        watched.turn()
    connection.fetches += 1
    with pytest.raises(InvariantBroken, match=r"counts 3 fetches without an answer; there are 3, and may be 2$"):
        watched.turn()

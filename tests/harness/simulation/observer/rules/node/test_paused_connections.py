"""PAUSED as the observer asserts it: a real node, with a client that sends more than it takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node.paused_connections import PausedConnections
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.node.channels import IN_FLIGHT_MAX, Connection
from squall.nodes.protocol.messages.metadata import MetadataRequest
from tests.nodes.node.test_node import CLIENT, Host

SENDER = 7


class Watched:
    """A combined node with a client, and the host that reads from it unless the node has paused it."""

    def __init__(self) -> None:
        self.host = Host(properties={"queued.max.requests": "500"})
        self.node = self.host.node
        self.held: set[int] = set()
        self.inputs: list[tuple[Any, tuple[int, bytes]]] = []
        self.process: Any = SimpleNamespace(
            name="n1",
            incarnation=1,
            last_inputs=self.inputs,
            held_connections=self.held,
            peer_address=lambda connection: "client" if connection == SENDER else None,
        )
        self.rule = PausedConnections(ObservedCluster())
        self.host.run()
        self.host.open(SENDER, CLIENT)

    @property
    def sender(self) -> Connection:
        found = self.node.connections.find(SENDER)
        assert found is not None
        return found

    def sends(self, count: int) -> None:
        for _ in range(count):
            self.host.send(SENDER, MetadataRequest(), 12)
        self.inputs[:] = [(self.node.received, (SENDER, b""))]

    def turns(self, *, host_acts: bool = True) -> None:
        """A turn is over; the host then pauses and resumes what the node asks it to."""
        self.rule.turned(self.process, self.node)
        self.inputs.clear()
        if host_acts:
            self.held.clear()
            self.held.update(one.id for one in self.node.connections.paused())


def test_a_client_that_sends_too_much_is_paused_until_it_has_its_answers() -> None:
    watched = Watched()
    watched.sends(IN_FLIGHT_MAX)
    assert watched.sender.paused
    watched.turns()
    watched.host.run()
    assert not watched.sender.paused
    watched.turns()
    watched.turns()


def test_a_node_that_reads_on_breaks_paused() -> None:
    watched = Watched()
    watched.sends(IN_FLIGHT_MAX)
    watched.sender.paused = False
    watched.node.data.forget(watched.sender)
    with pytest.raises(InvariantBroken, match=r"^PAUSED: n1 reads on from a connection that has 64 unanswered"):
        watched.turns()


def test_a_connection_that_is_marked_as_paused_and_will_not_be_resumed_breaks_it() -> None:
    watched = Watched()
    watched.sends(1)
    watched.sender.paused = True
    with pytest.raises(InvariantBroken, match=r"^PAUSED: n1 takes connection 7 to be paused, and will not resume it"):
        watched.turns()


def test_a_connection_that_will_be_resumed_and_is_not_marked_breaks_it() -> None:
    watched = Watched()
    watched.sends(1)
    watched.node.data.remember_paused(watched.sender)
    with pytest.raises(InvariantBroken, match=r"^PAUSED: n1 takes connection 7 not to be paused, and will resume it"):
        watched.turns()


def test_a_client_may_have_almost_as_much() -> None:
    watched = Watched()
    watched.sends(IN_FLIGHT_MAX - 1)
    assert not watched.sender.paused
    watched.turns()


def pauses_without_a_reason(watched: Watched) -> None:
    watched.sender.paused = True
    watched.node.data.remember_paused(watched.sender)


def test_a_connection_that_stays_paused_for_no_reason_breaks_it_after_a_second_turn() -> None:
    watched = Watched()
    pauses_without_a_reason(watched)
    watched.turns()
    with pytest.raises(InvariantBroken, match=r"^PAUSED: n1 keeps .* paused that has 0 unanswered .* has room"):
        watched.turns()


def test_a_reason_may_be_over_at_the_end_of_one_turn() -> None:
    watched = Watched()
    pauses_without_a_reason(watched)
    watched.turns()
    watched.node.data.bytes_max, watched.node.data.bytes = 10, 6
    watched.turns()
    watched.node.data.bytes = 5
    watched.turns()


@pytest.mark.parametrize("paused", [True, False])
def test_a_host_that_did_not_hear_of_it_breaks_paused(paused: bool) -> None:
    watched = Watched()
    if paused:
        pauses_without_a_reason(watched)
    watched.turns(host_acts=False)
    if not paused:
        watched.held.add(SENDER)
    words = "still reads from" if paused else "no longer reads from"
    with pytest.raises(InvariantBroken, match=rf"^PAUSED: the host of n1 {words} connection 7, and the node"):
        watched.turns()


def test_the_host_need_not_have_a_connection_that_has_ended() -> None:
    watched = Watched()
    pauses_without_a_reason(watched)
    watched.turns(host_acts=False)
    watched.process.peer_address = lambda connection: None
    watched.node.closed(watched.host.now, SENDER)
    watched.turns()


def test_a_node_that_would_resume_a_connection_that_has_ended_breaks_paused() -> None:
    watched = Watched()
    pauses_without_a_reason(watched)
    sender = watched.sender
    watched.node.closed(watched.host.now, SENDER)
    watched.node.data.remember_paused(sender)
    with pytest.raises(InvariantBroken, match=r"^PAUSED: n1 would resume connection 7, which has ended$"):
        watched.turns()


def test_another_incarnation_begins_anew() -> None:
    watched = Watched()
    pauses_without_a_reason(watched)
    watched.turns(host_acts=False)
    watched.process.incarnation = 2
    watched.turns()
    watched.rule.died(watched.process)
    watched.turns()

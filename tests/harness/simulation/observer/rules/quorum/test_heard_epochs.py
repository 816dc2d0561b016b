"""ELECT as the observer asserts it of what nodes of the quorum hear: they take over epoch and leader (QC-11)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.quorum.heard_epochs import HeardEpochs
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft import messages
from squall.nodes.raft.config import RaftConfig, Voter

PLACE = Voter(2, "10.0.0.2", 9093)
LEADER = RaftConfig(node_id=2, cluster_id="cluster", directory_id=bytes(16), voters=(PLACE,))
QUORUM_LINK = -7


class Hearing:
    """C1 is at an epoch and knows a leader. It answers c2, and c3 answers it."""

    def __init__(self, epoch: int, leader: int | None, *, dynamic: bool = False) -> None:
        self.rule = HeardEpochs(ObservedCluster())
        self.open = {QUORUM_LINK}
        self.process: Any = SimpleNamespace(name="c1", last_inputs=[])
        self.process.peer_address = lambda one: PLACE if one in self.open else None
        self.place: tuple[str, int] | None = (PLACE.host, PLACE.port)
        raft = SimpleNamespace(
            leader_and_epoch=(leader, epoch),
            config=SimpleNamespace(node_id=1, dynamic_voters=dynamic),
            voter_address=lambda voter: self.place,
        )
        self.node: Any = SimpleNamespace(raft=raft)

    def answers(self, key: ApiKey, request: Message, response: Message) -> bytes:
        """Some node answers; return the frame of its response."""
        asked = ServerRequest(int(key), 1, request, "c2", "CONTROLLER", 1, 0, answer=Answer(response))
        self.rule.answered(self.process, self.node, asked)
        return b"".join(asked.chunks())

    def accepts(self, epoch: int, error: int = 0) -> None:
        """C1 answers the announcement that c2 leads `epoch`."""
        request = messages.begin_quorum_epoch(LEADER, epoch, 1, leader=PLACE)
        response = messages.begin_response(LEADER, error, messages.Hint(epoch, 2))
        self.answers(ApiKey.BEGIN_QUORUM_EPOCH, request, response)

    def receives(self, epoch: int, leader: int | None) -> None:
        """A response to EndQuorumEpoch that states these reaches c1."""
        hint = messages.Hint(epoch, leader)
        request = messages.end_quorum_epoch(LEADER, 0, [])
        frame = self.answers(ApiKey.END_QUORUM_EPOCH, request, messages.end_response(LEADER, 1, hint))
        self.process.last_inputs = [(_received, (QUORUM_LINK, frame))]
        self.rule.turned(self.process, self.node)


def _received() -> None: ...


_received.__name__ = "received"


def test_an_announced_leader_is_taken_over() -> None:
    Hearing(5, 2).accepts(5)


@pytest.mark.parametrize(("epoch", "leader"), [(4, 2), (5, None), (5, 3)])
def test_an_announced_leader_that_is_accepted_and_not_taken_over_breaks_elect(epoch: int, leader: int | None) -> None:
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 accepts that 2 leads quorum epoch 5, and knows"):
        Hearing(epoch, leader).accepts(5)


def test_an_announcement_of_an_earlier_epoch_is_refused() -> None:
    Hearing(6, None).accepts(5, error=74)


def test_a_leader_that_has_moved_is_looked_for_elsewhere_if_voters_may_change() -> None:
    for dynamic in (False, True):
        hearing = Hearing(5, 2, dynamic=dynamic)
        hearing.accepts(5)
        hearing.place = ("10.0.0.9", 9093)
        if not dynamic:
            hearing.accepts(5)
            continue
        with pytest.raises(InvariantBroken, match=r"^ELECT: c1 hears from leader 2 .* looks for it at \('10.0.0.9'"):
            hearing.accepts(5)


@pytest.mark.parametrize(("epoch", "leader"), [(5, 3), (5, None), (6, None), (6, 2)])
def test_what_a_response_states_is_known_or_out_of_date(epoch: int, leader: int | None) -> None:
    Hearing(6, 2).receives(epoch, leader)


@pytest.mark.parametrize(("epoch", "leader"), [(7, None), (7, 3), (6, 3)])
def test_a_response_that_is_not_taken_over_breaks_elect(epoch: int, leader: int | None) -> None:
    with pytest.raises(InvariantBroken, match=rf"^ELECT: c1 has received that {-1 if leader is None else leader} lead"):
        Hearing(6, None).receives(epoch, leader)


def test_a_node_that_has_resigned_is_said_to_lead_for_a_while() -> None:
    Hearing(6, None).receives(6, 1)


def test_a_response_after_the_end_of_its_connection_is_not_received() -> None:
    hearing = Hearing(6, None)
    hearing.open.clear()
    hearing.receives(7, 3)


def test_responses_that_are_long_past_are_forgotten() -> None:
    hearing = Hearing(6, None)
    frames = [
        hearing.answers(
            ApiKey.END_QUORUM_EPOCH,
            messages.end_quorum_epoch(LEADER, 0, []),
            messages.end_response(LEADER, 1, messages.Hint(epoch, None)),
        )
        for epoch in range(7, 7 + 1_500)
    ]
    hearing.process.last_inputs = [(_received, (QUORUM_LINK, frames[0]))]
    hearing.rule.turned(hearing.process, hearing.node)
    hearing.process.last_inputs = [(_received, (QUORUM_LINK, frames[-1]))]
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 has received"):
        hearing.rule.turned(hearing.process, hearing.node)

"""VOTERS as the observer asserts it of voters to be added: they are, once they have what the log held (KIP-853)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.quorum.awaited_voters import AwaitedVoters
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from squall.nodes.protocol.requests.headers import encode_request
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.raft.roles import Follower, Leader

DIRECTORY, OTHER = bytes(15) + b"\1", bytes(15) + b"\2"
ADD = AddRaftVoterRequest(cluster_id=None, timeout_ms=1_000, voter_id=4, voter_directory_id=DIRECTORY, listeners=[])


ADMINISTRATOR = 3
"""The connection on which the request arrives."""


def received() -> None: ...


class Leading:
    """C1 leads the quorum of 1, 2 and 3 in epoch 5, and its log ends at 40. Node 4 fetches."""

    def __init__(self) -> None:
        self.rule = AwaitedVoters(ObservedCluster())
        self.process: Any = SimpleNamespace(name="c1", last_inputs=[])
        self.role: Any = Leader.__new__(Leader)
        self.role.epoch, self.role.observers = 5, {}
        self.raft = SimpleNamespace(role=self.role, end_offset=40, voters=SimpleNamespace(ids=[1, 2, 3]))
        self.waiting: list[object] = []
        self.open = {ADMINISTRATOR}
        self.held: list[object] = []
        connection = SimpleNamespace(held=self.held)
        connections = SimpleNamespace(find=lambda one: connection if one in self.open else None)
        self.node: Any = SimpleNamespace(raft=self.raft, control=self.waiting, connections=connections)

    def turns(self) -> None:
        self.rule.turned(self.process, self.node)
        self.process.last_inputs = []

    def is_asked(self) -> None:
        frame = b"".join(encode_request(ApiKey.ADD_RAFT_VOTER, 1, 7, "admin", ADD))
        self.process.last_inputs = [(received, (ADMINISTRATOR, frame))]
        self.turns()

    def answers(self, error: int = 0) -> None:
        request = ServerRequest(int(ApiKey.ADD_RAFT_VOTER), 1, ADD, "admin", "CONTROLLER", ADMINISTRATOR, 0)
        request.answer = Answer(AddRaftVoterResponse(error_code=error))
        self.rule.answered(self.process, self.node, request)

    def is_fetched_from(self, end: int, directory: bytes = DIRECTORY) -> None:
        self.role.observers[4] = SimpleNamespace(end_offset=end, directory_id=directory)
        self.turns()


def test_a_voter_that_has_all_and_is_not_added_by_the_next_turn_breaks_voters() -> None:
    leading = Leading()
    leading.is_asked()
    leading.is_fetched_from(40)
    with pytest.raises(InvariantBroken, match=r"^VOTERS: c1 leads quorum epoch 5 and was asked to add voter 4, .* 40"):
        leading.turns()


def test_one_that_is_added_in_time_is_legal() -> None:
    leading = Leading()
    leading.is_asked()
    leading.is_fetched_from(39)
    leading.is_fetched_from(40)
    leading.raft.voters.ids.append(4)
    leading.turns()
    leading.turns()


def test_what_the_log_held_when_the_request_was_handled_counts() -> None:
    leading = Leading()
    leading.waiting.append("the request")
    leading.is_asked()
    leading.waiting.clear()
    leading.raft.end_offset = 50
    leading.turns()
    leading.is_fetched_from(49)
    leading.is_fetched_from(49)
    leading.is_fetched_from(50)
    with pytest.raises(InvariantBroken, match="the log ended at 50 then"):
        leading.is_fetched_from(51)


def test_a_request_whose_client_reads_no_responses_waits_to_be_handled() -> None:
    """Seed 1029149 of `worlds`."""
    leading = Leading()
    leading.held.append("the request")
    leading.is_asked()
    for _ in range(3):
        leading.is_fetched_from(40)
    leading.held.clear()
    leading.turns()
    leading.turns()
    with pytest.raises(InvariantBroken, match="the log ended at 40 then"):
        leading.turns()


def test_another_directory_is_another_node() -> None:
    leading = Leading()
    leading.is_asked()
    for _ in range(3):
        leading.is_fetched_from(60, OTHER)


@pytest.mark.parametrize("error", [0, 7], ids=["without an error", "timed out"])
def test_an_answered_request_is_over(error: int) -> None:
    leading = Leading()
    leading.is_asked()
    leading.is_fetched_from(40)
    leading.answers(error)
    leading.turns()
    leading.turns()


def test_a_request_whose_client_has_gone_asks_for_nothing() -> None:
    """Seeds 1028671 and 1028878 of `worlds`: its connection ended after, or before it was handled."""
    leading = Leading()
    leading.is_asked()
    leading.is_fetched_from(40)
    leading.open.clear()
    for _ in range(3):
        leading.turns()
    leading.is_asked()
    for _ in range(3):
        leading.is_fetched_from(60)


def test_a_refused_request_asks_for_nothing() -> None:
    leading = Leading()
    leading.answers(7)
    leading.is_asked()
    for _ in range(3):
        leading.is_fetched_from(60)


def lose_epoch(leading: Leading, how: str) -> None:
    if how == "leads again":
        leading.role.epoch = 6
    else:
        leading.raft.role = Follower(6, 2, 0)
    leading.turns()


@pytest.mark.parametrize("how", ["follows", "leads again"])
def test_who_has_lost_the_epoch_answers_by_the_next_turn(how: str) -> None:
    leading = Leading()
    leading.is_asked()
    leading.is_fetched_from(40)
    lose_epoch(leading, how)
    leading.answers(6)
    leading.turns()
    leading.turns()


@pytest.mark.parametrize("how", ["follows", "leads again"])
def test_who_has_lost_the_epoch_and_does_not_answer_breaks_voters(how: str) -> None:
    leading = Leading()
    leading.is_asked()
    lose_epoch(leading, how)
    with pytest.raises(InvariantBroken, match=r"^VOTERS: c1 led quorum epoch 5 .* voter 4; it is a .* of epoch 6 now"):
        leading.turns()


def test_a_request_that_is_handled_in_a_later_epoch_is_of_that() -> None:
    leading = Leading()
    leading.waiting.append("the request")
    leading.is_asked()
    lose_epoch(leading, "leads again")
    leading.waiting.clear()
    for _ in range(3):
        leading.turns()


def test_who_died_need_not_answer() -> None:
    leading = Leading()
    leading.is_asked()
    leading.rule.died(leading.process)
    lose_epoch(leading, "follows")
    leading.turns()

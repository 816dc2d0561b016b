"""IDLE as the observer asserts it: in a whole cluster without clients, nodes ask one another for nothing in vain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node.idle_answers import IdleAnswers
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from squall.nodes.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

SECOND = 1_000_000
IDLE_SINCE = 10 * SECOND
UNKNOWN_LEADER_EPOCH = 75


class Idle:
    """A voter in a cluster that has had no request of a client since the tenth second."""

    def __init__(self, *, fetch_timeout_ms: int = 2000, pulls: bool = True) -> None:
        self.rule = IdleAnswers(ObservedCluster())
        config = SimpleNamespace(controller_quorum_fetch_timeout_ms=fetch_timeout_ms)
        self.node: Any = SimpleNamespace(config=config, raft=SimpleNamespace(pulls=pulls))
        self.rule.idle(IDLE_SINCE)

    def answers(self, body: Any, response: Any, received_at: int = 11 * SECOND) -> None:
        process: Any = SimpleNamespace(name="c1", now=12 * SECOND)
        request: Any = SimpleNamespace(
            api_key=body.API_KEY,
            body=body,
            received_at=received_at,
            answer=SimpleNamespace(response=response),
        )
        self.rule.answered(process, self.node, request)


def fetch_response(error: int) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(error_code=error)])])


def test_a_fetch_that_is_served_is_legal() -> None:
    Idle().answers(FetchRequest(replica_id=2), fetch_response(0))


def test_an_error_however_deep_in_an_answer_is_a_breach() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^IDLE: c1 answers FETCH with error 75, 2\.000 s after the last request"
    ):
        Idle().answers(FetchRequest(replica_id=2), fetch_response(UNKNOWN_LEADER_EPOCH))


def test_a_request_from_before_that_time_may_be_refused() -> None:
    Idle().answers(FetchRequest(replica_id=2), fetch_response(UNKNOWN_LEADER_EPOCH), received_at=IDLE_SINCE - 1)


def test_a_cluster_with_clients_may_refuse() -> None:
    idle = Idle()
    idle.rule = IdleAnswers(ObservedCluster())
    idle.answers(FetchRequest(replica_id=2), fetch_response(UNKNOWN_LEADER_EPOCH))


def test_a_leader_that_announces_itself_to_a_voter_that_fetches_is_a_breach() -> None:
    with pytest.raises(InvariantBroken, match=r"^IDLE: c1 fetches, and a leader of the quorum sends it BEGIN_QUORUM"):
        Idle().answers(BeginQuorumEpochRequest(), BeginQuorumEpochResponse())


@pytest.mark.parametrize("fetch_timeout_ms", [200, 1000, 1499])
def test_a_leader_that_holds_fetches_long_may_announce_itself(fetch_timeout_ms: int) -> None:
    """It holds them for 500 ms at most, and for half of the fetch timeout where that is shorter."""
    Idle(fetch_timeout_ms=fetch_timeout_ms).answers(BeginQuorumEpochRequest(), BeginQuorumEpochResponse())


def test_a_leader_that_pushes_records_may_announce_itself() -> None:
    Idle(pulls=False).answers(BeginQuorumEpochRequest(), BeginQuorumEpochResponse())

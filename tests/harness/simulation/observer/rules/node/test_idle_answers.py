"""IDLE as the observer asserts it: in a whole cluster without clients, nodes ask one another for nothing in vain."""

from __future__ import annotations

from contextlib import nullcontext
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
        cluster = ObservedCluster()
        self.member: Any = SimpleNamespace(name="c1", now=9 * SECOND)
        cluster.set_members({"c1": self.member}, {})
        self.rule = IdleAnswers(cluster)
        config = SimpleNamespace(controller_quorum_fetch_timeout_ms=fetch_timeout_ms)
        self.node: Any = SimpleNamespace(config=config, raft=SimpleNamespace(pulls=pulls), broker=None)
        self.rule.idle(IDLE_SINCE)

    def answers(self, body: Any, response: Any, received_at: int = 11 * SECOND) -> None:
        self.member.now = 12 * SECOND
        request: Any = SimpleNamespace(
            api_key=body.API_KEY,
            body=body,
            received_at=received_at,
            answer=SimpleNamespace(response=response),
        )
        self.rule.answered(self.member, self.node, request)


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


@pytest.mark.parametrize(("offset", "legal"), [(8, True), (7, False)])
def test_an_error_of_the_first_that_reads_new_metadata_is_legal(offset: int, legal: bool) -> None:
    """`worlds` seed 1024400: a leader learned in this turn that it leads no more, before it answered."""
    idle = Idle()
    idle.rule.cluster.images.newest_offset = 7
    idle.node.broker = SimpleNamespace(image=SimpleNamespace(last_offset=offset))
    with nullcontext() if legal else pytest.raises(InvariantBroken, match=r"^IDLE: "):
        idle.answers(FetchRequest(replica_id=2), fetch_response(UNKNOWN_LEADER_EPOCH))


@pytest.mark.parametrize(("settled_us", "legal"), [(SECOND - 1, True), (SECOND, False)])
def test_an_error_soon_after_a_leadership_has_moved_is_legal(settled_us: int, legal: bool) -> None:
    """`worlds` seed 61: the controller returned leaderships, and followers knew of it before the leaders did."""
    idle = Idle()
    watched: Any = None
    idle.rule.membership_changed((bytes(16), 0), watched)
    idle.rule.idle(9 * SECOND)
    with nullcontext() if legal else pytest.raises(InvariantBroken, match=r"^IDLE: "):
        idle.answers(
            FetchRequest(replica_id=2), fetch_response(UNKNOWN_LEADER_EPOCH), received_at=9 * SECOND + settled_us
        )


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

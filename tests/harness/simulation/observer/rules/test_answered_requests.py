"""ANSWER as the observer asserts it: by hand-made breaches and by what is legal (FD-01)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.messages import ApiKey
from tests.harness.simulation.observer.observed import Cluster

SECOND = 1_000_000


def at_the_end(received_at: int, *, api: int = ApiKey.METADATA, max_wait_ms: int = 0) -> None:
    """A request that b1 received then is unanswered at 20 s, in a cluster that is whole since 10 s."""
    cluster = Cluster()
    cluster.observer.became_whole(10 * SECOND)
    body = SimpleNamespace(max_wait_ms=max_wait_ms)
    request = SimpleNamespace(api_key=int(api), client_id="consumer-3", body=body)
    cluster.processes["b1"].requests = [SimpleNamespace(received_at=received_at, request=request)]
    cluster.processes["b1"].now = 20 * SECOND
    cluster.observer.final()


def expires(sent: int) -> None:
    cluster = Cluster()
    cluster.observer.became_whole(10 * SECOND)
    cluster.observer.event("request_expired", client="node-1", to=2, api=int(ApiKey.VOTE), sent=sent)
    cluster.observer.final()


def test_a_request_that_is_never_answered_is_a_breach() -> None:
    with pytest.raises(InvariantBroken, match=r"^ANSWER: b1 leaves METADATA of consumer-3 unanswered for 5\.000 s"):
        at_the_end(15 * SECOND)


def test_one_that_was_received_before_all_was_whole_has_the_bound_from_then_on() -> None:
    with pytest.raises(InvariantBroken, match=r"^ANSWER: b1 leaves METADATA of consumer-3 unanswered for 10\.000 s"):
        at_the_end(1 * SECOND)


def test_a_request_that_has_just_come_is_legal() -> None:
    at_the_end(19_500_000)


def test_a_fetch_may_wait_as_long_as_it_asks() -> None:
    at_the_end(18 * SECOND, api=ApiKey.FETCH, max_wait_ms=1_500)
    with pytest.raises(InvariantBroken, match="FETCH"):
        at_the_end(18 * SECOND, api=ApiKey.FETCH, max_wait_ms=500)


def test_a_request_of_a_node_that_expires_in_a_whole_cluster_is_a_breach() -> None:
    with pytest.raises(InvariantBroken, match=r"^ANSWER: node-1 waited for node 2 to answer VOTE until its request"):
        expires(11 * SECOND)


def test_one_that_was_sent_before_all_was_whole_is_legal() -> None:
    expires(9 * SECOND)

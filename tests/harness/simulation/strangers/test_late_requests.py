"""A client that repeats nodes' requests late, or with an older epoch, in about half of the drawn worlds (EP-03)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from squall.harness.simulation.observer.rules.clients import fenced_requests
from squall.harness.simulation.run import run
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.strangers.late_requests import (
    NO_BROKER,
    LateRequests,
    Overheard,
    StoppingBrokers,
    outdated,
)
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey, alter_partition, begin_quorum_epoch, vote
from squall.nodes.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState
from squall.nodes.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from squall.nodes.protocol.messages.vote import VoteRequest
from squall.nodes.protocol.requests.headers import decode_request, encode_request
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message

SUITES = Path(__file__).resolve().parents[4] / "suites"
VERSIONS = {
    ApiKey.FETCH: 17,
    ApiKey.BEGIN_QUORUM_EPOCH: 1,
    ApiKey.VOTE: 2,
    ApiKey.ALTER_PARTITION: 3,
    ApiKey.BROKER_HEARTBEAT: 1,
}


def variants(key: ApiKey, message: Message) -> list[Message]:
    """What becomes of a request by thirty random numbers."""
    frame = b"".join(encode_request(int(key), VERSIONS[key], 7, "node-1", message))
    changed = [outdated(frame, Random(number)) for number in range(30)]
    headers = {decode_request(one)[0] for one in changed}
    assert headers == {decode_request(frame)[0]}
    return [decode_request(one)[1] for one in changed]


# -- what is changed ------------------------------------------------------------------------------------------------


def test_a_heartbeat_is_one_of_an_earlier_incarnation() -> None:
    for one in variants(ApiKey.BROKER_HEARTBEAT, BrokerHeartbeatRequest(1, 12, 20)):
        assert isinstance(one, BrokerHeartbeatRequest)
        assert one.broker_epoch in (9, 10, 11)


def test_a_fetch_names_an_earlier_leader_epoch_if_it_names_one_at_all() -> None:
    parts = [FetchPartition(0, 5), FetchPartition(1, -1)]
    for one in variants(ApiKey.FETCH, FetchRequest(topics=[FetchTopic(bytes(16), "", parts)])):
        assert isinstance(one, FetchRequest)
        first, second = one.topics[0].partitions
        assert first.current_leader_epoch in (3, 4) and second.current_leader_epoch == -1


def test_a_vote_request_stays_plausible_in_its_earlier_epoch() -> None:
    asked = vote.PartitionDataRequest(0, replica_epoch=4, last_offset_epoch=3)
    for one in variants(ApiKey.VOTE, VoteRequest(topics=[vote.TopicDataRequest("m", [asked])])):
        assert isinstance(one, VoteRequest)
        (part,) = one.topics[0].partitions
        assert part.replica_epoch in (1, 2) and part.last_offset_epoch <= part.replica_epoch


def test_news_of_a_leader_stay_true() -> None:
    """Seed 982122 of worlds: 105 led epoch 9, and a node that had led epoch 7 heard that 105 had."""
    led = begin_quorum_epoch.PartitionDataRequest(0, leader_id=105, leader_epoch=9)
    news = BeginQuorumEpochRequest(topics=[begin_quorum_epoch.TopicDataRequest("m", [led])])
    assert all(one == news for one in variants(ApiKey.BEGIN_QUORUM_EPOCH, news))


def test_no_changed_proposal_may_be_accepted() -> None:
    proposal = alter_partition.PartitionDataRequest(
        0, leader_epoch=4, partition_epoch=8, new_isr_with_epochs=[BrokerState(1, 7), BrokerState(2, 6)]
    )
    asked = AlterPartitionRequest(1, 7, [alter_partition.TopicDataRequest(bytes(16), [proposal])])
    reasons: Counter[str] = Counter()
    for one in variants(ApiKey.ALTER_PARTITION, asked):
        assert isinstance(one, AlterPartitionRequest)
        part = one.topics[0].partitions[0]
        members = [member.broker_id for member in part.new_isr_with_epochs]
        found = {
            "broker epoch": one.broker_epoch < 7,
            "leader epoch": part.leader_epoch < 4,
            "partition epoch": part.partition_epoch < 8,
            "recovery state": part.leader_recovery_state > 1,
            "no member": not members,
            "no replica": NO_BROKER in members,
            "without the leader": bool(members) and 1 not in members,
        }
        assert any(found.values()), one
        reasons.update(name for name, holds in found.items() if holds)
    assert len(reasons) == 7


def heartbeat(broker: int, metadata_offset: int, *, stops: bool = False) -> Overheard:
    message = BrokerHeartbeatRequest(broker, 12, metadata_offset, want_shut_down=stops)
    version = VERSIONS[ApiKey.BROKER_HEARTBEAT]
    return Overheard("c1", 9093, b"".join(encode_request(ApiKey.BROKER_HEARTBEAT, version, 7, "node-1", message)))


def test_the_last_ordinary_heartbeat_of_a_broker_that_asks_to_stop_is_late() -> None:
    brokers = StoppingBrokers()
    brokers.overhear("b2", heartbeat(2, 70))
    brokers.overhear("b1", heartbeat(1, 70))
    brokers.overhear("b1", heartbeat(1, 71))
    assert brokers.next_heartbeat() is None
    brokers.overhear("b1", heartbeat(1, 72, stops=True))
    assert brokers.next_heartbeat() == heartbeat(1, 71)
    assert brokers.next_heartbeat() is None


def test_a_broker_that_only_asks_to_stop_has_no_late_heartbeat() -> None:
    brokers = StoppingBrokers()
    brokers.overhear("b1", heartbeat(1, 72, stops=True))
    assert brokers.next_heartbeat() is None


# -- under faults ---------------------------------------------------------------------------------------------------


def repeated_in(monkeypatch: pytest.MonkeyPatch, seed: int, share: float) -> tuple[run.SimResult, list[LateRequests]]:
    monkeypatch.setattr(run, "REPEATING", share)
    begun: list[LateRequests] = []

    class Counted(LateRequests):
        async def run(self) -> None:
            begun.append(self)
            await super().run()

    monkeypatch.setattr(run, "LateRequests", Counted)
    return simulate(find_scenario("worlds", SUITES)[0], seed, SimOptions(swarm=True)), begun


def test_nodes_refuse_what_is_outdated_and_come_to_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: Counter[str] = Counter()
    judge = fenced_requests.FencedRequests.answered

    def counted(self: fenced_requests.FencedRequests, process: object, node: BaseNode, request: ServerRequest) -> None:
        if request.answer is not None and "FENCED_LEADER_EPOCH" in repr(request.answer.response):
            refused[ApiKey(request.api_key).name] += 1
        judge(self, process, node, request)  # type: ignore[arg-type]

    monkeypatch.setattr(fenced_requests.FencedRequests, "answered", counted)
    result, (late,) = repeated_in(monkeypatch, 3, 1.0)
    assert result.verdict == "valid", result.problem
    assert late.sent > 20
    assert refused["FETCH"] and refused["VOTE"]


def test_only_a_share_of_the_worlds_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as within:
        assert repeated_in(within, 3, 0.0)[1] == []
    assert 0 < run.REPEATING < 1

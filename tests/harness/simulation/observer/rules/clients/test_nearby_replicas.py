"""NEAR as the observer asserts it: only consumers are sent to another replica, one in sync and in their rack."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients import nearby_replicas
from squall.harness.simulation.observer.rules.clients.nearby_replicas import NOBODY, NearbyReplicas
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest

TOPIC_ID = bytes(range(16))
ENDS = {2: 8, 3: 5, 4: 8}
START = 2
"""By follower in the ISR, up to where the leader knows its log."""


def answers(
    preferred: int,
    *,
    rack: str = "west",
    replica: int = -1,
    leads: bool = True,
    selects: bool = True,
    offset: int | None = 6,
    error: int = 0,
    diverging: bool = False,
    fenced: tuple[int, ...] = (),
) -> None:
    """Broker 1, of rack `east`, answers a fetch. Brokers 2 and 3 stand in `west`, and 4 in `south`."""
    racks = {1: "east", 2: "west", 3: "west", 4: "south"}
    brokers = {one: SimpleNamespace(rack=rack, active=one not in fenced) for one, rack in racks.items()}
    hosted: Any = SimpleNamespace(
        topic="events",
        partition=0,
        is_leader=leads,
        isr=(1, *ENDS),
        follower_starts=lambda: dict.fromkeys(ENDS, START),
        follower_ends=lambda: ENDS,
    )
    config = SimpleNamespace(rack="east", rack_aware_reads=selects)
    replicas = SimpleNamespace(by_id=lambda *_: SimpleNamespace(replica=hosted))
    broker = SimpleNamespace(config=config, replicas=replicas, image=SimpleNamespace(brokers=brokers))
    node: Any = SimpleNamespace(broker=broker)
    named = [] if offset is None else [FetchPartition(0, fetch_offset=offset)]
    body = FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=-1),
        rack_id=rack,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=named)],
    )
    end = EpochEndOffset(1, 3) if diverging else EpochEndOffset()
    part = PartitionData(0, error_code=error, preferred_read_replica=preferred, diverging_epoch=end)
    request = ServerRequest(int(ApiKey.FETCH), 17, body, "consumer", "CLIENT", 1, 0)
    response = FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])])
    request.answer = Answer(response=response)
    process: Any = SimpleNamespace(name="b1")
    NearbyReplicas(None).answered(process, node, request)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def has_a_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearby_replicas, "node_of_quorum", lambda node: node)


def test_a_consumer_is_sent_to_a_replica_of_its_rack_that_has_the_offset() -> None:
    answers(2)
    answers(4, rack="south")


@pytest.mark.parametrize("offset", [7, None], ids=["named", "known to the session only"])
def test_a_consumer_that_is_sent_to_another_rack_breaks_near(offset: int | None) -> None:
    with pytest.raises(InvariantBroken, match=r"^NEAR: events-0: b1 sends consumer to broker 4; in its rack, 'west'"):
        answers(4, offset=offset)


def test_a_consumer_that_is_sent_to_a_replica_without_the_offset_breaks_near() -> None:
    answers(3, offset=5)
    with pytest.raises(InvariantBroken, match=r"^NEAR: .* to broker 3; in its rack, 'west', are \[2\] of the ISR"):
        answers(3, offset=6)


@pytest.mark.parametrize(("offset", "having"), [(START, [2, 3]), (6, [2]), (8, [2])])
def test_a_consumer_that_is_not_sent_to_its_rack_breaks_near(offset: int, having: list[int]) -> None:
    told = re.escape(f"to nobody, although {having} of its rack, 'west', have offset {offset}")
    with pytest.raises(InvariantBroken, match=f"^NEAR: .* {told}"):
        answers(NOBODY, offset=offset)


@pytest.mark.parametrize(
    "facts",
    [
        {"rack": "east"},
        {"rack": ""},
        {"rack": "north"},
        {"offset": 9},
        {"offset": START - 1},
        {"offset": None},
        {"leads": False},
        {"selects": False},
        {"replica": 2},
        {"error": int(ErrorCode.FENCED_LEADER_EPOCH)},
        {"diverging": True},
        {"fenced": (2,)},
    ],
    ids=str,
)
def test_a_consumer_is_sent_to_nobody_where_there_is_nobody_nearer(facts: dict[str, Any]) -> None:
    answers(NOBODY, **facts)


@pytest.mark.parametrize(
    "facts", [{"rack": "east"}, {"rack": ""}, {"leads": False}, {"selects": False}, {"replica": 3}, {"fenced": (2,)}],
    ids=str,
)  # fmt: skip
def test_whoever_must_read_from_the_leader_and_is_sent_away_breaks_near(facts: dict[str, Any]) -> None:
    with pytest.raises(InvariantBroken, match=r"^NEAR: .* to broker 2"):
        answers(2, **facts)

"""DP-14 as the observer asserts it of what a fetch leaves out: nothing that there is room for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients.filled_fetches import FilledFetches
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
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
from tests.harness.simulation.observer.observed import batch

TOPIC_ID = bytes(range(16))
FIRST, SECOND = batch(0, 1, 20), batch(1, 1, 30)
SIZE = len(FIRST)


def left_out(number: int) -> PartitionData:
    """An answer about a topic-partition that brings none of its records."""
    return PartitionData(number, records=b"")


class Broker:
    """B1 leads topic-partitions 0 and 1. Each had two records, the first committed, when the turn before was over."""

    def __init__(self) -> None:
        self.rule = FilledFetches(ObservedCluster())
        self.process: Any = SimpleNamespace(name="b1")
        self.replicas = [self._replica(number) for number in (0, 1)]
        by_id = SimpleNamespace(by_id=lambda topic_id, number: SimpleNamespace(replica=self.replicas[number]))
        self.node: Any = SimpleNamespace(
            broker=SimpleNamespace(replicas=by_id),
            config=SimpleNamespace(fetch_max_bytes=100_000),
            data=SimpleNamespace(budget=SimpleNamespace(room=1 << 40)),
        )
        for replica in self.replicas:
            self.examined(replica)

    def _replica(self, number: int) -> Any:
        def read(offset: int, max_bytes: int, upper: int, *, at_least_one: bool) -> bytes:
            return b"".join((FIRST, SECOND)[offset:])

        return SimpleNamespace(
            topic="t", topic_id=TOPIC_ID, partition=number, log=SimpleNamespace(start_offset=0), read=read,
            end_offset=2, high_watermark=1, is_leader=True,
        )  # fmt: skip

    def examined(self, replica: Any) -> None:
        turn: Any = SimpleNamespace(process=self.process, replica=replica)
        self.rule.replica_examined(turn, 0)

    def fetched(
        self, *parts: PartitionData, offsets: tuple[int, int] = (0, 0), follower: bool = False,
        most: int = 10_000, most_each: int = 10_000, error: int = 0,
    ) -> None:  # fmt: skip
        """A fetch of both topic-partitions is answered with these parts."""
        wanted = [FetchPartition(number, -1, offsets[number], partition_max_bytes=most_each) for number in (0, 1)]
        asked = FetchRequest(
            replica_state=ReplicaState(2 if follower else -1, 1),
            max_bytes=most,
            topics=[FetchTopic(TOPIC_ID, "", wanted)],
        )
        request = ServerRequest(int(ApiKey.FETCH), 17, asked, "client", "PLAINTEXT", 1, 0)
        told = [FetchableTopicResponse(TOPIC_ID, "", list(parts))] if parts else []
        request.answer = Answer(response=FetchResponse(error_code=error, responses=told))
        self.rule.answered(self.process, self.node, request)


def full(number: int) -> PartitionData:
    return PartitionData(number, records=FIRST)


def test_a_fetch_that_brings_records_of_all_is_sound() -> None:
    Broker().fetched(full(0), full(1))


@pytest.mark.parametrize("parts", [(full(0), left_out(1)), (full(0),)], ids=["without records", "left out"])
def test_a_topic_partition_without_its_records_breaks_dp_14(parts: tuple[PartitionData, ...]) -> None:
    told = r"^DP-14: b1 answers a fetch of t-1 from 0 with no records; it has some up to 1, the first batch has "
    with pytest.raises(InvariantBroken, match=told):
        Broker().fetched(*parts)


def test_a_fetch_without_any_records_breaks_dp_14_whatever_it_allows() -> None:
    with pytest.raises(InvariantBroken, match=r"^DP-14: b1 answers a fetch of t-0 from 0 with no records"):
        Broker().fetched(most=1, most_each=1)


@pytest.mark.parametrize(("most", "most_each"), [(2 * SIZE - 1, 10_000), (10_000, SIZE - 1), (SIZE, 10_000)])
def test_what_does_not_fit_is_left_out(most: int, most_each: int) -> None:
    Broker().fetched(full(0), left_out(1), most=most, most_each=most_each)


def test_what_just_fits_is_not_left_out() -> None:
    with pytest.raises(InvariantBroken, match="there is room for"):
        Broker().fetched(full(0), left_out(1), most=2 * SIZE, most_each=SIZE)


def test_a_consumer_waits_for_what_is_not_committed_and_a_follower_does_not() -> None:
    Broker().fetched(full(0), left_out(1), offsets=(0, 1))
    with pytest.raises(InvariantBroken, match="it has some up to 2"):
        Broker().fetched(full(0), left_out(1), offsets=(0, 1), follower=True)


def test_a_replica_that_does_not_lead_has_what_is_committed_for_anybody() -> None:
    broker = Broker()
    broker.replicas[1].is_leader = False
    broker.fetched(full(0), left_out(1), offsets=(0, 1), follower=True)


def test_records_of_this_turn_may_come_with_the_next_fetch() -> None:
    broker = Broker()
    broker.replicas[1].high_watermark = 2
    broker.fetched(full(0), left_out(1), offsets=(0, 1))
    broker.examined(broker.replicas[1])
    with pytest.raises(InvariantBroken, match="it has some up to 2"):
        broker.fetched(full(0), left_out(1), offsets=(0, 1))


def test_records_that_are_gone_are_not_sent() -> None:
    broker = Broker()
    broker.replicas[1].log.start_offset = 1
    broker.fetched(full(0), left_out(1))
    broker = Broker()
    broker.replicas[1].end_offset = 0
    broker.fetched(full(0), left_out(1))


@pytest.mark.parametrize(
    "why",
    [
        PartitionData(1, int(ErrorCode.NOT_LEADER_OR_FOLLOWER), records=b""),
        PartitionData(1, diverging_epoch=EpochEndOffset(1, 0), records=b""),
        PartitionData(1, preferred_read_replica=3, records=b""),
    ],
    ids=["refused", "diverging", "nearer"],
)
def test_who_is_told_something_else_gets_no_records(why: PartitionData) -> None:
    Broker().fetched(full(0), why)


def test_a_refused_fetch_brings_nothing() -> None:
    Broker().fetched(error=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))


def test_a_node_that_may_be_short_of_memory_is_not_judged() -> None:
    broker = Broker()
    broker.node.data.budget.room = 9_999
    broker.fetched(full(0), left_out(1))


def test_a_fetch_that_buggify_shortens_is_not_judged_in_that_turn() -> None:
    broker = Broker()
    broker.rule.traced("buggify", {"node": 1, "place": "fetch-one-batch"})
    broker.fetched(full(0), left_out(1))
    broker.rule.turned(broker.process, broker.node)
    broker.rule.traced("buggify", {"node": 1, "place": "turn-late"})
    with pytest.raises(InvariantBroken, match="DP-14"):
        broker.fetched(full(0), left_out(1))


def test_another_process_has_shown_nothing_yet() -> None:
    broker = Broker()
    broker.rule.died(broker.process)
    broker.fetched(full(0), left_out(1))

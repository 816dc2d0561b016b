"""The fetcher: one Fetch under way per leader, what it does with each answer, when it rests (DP-03, DP-04, DP-05)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from squall.nodes.mutants import Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from squall.nodes.protocol.requests.session import OutboundRequest, ToBroker
from squall.nodes.replication.fetcher import NEVER, ReplicaFetcher
from squall.nodes.replication.ports import ReplicationConfig

SECOND = 1_000_000
TOPIC_ID = bytes(range(16))
World = Any


@pytest.fixture
def led(world: World) -> World:
    world.lead(1)
    return world


@pytest.fixture
def fetcher(led: World) -> ReplicaFetcher:
    """Broker 2 follows broker 1."""
    made = ReplicaFetcher(2, 1, ReplicationConfig(), broker_epoch=lambda: 102)
    made.add(led.now, led.replica(2))
    return made


def asked(fetcher: ReplicaFetcher) -> OutboundRequest:
    assert len(fetcher.requests) == 1
    return fetcher.requests.pop()


def serve(world: World, request: OutboundRequest) -> FetchResponse:
    """What broker 1 would answer."""
    message = request.message
    assert isinstance(message, FetchRequest)
    response = FetchResponse()
    for topic in message.topics:
        answers = []
        for wanted in topic.partitions:
            state = message.replica_state
            bounds = world.replica(1).follower_fetch(
                world.now,
                state.replica_id,
                state.replica_epoch,
                wanted.fetch_offset,
                wanted.last_fetched_epoch,
                wanted.current_leader_epoch,
            )
            data = PartitionData(
                partition_index=wanted.partition, error_code=bounds.error, high_watermark=bounds.high_watermark
            )
            if bounds.diverging is not None:
                data.diverging_epoch = EpochEndOffset(*bounds.diverging)
            elif not bounds.error:
                data.records = world.replica(1).read(bounds.offset, 1 << 20, bounds.upper, at_least_one=True)
            answers.append(data)
        response.responses.append(FetchableTopicResponse(topic_id=topic.topic_id, partitions=answers))
    return response


def refuse(fetcher: ReplicaFetcher, world: World, error: int) -> None:
    data = PartitionData(partition_index=0, error_code=error)
    answer = FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])
    asked(fetcher).complete(world.now, answer)


def test_one_request_names_every_topic_partition_and_the_state_of_its_log(
    led: World, fetcher: ReplicaFetcher, world_with: Any
) -> None:
    other = world_with()
    other.state = other.decide(leader=1, partition=7, topic="payments", topic_id=bytes(16))
    fetcher.add(led.now, other.replica(2))
    led.produce(1, 3)
    led.fetch(2, 1)
    fetcher.tick(led.now)
    request = asked(fetcher)
    message = request.message
    assert request.destination == ToBroker(1)
    assert isinstance(message, FetchRequest)
    assert (message.replica_state.replica_id, message.replica_state.replica_epoch) == (2, 102)
    assert (message.session_id, message.session_epoch, message.max_wait_ms, message.min_bytes) == (0, 0, 500, 1)
    assert [(topic.topic_id, [p.partition for p in topic.partitions]) for topic in message.topics] == [
        (TOPIC_ID, [0]),
        (bytes(16), [7]),
    ]
    first = message.topics[0].partitions[0]
    assert (first.fetch_offset, first.last_fetched_epoch, first.current_leader_epoch) == (3, 1, 1)
    assert message.topics[1].partitions[0].last_fetched_epoch == -1, "an empty log has no epoch"


def test_there_is_never_a_second_request_under_way(led: World, fetcher: ReplicaFetcher) -> None:
    fetcher.tick(led.now)
    request = asked(fetcher)
    fetcher.tick(led.now + 10 * SECOND)
    assert fetcher.requests == [] and fetcher.deadline() == NEVER
    request.complete(led.now, serve(led, request))
    assert len(fetcher.requests) == 1, "it asks again as soon as the answer has been dealt with"


def test_records_are_appended_and_the_next_request_goes_on(led: World, fetcher: ReplicaFetcher) -> None:
    led.produce(1, 3)
    fetcher.tick(led.now)
    request = asked(fetcher)
    request.complete(led.now, serve(led, request))
    assert led.content(2) == led.content(1)
    message = asked(fetcher).message
    assert isinstance(message, FetchRequest)
    assert message.topics[0].partitions[0].fetch_offset == 3


def test_divergence_truncates_and_asks_at_once(led: World, fetcher: ReplicaFetcher) -> None:
    led.lead(2)
    led.produce(2, 5, acks=1)
    led.lead(1)
    led.produce(1, 2, acks=1)
    fetcher.add(led.now, led.replica(2))
    fetcher.tick(led.now)
    ends = [led.replica(2).end_offset]
    for _ in range(4):
        request = asked(fetcher)
        request.complete(led.now, serve(led, request))
        ends.append(led.replica(2).end_offset)
    assert sum(after < before for before, after in pairwise(ends)) == 1
    assert led.content(2) == led.content(1)


@pytest.mark.parametrize(
    "error", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID, -1, 9999]
)
def test_an_error_rests_the_topic_partition_for_the_back_off(led: World, fetcher: ReplicaFetcher, error: int) -> None:
    fetcher.tick(led.now)
    refuse(fetcher, led, error)
    assert fetcher.requests == [] and fetcher.deadline() == led.now + SECOND
    fetcher.tick(led.now + SECOND - 1)
    assert fetcher.requests == []
    fetcher.tick(led.now + SECOND)
    assert len(fetcher.requests) == 1


def test_an_error_of_one_does_not_rest_the_others(led: World, fetcher: ReplicaFetcher, world_with: Any) -> None:
    other = world_with()
    other.state = other.decide(leader=1, partition=7, topic="payments", topic_id=bytes(16))
    fetcher.add(led.now, other.replica(2))
    fetcher.tick(led.now)
    refuse(fetcher, led, ErrorCode.UNKNOWN_LEADER_EPOCH)
    message = asked(fetcher).message
    assert isinstance(message, FetchRequest)
    assert [topic.topic_id for topic in message.topics] == [bytes(16)]


def test_a_fenced_follower_waits_for_metadata(led: World, fetcher: ReplicaFetcher) -> None:
    fetcher.tick(led.now)
    refuse(fetcher, led, ErrorCode.FENCED_LEADER_EPOCH)
    assert fetcher.deadline() == NEVER
    fetcher.tick(led.now + 100 * SECOND)
    assert fetcher.requests == []
    fetcher.add(led.now, led.replica(2))
    fetcher.tick(led.now)
    assert len(fetcher.requests) == 1


@pytest.mark.parametrize("answer", [None, FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)])
def test_without_an_answer_it_rests_and_asks_again(
    led: World, fetcher: ReplicaFetcher, answer: FetchResponse | None
) -> None:
    fetcher.tick(led.now)
    asked(fetcher).complete(led.now, answer)
    assert fetcher.requests == [] and fetcher.deadline() == led.now + SECOND
    fetcher.tick(led.now + SECOND)
    assert len(fetcher.requests) == 1


@pytest.mark.parametrize("meanwhile", ["removed", "new epoch", "truncated"])
def test_an_answer_to_what_is_no_longer_asked_is_dropped(led: World, fetcher: ReplicaFetcher, meanwhile: str) -> None:
    led.produce(1, 3)
    led.catch_up(2, 1)
    led.produce(1, 3)
    fetcher.tick(led.now)
    request = asked(fetcher)
    answer = serve(led, request)
    if meanwhile == "removed":
        fetcher.remove(TOPIC_ID, 0)
    elif meanwhile == "new epoch":
        led.lead(1)
        fetcher.add(led.now, led.replica(2))
    else:
        led.replica(2).truncate_to_leader_end(led.now, 0)
    end = led.replica(2).end_offset
    request.complete(led.now, answer)
    assert led.replica(2).end_offset == end


def test_damaged_records_are_not_taken(led: World, fetcher: ReplicaFetcher) -> None:
    led.produce(1, 3)
    fetcher.tick(led.now)
    request = asked(fetcher)
    answer = serve(led, request)
    records = answer.responses[0].partitions[0].records
    assert records is not None
    damaged = bytearray(records)
    damaged[-1] ^= 1
    answer.responses[0].partitions[0].records = damaged
    request.complete(led.now, answer)
    assert led.replica(2).end_offset == 0
    assert fetcher.deadline() == led.now + SECOND


class TestOutOfRange:
    """Rule 15: ask for the leader's end, then for its start."""

    def answered(self, led: World, fetcher: ReplicaFetcher, offset: int, error: int = 0) -> int:
        """Answer a ListOffsets; the timestamp it asked for."""
        request = asked(fetcher)
        message = request.message
        assert isinstance(message, ListOffsetsRequest) and message.replica_id == 2
        wanted = message.topics[0].partitions[0]
        data = ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset)
        topic = ListOffsetsTopicResponse(name="orders", partitions=[data])
        request.complete(led.now, ListOffsetsResponse(topics=[topic]))
        return wanted.timestamp

    def begin(self, led: World, fetcher: ReplicaFetcher) -> None:
        led.produce(1, 1)
        led.produce(1, 1)
        led.catch_up(2, 1)
        fetcher.tick(led.now)
        refuse(fetcher, led, ErrorCode.OFFSET_OUT_OF_RANGE)

    def test_a_log_longer_than_the_leaders_is_cut(self, led: World, fetcher: ReplicaFetcher) -> None:
        self.begin(led, fetcher)
        assert self.answered(led, fetcher, 1) == -1
        assert led.replica(2).end_offset == 1
        fetcher.tick(led.now)
        assert isinstance(asked(fetcher).message, FetchRequest)

    def test_a_log_that_ends_before_the_leaders_start_begins_anew(self, led: World, fetcher: ReplicaFetcher) -> None:
        self.begin(led, fetcher)
        assert self.answered(led, fetcher, 50) == -1
        assert self.answered(led, fetcher, 20) == -2
        assert led.replica(2).fetch_position().offset == 20
        assert led.replica(2).high_watermark == 20
        fetcher.tick(led.now)
        assert isinstance(asked(fetcher).message, FetchRequest)

    def test_an_error_rests(self, led: World, fetcher: ReplicaFetcher) -> None:
        self.begin(led, fetcher)
        self.answered(led, fetcher, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert fetcher.requests == [] and fetcher.deadline() == led.now + SECOND


def test_with_nothing_to_follow_it_is_silent(led: World) -> None:
    fetcher = ReplicaFetcher(2, 1, ReplicationConfig(), broker_epoch=lambda: -1)
    fetcher.tick(led.now)
    assert fetcher.requests == [] and fetcher.deadline() == NEVER


class TestSession:
    """KIP-227 as a follower speaks it: ask for everything once, then for what has moved."""

    def established(self, led: World, fetcher: ReplicaFetcher, *more: Any) -> None:
        """The leader has answered the first fetch with session 77."""
        for replica in more:
            fetcher.add(led.now, replica)
        fetcher.tick(led.now)
        asked(fetcher).complete(led.now, FetchResponse(session_id=77))

    def other(self, world_with: Any, partition: int = 7) -> Any:
        other = world_with()
        other.state = other.decide(leader=1, partition=partition, topic="payments", topic_id=bytes(16))
        return other.replica(2)

    @staticmethod
    def named(fetcher: ReplicaFetcher) -> tuple[tuple[int, int], list[int], list[int]]:
        """((session id, epoch), what the request names, what it forgets)."""
        message = asked(fetcher).message
        assert isinstance(message, FetchRequest)
        return (
            (message.session_id, message.session_epoch),
            [one.partition for topic in message.topics for one in topic.partitions],
            [number for topic in message.forgotten_topics_data for number in topic.partitions],
        )

    def test_after_the_first_only_what_has_moved_is_named(
        self, led: World, fetcher: ReplicaFetcher, world_with: Any
    ) -> None:
        self.established(led, fetcher, self.other(world_with))
        led.produce(1, 3)
        request = asked(fetcher)
        assert isinstance(request.message, FetchRequest)
        assert (request.message.session_id, request.message.session_epoch, request.message.topics) == (77, 1, [])
        records = led.replica(1).read(0, 1 << 20, 3, at_least_one=True)
        part = PartitionData(partition_index=0, high_watermark=0, records=records)
        answer = FetchResponse(session_id=77, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])])
        request.complete(led.now, answer)
        assert led.replica(2).end_offset == 3
        assert self.named(fetcher) == ((77, 2), [0], [])

    def test_what_is_followed_no_more_is_forgotten(self, led: World, fetcher: ReplicaFetcher, world_with: Any) -> None:
        self.established(led, fetcher, self.other(world_with))
        fetcher.remove(bytes(16), 7)
        asked(fetcher).complete(led.now, FetchResponse(session_id=77))
        assert self.named(fetcher) == ((77, 2), [], [7])

    def test_what_rests_after_an_error_is_forgotten_and_named_again(
        self, led: World, fetcher: ReplicaFetcher, world_with: Any
    ) -> None:
        self.established(led, fetcher, self.other(world_with))
        part = PartitionData(partition_index=0, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
        answer = FetchResponse(session_id=77, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])])
        asked(fetcher).complete(led.now, answer)
        assert self.named(fetcher) == ((77, 2), [], [0])
        fetcher.tick(led.now + SECOND)
        assert self.named(fetcher) == ((77, 3), [0], [])

    @pytest.mark.parametrize("error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
    def test_a_session_the_leader_does_not_know_is_replaced_at_once(
        self, led: World, fetcher: ReplicaFetcher, world_with: Any, error: int
    ) -> None:
        self.established(led, fetcher, self.other(world_with))
        asked(fetcher).complete(led.now, FetchResponse(error_code=error))
        assert self.named(fetcher) == ((77, 0), [0, 7], [])

    def test_without_an_answer_a_new_session_replaces_the_old_one(
        self, led: World, fetcher: ReplicaFetcher, world_with: Any
    ) -> None:
        self.established(led, fetcher, self.other(world_with))
        asked(fetcher).complete(led.now, None)
        fetcher.tick(led.now + SECOND)
        assert self.named(fetcher) == ((77, 0), [0, 7], [])

    def test_a_leader_without_a_slot_is_asked_in_full_every_time(
        self, led: World, fetcher: ReplicaFetcher, world_with: Any
    ) -> None:
        fetcher.add(led.now, self.other(world_with))
        fetcher.tick(led.now)
        for _ in range(2):
            asked(fetcher).complete(led.now, FetchResponse(session_id=0))
            request = asked(fetcher)
            fetcher.requests.append(request)
            assert isinstance(request.message, FetchRequest)
            assert request.message.session_epoch == 0
            assert [one.partition for topic in request.message.topics for one in topic.partitions] == [0, 7]

    def test_a_topic_partition_that_is_added_does_not_wait_for_the_long_poll(
        self, led: World, fetcher: ReplicaFetcher, world_with: Any
    ) -> None:
        self.established(led, fetcher)
        held = asked(fetcher)
        assert fetcher.deadline() == NEVER
        fetcher.add(led.now, self.other(world_with))
        assert fetcher.deadline() <= led.now, "nor for the next event of any other kind (observer rule DUE)"
        fetcher.tick(led.now)
        follow_up = asked(fetcher)
        assert isinstance(follow_up.message, FetchRequest)
        assert (follow_up.message.session_epoch, follow_up.message.topics[0].topic_id) == (2, bytes(16))
        fetcher.add(led.now, self.other(world_with, 8))
        fetcher.tick(led.now)
        assert fetcher.requests == [], "one may follow, once"
        assert fetcher.deadline() == NEVER
        held.complete(led.now, FetchResponse(session_id=77))
        assert self.named(fetcher) == ((77, 3), [8], []), "which is in turn the one that follows"

    def test_a_topic_partition_whose_rest_is_over_does_not_wait_for_the_long_poll(
        self, led: World, fetcher: ReplicaFetcher, world_with: Any
    ) -> None:
        """Observer rule DUE, `worlds` seed 9: while one fetch was under way, nothing woke the fetcher at that time."""
        self.established(led, fetcher, self.other(world_with))
        held = asked(fetcher)
        part = PartitionData(partition_index=7, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        topic = FetchableTopicResponse(topic_id=bytes(16), partitions=[part])
        held.complete(led.now, FetchResponse(session_id=77, responses=[topic]))
        assert self.named(fetcher)[2] == [7]
        due = fetcher.deadline()
        assert led.now < due < NEVER
        fetcher.tick(due)
        assert self.named(fetcher)[1] == [7]

    def test_an_answer_to_an_earlier_request_is_not_taken_for_what_was_asked_again(
        self, led: World, fetcher: ReplicaFetcher
    ) -> None:
        """EP-04: the records of an older leader epoch, where the position is the same by chance."""
        self.established(led, fetcher)
        led.produce(1, 3, acks=1)
        held = asked(fetcher)
        fetcher.add(led.now, led.replica(2))
        fetcher.tick(led.now)
        assert self.named(fetcher)[1] == [0]
        records = led.replica(1).read(0, 1 << 20, 3, at_least_one=True)
        part = PartitionData(partition_index=0, records=records)
        answer = FetchResponse(session_id=77, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])])
        held.complete(led.now, answer)
        assert led.replica(2).end_offset == 0

    def test_a_new_leader_epoch_ends_the_rest_after_a_failure(self, led: World, fetcher: ReplicaFetcher) -> None:
        fetcher.tick(led.now)
        asked(fetcher).complete(led.now, None)
        led.lead(1)
        fetcher.add(led.now, led.replica(2))
        fetcher.tick(led.now)
        assert len(fetcher.requests) == 1


def test_mutant_stale_fetch_appended_takes_what_an_older_epoch_sent(world_with: Any) -> None:
    """EP-04, rule 9: behind a record of the new epoch come two of the old one, which nobody else has there."""
    taken = {}
    for names in (frozenset[str](), frozenset({"stale-fetch-appended"})):
        world = world_with(Mutants(names))
        world.lead(1)
        fetcher = ReplicaFetcher(2, 1, ReplicationConfig(), broker_epoch=lambda: 102, mutants=Mutants(names))
        fetcher.add(world.now, world.replica(2))
        for _ in range(3):
            world.produce(1, 1, acks=1)
        fetcher.tick(world.now)
        request = asked(fetcher)
        answer = serve(world, request)
        world.lead(3)
        fetcher.remove(TOPIC_ID, 0)
        world.produce(3, 1, acks=1)
        world.catch_up(2, 3)
        request.complete(world.now, answer)
        taken[bool(names)] = [epoch for _, epoch, _ in world.content(2)]
    assert taken == {False: [2], True: [2, 1, 1]}

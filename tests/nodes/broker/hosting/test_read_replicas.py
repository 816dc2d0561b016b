"""Reading from followers (KIP-392, rule 18): who is sent where, and what a follower shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.requests.session import ServerRequest
from tests.nodes.broker.world import OTHER, OWN, SECOND, THIRD, World, fetched, topic_id


def racked_world(*, selector: bool = True) -> World:
    """Broker n stands in rack n."""
    world = World()
    world.config = replace(world.config, rack="1", rack_aware_reads=selector)
    world.broker = world._make()
    world.start()
    for broker in (OWN, OTHER, THIRD):
        place(world, broker, str(broker))
    return world


def place(world: World, broker: int, rack: str) -> None:
    world.broker.image.brokers[broker] = replace(world.broker.image.brokers[broker], rack=rack)


@pytest.fixture
def led() -> World:
    """This broker leads; five records are committed, of which broker 3 has but four to show for."""
    world = racked_world()
    world.create(min_isr=1)
    for _ in range(5):
        world.produce(acks=1)
    world.follow(OTHER, 5)
    world.follow(THIRD, 4)
    return world


@pytest.fixture
def following() -> World:
    """Broker 2 leads; this one has four records, three of them committed as far as it knows."""
    world = racked_world()
    world.create(leader=OTHER)
    batches = b"".join(
        bytes(build_batch([Record(value=b"v")], base_offset=offset, leader_epoch=0)) for offset in range(4)
    )
    answer_fetch(world, PartitionData(partition_index=0, high_watermark=3, log_start_offset=0, records=batches))
    return world


def answer_fetch(world: World, part: PartitionData) -> None:
    """The leader's answer to the fetch that this broker has under way."""
    request, _ = world.asked(FetchRequest)
    topic = FetchableTopicResponse(topic_id=topic_id("t"), partitions=[part])
    request.complete(world.now, FetchResponse(responses=[topic]))
    world.run()


def answer_listed(world: World, offset: int) -> None:
    """The leader's answer to the question where its log ends or begins."""
    request, _ = world.asked(ListOffsetsRequest)
    part = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
    request.complete(world.now, ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[part])]))
    world.run()


def consume(world: World, offset: int, rack: str, *, epoch: int = -1, max_wait_ms: int = 0) -> ServerRequest:
    partition = FetchPartition(fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=topic_id("t"), partitions=[partition])
    return world.ask(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic], rack_id=rack), 16)


def preferred(request: ServerRequest) -> int:
    part = fetched(request)
    assert part.error_code == 0
    assert part.preferred_read_replica == -1 or not part.records, "who is sent away gets no records"
    return part.preferred_read_replica


class TestTheLeaderDecides:
    """Rule 18: only the leader knows how far its followers are."""

    @pytest.mark.parametrize(("rack", "goes_to"), [("", -1), ("1", -1), ("2", OTHER), ("3", THIRD), ("elsewhere", -1)])
    def test_a_consumer_is_sent_to_its_own_rack(self, led: World, rack: str, goes_to: int) -> None:
        assert preferred(consume(led, 0, rack)) == goes_to

    def test_but_not_to_a_replica_that_lacks_the_offset(self, led: World) -> None:
        assert preferred(consume(led, 5, "2")) == OTHER
        assert preferred(consume(led, 5, "3")) == -1

    def test_nor_to_one_outside_the_isr(self, led: World) -> None:
        led.change(isr=[OWN, OTHER])
        assert preferred(consume(led, 0, "3")) == -1

    def test_nor_to_one_that_is_fenced(self, led: World) -> None:
        led.broker.image.brokers[THIRD] = replace(led.broker.image.brokers[THIRD], fenced=True)
        assert preferred(consume(led, 0, "3")) == -1

    def test_of_two_in_a_rack_it_goes_to_the_one_that_has_more(self, led: World) -> None:
        place(led, THIRD, "2")
        assert preferred(consume(led, 0, "2")) == OTHER

    def test_it_is_not_made_to_wait(self, led: World) -> None:
        assert preferred(consume(led, 5, "2", max_wait_ms=500)) == OTHER

    def test_nobody_is_sent_anywhere_unless_the_selector_is_configured(self) -> None:
        world = racked_world(selector=False)
        world.create()
        assert preferred(consume(world, 0, "2")) == -1


class TestAFollowerServes:
    """Rule 18: by its own high watermark."""

    def test_what_it_knows_to_be_committed(self, following: World) -> None:
        part = fetched(consume(following, 0, "1"))
        assert (part.error_code, part.high_watermark) == (0, 3)
        assert part.records

    def test_nothing_between_its_high_watermark_and_its_log_end(self, following: World) -> None:
        for offset in (3, 4):
            part = fetched(consume(following, offset, "1"))
            assert (part.error_code, part.records) == (0, b"")

    def test_beyond_its_log_end_is_out_of_range(self, following: World) -> None:
        assert fetched(consume(following, 5, "1")).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_a_long_poll_ends_when_its_high_watermark_moves(self, following: World) -> None:
        request = consume(following, 3, "1", max_wait_ms=500)
        assert request.answer is None
        answer_fetch(following, PartitionData(partition_index=0, high_watermark=4, log_start_offset=0, records=b""))
        assert fetched(request).records

    def test_a_long_poll_ends_when_the_log_begins_anew_beyond_it(self, following: World) -> None:
        """Seed 504185 of the swarm of worlds: the consumer heard of it with the next record only."""
        parked = consume(following, 3, "1", max_wait_ms=500)
        answer_fetch(following, PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        for offset in (50, 20):
            answer_listed(following, offset)
        assert following.broker.replicas.all()[0].replica.log.start_offset == 20
        assert fetched(parked).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_a_long_poll_ends_when_the_log_is_cut_before_it(self, following: World) -> None:
        parked = consume(following, 3, "1", max_wait_ms=500)
        cut = EpochEndOffset(epoch=0, end_offset=1)
        answer_fetch(following, PartitionData(partition_index=0, diverging_epoch=cut))
        assert following.broker.replicas.all()[0].replica.end_offset == 1
        assert fetched(parked).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_it_never_sends_a_consumer_on(self, following: World) -> None:
        assert preferred(consume(following, 0, "2")) == -1

    @pytest.mark.parametrize(("epoch", "error"), [(0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)])
    def test_it_checks_the_epoch(self, following: World, epoch: int, error: int) -> None:
        assert fetched(consume(following, 0, "1", epoch=epoch)).error_code == error

    def test_a_consumer_of_an_older_epoch_is_fenced(self, following: World) -> None:
        parked = consume(following, 3, "1", epoch=0, max_wait_ms=500)
        following.change(leader=THIRD)
        assert fetched(parked).error_code == ErrorCode.FENCED_LEADER_EPOCH

    def test_a_consumer_without_a_rack_is_sent_to_the_leader(self, following: World) -> None:
        part = fetched(consume(following, 0, ""))
        assert (part.error_code, part.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, OTHER)

    def test_a_topic_that_is_deleted_is_served_no_more(self, following: World) -> None:
        parked = consume(following, 3, "1", max_wait_ms=500)
        following.broker.replicas._remove(topic_id("t"), 0)
        following.run(after=SECOND // 10)
        assert fetched(parked).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

"""Fetch sessions (KIP-227): what is remembered, what is told, what is refused, and what no fetch looks at (DP-04)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from squall.nodes.broker.requests.fetch import MOST_FAILED
from squall.nodes.broker.requests.fetch_sessions import WATCHED_PER_HOSTED
from squall.nodes.metadata.records import PartitionChangeRecord
from squall.nodes.mutants import Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataResponse,
    TopicDataResponse,
)
from squall.nodes.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.ports import FetchBounds
from squall.nodes.replication.replica import TopicPartitionReplica
from tests.nodes.broker.world import OTHER, OWN, SECOND, THIRD, World, topic_id

IDLE = 120 * SECOND


class Fetcher:
    """One side of a session, by hand: a consumer, or a follower by its id."""

    def __init__(self, world: World, broker: int = -1, *, version: int = 16) -> None:
        self.world = world
        self.broker = broker
        self.version = version
        self.id = 0
        self.epoch = 0

    def fetch(
        self,
        offsets: dict[int, int],
        *,
        forget: tuple[int, ...] = (),
        max_wait_ms: int = 0,
        epoch: int = -1,
        max_bytes: int = 1 << 20,
    ) -> ServerRequest:
        state = ReplicaState()
        if self.broker >= 0:
            state = ReplicaState(self.broker, self.world.broker.image.brokers[self.broker].epoch)
        wanted = [
            FetchPartition(
                partition=number, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20
            )
            for number, offset in offsets.items()
        ]
        topics = [FetchTopic(topic_id=topic_id("t"), topic="t", partitions=wanted)] if wanted else []
        forgotten = [ForgottenTopic(topic_id=topic_id("t"), topic="t", partitions=list(forget))] if forget else []
        message = FetchRequest(
            replica_state=state, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, session_id=self.id,
            session_epoch=self.epoch, topics=topics, forgotten_topics_data=forgotten,
        )  # fmt: skip
        self.epoch += 1
        return self.world.ask(message, self.version)

    def begin(self, offsets: dict[int, int], *, epoch: int = -1, max_bytes: int = 1 << 20) -> FetchResponse:
        response = answer(self.fetch(offsets, epoch=epoch, max_bytes=max_bytes))
        self.id = response.session_id
        return response


def answer(request: ServerRequest) -> FetchResponse:
    assert request.answer is not None, "not answered yet"
    response = request.answer.response
    assert isinstance(response, FetchResponse)
    return response


def told(response: FetchResponse) -> list[int]:
    return [part.partition_index for topic in response.responses for part in topic.partitions]


def commit(world: World, partition: int, value: bytes = b"v") -> None:
    world.produce(("t", partition), acks=1, value=value)
    hosted = world.broker.replicas.by_name("t", partition)
    assert hosted is not None
    for follower in (OTHER, THIRD):
        Fetcher(world, follower).fetch({partition: hosted.replica.end_offset}, epoch=-1)
    world.run()


def session_count(world: World) -> int:
    return len(world.broker.fetching.sessions)


@pytest.fixture
def led(world: World) -> World:
    world.create(partitions=4)
    return world


@pytest.mark.parametrize("version", [12, 16], ids=["by name", "by id"])
def test_the_first_answer_tells_everything_and_the_next_only_what_has_changed(led: World, version: int) -> None:
    consumer = Fetcher(led, version=version)
    assert told(consumer.begin(dict.fromkeys(range(4), 0))) == [0, 1, 2, 3]
    assert consumer.id != 0
    assert told(answer(consumer.fetch({}))) == []
    commit(led, 2)
    response = answer(consumer.fetch({}))
    assert told(response) == [2]
    assert response.responses[0].partitions[0].records


def test_what_was_told_is_told_again_until_the_fetcher_moves_on(led: World) -> None:
    """As in Kafka: the session still has the old offset, so it is asked for."""
    consumer = Fetcher(led)
    commit(led, 1)
    consumer.begin({0: 0, 1: 0})
    assert told(answer(consumer.fetch({}))) == [1]
    assert told(answer(consumer.fetch({1: 1}))) == []


def added(world: World) -> list[int]:
    """What a session is answered of a topic-partition that it names for the first time, and of one it names anew."""
    world.create(partitions=3)
    for number in range(3):
        commit(world, number)
    consumer = Fetcher(world)
    consumer.begin({0: 1, 1: 1})
    return told(answer(consumer.fetch({1: 0, 2: 0})))


def test_a_session_reads_what_it_adds_and_what_it_moves(world: World) -> None:
    """DP-04: a topic-partition named in a fetch is looked at in that fetch."""
    assert added(world) == [1, 2]


def test_a_session_of_the_mutant_ignores_what_it_adds() -> None:
    world = World(Mutants(frozenset({"session-additions-ignored"})))
    world.start()
    assert added(world) == []


def test_a_high_watermark_is_news_of_its_own(led: World) -> None:
    follower = Fetcher(led, OTHER)
    follower.begin({0: 0, 1: 0}, epoch=0)
    led.produce(("t", 1), acks=1)
    follower.fetch({1: 1}, epoch=0)
    Fetcher(led, THIRD).fetch({1: 1}, epoch=0)
    led.broker.settle(led.now)
    [part] = answer(follower.fetch({})).responses[0].partitions
    assert (part.partition_index, part.high_watermark, part.records) == (1, 1, b"")


def test_a_follower_that_names_a_topic_partition_again_is_told_its_bounds_again(led: World) -> None:
    """DP-06, `worlds` seeds 985668 and 998904: it had asked again before it had the answer, and dropped what it said.

    The follower takes records and high watermark 0 from the first answer. The second answer is to a fetch that it sent
    before it had the first one; it holds high watermark 1, and is dropped since the log has moved.
    """
    follower = Fetcher(led, OTHER)
    follower.begin({1: 0}, epoch=0)
    led.produce(("t", 1), acks=1)
    [first] = answer(follower.fetch({})).responses[0].partitions
    assert (first.high_watermark, bool(first.records)) == (0, True)
    led.now += 11 * SECOND
    led.change(partition=1, isr=[1])
    [dropped] = answer(follower.fetch({})).responses[0].partitions
    assert dropped.high_watermark == 1
    [again] = answer(follower.fetch({1: 1}, epoch=0)).responses[0].partitions
    assert (again.high_watermark, again.records) == (1, b"")
    assert told(answer(follower.fetch({}))) == [], "once is enough"


def test_the_log_start_is_news_of_its_own(led: World) -> None:
    commit(led, 0)
    consumer = Fetcher(led)
    consumer.begin({0: 1})
    hosted = led.broker.replicas.by_name("t", 0)
    assert hosted is not None
    assert not hosted.replica.delete_before(1).error
    led.broker._progress.noted(hosted)
    led.broker.settle(led.now)
    [part] = answer(consumer.fetch({})).responses[0].partitions
    assert (part.log_start_offset, part.error_code) == (1, 0)


def test_an_error_is_told_every_time_until_the_topic_partition_is_forgotten(led: World) -> None:
    led.change(partition=3, leader=THIRD)
    consumer = Fetcher(led)
    consumer.begin({0: 0, 3: 0})
    for _ in range(2):
        [part] = answer(consumer.fetch({})).responses[0].partitions
        assert (part.partition_index, part.error_code) == (3, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert told(answer(consumer.fetch({}, forget=(3,)))) == []
    led.change(partition=3, leader=1)
    assert told(answer(consumer.fetch({}))) == []


def test_once_an_error_is_over_the_bounds_of_the_log_are_told_again(led: World) -> None:
    """DP-04, as in Kafka: from a response with an error, a consumer takes no high watermark (`worlds` seed 999133)."""
    commit(led, 0)
    consumer = Fetcher(led)
    [refused] = consumer.begin({0: 9}).responses[0].partitions
    assert (refused.error_code, refused.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)
    [part] = answer(consumer.fetch({0: 1})).responses[0].partitions
    assert (part.error_code, part.high_watermark, part.records) == (0, 1, b"")
    assert told(answer(consumer.fetch({}))) == []


def test_a_topic_partition_that_comes_to_be_is_found(world: World) -> None:
    consumer = Fetcher(world)
    assert consumer.begin({0: 0}).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    world.create()
    assert answer(consumer.fetch({})).responses[0].partitions[0].error_code == 0


def test_a_replica_that_was_removed_and_added_again_is_found_at_once(led: World) -> None:
    """Two reassignments between two fetches of a session; the second one made this broker the leader again."""
    consumer = Fetcher(led)
    consumer.begin({0: 0})
    led.change(replicas=[OTHER, THIRD], isr=[OTHER, THIRD], leader=OTHER)
    led.change(replicas=[OWN, OTHER, THIRD], isr=[OWN, OTHER, THIRD], leader=OWN)
    assert answer(consumer.fetch({0: 0})).responses == [], "no news, and no error"


def test_a_parked_fetch_looks_only_at_what_has_changed(led: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a fetch is proportional to what has changed, whatever the session holds (DP-04)."""
    consumer = Fetcher(led)
    consumer.begin(dict.fromkeys(range(4), 0))
    parked = consumer.fetch({}, max_wait_ms=500)
    looked = []
    for hosted in led.broker.replicas.all():

        def noting(
            *given: int, at: int = hosted.partition, original: Any = hosted.replica.consumer_fetch, **named: bool
        ) -> Any:
            looked.append(at)
            return original(*given, **named)

        monkeypatch.setattr(hosted.replica, "consumer_fetch", noting)
    commit(led, 2)
    assert told(answer(parked)) == [2]
    assert looked == [2]


def test_no_topic_partition_starves(led: World) -> None:
    """What was told goes to the end of the line, and every answer has room for one only."""
    for number in range(4):
        for _ in range(3):
            commit(led, number, bytes(500))
    consumer = Fetcher(led)
    response = consumer.begin(dict.fromkeys(range(4), 0), max_bytes=1)
    served = []
    for _ in range(8):
        with_records = [part for part in response.responses[0].partitions if part.records]
        [part] = with_records
        served.append(part.partition_index)
        response = answer(consumer.fetch({part.partition_index: served.count(part.partition_index)}, max_bytes=1))
    assert sorted(served[:4]) == sorted(served[4:]) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("number", "epoch", "error"),
    [
        ("unknown", 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ("right", 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ("right", 5, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_a_session_out_of_step_is_refused(led: World, number: str, epoch: int, error: int) -> None:
    consumer = Fetcher(led)
    consumer.begin({0: 0})
    consumer.id += number == "unknown"
    consumer.epoch = epoch
    assert answer(consumer.fetch({})).error_code == error
    assert session_count(led) == 1, "the session itself stays as it was"


def test_names_and_ids_do_not_mix_in_one_session(led: World) -> None:
    consumer = Fetcher(led, version=16)
    consumer.begin({0: 0})
    consumer.version = 12
    assert answer(consumer.fetch({})).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_is_not_another_fetchers(led: World) -> None:
    follower = Fetcher(led, OTHER)
    follower.begin({0: 0}, epoch=0)
    follower.broker = THIRD
    assert answer(follower.fetch({})).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_new_session_ends_the_one_it_names(led: World) -> None:
    consumer = Fetcher(led)
    first = consumer.begin({0: 0}).session_id
    consumer.epoch = 0
    assert consumer.begin({0: 0}).session_id not in (0, first)
    assert session_count(led) == 1


def test_epoch_minus_one_ends_the_session(led: World) -> None:
    consumer = Fetcher(led)
    consumer.begin({0: 0})
    consumer.epoch = -1
    assert answer(consumer.fetch({})).session_id == 0
    assert session_count(led) == 0
    assert [len(hosted.consumers) for hosted in led.broker.replicas.all()] == [0, 0, 0, 0]


def test_a_session_that_has_forgotten_everything_is_over(led: World) -> None:
    consumer = Fetcher(led)
    consumer.begin({0: 0})
    assert answer(consumer.fetch({}, forget=(0,), max_wait_ms=500)).session_id == 0
    assert session_count(led) == 0


def test_the_next_fetch_of_a_session_ends_the_one_that_is_parked(led: World) -> None:
    """So a follower can name another topic-partition without waiting for its long poll to end."""
    follower = Fetcher(led, OTHER)
    follower.begin({0: 0}, epoch=0)
    parked = follower.fetch({}, max_wait_ms=500)
    assert parked.answer is None
    follower.fetch({1: 0}, epoch=0, max_wait_ms=500)
    assert told(answer(parked)) == []


class TestSlots:
    """Memory is bounded: `max.incremental.fetch.session.cache.slots`."""

    def world(self, slots: int) -> World:
        world = World()
        world.config = replace(world.config, fetch_session_slots=slots)
        world.broker = world._make()
        world.start()
        world.create()
        return world

    def test_without_a_slot_a_fetch_is_answered_all_the_same(self) -> None:
        world = self.world(1)
        Fetcher(world).begin({0: 0})
        late = Fetcher(world).begin({0: 0})
        assert (late.session_id, told(late)) == (0, [0])

    def test_none_are_kept_if_none_are_allowed(self) -> None:
        assert Fetcher(self.world(0), OTHER).begin({0: 0}, epoch=0).session_id == 0

    def test_an_idle_session_makes_way(self) -> None:
        world = self.world(1)
        idle = Fetcher(world)
        idle.begin({0: 0})
        world.now += IDLE
        assert Fetcher(world).begin({0: 0}).session_id != 0
        assert answer(idle.fetch({})).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_a_consumer_makes_way_for_a_follower_but_not_the_other_way_round(self) -> None:
        world = self.world(1)
        Fetcher(world).begin({0: 0})
        assert Fetcher(world, OTHER).begin({0: 0}, epoch=0).session_id != 0
        assert Fetcher(world).begin({0: 0}).session_id == 0
        assert Fetcher(world, THIRD).begin({0: 0}, epoch=0).session_id == 0

    def test_who_makes_way_is_answered_before_its_session_ends(self) -> None:
        """So no response names a session that the broker does not keep (DP-04)."""
        world = self.world(1)
        consumer = Fetcher(world)
        consumer.begin({0: 0})
        kept: list[bool] = []
        parked = consumer.fetch({}, max_wait_ms=500)
        parked.on_answer = lambda _: kept.append(world.broker.fetching.sessions.find(consumer.id) is not None)
        assert Fetcher(world, OTHER).begin({0: 0}, epoch=0).session_id != 0
        assert answer(parked).session_id == consumer.id and kept == [True]


class TestTopicPartitions:
    """Memory is bounded: what all sessions name together, however few they are."""

    def world(self, most: int) -> World:
        world = World()
        world.config = replace(world.config, fetch_session_topic_partitions=most)
        world.broker = world._make()
        world.start()
        world.create()
        return world

    MOST = 6
    ROOM = MOST + WATCHED_PER_HOSTED

    def test_a_session_that_names_more_than_there_is_room_for_is_not_kept(self) -> None:
        world = self.world(self.MOST)
        assert Fetcher(world).begin(dict.fromkeys(range(self.ROOM), 0)).session_id != 0
        late = Fetcher(world).begin({0: 0})
        assert (late.session_id, told(late)) == (0, [0]), "answered all the same"

    def test_what_ends_or_is_forgotten_makes_room(self) -> None:
        world = self.world(self.MOST)
        first = Fetcher(world)
        first.begin(dict.fromkeys(range(self.ROOM), 0))
        first.fetch({}, forget=tuple(range(1, self.ROOM)))
        rest = dict.fromkeys(range(self.ROOM - 1), 0)
        second = Fetcher(world)
        assert second.begin(rest).session_id != 0
        first.fetch({}, forget=(0,))
        second.fetch({}, forget=tuple(rest))
        assert len(world.broker.fetching.sessions) == world.broker.fetching.sessions.watched == 0

    def test_a_session_that_outgrows_the_bound_ends_and_begins_anew(self) -> None:
        world = self.world(self.MOST)
        fetcher = Fetcher(world)
        fetcher.begin({0: 0})
        grown = answer(fetcher.fetch(dict.fromkeys(range(self.ROOM + 1), 0)))
        assert grown.error_code == 0 and grown.session_id == 0
        assert len(world.broker.fetching.sessions) == world.broker.fetching.sessions.watched == 0

    def test_consumers_make_way_for_a_follower_unless_that_would_not_help(self) -> None:
        world = self.world(self.MOST)
        for _ in range(self.ROOM):
            assert Fetcher(world).begin({0: 0}).session_id != 0
        too_many = Fetcher(world, OTHER).begin(dict.fromkeys(range(self.ROOM + 1), 0), epoch=0)
        assert too_many.session_id == 0
        assert len(world.broker.fetching.sessions) == self.ROOM
        assert Fetcher(world, OTHER).begin(dict.fromkeys(range(4), 0), epoch=0).session_id != 0
        assert len(world.broker.fetching.sessions) == self.ROOM - 4 + 1
        assert Fetcher(world, THIRD).begin(dict.fromkeys(range(self.ROOM), 0), epoch=0).session_id == 0


class TestFollowers:
    """A follower is heard of through topic-partitions that its fetches do not name (rules 10 and 19)."""

    def replica(self, world: World, number: int = 0) -> TopicPartitionReplica:
        hosted = world.broker.replicas.by_name("t", number)
        assert hosted is not None
        return hosted.replica

    def idle_followers(self, world: World) -> list[Fetcher]:
        """Followers that have everything, and have named nothing in thirty fetches, a second apart."""
        followers = [Fetcher(world, broker) for broker in (OTHER, THIRD)]
        for follower in followers:
            follower.begin(dict.fromkeys(range(4), 0), epoch=0)
        for _ in range(30):
            world.now += SECOND
            for follower in followers:
                follower.fetch({})
        return followers

    def check_that_they_had_everything_until_now(self, world: World) -> None:
        """A record that followers do not fetch makes them leave the ISR after ten seconds, and not before."""
        replica = self.replica(world)
        world.produce(("t", 0), acks=1)
        world.now += 9 * SECOND
        assert not replica.maybe_shrink(world.now) and replica.proposal is None
        world.now += 2 * SECOND
        replica.maybe_shrink(world.now)
        assert replica.proposal is not None, "ten seconds are the limit"

    def test_an_idle_follower_is_not_lagging_when_the_log_grows(self, led: World) -> None:
        """It had everything at its last fetch, although none of its last thirty fetches named this topic-partition."""
        self.idle_followers(led)
        self.check_that_they_had_everything_until_now(led)

    @pytest.mark.parametrize("way", ["is refused", "forgets", "begins anew"])
    def test_what_it_had_counts_also_if_its_next_fetch_changes_the_session(self, led: World, way: str) -> None:
        """IS-03, seed 1 of `zookeeper-late-isr`: a follower names a leader epoch that the leader does not know yet."""
        followers = self.idle_followers(led)
        led.now += SECOND // 2
        for follower in followers:
            if way == "is refused":
                refused = answer(follower.fetch({0: 0}, epoch=1)).responses[0].partitions[0]
                assert refused.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
            elif way == "forgets":
                follower.fetch({}, forget=(0,))
            else:
                follower.epoch = 0
                follower.begin({1: 0}, epoch=0)
        self.check_that_they_had_everything_until_now(led)

    def test_a_follower_that_becomes_eligible_joins_with_its_next_fetch(self, led: World) -> None:
        led.change(isr=[1, OTHER])
        fenced = led.broker.image.brokers[THIRD]
        led.broker.image.brokers[THIRD] = replace(fenced, fenced=True)
        follower = Fetcher(led, THIRD)
        follower.begin({0: 0, 1: 0}, epoch=0)
        follower.fetch({})
        assert led.asked_nothing(AlterPartitionRequest)
        led.broker.image.brokers[THIRD] = fenced
        follower.fetch({})
        _, message = led.asked(AlterPartitionRequest)
        assert [part.partition_index for part in message.topics[0].partitions] == [0]

    @pytest.mark.parametrize("why", ["fenced", "in_controlled_shutdown"])
    def test_following_an_idle_fenced_or_stopping_broker_costs_nothing(
        self, led: World, why: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its fetches cannot let it into an ISR; those of a broker that may join are weighed each time."""
        weighed: list[int] = []
        fetched = TopicPartitionReplica.follower_fetch

        def counted(replica: TopicPartitionReplica, *arguments: Any, **named: Any) -> FetchBounds:
            weighed.append(replica.partition)
            return fetched(replica, *arguments, **named)

        led.change(isr=[1, OTHER])
        fit = led.broker.image.brokers[THIRD]
        led.broker.image.brokers[THIRD] = replace(fit, **{why: True})
        follower = Fetcher(led, THIRD)
        follower.begin({0: 0, 1: 0}, epoch=0)
        monkeypatch.setattr(TopicPartitionReplica, "follower_fetch", counted)
        follower.fetch({})
        assert weighed == []
        led.broker.image.brokers[THIRD] = fit
        follower.fetch({})
        assert sorted(set(weighed)) == [0, 1]
        weighed.clear()
        follower.fetch({})
        assert weighed == [], "the controller has been asked to let it in"
        request, _ = led.asked(AlterPartitionRequest)
        refused = PartitionDataResponse(0, int(ErrorCode.INELIGIBLE_REPLICA))
        request.complete(led.now, AlterPartitionResponse(topics=[TopicDataResponse(topic_id("t"), [refused])]))
        led.run()
        follower.fetch({})
        assert set(weighed) == {0}, "it is to be asked again"

    def test_a_follower_dropped_while_it_caught_up_joins_again(self, led: World) -> None:
        follower = Fetcher(led, THIRD)
        follower.begin({0: 0}, epoch=0)
        follower.fetch({})
        led.change(isr=[1, OTHER])
        follower.fetch({})
        _, message = led.asked(AlterPartitionRequest)
        assert [state.broker_id for state in message.topics[0].partitions[0].new_isr_with_epochs] == [1, OTHER, THIRD]

    def test_of_thousands_that_are_lost_at_once_some_end_the_wait(self, world: World) -> None:
        """Rule 16. A follower that has heard of it forgets the others; who has not is told of more each time."""
        lost = MOST_FAILED + 50
        world.create(partitions=lost + 1)
        while world.broker.replicas.is_busy:
            world.run()
        follower = Fetcher(world, OTHER)
        follower.begin(dict.fromkeys(range(lost + 1), 0), epoch=0)
        parked = follower.fetch({}, max_wait_ms=500)
        world.commit(*(PartitionChangeRecord(number, topic_id("t"), leader=THIRD) for number in range(lost)))
        first = told(answer(parked))
        assert len(set(first)) == MOST_FAILED
        world.produce(("t", lost), acks=1)
        [topic] = answer(follower.fetch({}, forget=tuple(first))).responses
        *failed, led = topic.partitions
        assert {part.error_code for part in failed} == {ErrorCode.FENCED_LEADER_EPOCH}
        assert sorted([*first, *(part.partition_index for part in failed)]) == list(range(lost))
        assert led.partition_index == lost and led.records, "what is led here is told of whatever else fails"

    def test_who_names_what_is_not_led_here_hears_of_everything(self, world: World) -> None:
        world.create(partitions=MOST_FAILED + 50, leader=THIRD)
        while world.broker.replicas.is_busy:
            world.run()
        everything = dict.fromkeys(range(MOST_FAILED + 50), 0)
        assert told(Fetcher(world, OTHER).begin(everything, epoch=0)) == list(everything)

    def test_a_parked_fetch_ends_with_the_epoch(self, led: World) -> None:
        """Rule 16: leadership, epoch and divergence end the wait."""
        follower = Fetcher(led, OTHER)
        follower.begin({0: 0, 1: 0}, epoch=0)
        parked = follower.fetch({}, max_wait_ms=500)
        led.change(partition=1, leader=1)
        [part] = answer(parked).responses[0].partitions
        assert (part.partition_index, part.error_code) == (1, ErrorCode.FENCED_LEADER_EPOCH)

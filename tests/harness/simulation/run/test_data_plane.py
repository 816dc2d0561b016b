"""Courses of replication in a whole simulated cluster, played out step by step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nodes.broker.hosting.hosted_partition import HostedPartition
from squall.nodes.metadata.image import PartitionRegistration
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from squall.nodes.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from squall.nodes.protocol.records import Record, build_batch, iterate_batches, parse_records
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message

SECOND = 1_000_000
TOPIC = "events"


class Course:
    """A cluster of three and three with one topic-partition; requests are put straight to a broker."""

    def __init__(self) -> None:
        self.world = SimWorld(ClusterShape(), 1, topics={TOPIC: 1})
        self.world.start()
        self.run(5)
        settings = [CreatableTopicConfig(name="min.insync.replicas", value="2")]
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=3, configs=settings)
        self.ask("b1", CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        self.run(2)
        self.leader = self.leader_by("b1")
        self.followers = [name for name in ("b1", "b2", "b3") if name != self.leader]

    def run(self, seconds: float) -> None:
        self.world.kernel.run_for(int(seconds * SECOND))

    # -- what is so -----------------------------------------------------------------------------------------------

    def hosted(self, name: str) -> HostedPartition:
        node = self.world.processes[name].node
        assert node is not None and node.broker is not None
        found = node.broker.replicas.by_name(TOPIC, 0)
        assert found is not None
        return found

    def registration(self, by: str) -> PartitionRegistration:
        """The topic-partition as this broker's metadata has it."""
        node = self.world.processes[by].node
        assert node is not None and node.broker is not None
        found = node.broker.image.partition(TOPIC, 0)
        assert found is not None
        return found

    def leader_by(self, name: str) -> str:
        leader = self.registration(name).leader
        return next(place.name for place in self.world.places if place.node_id == leader)

    def values(self, name: str) -> list[bytes]:
        log = self.hosted(name).replica.log
        return [
            record.value or b""
            for whole in log.batches(0, log.end_offset)
            for _, batch in iterate_batches(whole)
            for record in parse_records(batch)
        ]

    # -- what is done ---------------------------------------------------------------------------------------------

    def ask(self, name: str, message: Message, version: int | None = None) -> ServerRequest:
        process = self.world.processes[name]
        assert process.node is not None and process.node.broker is not None
        version = message.VERSIONS[1] if version is None else version
        request = ServerRequest(message.API_KEY, version, message, "test", "PLAINTEXT", 9999, self.world.kernel.now)
        process.node.broker.handle(self.world.kernel.now, request)
        return request

    def produce(self, name: str, value: bytes, *, acks: int = -1, timeout_ms: int = 60_000) -> ServerRequest:
        data = PartitionProduceData(0, memoryview(bytearray(build_batch([Record(value=value)]))))
        topics = [TopicProduceData(TOPIC, [data])]
        return self.ask(name, ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics), 9)

    def consume(self, name: str, offset: int) -> FetchResponse:
        topic_id = self.hosted(name).topic_id
        wanted = FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
        request = self.ask(name, FetchRequest(topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])]), 16)
        assert request.answer is not None and isinstance(request.answer.response, FetchResponse)
        return request.answer.response

    def cut(self, first: str, *others: str) -> None:
        """Nothing passes between one host and some others, in either direction."""
        addresses = {place.name: place.address for place in self.world.places}
        for other in others:
            self.world.network.block(addresses[first], addresses[other], "cut")
            self.world.network.block(addresses[other], addresses[first], "cut")

    def heal(self) -> None:
        self.world.network.unblock("cut")


@pytest.fixture
def course() -> Iterator[Course]:
    made = Course()
    yield made
    made.world.switch_off()


def error_of(request: ServerRequest) -> int | None:
    """The answer to a produce request, None if there is none yet."""
    if request.answer is None:
        return None
    assert isinstance(request.answer.response, ProduceResponse)
    return request.answer.response.responses[0].partition_responses[0].error_code


def test_three_seconds_without_a_link_change_no_metadata(course: Course) -> None:
    """DP-11: leader and follower do not reach each other; nobody is dropped, and what waited is acknowledged after."""
    before = course.registration(course.leader)
    assert len(before.isr) == 3
    course.cut(course.leader, course.followers[0])
    waiting = [course.produce(course.leader, b"%d" % number) for number in range(5)]
    course.run(3)
    assert [error_of(request) for request in waiting] == [None] * 5, "every member of the ISR counts"
    course.heal()
    course.run(3)
    assert [error_of(request) for request in waiting] == [0] * 5
    assert course.registration(course.leader) == before


class TestACutOffLeader:
    """Rule 31: it does not fence itself, it goes on serving, and harms nobody: it can acknowledge nothing."""

    @pytest.fixture
    def cut_off(self, course: Course) -> Course:
        """One record is acknowledged by all; then the leader reaches clients only, and another is elected."""
        first = course.produce(course.leader, b"before")
        course.run(2)
        assert error_of(first) == 0
        others = [place.name for place in course.world.places if place.name != course.leader]
        course.cut(course.leader, *others)
        course.run(15)
        assert course.leader_by(course.followers[0]) != course.leader
        return course

    def test_it_serves_what_is_committed(self, cut_off: Course) -> None:
        assert cut_off.hosted(cut_off.leader).replica.is_leader
        [part] = cut_off.consume(cut_off.leader, 0).responses[0].partitions
        assert part.error_code == 0 and part.records
        assert part.high_watermark == 1

    def test_it_acknowledges_nothing_that_needs_the_others(self, cut_off: Course) -> None:
        request = cut_off.produce(cut_off.leader, b"lost", timeout_ms=20_000)
        cut_off.run(25)
        assert error_of(request) == ErrorCode.REQUEST_TIMED_OUT
        replica = cut_off.hosted(cut_off.leader).replica
        assert (replica.high_watermark, replica.end_offset) == (1, 2)

    def test_it_shrinks_no_isr_however_long_it_is_alone(self, cut_off: Course) -> None:
        """IS-04: its wish to drop the others is never committed, and counts for nothing till then."""
        cut_off.produce(cut_off.leader, b"lost", acks=1)
        cut_off.run(60)
        replica = cut_off.hosted(cut_off.leader).replica
        assert replica.proposal is not None
        assert (len(replica.isr), len(replica.maximal_isr), replica.high_watermark) == (3, 3, 1)

    def test_back_among_the_others_it_forgets_what_only_it_had(self, cut_off: Course) -> None:
        successor = cut_off.leader_by(cut_off.followers[0])
        cut_off.produce(cut_off.leader, b"lost", acks=1)
        kept = cut_off.produce(successor, b"kept")
        cut_off.run(5)
        assert error_of(kept) == 0
        cut_off.heal()
        cut_off.run(20)
        assert [cut_off.values(name) for name in ("b1", "b2", "b3")] == [[b"before", b"kept"]] * 3
        assert len(cut_off.registration(successor).isr) == 3

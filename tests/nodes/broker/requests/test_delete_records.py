"""DeleteRecords: up to the high watermark, answered when nobody alive has anything below (DP-07, rule 15)."""

from __future__ import annotations

import pytest

from squall.nodes.broker.requests.delete_records import UNKNOWN_OFFSET
from squall.nodes.metadata.records import FenceBrokerRecord
from squall.nodes.mutants import Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.storage import checkpoints
from tests.nodes.broker.world import OTHER, OWN, SECOND, THIRD, World, fetched, produced


def delete(world: World, offset: int, topic: str = "t", timeout_ms: int = 30_000) -> ServerRequest:
    topics = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])]
    return world.ask(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms))


def deleted(request: ServerRequest) -> DeleteRecordsPartitionResult:
    assert request.answer is not None, "not answered yet"
    response = request.answer.response
    assert isinstance(response, DeleteRecordsResponse)
    return response.topics[0].partitions[0]


def earliest(world: World) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-2)
    request = world.ask(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", [asked])]))
    assert request.answer is not None
    response = request.answer.response
    assert isinstance(response, ListOffsetsResponse)
    return response.topics[0].partitions[0].offset


def filled(world: World, count: int = 5, replicas: tuple[int, ...] = (OWN,)) -> None:
    world.create("t", replicas=replicas)
    for _ in range(count):
        world.produce(acks=1)


def test_a_lone_replica_answers_at_once_and_begins_there(world: World) -> None:
    filled(world)
    answer = deleted(delete(world, 3))
    assert (answer.error_code, answer.low_watermark) == (0, 3)
    assert earliest(world) == 3
    assert fetched(world.consume(2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched(world.consume(3)).log_start_offset == 3


def test_minus_one_is_the_high_watermark(world: World) -> None:
    filled(world, 4)
    assert deleted(delete(world, -1)).low_watermark == 4
    assert earliest(world) == 4
    [answer] = produced(world.produce())
    assert (answer.base_offset, answer.log_start_offset) == (4, 4)


@pytest.mark.parametrize("offset", [6, -2])
def test_what_is_not_below_the_high_watermark_is_out_of_range(world: World, offset: int) -> None:
    filled(world, 5)
    answer = deleted(delete(world, offset))
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, UNKNOWN_OFFSET)
    assert earliest(world) == 0


def test_records_that_are_not_committed_cannot_be_deleted(world: World) -> None:
    """DP-07: they may yet be replaced by another leader's."""
    filled(world, 3, (OWN, OTHER))
    world.follow(OTHER, 2)
    assert deleted(delete(world, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete(world, -1).answer is None
    assert earliest(world) == 2, "-1 is the high watermark, not the log's end"


def test_mutant_log_start_past_hw_deletes_what_is_not_committed() -> None:
    world = World(Mutants(frozenset({"log-start-past-hw"})))
    world.start()
    filled(world, 3, (OWN, OTHER))
    delete(world, -1)
    replica = world.broker.replicas.all()[0].replica
    assert (replica.high_watermark, replica.log.start_offset) == (0, 3)


def test_going_back_changes_nothing_and_succeeds(world: World) -> None:
    filled(world)
    delete(world, 4)
    assert deleted(delete(world, 2)).low_watermark == 4
    assert earliest(world) == 4


def test_it_waits_for_every_live_follower(world: World) -> None:
    """The low watermark: each follower learns of the start from one fetch and tells of its own in the next."""
    filled(world, 4, (OWN, OTHER, THIRD))
    world.follow(OTHER, 4, log_start=0)
    world.follow(THIRD, 4, log_start=0)
    waiting = delete(world, 3)
    world.follow(OTHER, 4, log_start=3)
    assert waiting.answer is None
    world.follow(THIRD, 4, log_start=3)
    assert (deleted(waiting).error_code, deleted(waiting).low_watermark) == (0, 3)


def test_a_fenced_follower_is_not_waited_for(world: World) -> None:
    filled(world, 4, (OWN, OTHER, THIRD))
    world.follow(OTHER, 4, log_start=0)
    world.follow(THIRD, 4, log_start=0)
    world.commit(FenceBrokerRecord(THIRD, world.broker.image.brokers[THIRD].epoch))
    waiting = delete(world, 3)
    assert waiting.answer is None
    world.follow(OTHER, 4, log_start=3)
    assert deleted(waiting).low_watermark == 3


def test_a_follower_that_is_fenced_meanwhile_is_not_waited_for_any_longer(world: World) -> None:
    """Seed 13 of worlds: the request waited until its time was over, since no other follower fetched."""
    filled(world, 4, (OWN, OTHER))
    world.follow(OTHER, 4, log_start=0)
    waiting = delete(world, 3)
    assert waiting.answer is None
    world.commit(FenceBrokerRecord(OTHER, world.broker.image.brokers[OTHER].epoch))
    assert deleted(waiting).low_watermark == 3


def test_a_follower_that_does_not_come_costs_the_request_its_time(world: World) -> None:
    filled(world, 4, (OWN, OTHER))
    world.follow(OTHER, 4, log_start=1)
    waiting = delete(world, 3, timeout_ms=2000)
    world.run(after=3 * SECOND)
    answer = deleted(waiting)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 1)
    assert earliest(world) == 3, "the leader's are gone all the same"


def test_a_leader_that_is_deposed_meanwhile_cannot_tell(world: World) -> None:
    filled(world, 4, (OWN, OTHER))
    world.follow(OTHER, 4, log_start=0)
    waiting = delete(world, 3)
    world.change(leader=OTHER)
    world.broker.settle(world.now)
    assert deleted(waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_only_the_leader_deletes(world: World) -> None:
    world.create("t", leader=OTHER)
    assert deleted(delete(world, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert deleted(delete(world, 0, "nowhere")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_start_is_on_the_disk_before_it_is_said(world: World) -> None:
    filled(world)
    delete(world, 3)
    assert checkpoints.read_offsets(world.disk, checkpoints.LOG_STARTS) == {("t", 0): 3}
    world.disk.lose_power("all")
    assert checkpoints.read_offsets(world.disk, checkpoints.LOG_STARTS) == {("t", 0): 3}


def test_a_restarted_broker_begins_where_it_said(world: World) -> None:
    filled(world)
    delete(world, 3)
    world.restart()
    assert world.broker.replicas.all()[0].replica.log.start_offset == 3


def test_a_restarted_follower_fetches_with_the_start_it_learnt(world: World) -> None:
    """Followers advance theirs by the leader's answer, as far as they know it committed."""
    filled(world, 4)
    replica = world.broker.replicas.all()[0].replica
    world.change(leader=OTHER, replicas=[OWN, OTHER], isr=[OWN, OTHER])
    replica.append_fetched(world.now, b"", 3, 4)
    assert (replica.high_watermark, replica.log.start_offset) == (3, 3)
    assert replica.fetch_position().log_start_offset == 3

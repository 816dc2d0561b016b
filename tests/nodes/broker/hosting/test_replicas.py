"""Metadata in, leaders, followers and logs out (MD-03, MD-05, DP-03, DP-04, DP-12)."""

from __future__ import annotations

from squall.nodes.broker.hosting.log_manager import STRAY
from squall.nodes.broker.hosting.replicas import LOGS_IN_A_TURN
from squall.nodes.metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord, UnregisterBrokerRecord
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataResponse,
    TopicDataResponse,
)
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from squall.nodes.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.requests.session import OutboundRequest, ToBroker
from squall.nodes.protocol.schema import Message
from squall.nodes.storage import checkpoints
from tests.nodes.broker.world import OTHER, OWN, SECOND, THIRD, World, produced, topic_id


def fetches(world: World) -> dict[int, list[tuple[bytes, int]]]:
    """Topic-partitions asked for, by the broker asked."""
    found: dict[int, list[tuple[bytes, int]]] = {}
    for request, message in world.all_asked(FetchRequest):
        assert isinstance(request.destination, ToBroker)
        found[request.destination.id] = [
            (topic.topic_id, part.partition) for topic in message.topics for part in topic.partitions
        ]
    return found


def test_one_fetch_per_leader_carries_every_partition_followed_there(world: World) -> None:
    """DP-03, DP-04: and nothing is asked for where this broker leads."""
    world.create("a", partitions=3, leader=OTHER)
    world.create("b", partitions=2, leader=THIRD)
    world.create("c", partitions=2)
    assert fetches(world) == {
        OTHER: [(topic_id("a"), number) for number in range(3)],
        THIRD: [(topic_id("b"), number) for number in range(2)],
    }


def test_what_is_assigned_gets_a_log_and_what_is_taken_away_loses_it(world: World) -> None:
    """MD-05."""
    world.create("t", partitions=2)
    assert world.disk.exists("t-0")
    assert world.disk.exists("t-1")
    world.change("t", 1, replicas=[OTHER, THIRD], isr=[OTHER, THIRD], leader=OTHER)
    assert not world.disk.exists("t-1")
    world.commit(RemoveTopicRecord(topic_id("t")))
    assert not world.disk.exists("t-0")


def test_a_replica_that_is_added_gets_a_log_and_fetches_from_its_leader(world: World) -> None:
    """Rule 29, as a broker sees it.

    RA-01: by a change record, in sync once its leader says so (RA-02); nothing else tells it (RA-06)."""
    world.create("t", replicas=(OTHER, THIRD), leader=OTHER)
    assert not world.disk.exists("t-0")
    world.change("t", replicas=[OTHER, THIRD, OWN], adding_replicas=[OWN])
    assert world.disk.exists("t-0")
    assert fetches(world) == {OTHER: [(topic_id("t"), 0)]}
    assert world.broker.image.partition("t", 0).adding == (OWN,)


def test_a_leader_that_is_removed_answers_who_waits_and_deletes_its_log(world: World) -> None:
    """Rule 29, as a broker sees it. RA-03: what was not acknowledged is not known to be kept (DP-09)."""
    world.create("t")
    waiting = world.produce()
    assert waiting.answer is None
    world.change("t", replicas=[OTHER, THIRD], isr=[OTHER, THIRD], leader=OTHER, removing_replicas=[])
    assert produced(waiting)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not world.disk.exists("t-0")
    assert world.broker.replicas.all() == []


def test_a_replica_that_is_added_again_begins_with_nothing(world: World) -> None:
    """RA-04: what it had when it was removed may have been cut elsewhere since."""
    world.create("t", replicas=(OWN,))
    world.produce()
    world.change("t", replicas=[OTHER], isr=[OTHER], leader=OTHER)
    world.change("t", replicas=[OTHER, OWN], adding_replicas=[OWN])
    [hosted] = world.broker.replicas.all()
    assert (hosted.replica.end_offset, hosted.replica.high_watermark, hosted.replica.is_leader) == (0, 0, False)


def test_what_is_assigned_elsewhere_makes_no_log_here(world: World) -> None:
    world.create("t", replicas=(OTHER, THIRD), leader=OTHER)
    assert not world.disk.exists("t-0")


def test_a_follower_appends_what_it_fetched_and_follows_the_high_watermark(world: World) -> None:
    world.create("t", leader=OTHER)
    request, _ = world.asked(FetchRequest)
    replica = world.broker.replicas.all()[0].replica
    assert not replica.is_leader
    batch = bytes(build_batch([Record(value=b"x")], base_offset=0, leader_epoch=0))
    part = PartitionData(0, 0, 1, records=batch)
    answer = FetchResponse(responses=[FetchableTopicResponse(topic_id=topic_id("t"), partitions=[part])])
    request.complete(world.now, answer)
    assert (replica.end_offset, replica.high_watermark) == (1, 1)


def test_a_follower_whose_registration_is_gone_names_the_epoch_that_it_had(world: World) -> None:
    """KIP-903 (`worlds` 1023012): without it, the leader could add another incarnation to the ISR by this fetch."""
    world.create("t", leader=OTHER)
    epoch = world.broker.image.brokers[OWN].epoch
    request, first = world.asked(FetchRequest)
    world.commit(UnregisterBrokerRecord(broker_id=OWN, broker_epoch=epoch))
    request.complete(world.now, FetchResponse(responses=[FetchableTopicResponse(topic_id=topic_id("t"))]))
    _, second = world.asked(FetchRequest, after=SECOND)
    assert [one.replica_state.replica_epoch for one in (first, second)] == [epoch, epoch]


def test_history_before_the_own_registration_is_not_lived_through_again() -> None:
    """A restarted broker must not act on leader epochs long gone: only the last state of each counts."""
    world = World()
    request, _ = world.asked(BrokerRegistrationRequest)
    world.create("t")
    for leader in (OTHER, 1, OTHER, 1):
        world.change(leader=leader)
    assert world.broker.replicas.all() == []
    epoch = world.log.high_watermark
    world.commit_brokers()
    request.complete(world.now, BrokerRegistrationResponse(broker_epoch=epoch))
    world.run()
    [hosted] = world.broker.replicas.all()
    assert hosted.replica.leader_epoch == 4
    assert hosted.replica.log.epochs.latest == 4


def test_a_restart_finds_records_and_high_watermark_again(world: World) -> None:
    world.create("t", replicas=(1,))
    world.produce()
    world.restart()
    assert checkpoints.read_offsets(world.disk, checkpoints.HIGH_WATERMARKS) == {("t", 0): 1}
    [hosted] = world.broker.replicas.all()
    assert (hosted.replica.end_offset, hosted.replica.high_watermark) == (1, 1)


def test_high_watermarks_are_checkpointed_every_few_seconds(world: World) -> None:
    world.create("t", replicas=(1,))
    world.produce()
    world.run(after=5 * SECOND)
    assert checkpoints.read_offsets(world.disk, checkpoints.HIGH_WATERMARKS) == {("t", 0): 1}


def test_a_topic_created_again_while_away_does_not_inherit_the_old_records(world: World) -> None:
    world.create("t", replicas=(1,))
    world.produce()
    world.log.commit(RemoveTopicRecord(topic_id("t")))
    fresh = b"another topic id"
    world.log.commit(
        TopicRecord("t", fresh),
        PartitionRecord(
            partition_id=0, topic_id=fresh, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0
        ),
    )
    world.restart()
    [hosted] = world.broker.replicas.all()
    assert hosted.topic_id == fresh
    assert hosted.replica.end_offset == 0


def test_a_log_nobody_claims_is_put_aside_not_deleted(world: World) -> None:
    world.create("t", replicas=(1,))
    world.produce()
    world.log.commit(RemoveTopicRecord(topic_id("t")))
    world.restart()
    assert not world.disk.exists("t-0")
    assert world.disk.exists("t-0" + STRAY)


def test_a_log_nobody_claims_stays_until_all_topic_partitions_are_named(world: World) -> None:
    """ZK-06: a ZooKeeper-era controller may name them in several requests; the next may name this one."""
    world.create("t", replicas=(1,))
    world.produce()
    world.log.commit(RemoveTopicRecord(topic_id("t")))
    world.names_all = False
    world.restart()
    world.run()
    assert world.disk.exists("t-0")
    world.broker.observer.names_all = True
    world.create("another", replicas=(1,))
    assert not world.disk.exists("t-0") and world.disk.exists("t-0" + STRAY)


# -- ISR proposals -------------------------------------------------------------------------------------------------


def shrink(world: World) -> tuple[OutboundRequest, AlterPartitionRequest]:
    """Let broker 3 fall behind until its removal is proposed."""
    end = world.broker.replicas.all()[0].replica.end_offset + 1
    world.produce(acks=1)
    for _ in range(6):
        world.follow(OTHER, end)
        world.run(after=3 * SECOND)
        for found in world.all_asked(AlterPartitionRequest):
            return found
    raise AssertionError("no shrink was proposed")


def answer(partition: PartitionDataResponse) -> AlterPartitionResponse:
    return AlterPartitionResponse(topics=[TopicDataResponse(topic_id("t"), [partition])])


def test_a_shrink_takes_effect_when_the_controller_says_so(world: World) -> None:
    """IS-03, IS-04."""
    world.create()
    waiting = world.produce()
    request, message = shrink(world)
    [part] = message.topics[0].partitions
    assert [state.broker_id for state in part.new_isr_with_epochs] == [1, OTHER]
    assert message.broker_epoch == world.broker.lifecycle.epoch
    assert waiting.answer is None, "a pending shrink still counts the old ISR"
    request.complete(world.now, answer(PartitionDataResponse(0, 0, 1, 0, [1, OTHER], 0, 1)))
    world.broker.settle(world.now)
    assert produced(waiting)[0].error_code == 0


def test_a_lost_answer_is_asked_for_again(world: World) -> None:
    world.create()
    request, first = shrink(world)
    assert world.asked_nothing(AlterPartitionRequest, after=SECOND), "one is in flight"
    request.complete(world.now, None)
    _, second = world.asked(AlterPartitionRequest, after=SECOND)
    assert second.topics == first.topics


def test_a_refused_proposal_is_dropped(world: World) -> None:
    """Rule 21."""
    world.create()
    request, _ = shrink(world)
    refused = PartitionDataResponse(0, int(ErrorCode.INELIGIBLE_REPLICA))
    request.complete(world.now, answer(refused))
    assert world.broker.replicas.all()[0].replica.maximal_isr == (1, OTHER, THIRD)
    assert world.asked_nothing(AlterPartitionRequest, after=SECOND)


def records_of_a_topic(name: str, partitions: int) -> list[Message]:
    records: list[Message] = [TopicRecord(name=name, topic_id=topic_id(name))]
    replicas = [OWN, OTHER]
    return records + [
        PartitionRecord(
            partition_id=number, topic_id=topic_id(name), replicas=replicas, isr=replicas, leader=OWN, leader_epoch=0,
            partition_epoch=0,
        )
        for number in range(partitions)
    ]  # fmt: skip


def test_many_new_logs_are_made_over_several_turns_between_heartbeats(world: World) -> None:
    """BL-04, MD-05: each takes several waits for the disk, ten thousand of them longer than a session lasts. What is
    not done yet is not claimed: heartbeats tell how far this broker has come."""
    before = world.broker.image.last_offset
    world.log.commit(*records_of_a_topic("large", 3 * LOGS_IN_A_TURN))
    world.log.commit(RemoveTopicRecord(topic_id=topic_id("large")))
    for turn in (1, 2):
        request, heartbeat = world.asked(BrokerHeartbeatRequest, after=2 * SECOND)
        assert len(world.broker.replicas.all()) == turn * LOGS_IN_A_TURN
        assert (heartbeat.want_fence, heartbeat.current_metadata_offset) == (False, before)
        assert world.broker.deadline() == 0, "it asks for its next turn at once"
        request.complete(world.now, BrokerHeartbeatResponse(is_fenced=False))
    world.run()
    assert not world.broker.replicas.all(), "only when all are made the next batch is read, which removes the topic"
    while world.broker.replicas.is_busy:
        world.run()
    _, heartbeat = world.asked(BrokerHeartbeatRequest, after=2 * SECOND)
    assert heartbeat.current_metadata_offset == world.log.high_watermark - 1


def test_the_logs_of_a_large_topic_are_removed_over_several_turns(world: World) -> None:
    """BL-04: four thousand took ten seconds, longer than a session. Requests find the topic gone at once."""

    def logs() -> int:
        return len([one for one in world.disk.list("") if one.startswith("large-")])

    partitions = 3 * LOGS_IN_A_TURN
    world.log.commit(*records_of_a_topic("large", partitions))
    while len(world.broker.replicas.all()) < partitions:
        world.run()
    world.log.commit(RemoveTopicRecord(topic_id=topic_id("large")))
    for turn in (1, 2):
        request, heartbeat = world.asked(BrokerHeartbeatRequest, after=2 * SECOND)
        assert not world.broker.replicas.all()
        assert logs() == partitions - turn * LOGS_IN_A_TURN
        assert heartbeat.current_metadata_offset < world.log.high_watermark - 1
        assert world.broker.deadline() == 0, "it asks for its next turn at once"
        request.complete(world.now, BrokerHeartbeatResponse(is_fenced=False))
    world.run()
    assert logs() == 0


def test_a_clean_stop_leaves_no_log_of_a_topic_that_is_being_removed(world: World) -> None:
    world.log.commit(*records_of_a_topic("large", 3 * LOGS_IN_A_TURN))
    while len(world.broker.replicas.all()) < 3 * LOGS_IN_A_TURN:
        world.run()
    world.log.commit(RemoveTopicRecord(topic_id=topic_id("large")))
    world.run()
    assert world.broker.replicas.is_busy
    world.broker.close(world.now)
    assert [one for one in world.disk.list("") if one.startswith("large-")] == []


def test_a_returning_broker_is_fenced_until_it_has_taken_up_its_partitions() -> None:
    """BL-02."""
    world = World()
    partitions = 5 * LOGS_IN_A_TURN
    world.log.commit(*records_of_a_topic("large", partitions))
    world.register()
    request, heartbeat = world.asked(BrokerHeartbeatRequest, after=2 * SECOND)
    assert 0 < len(world.broker.replicas.all()) < partitions
    assert (heartbeat.want_fence, heartbeat.current_metadata_offset) == (True, -1)
    request.complete(world.now, BrokerHeartbeatResponse(is_fenced=True))
    while len(world.broker.replicas.all()) < partitions:
        world.run()
    _, heartbeat = world.asked(BrokerHeartbeatRequest)
    assert (heartbeat.want_fence, heartbeat.current_metadata_offset) == (False, world.log.high_watermark - 1)

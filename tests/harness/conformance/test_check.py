"""Each part of the conformance check sees a wrong response, and a healthy cluster passes all of them.

The clusters are simulated: whole, without faults and without a load. tests/interop/conformance holds the check against
Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from squall.harness.conformance import (
    api_versions,
    descriptions,
    effects,
    offsets,
    placement,
    promptness,
    quorum,
    records,
    settings,
    topics,
)
from squall.harness.conformance.check import PARTS, Part
from squall.harness.conformance.client import NotConforming
from squall.harness.scenario.cluster import await_whole
from squall.harness.simulation.run.closing_check import check_world
from squall.harness.simulation.world.world import ClusterShape, SimWorld, voters_of
from squall.nodes.broker.hosting.hosted_partition import HostedPartition, TurnChanges
from squall.nodes.broker.hosting.log_manager import LogManager
from squall.nodes.broker.requests import metadata_api
from squall.nodes.broker.requests.offsets import OffsetsHandler
from squall.nodes.broker.requests.produce import ProduceHandler
from squall.nodes.controller import configs, features
from squall.nodes.controller import topics as controller_topics
from squall.nodes.controller.features import FeatureControl
from squall.nodes.controller.leader_elections import LeaderElectionControl
from squall.nodes.controller.outcome import Outcome
from squall.nodes.controller.reassignment import ReassignmentControl
from squall.nodes.metadata.image import MetadataDelta, MetadataImage
from squall.nodes.metadata.records import PartitionChangeRecord, RemoveTopicRecord
from squall.nodes.metadata.topic import Topic
from squall.nodes.metadata.topic_configs import TOPIC_CONFIGS
from squall.nodes.node import announced_features, base, node
from squall.nodes.node.dispatch import BROKER_VERSIONS, CONTROLLER_VERSIONS
from squall.nodes.node.settings import controller_config
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.compiler import Buffer
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from squall.nodes.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from squall.nodes.protocol.messages.api_versions import ApiVersionsResponse
from squall.nodes.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from squall.nodes.protocol.messages.create_partitions import CreatePartitionsResponse
from squall.nodes.protocol.messages.create_topics import CreateTopicsResponse
from squall.nodes.protocol.messages.delete_records import DeleteRecordsResponse
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsResponse
from squall.nodes.protocol.messages.describe_cluster import DescribeClusterResponse
from squall.nodes.protocol.messages.describe_configs import DescribeConfigsResponse
from squall.nodes.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from squall.nodes.protocol.messages.describe_quorum import DescribeQuorumResponse
from squall.nodes.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponse
from squall.nodes.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from squall.nodes.protocol.messages.fetch import FetchResponse, LeaderIdAndEpoch
from squall.nodes.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from squall.nodes.protocol.messages.find_coordinator import FindCoordinatorResponse
from squall.nodes.protocol.messages.incremental_alter_configs import AlterableConfig, IncrementalAlterConfigsResponse
from squall.nodes.protocol.messages.init_producer_id import InitProducerIdResponse
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from squall.nodes.protocol.messages.metadata import MetadataResponse
from squall.nodes.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from squall.nodes.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from squall.nodes.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse
from squall.nodes.protocol.messages.unregister_broker import UnregisterBrokerResponse
from squall.nodes.protocol.messages.update_features import UpdateFeaturesResponse
from squall.nodes.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from squall.nodes.protocol.messages.vote import VoteResponse
from squall.nodes.protocol.records import BatchHeader
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import METADATA_TOPIC, TopicPartition
from squall.nodes.raft import core, messages, snapshot_fetch
from squall.nodes.raft.config import Voter
from squall.nodes.raft.core import Core
from squall.nodes.raft.elections import Elections
from squall.nodes.raft.messages import VoteRequest
from squall.nodes.raft.snapshot_messages import SnapshotRequest
from squall.nodes.raft.voter_changes import Finish, VoterChanges
from squall.nodes.storage import log
from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.segment import Segment
from squall.workloads.clients.native.admin import NativeAdmin
from tests.harness.simulation.observer.defects import serves_held_requests_in_reverse

READY_SECONDS = 60.0
SLOW_FOLLOWERS = {"replica.fetch.wait.max.ms": "400"}
FOLLOWER_SINCE = 15


def conformance(
    seed: int,
    parts: tuple[Part, ...] = PARTS,
    brokers: int = 3,
    config: Mapping[str, str] | None = None,
    *,
    dynamic_voters: bool = False,
) -> tuple[str, ...]:
    """Check a cluster that was never disturbed; with the names of the parts, in their order."""
    shape = ClusterShape(brokers=brokers, config=config or {}, dynamic_voters=dynamic_voters)
    world = SimWorld(shape, seed, topics={}, trace=NullTrace())
    world.start()

    async def check() -> tuple[str, ...]:
        voters = [(address, port) for _, address, port in voters_of(world.places)]
        admin = NativeAdmin(world.connector(), world.bootstrap(), voters)
        await await_whole(admin, brokers, {}, READY_SECONDS)
        await admin.close()
        return await check_world(world, lambda value: None, 1.0, parts)

    try:
        return world.kernel.run_until_complete(check())
    finally:
        world.switch_off()


# -- wrong responses -----------------------------------------------------------------------------------------------


def each(*names: str) -> Callable[[Message], Iterator[Any]]:
    """The elements of arrays within arrays of a message."""

    def elements(message: Any) -> Iterator[Any]:
        found = [message]
        for name in names:
            found = [one for outer in found for one in getattr(outer, name) or ()]
        return iter(found)

    return elements


def put(path: Callable[[Message], Iterator[Any]], **values: Any) -> Callable[[Message], None]:
    """Replace fields of these elements."""

    def change(message: Message) -> None:
        for one in path(message):
            for name, value in values.items():
                setattr(one, name, value)

    return change


def more(path: Callable[[Message], Iterator[Any]], name: str, by: int = 1) -> Callable[[Message], None]:
    """Raise a field of these elements that is not negative."""

    def change(message: Message) -> None:
        for one in path(message):
            if getattr(one, name) >= 0:
                setattr(one, name, getattr(one, name) + by)

    return change


def gains_a_topic_partition(message: Message) -> None:
    """Make a page that is full longer than it may be."""
    assert isinstance(message, DescribeTopicPartitionsResponse)
    if message.next_cursor is not None:
        last = message.topics[-1].partitions
        last.append(last[-1])


ITSELF = each()
NO_ERROR = {"error_code": 0}
IN_FETCH, IN_PRODUCE = each("responses", "partitions"), each("responses", "partition_responses")
IN_TOPICS = each("topics", "partitions")
IN_VOTERS = each("topics", "partitions", "current_voters")

WRONG: list[tuple[Part, type[Message], Callable[[Message], None]]] = [
    (api_versions.announced, ApiVersionsResponse, more(each("supported_features"), "min_version")),
    (api_versions.announced, ApiVersionsResponse, put(each("supported_features"), max_version=0)),
    (api_versions.announced, ApiVersionsResponse, more(each("api_keys"), "min_version")),
    (api_versions.announced, ApiVersionsResponse, put(ITSELF, finalized_features=[])),
    (descriptions.cluster, MetadataResponse, put(ITSELF, controller_id=99)),
    (descriptions.cluster, DescribeClusterResponse, put(each("brokers"), port=1)),
    (descriptions.cluster, DescribeClusterResponse, put(ITSELF, error_code=0)),
    (descriptions.pages, DescribeTopicPartitionsResponse, put(ITSELF, next_cursor=None)),
    (descriptions.pages, DescribeTopicPartitionsResponse, more(IN_TOPICS, "leader_epoch")),
    (descriptions.pages, DescribeTopicPartitionsResponse, gains_a_topic_partition),
    (descriptions.quorum, DescribeQuorumResponse, more(IN_TOPICS, "high_watermark", 10**6)),
    (descriptions.quorum, DescribeQuorumResponse, more(IN_VOTERS, "last_caught_up_timestamp", -6_000)),
    (descriptions.quorum, DescribeQuorumResponse, more(IN_VOTERS, "last_caught_up_timestamp", 1)),
    (descriptions.log_directories, DescribeLogDirsResponse, put(each("results"), topics=[])),
    (descriptions.coordinators, FindCoordinatorResponse, put(each("coordinators"), node_id=1)),
    (descriptions.pipelined, MetadataResponse, put(each("topics"), topic_id=bytes(16))),
    (quorum.strangers, VoteResponse, put(each("topics", "partitions"), vote_granted=True, error_code=0)),
    (quorum.strangers, BeginQuorumEpochResponse, put(ITSELF, error_code=0)),
    (quorum.strangers, RemoveRaftVoterResponse, put(ITSELF, error_code=0)),
    (quorum.strangers, AddRaftVoterResponse, put(ITSELF, error_code=0)),
    (quorum.strangers, UpdateRaftVoterResponse, put(ITSELF, error_code=0)),
    (quorum.strangers, UnregisterBrokerResponse, put(ITSELF, error_code=0)),
    (topics.refused_creations, CreateTopicsResponse, put(each("topics"), **NO_ERROR)),
    (topics.legal_names, CreateTopicsResponse, put(each("topics"), error_code=17)),
    (topics.default_sizes, CreateTopicsResponse, put(each("topics"), replication_factor=0)),
    (topics.more_partitions, CreatePartitionsResponse, put(each("results"), **NO_ERROR)),
    (settings.described, DescribeConfigsResponse, put(each("results", "configs"), config_source=5)),
    (settings.altered, IncrementalAlterConfigsResponse, put(each("responses"), **NO_ERROR)),
    (settings.of_nobody, IncrementalAlterConfigsResponse, put(each("responses"), **NO_ERROR)),
    (settings.of_nobody, IncrementalAlterConfigsResponse, put(each("responses"), error_code=42)),
    (settings.defaulted, IncrementalAlterConfigsResponse, put(each("responses"), **NO_ERROR)),
    (settings.defaulted, DescribeConfigsResponse, put(each("results", "configs"), config_source=5)),
    (settings.features, UpdateFeaturesResponse, put(each("results"), **NO_ERROR)),
    (settings.features, UpdateFeaturesResponse, put(each("results"), error_code=42)),
    (effects.stamped, ProduceResponse, put(IN_PRODUCE, log_append_time_ms=-1)),
    (effects.retained, ListOffsetsResponse, more(IN_TOPICS, "offset", 20)),
    (records.refused_batches, ProduceResponse, put(IN_PRODUCE, **NO_ERROR)),
    (records.refused_batches, ProduceResponse, put(IN_PRODUCE, log_append_time_ms=0)),
    (records.idempotence, InitProducerIdResponse, put(ITSELF, producer_id=7)),
    (records.idempotence, ProduceResponse, more(IN_PRODUCE, "base_offset")),
    (records.in_order, ProduceResponse, more(IN_PRODUCE, "base_offset")),
    (placement.reconsidered, AlterPartitionReassignmentsResponse, put(each("responses", "partitions"), error_code=85)),
    (records.refused_fetches, FetchResponse, put(IN_FETCH, **NO_ERROR)),
    (records.refused_fetches, FetchResponse, put(IN_FETCH, log_start_offset=0)),
    (records.limits, FetchResponse, put(IN_FETCH, records=None)),
    (records.sessions, FetchResponse, put(ITSELF, responses=[])),
    (offsets.listed, ListOffsetsResponse, more(IN_TOPICS, "offset")),
    (offsets.listed, ListOffsetsResponse, more(IN_TOPICS, "timestamp")),
    (offsets.epochs, OffsetForLeaderEpochResponse, more(IN_TOPICS, "end_offset")),
    (offsets.deleted_records, DeleteRecordsResponse, more(IN_TOPICS, "low_watermark")),
    (placement.moved, AlterPartitionReassignmentsResponse, put(each("responses", "partitions"), **NO_ERROR)),
    (placement.moved, ElectLeadersResponse, put(each("replica_election_results", "partition_result"), **NO_ERROR)),
]
ALWAYS: list[tuple[type[Message], Callable[[Message], None]]] = [
    (CreateTopicsResponse, more(each("topics"), "num_partitions")),
    (CreateTopicsResponse, put(each("topics", "configs"), read_only=True)),
    (DescribeConfigsResponse, put(each("results", "configs"), value="1")),
    (MetadataResponse, more(IN_TOPICS, "leader_epoch")),
    (MetadataResponse, put(IN_TOPICS, isr_nodes=[])),
    (DeleteTopicsResponse, put(each("responses"), **NO_ERROR)),
    (FetchResponse, put(IN_FETCH, records=None)),
]
"""What the topic's own life shows, without any part."""


def respond_wrongly(monkeypatch: pytest.MonkeyPatch, wrong: type[Message], change: Callable[[Message], None]) -> None:
    """Let every node change its responses of a kind to clients; followers get theirs as they are."""
    respond = ServerRequest.respond

    def changed(request: ServerRequest, response: Message) -> None:
        fetcher = getattr(request.body, "replica_id", -1)
        if request.api_version >= FOLLOWER_SINCE and isinstance(response, FetchResponse):
            fetcher = request.body.replica_state.replica_id  # type: ignore[attr-defined]
        if isinstance(response, wrong) and fetcher < 0:
            change(response)
        respond(request, response)

    monkeypatch.setattr(ServerRequest, "respond", changed)


@pytest.mark.parametrize(("part", "wrong", "change"), WRONG, ids=lambda one: getattr(one, "__name__", ""))
def test_a_part_sees_a_wrong_response(
    monkeypatch: pytest.MonkeyPatch, part: Part, wrong: type[Message], change: Callable[[Message], None]
) -> None:
    conformance(1, (part,))
    respond_wrongly(monkeypatch, wrong, change)
    with pytest.raises(NotConforming):
        conformance(1, (part,))


@pytest.mark.parametrize(("wrong", "change"), ALWAYS, ids=lambda one: getattr(one, "__name__", ""))
def test_the_life_of_the_topic_shows_a_wrong_response(
    monkeypatch: pytest.MonkeyPatch, wrong: type[Message], change: Callable[[Message], None]
) -> None:
    respond_wrongly(monkeypatch, wrong, change)
    with pytest.raises(NotConforming):
        conformance(1, ())


LATE: list[tuple[Part, str, str]] = [
    (promptness.sends, "_grown", "sends to"),
    (promptness.parked_fetches, "_advanced", "fetches that wait"),
]
"""What a leader does not tell its parked fetches, so that they end when their time is over."""


@pytest.mark.parametrize(("part", "untold", "named"), LATE, ids=lambda one: getattr(one, "__name__", one))
def test_a_part_sees_answers_that_come_when_a_timer_ends(
    monkeypatch: pytest.MonkeyPatch, part: Part, untold: str, named: str
) -> None:
    conformance(1, (part,), config=SLOW_FOLLOWERS)
    settle = TurnChanges.settle

    def forgets(changes: TurnChanges, now: int) -> None:
        kept = getattr(changes, untold)
        for hosted in list(kept):
            watchers = hosted.followers if untold == "_grown" else hosted.consumers
            changes.noted(hosted)
            if watchers:
                kept.pop(hosted)
                for parked in list(hosted.produces):
                    parked.look(now)
        settle(changes, now)

    monkeypatch.setattr(TurnChanges, "settle", forgets)
    with pytest.raises(NotConforming, match=named):
        conformance(1, (part,), config=SLOW_FOLLOWERS)


def test_a_part_sees_that_no_feature_may_be_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "SAFE_DOWNGRADE", 9)
    with pytest.raises(NotConforming, match="may be lowered by a safe downgrade"):
        conformance(1, (settings.features,))


def test_a_part_sees_that_nodes_may_differ_in_their_min_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "safe_min_isr", lambda image, defaults: [])
    with pytest.raises(NotConforming, match=r"where min\.insync\.replicas comes from, with eligible"):
        conformance(1, (settings.features,))


def test_a_topic_that_inherits_the_settings_of_a_deleted_one_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """MD-08: the settings of a topic end with it."""
    remove = MetadataImage._remove_topic

    def keeps_settings(image: MetadataImage, record: RemoveTopicRecord, delta: MetadataDelta) -> None:
        kept = dict(image.configs)
        remove(image, record, delta)
        image.configs.update(kept)

    monkeypatch.setattr(MetadataImage, "_remove_topic", keeps_settings)
    with pytest.raises(NotConforming, match=r"which CreateTopics said to be .*, 1, False, False\) came instead"):
        conformance(1, ())


def test_a_part_sees_that_old_clients_are_asked_for_a_leader_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader of a topic-partition that moved has a leader epoch above 0; which part comes first is drawn."""
    look_up = OffsetsHandler._list

    def takes_none_for_zero(
        handler: OffsetsHandler, topic: str, asked: ListOffsetsPartition, body: ListOffsetsRequest, version: int
    ) -> ListOffsetsPartitionResponse:
        if version < offsets.EPOCHS_SINCE:
            asked.current_leader_epoch = 0
        return look_up(handler, topic, asked, body, version)

    monkeypatch.setattr(OffsetsHandler, "_list", takes_none_for_zero)
    with pytest.raises(NotConforming, match=r"for old clients: .* came instead of"):
        for seed in range(1, 20):
            conformance(seed, (placement.moved, offsets.listed))


def test_a_part_sees_that_retention_goes_by_the_first_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments with new records go with the old ones at their front, so some sizes of segments show nothing."""
    monkeypatch.setattr(Segment, "max_timestamp", lambda segment: segment.first_timestamp)
    with pytest.raises(NotConforming, match=r"begins at \d+ or before: False came instead of True"):
        for seed in range(1, 10):
            conformance(seed, (effects.retained,), config={"log.retention.check.interval.ms": "500"})


def test_retention_may_take_an_old_record_before_a_new_one_is_behind_it() -> None:
    """`worlds` seed 1025629: the topic-partition was empty."""
    conformance(9, (effects.retained,), brokers=1, config={"log.retention.check.interval.ms": "5"})


def test_a_part_sees_that_batches_behind_a_fetch_are_taken_in_reverse(monkeypatch: pytest.MonkeyPatch) -> None:
    serves_held_requests_in_reverse(monkeypatch)
    with pytest.raises(NotConforming, match="the places of 5 batches for"):
        conformance(1, (records.in_order,))


def test_a_part_sees_that_a_cancelled_move_leaves_added_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A move on top of another takes for original ones the replicas that the first one was adding."""
    begin = ReassignmentControl._begin

    def wrong(
        control: ReassignmentControl, image: MetadataImage, topic: Topic, number: int, target: tuple[int, ...]
    ) -> PartitionChangeRecord | None:
        found = topic.partitions[number]
        topic.partitions[number] = replace(found, rare=found.rare._replace(adding=()))
        try:
            return begin(control, image, topic, number, target)
        finally:
            topic.partitions[number] = found

    monkeypatch.setattr(ReassignmentControl, "_begin", wrong)
    with pytest.raises(NotConforming, match=r"the replicas of .* which is cancelled: .* came instead of"):
        for seed in range(1, 20):
            conformance(seed, (placement.reconsidered,), brokers=5)


def test_a_part_sees_a_leader_that_goes_on_with_earlier_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    configure, known = LogManager.configure, set()

    def once(manager: LogManager, name: TopicPartition, config: LogConfig) -> None:
        if (id(manager), name) not in known:
            known.add((id(manager), name))
            configure(manager, name, config)

    monkeypatch.setattr(LogManager, "configure", once)
    with pytest.raises(NotConforming, match=r"is stamped \(-1\): False came instead of True, 3 s after the change"):
        conformance(1, (effects.stamped,))


def test_a_part_sees_that_a_fetch_in_an_earlier_epoch_hears_of_no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic-partition that moved has an earlier leader epoch; which part comes first is drawn."""
    respond_wrongly(monkeypatch, FetchResponse, put(IN_FETCH, current_leader=LeaderIdAndEpoch()))
    with pytest.raises(NotConforming, match=r"a fetch in an earlier epoch hears: \(-1, -1\) came instead"):
        for seed in range(1, 20):
            conformance(seed, (placement.moved, records.refused_fetches))


def test_a_part_sees_a_send_whose_connection_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    conformance(1, (records.unacknowledged,))

    def hides(handler: ProduceHandler, request: ServerRequest, response: ProduceResponse) -> None:
        parts = [part for topic in response.responses for part in topic.partition_responses]
        if all(part.error_code for part in parts):
            request.close_connection()
        else:
            request.respond_nothing()

    monkeypatch.setattr(ProduceHandler, "_answer_silently", hides)
    with pytest.raises(NotConforming, match="whether the connection ends after a send without acknowledgement"):
        conformance(1, (records.unacknowledged,))


def test_every_part_is_shown_a_wrong_response() -> None:
    assert {part for part, *_ in (*WRONG, *LATE)} | {records.unacknowledged} == set(PARTS)


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_healthy_cluster_passes(brokers: int, seed: int) -> None:
    assert sorted(conformance(seed, brokers=brokers)) == sorted(part.__name__ for part in PARTS)


@pytest.mark.parametrize("seed", [1, 4, 10, 13])
def test_a_question_that_meets_the_end_of_an_idle_connection_is_sent_again(seed: int) -> None:
    """With 10 ms, a write that a broker passes on may meet one too, and times out: so with seeds 3, 6, 8 and 9."""
    conformance(seed, config={"connections.max.idle.ms": "10"})


def test_a_controller_that_believes_a_candidate_whatever_its_log_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elections, "_vote_error", _error_of_the_epoch)
    with pytest.raises(NotConforming, match=r"the errors of a strange Vote (without a log|of that epoch)"):
        conformance(1, parts=(quorum.strangers,))


def test_a_controller_that_believes_a_leader_wherever_it_is_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "check_endpoint", lambda endpoint: None)
    with pytest.raises(NotConforming, match=r"the errors of a strange BeginQuorumEpoch of a leader at '':1"):
        conformance(1, parts=(quorum.strangers,))


def _error_of_the_epoch(elections: Elections, asked: VoteRequest) -> ErrorCode:
    """A controller that looks at nothing else."""
    if not asked.valid_partition:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.FENCED_LEADER_EPOCH if asked.epoch < elections._quorum.epoch else ErrorCode.NONE


def test_a_controller_that_is_read_in_an_epoch_that_is_over_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    epoch_error = Core.epoch_error
    monkeypatch.setattr(Core, "epoch_error", lambda self, epoch: epoch_error(self, max(epoch, self.quorum.epoch)))
    with pytest.raises(NotConforming, match="the errors of a Fetch in an epoch that is over"):
        conformance(1, parts=(quorum.strangers,))


@pytest.mark.parametrize("partition", [0, 1])
def test_a_controller_that_reads_snapshots_of_another_log_is_seen(
    monkeypatch: pytest.MonkeyPatch, partition: int
) -> None:
    """By name, and by the number of the partition."""
    right = snapshot_fetch.read_fetch_snapshot

    def believes(body: FetchSnapshotRequest) -> SnapshotRequest:
        part = body.topics[0].partitions[0]
        if part.partition == partition:
            part.partition, body.topics[0].name = 0, METADATA_TOPIC
        return right(body)

    monkeypatch.setattr(snapshot_fetch, "read_fetch_snapshot", believes)
    with pytest.raises(NotConforming, match=f"FetchSnapshot of another {('log', 'partition')[partition]}"):
        conformance(1, parts=(quorum.strangers,))


@pytest.mark.parametrize("lacks", ["an id", "a listener"])
def test_a_controller_that_adds_an_impossible_voter_is_seen(monkeypatch: pytest.MonkeyPatch, lacks: str) -> None:
    add = VoterChanges.handle_add

    def believes(self: VoterChanges, now: int, request: ServerRequest) -> None:
        assert isinstance(request.body, AddRaftVoterRequest)
        if lacks == "an id":
            request.body.voter_id = abs(request.body.voter_id)
        else:
            request.body.listeners = [Listener("CONTROLLER", "127.0.0.1", 1)]
        add(self, now, request)

    monkeypatch.setattr(VoterChanges, "handle_add", believes)
    with pytest.raises(NotConforming, match=f"to add a voter without {lacks}"):
        conformance(1, (quorum.strangers,), dynamic_voters=True)


def test_a_controller_that_begins_a_change_of_voters_while_another_one_waits_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusal = VoterChanges._refusal

    def forgets(self: VoterChanges, cluster_id: str | None) -> tuple[int, str | None] | None:
        under_way, self._change = self._change, None
        try:
            return refusal(self, cluster_id)
        finally:
            self._change = under_way

    monkeypatch.setattr(VoterChanges, "_refusal", forgets)
    with pytest.raises(NotConforming, match="does not respond to AddRaftVoter: no answer"):
        conformance(1, (quorum.strangers,), dynamic_voters=True)


def test_a_controller_that_does_not_answer_a_voter_that_has_not_moved_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    update = VoterChanges.update

    def answers_changes(self: VoterChanges, now: int, voter: Voter, finish: Finish) -> None:
        if self._voters.find(voter.id) != voter:
            update(self, now, voter, finish)

    monkeypatch.setattr(VoterChanges, "update", answers_changes)
    with pytest.raises(NotConforming, match="does not respond to UpdateRaftVoter: no answer"):
        conformance(1, (quorum.strangers,), dynamic_voters=True)


def test_a_quorum_that_adds_and_removes_voters_passes() -> None:
    conformance(1, (quorum.strangers,), dynamic_voters=True)


@pytest.mark.parametrize(
    ("changed", "named"),
    [({int(ApiKey.ELECT_LEADERS): (1, 2)}, "older clients"), ({int(ApiKey.ADD_RAFT_VOTER): (0, 0)}, "current clients")],
)
def test_a_controller_with_other_versions_is_seen(
    monkeypatch: pytest.MonkeyPatch, changed: dict[int, tuple[int, int]], named: str
) -> None:
    for key, versions in changed.items():
        monkeypatch.setitem(CONTROLLER_VERSIONS, key, versions)
    with pytest.raises(NotConforming, match=rf"{named}.*{ApiKey(next(iter(changed))).name}"):
        for seed in range(1, 9):
            conformance(seed, (api_versions.announced,))


def test_a_broker_that_takes_any_name_for_one_of_a_topic_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_api, "is_topic_name", lambda name: len(name) > 0 and name != ".." and "/" not in name)
    with pytest.raises(NotConforming, match=r"Metadata of 'x+': UNKNOWN_TOPIC_OR_PARTITION came"):
        conformance(1, (topics.legal_names,))


def test_an_election_for_all_topic_partitions_that_names_those_that_need_none_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elect = LeaderElectionControl.elect

    def names_everything(control: LeaderElectionControl, image: MetadataImage, request: ElectLeadersRequest) -> Outcome:
        named = [TopicPartitions(topic.name, list(topic.partitions)) for topic in image.topics.values()]
        return elect(control, image, replace(request, topic_partitions=request.topic_partitions or named))

    monkeypatch.setattr(LeaderElectionControl, "elect", names_everything)
    with pytest.raises(NotConforming, match=r"what a second election for all topic-partitions names: \{84\}"):
        conformance(1, (placement.moved,))


def test_a_controller_that_takes_a_setting_for_a_list_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    new_value = configs._new_value

    def subtracts(settings: Mapping[str, str], asked: AlterableConfig) -> str:
        subtracted = asked.config_operation == configs.SUBTRACT
        default = TOPIC_CONFIGS[asked.name].default
        return settings.get(asked.name, default) if subtracted else new_value(settings, asked)

    monkeypatch.setattr(configs, "_new_value", subtracts)
    with pytest.raises(NotConforming, match=r"config_operation=3, value='1'.*NONE came"):
        conformance(1, (settings.altered,))


@pytest.mark.parametrize("limit", [9_999, 10_001])
@pytest.mark.parametrize(
    ("part", "error"), [(topics.refused_creations, "POLICY_VIOLATION"), (topics.more_partitions, "INVALID_PARTITIONS")]
)
def test_another_limit_of_topic_partitions_in_a_request_is_seen(
    monkeypatch: pytest.MonkeyPatch, part: Part, error: str, limit: int
) -> None:
    monkeypatch.setattr(topics, "MANY_RECORDS", 1.0)
    conformance(1, (part,))
    monkeypatch.setattr(node, "controller_config", lambda config: replace(controller_config(config), records_max=limit))
    with pytest.raises(NotConforming, match=error):
        conformance(1, (part,))


def test_a_setting_of_a_nodes_file_that_is_said_to_be_kafkas_default_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    in_file = {"log.flush.interval.messages": "7"}
    conformance(1, (), config=in_file)
    monkeypatch.setattr(controller_topics, "BROKER_CONFIG", controller_topics.DEFAULT_CONFIG)
    with pytest.raises(NotConforming, match=r"Kafka's default of flush\.messages, by CreateTopics: '7' came"):
        conformance(1, (), config=in_file)


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("first", [0, 1])
def test_a_feature_that_does_not_get_the_level_of_its_update_is_seen(
    monkeypatch: pytest.MonkeyPatch, first: int, level: int
) -> None:
    """Whether the cluster begins with the feature or without it."""
    config = {"eligible.leader.replicas.version": str(first)}
    conformance(1, (settings.features,), config=config)
    level_records = FeatureControl._level_records

    def forgets(control: FeatureControl, image: MetadataImage, feature: str, wanted: int) -> list[Message]:
        begins = not image.features
        return level_records(control, image, feature, wanted) if begins or wanted != level else []

    monkeypatch.setattr(FeatureControl, "_level_records", forgets)
    with pytest.raises(NotConforming, match=rf"the level of eligible.* after an update: {1 - level} came"):
        conformance(1, (settings.features,), config=config)


def test_a_controller_that_alters_settings_of_nobody_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "_check_resource", lambda image, resource: None)
    with pytest.raises(NotConforming, match=r"to alter .* a resource of type 4: INVALID_CONFIG came"):
        conformance(1, (settings.of_nobody,))


@pytest.mark.parametrize(
    ("least", "named"), [((0, 2, 2), r"of versions \(1, 1\) where it is"), ((0, 0, 0), "of later versions only")]
)
def test_a_controller_that_misreads_the_versions_of_a_voter_is_seen(
    monkeypatch: pytest.MonkeyPatch, least: tuple[int, ...], named: str
) -> None:
    update = VoterChanges.handle_update

    def misreads(self: VoterChanges, now: int, request: ServerRequest) -> None:
        assert isinstance(request.body, UpdateRaftVoterRequest)
        versions = request.body.k_raft_version_feature
        versions.min_supported_version = least[versions.min_supported_version]
        update(self, now, request)

    monkeypatch.setattr(VoterChanges, "handle_update", misreads)
    with pytest.raises(NotConforming, match=named):
        conformance(1, (quorum.strangers,), dynamic_voters=True)


def test_a_controller_that_reads_the_first_of_several_logs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    only_partition = messages._only_partition

    def first(topics: Iterable[Any], *, by_id: bool = False) -> Any | None:
        return only_partition(list(topics)[:1], by_id=by_id)

    monkeypatch.setattr(messages, "_only_partition", first)
    with pytest.raises(NotConforming, match=r"the errors of a strange Vote of a log twice: set\(\) came"):
        conformance(1, (quorum.strangers,))


def test_a_broker_that_takes_null_records_for_a_batch_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    refused_unseen = ProduceHandler._refused_unseen

    def accepts(
        handler: ProduceHandler,
        body: ProduceRequest,
        topic: str,
        partition: int,
        batch: Buffer | None,
        hosted: HostedPartition | None,
    ) -> PartitionProduceResponse | None:
        if batch is None:
            return PartitionProduceResponse(partition)
        return refused_unseen(handler, body, topic, partition, batch, hosted)

    monkeypatch.setattr(ProduceHandler, "_refused_unseen", accepts)
    with pytest.raises(NotConforming, match="null records: NONE came"):
        conformance(1, (records.refused_batches,))


def test_a_broker_that_takes_zstd_in_a_version_without_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    validate = log.validate_client_batch

    def validated(batch: memoryview, *, max_bytes: int, produce_version: int) -> BatchHeader:
        return validate(batch, max_bytes=max_bytes, produce_version=produce_version + 1)

    monkeypatch.setattr(log, "validate_client_batch", validated)
    with pytest.raises(NotConforming, match="zstd before its time: NONE came"):
        for seed in range(1, 9):
            conformance(seed, (records.refused_batches,))


def test_a_broker_that_closes_the_connection_instead_of_responding_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    respond = ServerRequest.respond

    def closes(request: ServerRequest, response: Message) -> None:
        if isinstance(response, DescribeClusterResponse):
            request.close_connection()
        else:
            respond(request, response)

    monkeypatch.setattr(ServerRequest, "respond", closes)
    with pytest.raises(NotConforming, match="does not respond to DescribeCluster"):
        conformance(1, (descriptions.cluster,))


def test_an_api_that_is_announced_without_a_version_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    respond_wrongly(monkeypatch, ApiVersionsResponse, put(each("api_keys"), min_version=1, max_version=0))
    with pytest.raises(NotConforming, match="APIs without a version"):
        conformance(1, ())


@pytest.mark.parametrize(
    ("since", "named"), [(3, "the features of ApiVersions v3"), (5, "of a level that is supported")]
)
def test_features_that_the_wrong_versions_of_a_response_name_are_seen(
    monkeypatch: pytest.MonkeyPatch, since: int, named: str
) -> None:
    monkeypatch.setattr(announced_features, "LEVEL_ZERO_SINCE", since)
    with pytest.raises(NotConforming, match=named):
        conformance(1, (api_versions.announced,))


def test_nodes_at_different_levels_of_a_feature_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    announce, levels = announced_features.announce, count(1)

    def differs(*arguments: Any) -> ApiVersionsResponse:
        response = announce(*arguments)
        for one in response.finalized_features:
            one.max_version_level = one.min_version_level = next(levels)
        return response

    monkeypatch.setattr(base, "announce", differs)
    with pytest.raises(NotConforming, match="the levels of all features, at another node"):
        conformance(1, (api_versions.announced,))


def test_an_api_that_begins_too_late_for_older_clients_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BROKER_VERSIONS, ApiKey.PRODUCE, (3, 12))
    with pytest.raises(NotConforming, match=r"older clients know no version: \{'PRODUCE': 3\}"):
        for seed in (1, 2, 3):
            conformance(seed, (api_versions.announced,))


def test_an_api_that_ends_too_early_for_current_clients_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BROKER_VERSIONS, ApiKey.LIST_OFFSETS, (1, 7))
    with pytest.raises(NotConforming, match=r"the version that current clients use: \{'LIST_OFFSETS': 7\}"):
        for seed in (1, 2, 3):
            conformance(seed, (api_versions.announced,))


@pytest.mark.parametrize(
    ("table", "key", "high"),
    [(BROKER_VERSIONS, ApiKey.DELETE_TOPICS, 7), (CONTROLLER_VERSIONS, ApiKey.DESCRIBE_CLUSTER, 3)],
    ids=["broker", "controller"],
)
def test_a_version_that_nodes_announce_and_cannot_read_is_seen(
    monkeypatch: pytest.MonkeyPatch, table: dict[int, tuple[int, int]], key: ApiKey, high: int
) -> None:
    monkeypatch.setitem(table, key, (table[key][0], high))
    with pytest.raises(NotConforming, match=rf"a version that the node cannot read: \{{{int(key)}: {high}\}}"):
        for seed in range(1, 6):
            conformance(seed, (api_versions.announced,))


def test_an_api_that_nodes_announce_and_do_not_know_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BROKER_VERSIONS, 999, (0, 0))
    with pytest.raises(NotConforming, match=r"a version that the node cannot read: \{999: 0\}"):
        for seed in range(1, 6):
            conformance(seed, (api_versions.announced,))


def test_the_parts_are_drawn_and_equal_for_equal_seeds() -> None:
    assert conformance(3) == conformance(3) != conformance(4)

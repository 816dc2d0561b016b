"""Metadata, descriptions, producer ids, and what is sent on to the controller (BL-06, MD-09, rule 8)."""

from __future__ import annotations

from typing import TypeVar

import pytest

from squall.nodes.metadata.records import ConfigRecord, FenceBrokerRecord
from squall.nodes.protocol.errors import RETRIABLE, ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from squall.nodes.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from squall.nodes.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from squall.nodes.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from squall.nodes.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from squall.nodes.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from squall.nodes.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from squall.nodes.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from squall.nodes.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from squall.nodes.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from squall.nodes.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from squall.nodes.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from squall.nodes.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from squall.nodes.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from squall.nodes.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from squall.nodes.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from tests.nodes.broker.world import OTHER, OWN, SECOND, THIRD, World, topic_id

Response = TypeVar("Response", bound=Message)


def answer(request: ServerRequest, kind: type[Response]) -> Response:
    assert request.answer is not None, "not answered yet"
    assert isinstance(request.answer.response, kind)
    return request.answer.response


def metadata(world: World, *topics: str, version: int = 12) -> MetadataResponse:
    wanted = [MetadataRequestTopic(name=name) for name in topics] if topics else None
    return answer(world.ask(MetadataRequest(topics=wanted), version), MetadataResponse)


# -- Metadata ------------------------------------------------------------------------------------------------------


def test_metadata_names_brokers_topics_leaders_and_isr(world: World) -> None:
    world.create("t", partitions=2)
    found = metadata(world)
    assert [(one.node_id, one.host, one.port) for one in found.brokers] == [
        (number, f"10.0.0.{number}", 9092) for number in (1, 2, 3)
    ]
    assert (found.cluster_id, found.controller_id) == ("cluster", OWN)
    [topic] = found.topics
    assert (topic.name, topic.topic_id, topic.error_code) == ("t", topic_id("t"), 0)
    assert [(part.partition_index, part.leader_id, part.isr_nodes) for part in topic.partitions] == [
        (0, OWN, [1, 2, 3]),
        (1, OWN, [1, 2, 3]),
    ]


def test_fenced_brokers_are_left_out(world: World) -> None:
    """BL-06: and who still names one as leader is not available."""
    world.create("t", leader=OTHER)
    world.commit(FenceBrokerRecord(OTHER, world.broker.image.brokers[OTHER].epoch))
    found = metadata(world)
    assert [one.node_id for one in found.brokers] == [OWN, THIRD]
    [part] = found.topics[0].partitions
    assert (part.error_code, part.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert part.offline_replicas == [OTHER]


def test_topics_can_be_asked_for_by_id(world: World) -> None:
    world.create("t")
    known = MetadataRequestTopic(topic_id=topic_id("t"))
    unknown = MetadataRequestTopic(topic_id=b"u" * 16)
    found = answer(world.ask(MetadataRequest(topics=[known, unknown])), MetadataResponse)
    assert [topic.error_code for topic in found.topics] == [0, ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", ["t", "unknown"])
def test_versions_that_must_name_each_topic_refuse_ids(world: World, version: int, name: str) -> None:
    """KIP-516: the field is there from version 10 on, its use from 12 on. Without a name, no answer can be encoded."""
    world.create("t")
    request = world.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id(name))]), version)
    assert [topic.error_code for topic in answer(request, MetadataResponse).topics] == [ErrorCode.INVALID_REQUEST]
    assert request.chunks()


def test_an_unknown_or_impossible_topic_has_an_error_of_its_own(world: World) -> None:
    found = metadata(world, "missing", "with space")
    assert [topic.error_code for topic in found.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert world.asked_nothing(CreateTopicsRequest), "topics are not created by asking, unless configured so"


def test_describe_cluster_says_the_same(world: World) -> None:
    found = answer(world.ask(DescribeClusterRequest()), DescribeClusterResponse)
    assert [one.broker_id for one in found.brokers] == [1, 2, 3]
    assert (found.cluster_id, found.controller_id) == ("cluster", OWN)


def test_fenced_brokers_are_described_to_those_who_ask_for_them(world: World) -> None:
    world.commit(FenceBrokerRecord(THIRD, world.broker.image.brokers[THIRD].epoch))
    plain = answer(world.ask(DescribeClusterRequest()), DescribeClusterResponse)
    assert [one.broker_id for one in plain.brokers] == [1, 2]
    whole = answer(world.ask(DescribeClusterRequest(include_fenced_brokers=True)), DescribeClusterResponse)
    assert [(one.broker_id, one.is_fenced) for one in whole.brokers] == [(1, False), (2, False), (3, True)]


@pytest.mark.parametrize(
    ("asked", "error"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_a_broker_describes_brokers_only(world: World, asked: int, error: ErrorCode) -> None:
    found = answer(world.ask(DescribeClusterRequest(endpoint_type=asked)), DescribeClusterResponse)
    assert found.error_code == error and found.error_message is not None


# -- groups and transactions: refused so that every client stops asking --------------------------------------------


def test_a_group_finds_this_broker_and_is_refused_when_it_joins(world: World) -> None:
    """The answers are never retriable: a client that is told to try again hangs."""
    found = answer(world.ask(FindCoordinatorRequest(coordinator_keys=["g", "h"])), FindCoordinatorResponse)
    assert [(one.error_code, one.node_id) for one in found.coordinators] == [(0, OWN), (0, OWN)]
    older = answer(world.ask(FindCoordinatorRequest(key="g"), 2), FindCoordinatorResponse)
    assert (older.error_code, older.node_id) == (0, OWN)
    joined = answer(world.ask(JoinGroupRequest(group_id="g")), JoinGroupResponse)
    assert joined.error_code == ErrorCode.UNSUPPORTED_VERSION and joined.error_code not in RETRIABLE


@pytest.mark.parametrize("version", [1, 7, 9])
def test_no_group_has_committed_an_offset(world: World, version: int) -> None:
    if version < 8:
        old = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic("events", [0])])
        [topic] = answer(world.ask(old, version), OffsetFetchResponse).topics
        [partition] = topic.partitions
        assert (partition.committed_offset, partition.error_code) == (-1, 0)
        return
    groups = [OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("events", [0])])]
    [group] = answer(world.ask(OffsetFetchRequest(groups=groups), version), OffsetFetchResponse).groups
    assert (group.error_code, group.topics[0].partitions[0].committed_offset) == (0, -1)


@pytest.mark.parametrize("version", [2, 4])
def test_a_transaction_finds_no_coordinator_and_hears_why(world: World, version: int) -> None:
    body = FindCoordinatorRequest(key="x", key_type=1, coordinator_keys=["x"] if version > 3 else [])
    found = answer(world.ask(body, version), FindCoordinatorResponse)
    one = found.coordinators[0] if version > 3 else found
    assert one.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED and one.error_code not in RETRIABLE
    assert "Transactions are not served" in (one.error_message or "")


# -- log directories -----------------------------------------------------------------------------------------------


def test_the_log_directory_and_its_replicas_are_described(world: World) -> None:
    world.create("events")
    [directory] = answer(world.ask(DescribeLogDirsRequest(topics=None)), DescribeLogDirsResponse).results
    assert directory.error_code == 0
    assert "events" in {topic.name for topic in directory.topics}
    asked = DescribeLogDirsRequest(topics=[DescribableLogDirTopic("events", [0, 99])])
    [directory] = answer(world.ask(asked), DescribeLogDirsResponse).results
    assert [(topic.name, [one.partition_index for one in topic.partitions]) for topic in directory.topics] == [
        ("events", [0])
    ]


def test_replicas_move_to_no_other_directory(world: World) -> None:
    world.create("events")
    here = answer(world.ask(DescribeLogDirsRequest()), DescribeLogDirsResponse).results[0].log_dir
    dirs = [
        AlterReplicaLogDir(here, [AlterReplicaLogDirTopic("events", [0]), AlterReplicaLogDirTopic("absent", [0])]),
        AlterReplicaLogDir("/elsewhere", [AlterReplicaLogDirTopic("events", [0])]),
    ]
    results = answer(world.ask(AlterReplicaLogDirsRequest(dirs)), AlterReplicaLogDirsResponse).results
    assert [one.partitions[0].error_code for one in results] == [
        ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.LOG_DIR_NOT_FOUND
    ]  # fmt: skip


def test_configs_are_described_with_their_source(world: World) -> None:
    world.create("t", min_isr=2)
    resources = [
        DescribeConfigsResource(2, "t", ["min.insync.replicas", "segment.bytes"]),
        DescribeConfigsResource(4, "1"),
        DescribeConfigsResource(2, "missing"),
        DescribeConfigsResource(4, "2"),
    ]
    found = answer(world.ask(DescribeConfigsRequest(resources=resources)), DescribeConfigsResponse).results
    assert [(one.name, one.value, one.config_source) for one in found[0].configs] == [
        ("min.insync.replicas", "2", 1),
        ("segment.bytes", str(1 << 30), 5),
    ]
    assert [(one.name, one.value) for one in found[1].configs] == [("node.id", "1")]
    assert found[2].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found[3].error_code == ErrorCode.INVALID_REQUEST


# -- offsets -------------------------------------------------------------------------------------------------------


def test_list_offsets_answers_earliest_latest_and_by_time(world: World) -> None:
    world.create("t", replicas=(1,))
    for _ in range(3):
        world.produce()
    for when, expected in ((-2, 0), (-1, 3), (1000, 0), (2000, -1)):
        topic = ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, when)])
        found = answer(world.ask(ListOffsetsRequest(replica_id=-1, topics=[topic])), ListOffsetsResponse)
        assert [(one.error_code, one.offset) for one in found.topics[0].partitions] == [(0, expected)]


def test_a_topic_partition_named_twice_in_list_offsets_is_refused(world: World) -> None:
    """As in Kafka: a hundred thousand look-ups in one log would be one request."""
    world.create("t", replicas=(1,))
    asked = [ListOffsetsPartition(0, -1, 1000) for _ in range(3)]
    found = answer(
        world.ask(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", asked)])), ListOffsetsResponse
    )
    assert {one.error_code for one in found.topics[0].partitions} == {ErrorCode.INVALID_REQUEST}


def test_offset_for_leader_epoch_tells_where_an_epoch_ended(world: World) -> None:
    world.create("t", replicas=(1,))
    world.produce()
    world.change(leader=1)
    asked = OffsetForLeaderPartition(0, 1, 0)
    found = answer(
        world.ask(OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("t", [asked])])),
        OffsetForLeaderEpochResponse,
    )
    [part] = found.topics[0].partitions
    assert (part.error_code, part.leader_epoch, part.end_offset) == (0, 0, 1)


# -- producer ids --------------------------------------------------------------------------------------------------


def test_producer_ids_come_from_blocks_of_the_controller(world: World) -> None:
    """Rule 8."""
    first, second = world.ask(InitProducerIdRequest()), world.ask(InitProducerIdRequest())
    request, message = world.asked(AllocateProducerIdsRequest)
    assert (message.broker_id, message.broker_epoch) == (OWN, world.broker.lifecycle.epoch)
    assert first.answer is None
    request.complete(world.now, AllocateProducerIdsResponse(producer_id_start=5000, producer_id_len=2))
    ids = [answer(one, InitProducerIdResponse).producer_id for one in (first, second)]
    assert ids == [5000, 5001]
    third = world.ask(InitProducerIdRequest())
    assert third.answer is None, "the block is used up"
    request, _ = world.asked(AllocateProducerIdsRequest)
    request.complete(world.now, AllocateProducerIdsResponse(producer_id_start=7000, producer_id_len=1000))
    assert answer(third, InitProducerIdResponse).producer_id == 7000


def test_a_producer_waits_for_a_controller_only_so_long(world: World) -> None:
    waiting = world.ask(InitProducerIdRequest())
    request, _ = world.asked(AllocateProducerIdsRequest)
    request.complete(world.now, None)
    world.asked(AllocateProducerIdsRequest, after=SECOND)
    world.run(after=10 * SECOND)
    assert answer(waiting, InitProducerIdResponse).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_transactions_are_not_served(world: World) -> None:
    found = answer(world.ask(InitProducerIdRequest(transactional_id="x")), InitProducerIdResponse)
    assert found.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED and found.error_code not in RETRIABLE


# -- offsets by special timestamps ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp", "version", "error", "offset"),
    [
        (-2, 11, ErrorCode.NONE, 6),
        (-4, 8, ErrorCode.NONE, 6),  # all of a log is local (KIP-405)
        (-4, 7, ErrorCode.UNSUPPORTED_VERSION, -1),
        (-5, 9, ErrorCode.NONE, -1),  # nothing is tiered (KIP-1005)
        (-5, 8, ErrorCode.UNSUPPORTED_VERSION, -1),
        (-6, 11, ErrorCode.NONE, -1),  # and nothing waits for it (KIP-1023)
        (-6, 10, ErrorCode.UNSUPPORTED_VERSION, -1),
        (-7, 11, ErrorCode.UNSUPPORTED_VERSION, -1),
        (0, 11, ErrorCode.NONE, 6),  # by time, after DeleteRecords
    ],
)
def test_each_special_timestamp_has_a_version_since_when_it_counts(
    world: World, timestamp: int, version: int, error: ErrorCode, offset: int
) -> None:
    world.create("t", replicas=(OWN,))
    batch = memoryview(build_batch([Record(value=b"v", timestamp=100 + at) for at in range(10)]))
    data = TopicProduceData("t", [PartitionProduceData(0, batch)])
    world.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 9)
    deletion = DeleteRecordsPartition(0, 6)
    world.ask(DeleteRecordsRequest([DeleteRecordsTopic("t", [deletion])], timeout_ms=1000))
    asked = ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)])])
    found = answer(world.ask(asked, version), ListOffsetsResponse).topics[0].partitions[0]
    assert (found.error_code, found.offset) == (error, offset)


# -- forwarding ----------------------------------------------------------------------------------------------------


def test_topics_are_created_by_the_controller_and_its_answer_passed_back(world: World) -> None:
    """MD-09."""
    asked = world.ask(CreateTopicsRequest(topics=[CreatableTopic("new", 3, 2)], timeout_ms=5000))
    request, message = world.asked(CreateTopicsRequest)
    assert message.topics[0].name == "new"
    assert request.timeout == 5 * SECOND
    response = CreateTopicsResponse(topics=[CreatableTopicResult("new", b"n" * 16)])
    request.complete(world.now, response)
    assert answer(asked, CreateTopicsResponse) == response


def test_no_answer_from_the_controller_is_an_unknown_outcome(world: World) -> None:
    asked = world.ask(CreateTopicsRequest(topics=[CreatableTopic("new", 3, 2)]))
    request, _ = world.asked(CreateTopicsRequest)
    request.complete(world.now, None)
    assert answer(asked, CreateTopicsResponse).topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_old_ways_of_naming_topics_to_delete_are_understood(world: World) -> None:
    asked = world.ask(DeleteTopicsRequest(topic_names=["a", "b"]), 4)
    request, message = world.asked(DeleteTopicsRequest)
    assert [one.name for one in message.topics] == ["a", "b"]
    request.complete(world.now, DeleteTopicsResponse(responses=[DeletableTopicResult("a"), DeletableTopicResult("b")]))
    assert [one.name for one in answer(asked, DeleteTopicsResponse).responses] == ["a", "b"]


def test_settings_features_and_elections_are_the_controllers_too(world: World) -> None:
    alteration = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(2, "t", [AlterableConfig("retention.ms", 0, "1")])]
    )
    asked = world.ask(alteration, 0)
    request, message = world.asked(IncrementalAlterConfigsRequest)
    assert message == alteration
    request.complete(
        world.now, IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(0, None, 2, "t")])
    )
    assert answer(asked, IncrementalAlterConfigsResponse).responses[0].error_code == ErrorCode.NONE
    asked = world.ask(ElectLeadersRequest(0, None))
    request, _ = world.asked(ElectLeadersRequest)
    request.complete(world.now, None)
    assert answer(asked, ElectLeadersResponse).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_an_old_way_of_asking_for_a_downgrade_is_understood(world: World) -> None:
    asked = world.ask(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("f", 0, allow_downgrade=True)]), 0)
    request, message = world.asked(UpdateFeaturesRequest)
    assert message.feature_updates[0].upgrade_type == 3
    request.complete(world.now, None)
    assert answer(asked, UpdateFeaturesResponse).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_the_clusters_defaults_are_described_with_their_source(world: World) -> None:
    world.create("t")
    world.commit(ConfigRecord(4, "", "min.insync.replicas", "2"))
    resources = [DescribeConfigsResource(kind, name, ["min.insync.replicas"]) for kind, name in ((2, "t"), (4, ""))]
    found = answer(world.ask(DescribeConfigsRequest(resources=resources)), DescribeConfigsResponse).results
    for result in found:
        [one] = result.configs
        assert (one.value, one.config_source, one.read_only) == ("2", 3, False)


def test_a_default_min_isr_reaches_replicas_without_their_own_setting(world: World) -> None:
    """EL-06: leader and controller go by the same min ISR."""
    world.create("t", min_isr=3)
    world.create("u")
    world.commit(ConfigRecord(4, "", "min.insync.replicas", "2"))
    assert [hosted.replica.min_isr for hosted in world.broker.replicas.all()] == [3, 2]
    world.commit(ConfigRecord(2, "t", "min.insync.replicas", None))
    assert [hosted.replica.min_isr for hosted in world.broker.replicas.all()] == [2, 2]

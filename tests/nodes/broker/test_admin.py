"""Metadata, descriptions, producer ids, and what is sent on to the controller (BL-06, MD-09, rule 8)."""

from __future__ import annotations

from typing import TypeVar

from squall.nodes.metadata.records import ConfigRecord, FenceBrokerRecord
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from squall.nodes.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
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
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from squall.nodes.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from squall.nodes.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.session import ServerRequest
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


def test_there_is_no_group_coordinator_yet(world: World) -> None:
    found = answer(world.ask(FindCoordinatorRequest(coordinator_keys=["g"])), FindCoordinatorResponse)
    assert [one.error_code for one in found.coordinators] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    older = answer(world.ask(FindCoordinatorRequest(key="g"), 2), FindCoordinatorResponse)
    assert older.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


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
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


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


def test_a_cluster_default_of_min_isr_reaches_replicas_without_a_setting_of_their_own(world: World) -> None:
    """EL-06: leader and controller go by the same min ISR."""
    world.create("t", min_isr=3)
    world.create("u")
    world.commit(ConfigRecord(4, "", "min.insync.replicas", "2"))
    assert [hosted.replica.min_isr for hosted in world.broker.replicas.all()] == [3, 2]
    world.commit(ConfigRecord(2, "t", "min.insync.replicas", None))
    assert [hosted.replica.min_isr for hosted in world.broker.replicas.all()] == [2, 2]

"""Query a cluster for its facts: Metadata, DescribeTopicPartitions, DescribeQuorum, DescribeConfigs, ListOffsets.

One broker's view is taken as the truth; it may be a moment old. Beyond Metadata everything is optional: what a cluster
does not serve (an older Kafka, or one without KRaft) is left out of the facts rather than refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace

from squall.harness.errors import UsageError
from squall.harness.operator.admin_connection import AdminConnection, NotServed, Refused, refuse_error
from squall.harness.operator.facts import (
    ClusterFacts,
    OngoingMove,
    PartitionFacts,
    QuorumFacts,
    QuorumMember,
    TopicFacts,
    counted_brokers,
)
from squall.harness.yaml_source import suggestion
from squall.nodes.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from squall.nodes.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    ReplicaState,
    TopicDataRequest,
)
from squall.nodes.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from squall.nodes.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from squall.nodes.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from squall.nodes.protocol.topic_partition import METADATA_TOPIC, format_id
from squall.workloads.clients.native.admin import Address

TOPIC_RESOURCE = 2
SET_FOR_THE_TOPIC = 1
"""DescribeConfigs: the source of a config that was set for the topic itself."""
EARLIEST, LATEST = -2, -1
NO_REPLICA = -1


async def metadata_of(connection: AdminConnection) -> MetadataResponse:
    """Return the metadata of all topics. Raises UsageError."""
    return await connection.any(MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse)


async def describe_cluster(connection: AdminConnection) -> ClusterFacts:
    """Return everything in Metadata, and the active controller. Raises UsageError."""
    metadata = await metadata_of(connection)
    controller, epoch = await _active_controller(connection, metadata.controller_id)
    topics = tuple(sorted((_topic(one) for one in metadata.topics), key=lambda topic: topic.name))
    known = [(one.node_id, one.host, one.port, one.rack) for one in metadata.brokers]
    return ClusterFacts(metadata.cluster_id or "", controller, epoch, counted_brokers(known, topics), topics)


async def _active_controller(connection: AdminConnection, said: int) -> tuple[int | None, int | None]:
    """Return the quorum's leader; without a quorum the controller in Metadata, which in KRaft is a random broker."""
    try:
        quorum = await describe_quorum(connection)
    except NotServed:
        return (None if said == NO_REPLICA else said), None
    except Refused:
        return None, None  # the quorum has no leader now
    return quorum.leader, quorum.leader_epoch


def _topic(told: MetadataResponseTopic) -> TopicFacts:
    partitions = [
        PartitionFacts(
            topic=told.name or "",
            partition=one.partition_index,
            leader=None if one.leader_id == NO_REPLICA else one.leader_id,
            leader_epoch=one.leader_epoch,
            replicas=tuple(one.replica_nodes),
            isr=tuple(one.isr_nodes),
        )
        for one in told.partitions
    ]
    return TopicFacts(told.name or "", format_id(told.topic_id), tuple(sorted(partitions, key=lambda p: p.partition)))


# -- topics --------------------------------------------------------------------------------------------------------


async def describe_topics(connection: AdminConnection, names: Collection[str] = ()) -> tuple[TopicFacts, ...]:
    """Return topics with all facts about them; all topics if none is named. Raises UsageError."""
    metadata = await metadata_of(connection)
    topics = chosen_topics([_topic(one) for one in metadata.topics], names)
    if not topics:
        return ()
    eligible, moves, configs, offsets = await asyncio.gather(
        _eligible(connection, topics),
        ongoing_moves(connection),
        _configs(connection, topics),
        _offsets(connection, topics, {one.node_id: (one.host, one.port) for one in metadata.brokers}),
    )
    moving = {(one.topic, one.partition): one for one in moves}
    found = []
    for topic in topics:
        partitions = []
        for one in topic.partitions:
            key = (one.topic, one.partition)
            elr = eligible.get(key)
            if elr is not None:
                one = replace(one, elr=_or_none(elr[0]), last_known_elr=_or_none(elr[1]))
            if key in moving:
                adding, removing = moving[key].adding_replicas, moving[key].removing_replicas
                one = replace(one, adding_replicas=adding, removing_replicas=removing)
            start, end = offsets.get((*key, EARLIEST)), offsets.get((*key, LATEST))
            partitions.append(replace(one, start_offset=start, end_offset=end))
        found.append(replace(topic, partitions=tuple(partitions), configs=configs.get(topic.name, {})))
    return tuple(found)


def _or_none(replicas: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if replicas is None else tuple(replicas)


def chosen_topics(topics: Sequence[TopicFacts], names: Collection[str]) -> list[TopicFacts]:
    """Return the named topics, or all; by name. Raises UsageError for an unknown topic."""
    known = {topic.name: topic for topic in topics}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no topic {name!r}{suggestion(name, sorted(known))}")
    return [known[name] for name in sorted(set(names) or known)]


_Eligible = dict[tuple[str, int], tuple[Sequence[int] | None, Sequence[int] | None]]


async def _eligible(connection: AdminConnection, topics: Sequence[TopicFacts]) -> _Eligible:
    """Return ELR and last known ELR of topic-partitions; empty if the cluster does not serve them."""
    wanted = [TopicRequest(name=topic.name) for topic in topics]
    found: _Eligible = {}
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=wanted, cursor=cursor)
        try:
            told = await connection.any(request, DescribeTopicPartitionsResponse)
        except NotServed:
            return {}
        for topic in told.topics:
            for one in topic.partitions:
                found[(topic.name or "", one.partition_index)] = _lists(one)
        if told.next_cursor is None or told.next_cursor == cursor:
            return found
        cursor = told.next_cursor
        # Topics before the cursor are done; requesting their names again would return them as unknown.
        wanted = [one for one in wanted if one.name >= cursor.topic_name]


def _lists(one: DescribeTopicPartitionsResponsePartition) -> tuple[Sequence[int] | None, Sequence[int] | None]:
    return one.eligible_leader_replicas, one.last_known_elr


async def _configs(connection: AdminConnection, topics: Sequence[TopicFacts]) -> dict[str, dict[str, str | None]]:
    """Return the configs set for each topic."""
    resources = [
        DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic.name, configuration_keys=None)
        for topic in topics
    ]
    try:
        told = await connection.any(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    except NotServed:
        return {}
    found = {}
    for one in told.results:
        mine = [config for config in one.configs if config.config_source == SET_FOR_THE_TOPIC]
        found[one.resource_name] = {config.name: None if config.is_sensitive else config.value for config in mine}
    return found


_Offsets = dict[tuple[str, int, int], int]


async def _offsets(
    connection: AdminConnection, topics: Sequence[TopicFacts], addresses: dict[int, Address]
) -> _Offsets:
    """Return first offset and end (high watermark) of every topic-partition with a leader, queried from the leaders."""
    led: dict[int, list[PartitionFacts]] = {}
    for one in (partition for topic in topics for partition in topic.partitions):
        if one.leader in addresses:
            led.setdefault(one.leader, []).append(one)
    wanted = [(addresses[leader], which, parts) for leader, parts in led.items() for which in (EARLIEST, LATEST)]
    found: _Offsets = {}
    for answer in await asyncio.gather(*(_offsets_of(connection, *one) for one in wanted)):
        found.update(answer)
    return found


async def _offsets_of(
    connection: AdminConnection, leader: Address, which: int, partitions: Sequence[PartitionFacts]
) -> _Offsets:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for one in partitions:
        asked = ListOffsetsPartition(partition_index=one.partition, timestamp=which)
        by_topic.setdefault(one.topic, []).append(asked)
    topics = [ListOffsetsTopic(name=name, partitions=parts) for name, parts in by_topic.items()]
    request = ListOffsetsRequest(replica_id=NO_REPLICA, topics=topics)
    try:
        told = await connection.at(leader, request, ListOffsetsResponse)
    except (OSError, NotServed):
        return {}  # the leader does not respond: only its offsets are unknown
    return {
        (topic.name, one.partition_index, which): one.offset
        for topic in told.topics
        for one in topic.partitions
        if one.error_code == 0
    }


# -- quorum and moves ----------------------------------------------------------------------------------------------


async def describe_quorum(connection: AdminConnection) -> QuorumFacts:
    """Return the metadata quorum as its leader reports it. Raises UsageError."""
    asked = TopicDataRequest(topic_name=METADATA_TOPIC, partitions=[PartitionDataRequest(partition_index=0)])
    told = await connection.any(DescribeQuorumRequest(topics=[asked]), DescribeQuorumResponse)
    refuse_error("the quorum cannot be described", told.error_code, told.error_message)
    parts = [part for topic in told.topics for part in topic.partitions]
    if not parts:
        raise Refused("the quorum cannot be described: the answer is empty")
    (part,) = parts
    refuse_error("the quorum cannot be described", part.error_code, part.error_message)
    states = [*part.current_voters, *part.observers]
    end = next((one.log_end_offset for one in states if one.replica_id == part.leader_id), part.high_watermark)
    return QuorumFacts(
        leader=part.leader_id,
        leader_epoch=part.leader_epoch,
        high_watermark=part.high_watermark,
        voters=tuple(_member(one, end) for one in part.current_voters),
        observers=tuple(_member(one, end) for one in part.observers),
    )


def _member(state: ReplicaState, end: int) -> QuorumMember:
    directory = format_id(state.replica_directory_id) if any(state.replica_directory_id) else None
    return QuorumMember(
        id=state.replica_id,
        directory_id=directory,
        log_end_offset=state.log_end_offset,
        lag=None if state.log_end_offset < 0 else max(0, end - state.log_end_offset),
        last_fetch_timestamp=state.last_fetch_timestamp if state.last_fetch_timestamp >= 0 else None,
        last_caught_up_timestamp=state.last_caught_up_timestamp if state.last_caught_up_timestamp >= 0 else None,
    )


async def ongoing_moves(connection: AdminConnection, *, required: bool = False) -> tuple[OngoingMove, ...]:
    """Return reassignments under way; empty where the API is not served, unless `required`. Raises UsageError."""
    try:
        told = await connection.any(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse)
    except NotServed:
        if required:
            raise
        return ()
    refuse_error("reassignments cannot be listed", told.error_code, told.error_message)
    moves = [
        OngoingMove(
            topic.name,
            one.partition_index,
            tuple(one.replicas),
            tuple(one.adding_replicas),
            tuple(one.removing_replicas),
        )
        for topic in told.topics
        for one in topic.partitions
    ]
    return tuple(sorted(moves, key=lambda move: (move.topic, move.partition)))

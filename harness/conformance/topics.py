"""CreateTopics, CreatePartitions and DeleteTopics: what is made, what is only validated, and what has to be refused."""

from __future__ import annotations

import string

from squall.harness.conformance.client import (
    NOBODY,
    UNKNOWN_ID,
    Address,
    ConformanceClient,
    expect,
    expect_error,
)
from squall.harness.conformance.settings import DEFAULT_SOURCE, STATIC_SOURCE, TOPIC, TOPIC_SOURCE, described_configs
from squall.harness.conformance.topic import (
    METADATA_BY_ID_SINCE,
    CheckedPartition,
    CheckedTopic,
    await_shown,
    shown_topic,
)
from squall.nodes.metadata.topic_configs import TOPIC_CONFIGS
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from squall.nodes.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from squall.nodes.protocol.messages.describe_configs import DescribeConfigsResourceResult
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from squall.nodes.protocol.topic_partition import ZERO_ID

SECONDS_MS = 5000
BY_ID_SINCE, DESCRIBED_SINCE, IDS_SINCE = 6, 5, 7
LONGEST_NAME = 249
ILLEGAL_NAMES = ("", "..", "a/b", "x" * (LONGEST_NAME + 1))
MOST_PARTITIONS = 10_000
"""How many topic-partitions a request may create at most, and how many records it may write, as in Apache Kafka."""
MANY_RECORDS = 0.25
"""How often that many, and one fewer, are asked for in one topic: a controller makes all of them before it answers."""


async def create(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Create the topic as assigned, after a request that only validates; wait until every broker shows it."""
    wanted = _wanted(topic)
    address = client.any_broker()
    (result,) = await _create(client, address, [wanted], validate_only=True)
    expect_error(address, f"to validate {topic.name}", result.error_code, ErrorCode.NONE)
    shown = await shown_topic(client, address, topic.name)
    expect_error(address, f"{topic.name}, only validated", shown.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    (result,) = await _create(client, address, [wanted], since=IDS_SINCE)
    expect_error(address, f"to create {topic.name}", result.error_code, ErrorCode.NONE)
    counts = (result.num_partitions, result.replication_factor)
    expect(address, "what was created", counts, (len(topic.partitions), len(topic.partitions[0].replicas)))
    ours = {one.name: one.value for one in result.configs or () if one.config_source == TOPIC_SOURCE}
    expect(address, "the settings of the new topic", ours, topic.settings)
    topic.topic_id = bytes(result.topic_id)
    if topic.topic_id == ZERO_ID:
        expect(address, "the id of the new topic", topic.topic_id, "an id")
    await await_shown(client, topic)
    await _as_described(client, topic, result)


async def _as_described(client: ConformanceClient, topic: CheckedTopic, created: CreatableTopicResult) -> None:
    """CreateTopics names settings as DescribeConfigs then does. What it calls Kafka's default has that value.

    A setting that neither the topic nor the cluster has comes from the controller's file in CreateTopics, and from the
    broker's in DescribeConfigs. These may differ, and our brokers call what is in theirs a default.
    """
    address = client.any_broker()
    shown = await described_configs(client, address, TOPIC, topic.name)
    told = {one.name: one for one in created.configs or () if one.name in shown}
    names = [name for name, one in shown.items() if one.config_source == TOPIC_SOURCE]
    expect(address, f"settings of {topic.name} that CreateTopics does not name", sorted({*names} - {*told}), [])
    for name, one in told.items():
        said, found = _told(one), _told(shown[name])
        expect(address, f"value, source and flags of {name}, which CreateTopics said to be {said}", found, said)
        if one.config_source == DEFAULT_SOURCE and name in TOPIC_CONFIGS:
            expect(address, f"Kafka's default of {name}, by CreateTopics", one.value, TOPIC_CONFIGS[name].default)


def _told(setting: CreatableTopicConfigs | DescribeConfigsResourceResult) -> tuple[object, ...]:
    """Return value, source and flags of a setting; only the flags of one from a node's file or of a default."""
    flags = (setting.read_only, setting.is_sensitive)
    if setting.config_source in (STATIC_SOURCE, DEFAULT_SOURCE):
        return ("by a node", *flags)
    return (setting.value, setting.config_source, *flags)


async def refused_creations(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Ask for topics that cannot be created, alone and beside a valid one, and check that none is created."""
    address, count = client.any_broker(), len(client.brokers)
    name = f"{topic.name}-refused"
    broker = min(topic.brokers)
    placed = [CreatableReplicaAssignment(0, [broker])]
    cases = {
        ErrorCode.TOPIC_ALREADY_EXISTS: [CreatableTopic(topic.name, 1, 1)],
        ErrorCode.INVALID_TOPIC_EXCEPTION: [CreatableTopic(one, 1, 1) for one in ILLEGAL_NAMES],
        ErrorCode.INVALID_PARTITIONS: [CreatableTopic(name, 0, 1), CreatableTopic(name, -2, 1)],
        ErrorCode.INVALID_REPLICATION_FACTOR: [CreatableTopic(name, 1, count + 1), CreatableTopic(name, 1, 0)],
        ErrorCode.INVALID_CONFIG: [
            CreatableTopic(name, 1, 1, configs=[CreatableTopicConfig("no.such.setting", "1")]),
            CreatableTopic(name, 1, 1, configs=[CreatableTopicConfig("min.insync.replicas", "none")]),
            CreatableTopic(name, 1, 1, configs=[CreatableTopicConfig("min.insync.replicas", "0")]),
        ],
        ErrorCode.INVALID_REQUEST: [
            CreatableTopic(name, 1, -1, assignments=placed),
            CreatableTopic(name, -1, 1, assignments=placed),
            CreatableTopic(name, 0, -1, assignments=placed),
            CreatableTopic(name, -1, 0, assignments=placed),
        ],
        ErrorCode.INVALID_REPLICA_ASSIGNMENT: [
            CreatableTopic(name, -1, -1, assignments=[CreatableReplicaAssignment(0, [NOBODY])]),
            CreatableTopic(name, -1, -1, assignments=[CreatableReplicaAssignment(0, [broker, NOBODY])]),
            CreatableTopic(name, -1, -1, assignments=[CreatableReplicaAssignment(0, [broker, broker])]),
            CreatableTopic(name, -1, -1, assignments=[CreatableReplicaAssignment(1, [broker])]),
            CreatableTopic(name, -1, -1, assignments=[CreatableReplicaAssignment(0, [])]),
        ],
    }
    for error, choices in cases.items():
        for asked in choices:
            (result,) = await _create(client, address, [asked])
            expect_error(address, f"to create {asked}", result.error_code, error)
    error, choices = client.rng.choice(list(cases.items()))
    asked = client.rng.choice(choices)
    twice = [CreatableTopic(name, 1, 1), CreatableTopic(name, 1, 1)]
    for result in await _create(client, address, twice, validate_only=True):
        expect_error(address, f"to create {name} twice in a request", result.error_code, ErrorCode.INVALID_REQUEST)
    await _too_many(client, address, name)
    beside = [asked, CreatableTopic(f"{name}-beside", 1, 1)]
    both = [one.error_code for one in await _create(client, address, beside, validate_only=True)]
    expect(address, f"to create {asked} beside another topic", both, [int(error), 0])
    for address in client.brokers:
        shown = await shown_topic(client, address, name)
        expect_error(address, f"{name}, refused", shown.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def _too_many(client: ConformanceClient, address: Address, name: str) -> None:
    """A request that would create one topic-partition too many, or write one record too many, is refused as a whole."""
    fewer = client.rng.randint(1, MOST_PARTITIONS)
    too_many = [CreatableTopic(name, fewer, 1), CreatableTopic(f"{name}-beside", MOST_PARTITIONS + 1 - fewer, 1)]
    for result in await _create(client, address, too_many, validate_only=True):
        expect_error(address, f"to create {too_many}", result.error_code, ErrorCode.POLICY_VIOLATION)
    if client.rng.random() >= MANY_RECORDS:
        return
    # The topic itself is a record more.
    for count, error in ((MOST_PARTITIONS, ErrorCode.POLICY_VIOLATION), (MOST_PARTITIONS - 1, ErrorCode.NONE)):
        (result,) = await _create(client, address, [CreatableTopic(name, count, 1)], validate_only=True)
        expect_error(address, f"to create {name} with {count} topic-partitions", result.error_code, error)


async def legal_names(client: ConformanceClient, topic: CheckedTopic) -> None:
    """A name may have 1 to 249 letters, digits, dots, dashes and underscores, in any order. Nothing is created.

    Who asks for a topic by another name is told so.
    """
    address = client.any_broker()
    letters = string.ascii_letters + string.digits + "-"
    longest = "".join(client.rng.choices(letters, k=LONGEST_NAME))
    for name in (longest, "-", "...", f"{topic.name}.x_y", client.rng.choice(letters)):
        (result,) = await _create(client, address, [CreatableTopic(name, 1, 1)], validate_only=True)
        expect_error(address, f"to validate {name}", result.error_code, ErrorCode.NONE)
    shown = await shown_topic(client, address, longest)
    expect_error(address, f"Metadata of {longest}", shown.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for name in ILLEGAL_NAMES:
        shown = await shown_topic(client, address, name)
        expect_error(address, f"Metadata of {name!r}", shown.error_code, ErrorCode.INVALID_TOPIC_EXCEPTION)


async def default_sizes(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Who leaves the numbers of topic-partitions and replicas open gets the cluster's defaults. Nothing is created."""
    address = client.any_broker()
    for partitions, factor in ((-1, -1), (2, -1), (-1, 1)):
        asked = CreatableTopic(f"{topic.name}-default", partitions, factor)
        (result,) = await _create(client, address, [asked], validate_only=True)
        expect_error(address, f"to validate {asked}", result.error_code, ErrorCode.NONE, message=result.error_message)
        told = (result.num_partitions, result.replication_factor)
        fitting = all(one >= 1 and wanted in (-1, one) for wanted, one in zip((partitions, factor), told, strict=True))
        expect(address, f"whether {told} topic-partitions and replicas are what {asked} says", fitting, True)


async def more_partitions(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Add a topic-partition where it is asked for. As many as there are, and fewer, are refused."""
    address, count = client.any_broker(), len(topic.partitions)
    if len({len(one.replicas) for one in topic.partitions}) > 1:
        return  # the replication factor of the topic depends on the topic-partition that is asked
    replicas = list(topic.partitions[0].replicas)
    client.rng.shuffle(replicas)
    cases = {
        ErrorCode.INVALID_PARTITIONS: [CreatePartitionsTopic(topic.name, one, None) for one in (count, count - 1)],
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: [CreatePartitionsTopic(f"{topic.name}-unknown", 2, None)],
        ErrorCode.INVALID_REPLICA_ASSIGNMENT: [
            CreatePartitionsTopic(topic.name, count + 2, [CreatePartitionsAssignment(replicas)]),
            CreatePartitionsTopic(topic.name, count + 1, [CreatePartitionsAssignment([NOBODY, *replicas[1:]])]),
        ],
    }
    for error, choices in cases.items():
        for asked in choices:
            await _extend(client, address, asked, error)
    await _many_more(client, address, topic)
    more = CreatePartitionsTopic(topic.name, count + 1, None)
    both = CreatePartitionsRequest(topics=[more, more], timeout_ms=SECONDS_MS)
    response = await client.ask(address, both, CreatePartitionsResponse)
    codes = {one.error_code for one in response.results}
    expect(address, f"to enlarge {topic.name} twice in a request", codes, {int(ErrorCode.INVALID_REQUEST)})
    wanted = CreatePartitionsTopic(topic.name, count + 1, [CreatePartitionsAssignment(replicas)])
    await _extend(client, address, wanted, ErrorCode.NONE, validate_only=True)
    await _extend(client, address, wanted, ErrorCode.NONE)
    topic.partitions.append(CheckedPartition(tuple(replicas), replicas[0]))
    await await_shown(client, topic, leads=False)
    expect(address, "the first leader epoch of a new topic-partition", topic.partitions[-1].leader_epoch, 0)


async def _many_more(client: ConformanceClient, address: Address, topic: CheckedTopic) -> None:
    """A request may add as many topic-partitions as it may write records, and no more.

    Apache Kafka 4.3 was seen to answer UNKNOWN_SERVER_ERROR to one more, so only our own nodes are asked for that.
    """
    if client.rng.random() >= MANY_RECORDS:
        return
    for added, error in ((MOST_PARTITIONS + 1, ErrorCode.INVALID_PARTITIONS), (MOST_PARTITIONS, ErrorCode.NONE)):
        if client.knows_all or error == ErrorCode.NONE:
            asked = CreatePartitionsTopic(topic.name, len(topic.partitions) + added, None)
            await _extend(client, address, asked, error, validate_only=True)


async def delete(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Delete the topic by its name or its id. No broker shows it then, by name or by id."""
    address = client.any_broker()
    unknown = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: DeleteTopicState(name=f"{topic.name}-unknown"),
        ErrorCode.UNKNOWN_TOPIC_ID: DeleteTopicState(name=None, topic_id=UNKNOWN_ID),
        ErrorCode.INVALID_REQUEST: DeleteTopicState(name=topic.name, topic_id=topic.topic_id),
    }
    for error, state in unknown.items():
        request = DeleteTopicsRequest(topics=[state], timeout_ms=SECONDS_MS)
        response = await client.ask(address, request, DeleteTopicsResponse, since=BY_ID_SINCE)
        codes = [one.error_code for one in response.responses]
        expect(address, f"to delete {state}", codes, [int(error)])
    states = [DeleteTopicState(name=topic.name), DeleteTopicState(name=topic.name)]
    twice = DeleteTopicsRequest(topics=states, timeout_ms=SECONDS_MS)
    response = await client.ask(address, twice, DeleteTopicsResponse, since=BY_ID_SINCE)
    refused = {one.error_code for one in response.responses}
    expect(address, f"to delete {topic.name} twice in a request", refused, {int(ErrorCode.INVALID_REQUEST)})
    way = client.rng.choice(("old name", "name", "id"))
    ways = {"name": DeleteTopicState(name=topic.name), "id": DeleteTopicState(name=None, topic_id=topic.topic_id)}
    if way == "old name":
        request = DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=SECONDS_MS)
        response = await client.ask(address, request, DeleteTopicsResponse, until=BY_ID_SINCE - 1)
    else:
        request = DeleteTopicsRequest(topics=[ways[way]], timeout_ms=SECONDS_MS)
        response = await client.ask(address, request, DeleteTopicsResponse, since=BY_ID_SINCE)
        expect(address, "the id of what was deleted", bytes(response.responses[0].topic_id), topic.topic_id)
    told = [(one.name, one.error_code) for one in response.responses]
    expect(address, f"to delete by {way}", told, [(topic.name, 0)])

    async def attempt() -> None:
        for one in client.brokers:
            shown = await shown_topic(client, one, topic.name)
            expect_error(one, f"{topic.name}, deleted", shown.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic.topic_id)])
            found = await client.ask(one, by_id, MetadataResponse, since=METADATA_BY_ID_SINCE)
            expect_error(one, "a deleted topic by its id", found.topics[0].error_code, ErrorCode.UNKNOWN_TOPIC_ID)

    await client.settled(attempt)


def _wanted(topic: CheckedTopic) -> CreatableTopic:
    return CreatableTopic(
        topic.name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(number, list(one.replicas)) for number, one in enumerate(topic.partitions)
        ],
        configs=[CreatableTopicConfig(name, value) for name, value in topic.settings.items()],
    )


async def _create(
    client: ConformanceClient,
    address: Address,
    topics: list[CreatableTopic],
    *,
    validate_only: bool = False,
    since: int = DESCRIBED_SINCE,
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=topics, timeout_ms=SECONDS_MS, validate_only=validate_only)
    response = await client.ask(address, request, CreateTopicsResponse, since=since)
    names = list(dict.fromkeys(one.name for one in topics))
    expect(address, "the topics that CreateTopics names", [one.name for one in response.topics], names)
    return response.topics


async def _extend(
    client: ConformanceClient,
    address: Address,
    asked: CreatePartitionsTopic,
    error: ErrorCode,
    *,
    validate_only: bool = False,
) -> None:
    request = CreatePartitionsRequest(topics=[asked], timeout_ms=SECONDS_MS, validate_only=validate_only)
    response = await client.ask(address, request, CreatePartitionsResponse)
    expect(address, "the topics that CreatePartitions names", [one.name for one in response.results], [asked.name])
    (result,) = response.results
    expect_error(address, f"to add {asked}", result.error_code, error, message=result.error_message)

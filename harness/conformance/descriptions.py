"""What the cluster says of itself: every API that describes must describe the same cluster."""

from __future__ import annotations

import asyncio
from functools import partial

from squall.harness.conformance.client import (
    NEWEST,
    Address,
    ConformanceClient,
    expect,
    expect_error,
)
from squall.harness.conformance.quorum_description import described_quorum, metadata_log_of
from squall.harness.conformance.records import fetch_one
from squall.harness.conformance.topic import METADATA_BY_ID_SINCE, CheckedTopic, shown_topic
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from squall.nodes.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from squall.nodes.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from squall.nodes.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

GROUP, NO_KIND = 0, 7
BROKERS, CONTROLLERS, NO_ENDPOINTS = 1, 2, 9
LARGEST_PAGE = 2000
AT_ONCE = 100
FETCH_BYTES, WAITS_MS = 1 << 20, (0, 100)
LONGEST_LAG_MS = 5_000
KEYS_SINCE, KINDS_SINCE, ENDPOINTS_SINCE, TIMES_SINCE = 4, 1, 1, 1


async def cluster(client: ConformanceClient, topic: CheckedTopic) -> None:
    """DescribeCluster names the brokers and the cluster that Metadata names, which knows topics by their ids."""

    async def attempt() -> None:
        for address in client.brokers:
            metadata = await client.ask(address, MetadataRequest(topics=[]), MetadataResponse, since=4)
            described = await client.ask(address, DescribeClusterRequest(), DescribeClusterResponse)
            expect(address, "the error of DescribeCluster", described.error_code, 0)
            expect(address, "the cluster id of DescribeCluster", described.cluster_id, metadata.cluster_id)
            brokers = {one.broker_id: (one.host, one.port) for one in described.brokers}
            expect(address, "the brokers of DescribeCluster", brokers, topic.brokers)
            for name, controller in (("Metadata", metadata), ("DescribeCluster", described)):
                expect(address, f"the controller of {name}", controller.controller_id, *topic.brokers)

    await client.settled(attempt)
    await _other_endpoints(client, client.any_broker(), CONTROLLERS)
    await _named_by_id(client, client.any_broker(), topic)


async def _named_by_id(client: ConformanceClient, address: Address, topic: CheckedTopic) -> None:
    """Metadata finds a topic by its id since version 12, and refuses an id in the one before (KIP-516)."""
    asked = MetadataRequestTopic(name=topic.name, topic_id=topic.topic_id)
    for versions, since, until, error in (
        (f"v{METADATA_BY_ID_SINCE} or later", METADATA_BY_ID_SINCE, NEWEST, ErrorCode.NONE),
        ("the version before", METADATA_BY_ID_SINCE - 1, METADATA_BY_ID_SINCE - 1, ErrorCode.INVALID_REQUEST),
    ):
        request = MetadataRequest(topics=[asked])
        found = await client.ask(address, request, MetadataResponse, since=since, until=until)
        codes = [one.error_code for one in found.topics]
        expect(address, f"Metadata of a topic by its id, in {versions}", codes, [int(error)])


async def _other_endpoints(client: ConformanceClient, address: Address, other: int) -> None:
    """A listener describes endpoints of its own kind only (KIP-919)."""
    for kind, error in (
        (other, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (NO_ENDPOINTS, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ):
        request = DescribeClusterRequest(endpoint_type=kind)
        described = await client.ask(address, request, DescribeClusterResponse, since=ENDPOINTS_SINCE)
        expect_error(address, f"DescribeCluster of endpoints of type {kind}", described.error_code, error)


async def pages(client: ConformanceClient, topic: CheckedTopic) -> None:
    """DescribeTopicPartitions shows what Metadata shows, whatever the size of its pages."""
    address = client.any_broker()
    if not await client.serves(address, ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        return
    whole = DescribeTopicPartitionsRequest(topics=[TopicRequest(topic.name)], response_partition_limit=LARGEST_PAGE)
    response = await client.ask(address, whole, DescribeTopicPartitionsResponse)
    expect(address, "the cursor after a page with everything", response.next_cursor, None)
    (described,) = response.topics
    expect(address, f"{topic.name} in DescribeTopicPartitions", bytes(described.topic_id), topic.topic_id)
    shown = await shown_topic(client, address, topic.name)
    expected = [
        (one.partition_index, one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes, one.offline_replicas)
        for one in shown.partitions
    ]
    expect(address, f"the topic-partitions of {topic.name}", [_facts(one) for one in described.partitions], expected)
    limit = client.rng.randint(1, max(1, len(expected) - 1))
    expect(address, f"pages of {limit}", await _paged(client, address, [topic.name], limit), [(topic.name, expected)])
    rest = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(topic.name)], cursor=Cursor(topic.name, len(expected) - 1)
    )
    response = await client.ask(address, rest, DescribeTopicPartitionsResponse)
    last = [_facts(one) for one in response.topics[0].partitions]
    expect(address, "the page from the last topic-partition on", last, expected[-1:])
    every = DescribeTopicPartitionsRequest(response_partition_limit=LARGEST_PAGE)
    response = await client.ask(address, every, DescribeTopicPartitionsResponse)
    names = [one.name for one in response.topics]
    expect(address, "the order of topics in DescribeTopicPartitions", names, sorted(one or "" for one in names))
    expect(address, f"how often all topics have {topic.name}", names.count(topic.name), 1)
    shown_at_once = [(one.name or "", [_facts(part) for part in one.partitions]) for one in response.topics]
    limit = client.rng.randint(1, sum(len(parts) for _, parts in shown_at_once))
    expect(address, f"pages of {limit} of all topics", await _paged(client, address, [], limit), shown_at_once)
    unknown = f"{topic.name}-unknown"
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(unknown)])
    response = await client.ask(address, request, DescribeTopicPartitionsResponse)
    told = [(one.name, one.error_code) for one in response.topics]
    expect(address, "a topic that is unknown", told, [(unknown, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))])


_Facts = tuple[int, int, int, list[int], list[int], list[int]]


def _facts(one: DescribeTopicPartitionsResponsePartition) -> _Facts:
    return (
        one.partition_index, one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes, one.offline_replicas,
    )  # fmt: skip


async def _paged(
    client: ConformanceClient, address: Address, names: list[str], limit: int
) -> list[tuple[str, list[_Facts]]]:
    """Return the topic-partitions by topic, from pages of a size; of all topics without `names`."""
    found: dict[str, list[_Facts]] = {}
    cursor: Cursor | None = None
    for _ in range(LARGEST_PAGE):
        request = DescribeTopicPartitionsRequest([TopicRequest(one) for one in names], limit, cursor)
        response = await client.ask(address, request, DescribeTopicPartitionsResponse)
        size = sum(len(described.partitions) for described in response.topics)
        for described in response.topics:
            found.setdefault(described.name or "", []).extend(map(_facts, described.partitions))
        cursor = response.next_cursor
        if cursor is None:
            expect(address, f"whether the last page of {limit} has as many at most ({size})", size <= limit, True)
            return list(found.items())
        expect(address, f"the size of a page of {limit}", size, limit)
        if names:
            expect(address, "the topic of a cursor", cursor.topic_name, *names)
    return list(found.items())


async def quorum(client: ConformanceClient, topic: CheckedTopic) -> None:
    """DescribeQuorum names one leader, which is a voter, and no offset beyond the leader's log; all voters keep up."""
    address = client.any_broker()
    if not await client.serves(address, ApiKey.DESCRIBE_QUORUM):
        return
    described = metadata_log_of(await described_quorum(client, address))
    voters = [one.replica_id for one in described.current_voters]
    expect(address, "the leader of the quorum", described.leader_id, *voters)
    ends = {one.replica_id: one.log_end_offset for one in described.current_voters}
    expect(address, "the largest offset of a voter", max(ends.values()), ends[described.leader_id])
    within = 0 < described.high_watermark <= ends[described.leader_id]
    expect(address, f"whether the high watermark {described.high_watermark} is within the log", within, True)
    expect(address, "the number of voters", len(voters), len(client.controllers) or len(voters))
    both = {one.replica_id for one in described.observers} & set(voters)
    expect(address, "voters that are observers", both, set())
    await client.settled(partial(_voters_keep_up, client, address))
    for controller in client.controllers:
        await _other_endpoints(client, controller, BROKERS)


async def _voters_keep_up(client: ConformanceClient, address: Address) -> None:
    """In a cluster without faults, every voter has lately fetched all that the leader had then."""
    described = metadata_log_of(await described_quorum(client, address, TIMES_SINCE))
    behind = {
        one.replica_id: one.last_fetch_timestamp - one.last_caught_up_timestamp for one in described.current_voters
    }
    keep_up = [0 <= lag <= LONGEST_LAG_MS for lag in behind.values()]
    expect(address, f"whether voters keep up, that lag by {behind} ms", keep_up, [True for _ in behind])


async def log_directories(client: ConformanceClient, topic: CheckedTopic) -> None:
    """DescribeLogDirs names a topic's replicas where they are, and counts their bytes."""
    number = client.rng.randrange(len(topic.partitions))
    checked = topic.partitions[number]
    for broker, address in topic.brokers.items():
        if not await client.serves(address, ApiKey.DESCRIBE_LOG_DIRS):
            return
        asked = [DescribableLogDirTopic(topic.name, [number])]
        response = await client.ask(address, DescribeLogDirsRequest(topics=asked), DescribeLogDirsResponse)
        found = [part for one in response.results for held in one.topics for part in held.partitions]
        numbers = [number] if broker in checked.replicas else []
        expect(address, f"the replicas of {topic.name}-{number}", [one.partition_index for one in found], numbers)
        sizes = [one.partition_size for one in found]
        has_records = checked.end > checked.start  # deleted ones may still be in the last segment
        enough = [size > 0 or not has_records for size in sizes]
        expect(address, f"whether {sizes} bytes are enough", enough, [True for _ in found])


async def pipelined(client: ConformanceClient, topic: CheckedTopic) -> None:
    """A broker answers more requests than it takes from a connection at once, also if the first of them has to wait."""
    number = client.rng.randrange(len(topic.partitions))
    address, end = topic.leader_of(number), topic.partitions[number].end
    # A broker ends an idle connection with whatever is on its way.
    await shown_topic(client, address, topic.name)
    waits = fetch_one(client, address, topic, number, end, least=FETCH_BYTES, wait_ms=client.rng.choice(WAITS_MS))
    asked = asyncio.gather(*(shown_topic(client, address, topic.name) for _ in range(AT_ONCE)))
    await asyncio.gather(waits, asked)
    shown = asked.result()
    ids = {bytes(one.topic_id) for one in shown}
    expect(address, f"the ids of {topic.name} in {AT_ONCE} responses", ids, {topic.topic_id})


async def coordinators(client: ConformanceClient, topic: CheckedTopic) -> None:
    """FindCoordinator names a broker where it listens, and none for a kind that does not exist."""
    address = client.any_broker()
    if not await client.serves(address, ApiKey.FIND_COORDINATOR):
        return

    async def attempt() -> None:
        request = FindCoordinatorRequest(key="group", key_type=GROUP)
        found = await client.ask(address, request, FindCoordinatorResponse, until=KEYS_SINCE - 1)
        expect(address, "the error of FindCoordinator", found.error_code, 0)
        expect(address, "the coordinator's address", (found.host, found.port), topic.brokers.get(found.node_id))
        request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["group", "another"])
        several = await client.ask(address, request, FindCoordinatorResponse, since=KEYS_SINCE)
        expect(address, "the groups", [one.key for one in several.coordinators], ["group", "another"])
        for one in several.coordinators:
            expect(address, "the coordinator's address", (one.host, one.port), topic.brokers.get(one.node_id))

    await client.settled(attempt)
    request = FindCoordinatorRequest(key_type=NO_KIND, coordinator_keys=["group"])
    refused = await client.ask(address, request, FindCoordinatorResponse, since=KEYS_SINCE)
    nobody = (int(ErrorCode.INVALID_REQUEST), -1, "", -1)
    told = [(one.error_code, one.node_id, one.host, one.port) for one in refused.coordinators]
    expect(address, f"a coordinator of kind {NO_KIND}", told, [nobody])
    request = FindCoordinatorRequest(key="group", key_type=NO_KIND)
    found = await client.ask(address, request, FindCoordinatorResponse, since=KINDS_SINCE, until=KEYS_SINCE - 1)
    expect(
        address, f"a coordinator of kind {NO_KIND}", (found.error_code, found.node_id, found.host, found.port), nobody
    )

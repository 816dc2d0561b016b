"""AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders: replicas move, and the first one leads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from squall.harness.conformance import settings
from squall.harness.conformance.client import NOBODY, Address, ConformanceClient, expect, expect_error
from squall.harness.conformance.topic import CheckedTopic, await_shown, shown_topic
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from squall.nodes.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from squall.nodes.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

TIMEOUT_MS = 5000
PREFERRED, UNCLEAN, NO_TYPE = 0, 1, 7
UNAVAILABLE = {int(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)}


async def moved(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Move a topic-partition to other brokers, or to the same ones in another order; then its first replica leads."""
    number, address = client.rng.randrange(len(topic.partitions)), client.any_broker()
    if not await client.serves(address, ApiKey.ALTER_PARTITION_REASSIGNMENTS):
        return
    await _refused(client, topic, number)
    checked = topic.partitions[number]
    brokers = sorted(topic.brokers)
    target = client.rng.sample(brokers, client.rng.randint(1, min(3, len(brokers))))
    asked = [(number, target)]
    expect_error(
        address,
        f"to move {topic.name}-{number} to {target}",
        await _alter(client, address, topic, asked),
        ErrorCode.NONE,
    )
    await _ongoing(client, topic, number, target)
    checked.replicas = tuple(target)
    await await_shown(client, topic, leads=False)
    preferred = checked.leader == target[0]
    came = await _elect(client, address, topic, number)
    errors = (ErrorCode.ELECTION_NOT_NEEDED,) if preferred else (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    expect_error(address, f"to elect {target[0]}, led by {checked.leader}", came, *errors)
    epoch = checked.leader_epoch
    await await_shown(client, topic)
    expect(address, f"whether the leader epoch rises from {epoch}", checked.leader_epoch > epoch, not preferred)
    came = await _elect(client, address, topic, number, UNCLEAN)
    expect_error(address, f"an unclean election, led by {checked.leader}", came, ErrorCode.ELECTION_NOT_NEEDED)
    await _elect_all(client, address)
    none = [(number, None)]
    expect_error(
        address, "to cancel what is done", await _alter(client, address, topic, none),
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    )  # fmt: skip


async def reconsidered(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Of two moves the second counts. When it is cancelled, the replicas are those from before it, or before both.

    They may be in another order, as with Apache Kafka.
    """
    number, address = client.rng.randrange(len(topic.partitions)), client.any_broker()
    if not await client.serves(address, ApiKey.ALTER_PARTITION_REASSIGNMENTS):
        return
    brokers, checked = sorted(topic.brokers), topic.partitions[number]
    before = list(checked.replicas)
    first, second = (client.rng.sample(brokers, client.rng.randint(1, min(3, len(brokers)))) for _ in range(2))
    for target in (first, second):
        came = await _alter(client, address, topic, [(number, target)])
        expect_error(address, f"to move {topic.name}-{number} to {target}", came, ErrorCode.NONE)
    came = await _alter(client, address, topic, [(number, None)])
    errors = (ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    expect_error(address, f"to cancel the move of {topic.name}-{number}", came, *errors)
    possible = [sorted(one) for one in ([second] if came else [before, first])]

    await client.settled(partial(_nothing_moves, client, topic))
    # A broker that shows this setting has heard of every move before it.
    await settings.alter(client, topic, settings.OTHER, str(client.rng.randint(10**5, 10**6)))
    await settings.alter(client, topic, settings.OTHER, None)
    shown = (await shown_topic(client, address, topic.name)).partitions[number].replica_nodes
    moves = f"{first}, then {second}" + (", which is cancelled" if not came else "")
    expect(address, f"the replicas of {topic.name}-{number}, from {before} to {moves}", sorted(shown), *possible)
    checked.replicas = tuple(shown)
    await await_shown(client, topic, leads=False)
    came = await _elect(client, address, topic, number)
    expect_error(address, f"to elect {checked.replicas[0]}", came, ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    await await_shown(client, topic)


async def _refused(client: ConformanceClient, topic: CheckedTopic, number: int) -> None:
    address = client.any_broker()
    broker = min(topic.brokers)
    for target, error in (
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([NOBODY], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([broker, NOBODY], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([broker, broker], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ):
        came = await _alter(client, address, topic, [(number, target)])
        expect_error(address, f"to move {topic.name}-{number} to {target}", came, error)
    unknown = len(topic.partitions)
    for name, partition in ((topic.name, unknown), (f"{topic.name}-unknown", 0)):
        came = await _alter(client, address, topic, [(partition, [broker])], name)
        expect_error(address, f"to move {name}-{partition}", came, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    came = await _elect(client, address, topic, unknown)
    expect_error(address, "an election that is unknown", came, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    request = ElectLeadersRequest(NO_TYPE, [TopicPartitions(topic.name, [number])], TIMEOUT_MS)
    response = await client.ask(address, request, ElectLeadersResponse, since=1)
    codes = [
        response.error_code,
        *(p.error_code for one in response.replica_election_results for p in one.partition_result),
    ]
    expect(address, f"whether election type {NO_TYPE} is refused ({codes})", any(codes), True)


async def _nothing_moves(client: ConformanceClient, topic: CheckedTopic) -> None:
    address = client.any_broker()
    numbers = list(range(len(topic.partitions)))
    request = ListPartitionReassignmentsRequest(TIMEOUT_MS, [ListPartitionReassignmentsTopics(topic.name, numbers)])
    response = await client.ask(address, request, ListPartitionReassignmentsResponse)
    expect(address, f"what moves of {topic.name}", [one.name for one in response.topics], [])


async def _ongoing(client: ConformanceClient, topic: CheckedTopic, number: int, target: list[int]) -> None:
    """While a move is under way, ListPartitionReassignments names its target; what is done it does not name."""
    address = client.any_broker()
    for topics in (None, [ListPartitionReassignmentsTopics(topic.name, [number])]):
        request = ListPartitionReassignmentsRequest(TIMEOUT_MS, topics)
        response = await client.ask(address, request, ListPartitionReassignmentsResponse)
        expect(address, "the error of ListPartitionReassignments", response.error_code, 0)
        empty = [one.name for one in response.topics if not one.partitions]
        expect(address, "topics of which nothing moves, by ListPartitionReassignments", empty, [])
        for one in response.topics:
            for part in one.partitions if one.name == topic.name else ():
                expect(address, "a move that was not asked for", part.partition_index, number)
                wanted = [replica for replica in part.replicas if replica not in part.removing_replicas]
                expect(address, "the target of a move", sorted(wanted), sorted(target))


async def _alter(
    client: ConformanceClient,
    address: Address,
    topic: CheckedTopic,
    targets: Sequence[tuple[int, list[int] | None]],
    name: str | None = None,
) -> int:
    parts = [ReassignablePartition(number, target) for number, target in targets]
    asked = ReassignableTopic(name or topic.name, parts)
    request = AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=[asked])
    response = await client.ask(address, request, AlterPartitionReassignmentsResponse)
    expect(address, "the error of AlterPartitionReassignments", response.error_code, 0)
    found = [part for one in response.responses for part in one.partitions]
    numbers = [one.partition_index for one in found]
    expect(address, "the topic-partitions of AlterPartitionReassignments", numbers, [number for number, _ in targets])
    return found[0].error_code


async def _elect_all(client: ConformanceClient, address: Address) -> None:
    """ElectLeaders for all topic-partitions names only those that needed an election (KIP-460); asked again, none."""
    request = ElectLeadersRequest(PREFERRED, None, TIMEOUT_MS)
    await _elected(client, address, request)
    response = await _elected(client, address, request)
    told = {
        (one.topic, part.partition_id): part.error_code
        for one in response.replica_election_results
        for part in one.partition_result
    }
    expect(address, "what a second election for all topic-partitions names", set(told.values()) - UNAVAILABLE, set())


async def _elect(
    client: ConformanceClient, address: Address, topic: CheckedTopic, number: int, kind: int = PREFERRED
) -> int:
    request = ElectLeadersRequest(kind, [TopicPartitions(topic.name, [number])], TIMEOUT_MS)
    response = await _elected(client, address, request)
    found = [part for one in response.replica_election_results for part in one.partition_result]
    expect(address, "the topic-partitions of ElectLeaders", [one.partition_id for one in found], [number])
    return found[0].error_code


async def _elected(client: ConformanceClient, address: Address, request: ElectLeadersRequest) -> ElectLeadersResponse:
    response = await client.ask(address, request, ElectLeadersResponse, since=1)
    if response.error_code == ErrorCode.REQUEST_TIMED_OUT:
        # The broker's connection to the controller has ended meanwhile. To elect twice changes nothing.
        response = await client.ask(address, request, ElectLeadersResponse, since=1)
    expect(address, "the error of ElectLeaders", response.error_code, 0)
    return response

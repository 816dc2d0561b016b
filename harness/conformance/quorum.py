"""What a controller must refuse: the metadata quorum's requests of another cluster, of an epoch that is over, about
another log, several or none, or a snapshot that is none, from a node that is no voter; a leader without an id or at no
place, and a candidate whose log cannot be; changes of the voters that cannot be (`voters`); and to unregister a broker
that is none. Afterwards the same leader leads in the same epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from squall.harness.conformance import voters
from squall.harness.conformance.client import (
    NOBODY,
    STRANGE_CLUSTER,
    UNKNOWN_ID,
    Address,
    ConformanceClient,
    expect,
    expect_error,
)
from squall.harness.conformance.quorum_description import VOTERS_SINCE, described_quorum, metadata_log_of
from squall.harness.conformance.topic import CheckedTopic
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import (
    ApiKey,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    vote,
)
from squall.nodes.protocol.messages.describe_quorum import PartitionDataResponse
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataResponse
from squall.nodes.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from squall.nodes.protocol.topic_partition import METADATA_TOPIC_ID
from squall.workloads.clients.native.admin import METADATA_TOPIC

TOPIC_IDS_SINCE = 13
"""The version of Fetch that names a topic by its id."""
ENDPOINTS_SINCE = 1
"""The version of BeginQuorumEpoch in which a leader says where it is."""
NO_SNAPSHOT = 1 << 40
"""An offset at which no snapshot ends."""
Part = TypeVar("Part")
Topic = TypeVar("Topic")


async def strangers(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Every controller refuses what does not come from its quorum, and the quorum stays as it is."""
    broker = client.any_broker()
    if not client.controllers or not await client.serves(broker, ApiKey.DESCRIBE_QUORUM):
        return
    metadata = await client.ask(broker, MetadataRequest(topics=[]), MetadataResponse, since=4)
    before = metadata_log_of(await described_quorum(client, broker, since=VOTERS_SINCE))
    for controller in client.controllers:
        for cluster in (STRANGE_CLUSTER, metadata.cluster_id):
            await _strange_elections(client, controller, cluster, before.leader_epoch)
        await _impossible_elections(client, controller, metadata.cluster_id, before.leader_epoch)
        await _other_numbers_of_logs(client, controller, metadata.cluster_id, before)
        await _impossible_addresses(client, controller, metadata.cluster_id, (before.leader_id, before.leader_epoch))
        await _strange_fetches(client, controller, metadata.cluster_id, before.leader_epoch)
        await _strange_snapshots(client, controller, metadata.cluster_id, before.leader_epoch)
        await voters.strange(client, controller, metadata.cluster_id)
        await voters.impossible(client, controller, metadata.cluster_id, before.current_voters[0].replica_id)
        await voters.at_once(client, controller, metadata.cluster_id)
        await voters.impossible_places(client, controller, metadata.cluster_id, before)
        await voters.same_place(client, controller, metadata.cluster_id, broker)
    await _strange_broker(client, broker)
    after = metadata_log_of(await described_quorum(client, broker))
    told = (after.leader_id, after.leader_epoch)
    expect(
        broker, "leader and epoch of the quorum, after strange requests", told, (before.leader_id, before.leader_epoch)
    )


async def _strange_elections(client: ConformanceClient, controller: Address, cluster: str | None, epoch: int) -> None:
    """Of another cluster all is refused; of this one what is about another log, or about an epoch that is over."""
    for name, old in ((METADATA_TOPIC, epoch - 1), ("no-such-log", epoch)):
        error = ErrorCode.INVALID_REQUEST if name != METADATA_TOPIC else ErrorCode.FENCED_LEADER_EPOCH
        if cluster == STRANGE_CLUSTER:
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
        elif name == METADATA_TOPIC and old < 2:
            continue  # an epoch before the first one is refused for another reason
        candidate = vote.PartitionDataRequest(replica_epoch=old, replica_id=NOBODY, last_offset_epoch=0, last_offset=0)
        asked = vote.VoteRequest(cluster, -1, [vote.TopicDataRequest(name, [candidate])])
        voted = await client.ask(controller, asked, vote.VoteResponse)
        _expect_refused(controller, "Vote", voted, error)
        granted = [part.vote_granted for one in voted.topics for part in one.partitions]
        expect(controller, "whether a vote is granted", any(granted), False)
        await _expect_news_refused(client, controller, (cluster, name), (NOBODY, old), error)


async def _expect_news_refused(
    client: ConformanceClient,
    controller: Address,
    log: tuple[str | None, str],
    leader: tuple[int, int],
    error: ErrorCode,
    whose: str = "",
) -> None:
    """This `leader`, an id and an epoch, neither begins nor ends to lead this `log` of a cluster."""
    cluster, topic = log
    number, epoch = leader
    begun = begin_quorum_epoch.PartitionDataRequest(leader_id=number, leader_epoch=epoch)
    begin = begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster, -1, [begin_quorum_epoch.TopicDataRequest(topic, [begun])]
    )
    answer = await client.ask(controller, begin, begin_quorum_epoch.BeginQuorumEpochResponse)
    _expect_refused(controller, f"BeginQuorumEpoch{whose}", answer, error)
    ended = end_quorum_epoch.PartitionDataRequest(leader_id=number, leader_epoch=epoch)
    end = end_quorum_epoch.EndQuorumEpochRequest(cluster, [end_quorum_epoch.TopicDataRequest(topic, [ended])])
    response = await client.ask(controller, end, end_quorum_epoch.EndQuorumEpochResponse)
    _expect_refused(controller, f"EndQuorumEpoch{whose}", response, error)


async def _impossible_elections(
    client: ConformanceClient, controller: Address, cluster: str | None, epoch: int
) -> None:
    """No node without an id leads. A candidate's log ends somewhere, in an epoch before the candidate's own."""
    for name, candidate in (
        ("without a log", vote.PartitionDataRequest(0, epoch, NOBODY, last_offset_epoch=0, last_offset=-1)),
        ("of that epoch", vote.PartitionDataRequest(0, epoch, NOBODY, last_offset_epoch=epoch, last_offset=0)),
    ):
        asked = vote.VoteRequest(cluster, -1, [vote.TopicDataRequest(METADATA_TOPIC, [candidate])])
        voted = await client.ask(controller, asked, vote.VoteResponse)
        _expect_refused(controller, f"Vote {name}", voted, ErrorCode.INVALID_REQUEST)
    log, nobody = (cluster, METADATA_TOPIC), (-1, epoch)
    await _expect_news_refused(client, controller, log, nobody, ErrorCode.INVALID_REQUEST, " without a leader")


async def _impossible_addresses(
    client: ConformanceClient, controller: Address, cluster: str | None, leader: tuple[int, int]
) -> None:
    """Nobody believes that this `leader`, an id and an epoch, is where no node can be. Only our own nodes are asked."""
    if not client.knows_all:
        return
    for host, port in (("", 1), ("localhost", 0), ("x" * 256, 1)):
        begun = begin_quorum_epoch.PartitionDataRequest(leader_id=leader[0], leader_epoch=leader[1])
        endpoint = begin_quorum_epoch.LeaderEndpoint("CONTROLLER", host, port)
        begin = begin_quorum_epoch.BeginQuorumEpochRequest(
            cluster, -1, [begin_quorum_epoch.TopicDataRequest(METADATA_TOPIC, [begun])], [endpoint]
        )
        answer = await client.ask(controller, begin, begin_quorum_epoch.BeginQuorumEpochResponse, since=ENDPOINTS_SINCE)
        _expect_refused(
            controller, f"BeginQuorumEpoch of a leader at {host[:9]!r}:{port}", answer, ErrorCode.INVALID_REQUEST
        )


async def _other_numbers_of_logs(
    client: ConformanceClient, controller: Address, cluster: str | None, now: PartitionDataResponse
) -> None:
    """A request of the quorum names one partition of one log. These name another number, and are right otherwise."""
    refused, epoch, leader = ErrorCode.INVALID_REQUEST, now.leader_epoch, now.leader_id
    candidate = vote.PartitionDataRequest(0, epoch, NOBODY, last_offset_epoch=0, last_offset=0)
    for name, votes in _not_one(candidate, partial(vote.TopicDataRequest, METADATA_TOPIC)):
        voted = await client.ask(controller, vote.VoteRequest(cluster, -1, votes), vote.VoteResponse)
        _expect_refused(controller, f"Vote {name}", voted, refused)
    begun = begin_quorum_epoch.PartitionDataRequest(leader_id=leader, leader_epoch=epoch)
    for name, begins in _not_one(begun, partial(begin_quorum_epoch.TopicDataRequest, METADATA_TOPIC)):
        begin = begin_quorum_epoch.BeginQuorumEpochRequest(cluster, -1, begins)
        answer = await client.ask(controller, begin, begin_quorum_epoch.BeginQuorumEpochResponse)
        _expect_refused(controller, f"BeginQuorumEpoch {name}", answer, refused)
    ended = end_quorum_epoch.PartitionDataRequest(leader_id=leader, leader_epoch=epoch)
    for name, ends in _not_one(ended, partial(end_quorum_epoch.TopicDataRequest, METADATA_TOPIC)):
        end = end_quorum_epoch.EndQuorumEpochRequest(cluster, ends)
        response = await client.ask(controller, end, end_quorum_epoch.EndQuorumEpochResponse)
        _expect_refused(controller, f"EndQuorumEpoch {name}", response, refused)
    part = fetch.FetchPartition(0, epoch, 0, last_fetched_epoch=0, partition_max_bytes=1)
    for name, fetches in _not_one(part, partial(fetch.FetchTopic, METADATA_TOPIC_ID, METADATA_TOPIC)):
        request = fetch.FetchRequest(cluster_id=cluster, max_wait_ms=0, topics=fetches)
        read = await client.ask(controller, request, fetch.FetchResponse, since=TOPIC_IDS_SINCE)
        codes = {read.error_code, *(one.error_code for topic in read.responses for one in topic.partitions)} - {0}
        expect(controller, f"the errors of a Fetch {name}", codes, {int(refused)})


def _not_one(part: Part, topic: Callable[[list[Part]], Topic]) -> list[tuple[str, list[Topic]]]:
    """Lists that name a partition of a log twice, or none."""
    return [
        ("of no log", []),
        ("of a log twice", [topic([part]), topic([part])]),
        ("of no partition", [topic([])]),
        ("of a partition twice", [topic([part, part])]),
    ]


async def _strange_fetches(client: ConformanceClient, controller: Address, cluster: str | None, epoch: int) -> None:
    """Only the metadata log is read from a controller, from an offset that may be, in the current epoch."""
    for name, of, topic_id, number, at, offset, error in (
        ("of another cluster", STRANGE_CLUSTER, METADATA_TOPIC_ID, 0, epoch, 0, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ("of another log", cluster, UNKNOWN_ID, 0, epoch, 0, ErrorCode.INVALID_REQUEST),
        ("of another partition", cluster, METADATA_TOPIC_ID, 1, epoch, 0, ErrorCode.INVALID_REQUEST),
        ("from no offset", cluster, METADATA_TOPIC_ID, 0, epoch, -1, ErrorCode.INVALID_REQUEST),
        ("in an epoch that is over", cluster, METADATA_TOPIC_ID, 0, epoch - 1, 0, ErrorCode.FENCED_LEADER_EPOCH),
        ("in an epoch to come", cluster, METADATA_TOPIC_ID, 0, epoch + 1, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        part = fetch.FetchPartition(number, at, offset, last_fetched_epoch=0, partition_max_bytes=1)
        topics = [fetch.FetchTopic(topic_id=topic_id, partitions=[part])]
        request = fetch.FetchRequest(cluster_id=of, max_wait_ms=0, topics=topics)
        read = await client.ask(controller, request, fetch.FetchResponse, since=TOPIC_IDS_SINCE)
        codes = {read.error_code, *(one.error_code for topic in read.responses for one in topic.partitions)} - {0}
        expect(controller, f"the errors of a Fetch {name}", codes, {int(error)})


async def _strange_snapshots(client: ConformanceClient, controller: Address, cluster: str | None, epoch: int) -> None:
    """Only a snapshot of the metadata log that there is can be read, from the leader, in the current epoch.

    Apache Kafka 4 was seen to answer UNKNOWN_SERVER_ERROR where it should say so, so only our own nodes are asked.
    """
    if not client.knows_all:
        return
    snapshot = fetch_snapshot.SnapshotId(NO_SNAPSHOT, epoch)
    nowhere, nothing = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,), (ErrorCode.SNAPSHOT_NOT_FOUND, *voters.NOT_HERE)
    for name, of, topic, number, at, errors in (
        ("of another cluster", STRANGE_CLUSTER, METADATA_TOPIC, 0, epoch, (ErrorCode.INCONSISTENT_CLUSTER_ID,)),
        ("of another log", cluster, "no-such-log", 0, epoch, nowhere),
        ("of another partition", cluster, METADATA_TOPIC, 1, epoch, nowhere),
        ("that is none", cluster, METADATA_TOPIC, 0, epoch, nothing),
        ("in an epoch that is over", cluster, METADATA_TOPIC, 0, epoch - 1, (ErrorCode.FENCED_LEADER_EPOCH,)),
        ("in an epoch to come", cluster, METADATA_TOPIC, 0, epoch + 1, (ErrorCode.UNKNOWN_LEADER_EPOCH,)),
    ):
        part = fetch_snapshot.PartitionSnapshotRequest(number, at, snapshot, 0)
        log = [fetch_snapshot.TopicSnapshotRequest(topic, [part])]
        await _expect_no_snapshot(client, controller, name, of, log, errors)
    part = fetch_snapshot.PartitionSnapshotRequest(0, epoch, snapshot, 0)
    for name, logs in _not_one(part, partial(fetch_snapshot.TopicSnapshotRequest, METADATA_TOPIC)):
        await _expect_no_snapshot(client, controller, name, cluster, logs, nowhere)


async def _expect_no_snapshot(
    client: ConformanceClient,
    controller: Address,
    name: str,
    cluster: str | None,
    topics: list[fetch_snapshot.TopicSnapshotRequest],
    errors: tuple[ErrorCode, ...],
) -> None:
    request = fetch_snapshot.FetchSnapshotRequest(cluster_id=cluster, replica_id=-1, max_bytes=1, topics=topics)
    read = await client.ask(controller, request, fetch_snapshot.FetchSnapshotResponse)
    codes = {read.error_code, *(one.error_code for found in read.topics for one in found.partitions)} - {0}
    expect(controller, f"the errors of a FetchSnapshot {name}", codes, *({int(error)} for error in errors))


Refusing = vote.VoteResponse | begin_quorum_epoch.BeginQuorumEpochResponse | end_quorum_epoch.EndQuorumEpochResponse


def _expect_refused(controller: Address, question: str, response: Refusing, error: ErrorCode) -> None:
    codes = {response.error_code, *(part.error_code for one in response.topics for part in one.partitions)} - {0}
    expect(controller, f"the errors of a strange {question}", codes, {int(error)})


async def _strange_broker(client: ConformanceClient, address: Address) -> None:
    """A broker that is none cannot be unregistered."""
    if not await client.serves(address, ApiKey.UNREGISTER_BROKER):
        return
    response = await client.ask(address, UnregisterBrokerRequest(NOBODY), UnregisterBrokerResponse)
    refused = ErrorCode.BROKER_ID_NOT_REGISTERED
    expect_error(address, "to unregister a broker that is none", response.error_code, refused)

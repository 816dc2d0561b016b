"""Build and read the quorum's RPCs: requests and responses about one topic-partition, `__cluster_metadata-0`.

On the wire each RPC carries lists of topics and partitions; a quorum has one of each. Only this module packs and
unpacks these lists. Versions: Vote 2, BeginQuorumEpoch 1, EndQuorumEpoch 1, Fetch 17 (12 and later are understood),
DescribeQuorum 2. A response that lacks the partition, as one with a top-level error does, is read as that error without
epoch or leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from squall.nodes.protocol.compiler import Buffer
from squall.nodes.protocol.errors import NO_ERROR, ErrorCode
from squall.nodes.protocol.messages import begin_quorum_epoch as begin_schema
from squall.nodes.protocol.messages import end_quorum_epoch as end_schema
from squall.nodes.protocol.messages import fetch as fetch_schema
from squall.nodes.protocol.messages import vote as vote_schema
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.config import PARTITION, TOPIC, TOPIC_ID, RaftConfig, Voter
from squall.nodes.raft.quorum_state import NO_DIRECTORY, ReplicaKey

LISTENER = "CONTROLLER"
Answered = Callable[[int, Message], None]


@dataclass(frozen=True, slots=True)
class Hint:
    """What every response also carries: the sender's epoch and the leader it knows."""

    epoch: int
    leader_id: int | None
    endpoint: Voter | None = field(default=None, compare=False)
    """The leader's endpoint, if known."""


NO_NEWS = Hint(-1, None)


@dataclass(frozen=True, slots=True)
class QuorumResponse:
    """A response to Vote, BeginQuorumEpoch or EndQuorumEpoch. `granted` is Vote's."""

    error: int
    hint: Hint
    granted: bool = False


def _only_partition(topics: Iterable[Any], *, by_id: bool = False) -> Any | None:
    """The data of the metadata partition if the lists hold exactly that, else None."""
    listed = list(topics)
    if len(listed) != 1 or len(listed[0].partitions) != 1:
        return None
    named = listed[0].topic_id == TOPIC_ID if by_id else listed[0].topic_name == TOPIC
    data = listed[0].partitions[0]
    index = data.partition if hasattr(data, "partition") else data.partition_index
    return data if named and index == PARTITION else None


def _leader(leader_id: int) -> int | None:
    return None if leader_id < 0 else leader_id


def _endpoints(schema: Any, config: RaftConfig, hint: Hint) -> list[Any]:
    voter = hint.endpoint
    if voter is None and hint.leader_id is not None:
        voter = config.endpoint(hint.leader_id)
    return [] if voter is None else [schema.NodeEndpoint(node_id=voter.id, host=voter.host, port=voter.port)]


def _read_response(response: Any) -> QuorumResponse:
    data = _only_partition(response.topics)
    if response.error_code != NO_ERROR or data is None:
        return QuorumResponse(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR, NO_NEWS)
    granted = getattr(data, "vote_granted", False)
    leader_id = _leader(data.leader_id)
    return QuorumResponse(data.error_code, Hint(data.leader_epoch, leader_id, _endpoint(response, leader_id)), granted)


def _endpoint(response: Any, leader_id: int | None) -> Voter | None:
    """The leader's endpoint in a response."""
    found = next((node for node in response.node_endpoints if node.node_id == leader_id), None)
    return None if found is None else Voter(found.node_id, found.host, found.port)


# -- Vote ------------------------------------------------------------------------------------------------------


NOBODY = ReplicaKey(-1)


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A candidate requests a vote; `voter` is the intended receiver, None if not given."""

    cluster_id: str | None
    valid_partition: bool
    epoch: int = -1
    candidate: ReplicaKey = NOBODY
    voter: ReplicaKey | None = None
    last_epoch: int = -1
    end_offset: int = -1
    pre_vote: bool = False
    """A pre-vote: whether the vote would be granted; neither side commits to anything (KIP-996)."""


def vote(
    config: RaftConfig,
    epoch: int,
    voter_id: int,
    last_epoch: int,
    end_offset: int,
    *,
    voter_directory: bytes = NO_DIRECTORY,
    pre_vote: bool = False,
) -> vote_schema.VoteRequest:
    data = vote_schema.PartitionDataRequest(
        partition_index=PARTITION,
        replica_epoch=epoch,
        replica_id=config.node_id,
        replica_directory_id=config.directory_id,
        voter_directory_id=voter_directory,
        last_offset_epoch=last_epoch,
        last_offset=end_offset,
        pre_vote=pre_vote,
    )
    topic = vote_schema.TopicDataRequest(topic_name=TOPIC, partitions=[data])
    return vote_schema.VoteRequest(cluster_id=config.cluster_id, voter_id=voter_id, topics=[topic])


def read_vote(body: Message) -> VoteRequest:
    request = cast(vote_schema.VoteRequest, body)
    data = _only_partition(request.topics)
    if data is None:
        return VoteRequest(request.cluster_id, False)
    return VoteRequest(
        cluster_id=request.cluster_id,
        valid_partition=True,
        epoch=data.replica_epoch,
        candidate=ReplicaKey(data.replica_id, data.replica_directory_id),
        voter=None if request.voter_id < 0 else ReplicaKey(request.voter_id, data.voter_directory_id),
        last_epoch=data.last_offset_epoch,
        end_offset=data.last_offset,
        pre_vote=data.pre_vote,
    )


def vote_refusal(error: int) -> vote_schema.VoteResponse:
    return vote_schema.VoteResponse(error_code=error)


def vote_response(config: RaftConfig, error: int, hint: Hint, granted: bool) -> vote_schema.VoteResponse:
    data = vote_schema.PartitionDataResponse(
        partition_index=PARTITION,
        error_code=error,
        leader_id=-1 if hint.leader_id is None else hint.leader_id,
        leader_epoch=hint.epoch,
        vote_granted=granted,
    )
    topic = vote_schema.TopicDataResponse(topic_name=TOPIC, partitions=[data])
    return vote_schema.VoteResponse(topics=[topic], node_endpoints=_endpoints(vote_schema, config, hint))


def read_vote_response(response: Message) -> QuorumResponse:
    return _read_response(response)


# -- BeginQuorumEpoch and EndQuorumEpoch -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaderNews:
    """A leader begins or ends. `successors` are voters in the order in which they should stand."""

    cluster_id: str | None
    valid_partition: bool
    epoch: int = -1
    leader_id: int = -1
    voter: ReplicaKey | None = None
    successors: tuple[int, ...] = ()
    endpoint: Voter | None = field(default=None, compare=False)
    """The leader's endpoint as the leader itself sent it."""


def _leader_endpoints(schema: Any, leader: Voter | None) -> list[Any]:
    return [] if leader is None else [schema.LeaderEndpoint(name=LISTENER, host=leader.host, port=leader.port)]


def _told_endpoint(request: Any, leader_id: int) -> Voter | None:
    found = next(iter(request.leader_endpoints), None)
    return None if found is None or leader_id < 0 else Voter(leader_id, found.host, found.port)


def begin_quorum_epoch(
    config: RaftConfig,
    epoch: int,
    voter_id: int,
    *,
    voter_directory: bytes = NO_DIRECTORY,
    leader: Voter | None = None,
) -> begin_schema.BeginQuorumEpochRequest:
    """Announce that this node leads; `leader` is its endpoint."""
    data = begin_schema.PartitionDataRequest(
        partition_index=PARTITION, voter_directory_id=voter_directory, leader_id=config.node_id, leader_epoch=epoch
    )
    return begin_schema.BeginQuorumEpochRequest(
        cluster_id=config.cluster_id,
        voter_id=voter_id,
        topics=[begin_schema.TopicDataRequest(topic_name=TOPIC, partitions=[data])],
        leader_endpoints=_leader_endpoints(begin_schema, leader),
    )


def read_begin(body: Message) -> LeaderNews:
    request = cast(begin_schema.BeginQuorumEpochRequest, body)
    data = _only_partition(request.topics)
    if data is None:
        return LeaderNews(request.cluster_id, False)
    voter = None if request.voter_id < 0 else ReplicaKey(request.voter_id, data.voter_directory_id)
    endpoint = _told_endpoint(request, data.leader_id)
    return LeaderNews(request.cluster_id, True, data.leader_epoch, data.leader_id, voter, endpoint=endpoint)


def begin_refusal(error: int) -> begin_schema.BeginQuorumEpochResponse:
    return begin_schema.BeginQuorumEpochResponse(error_code=error)


def begin_response(config: RaftConfig, error: int, hint: Hint) -> begin_schema.BeginQuorumEpochResponse:
    return begin_schema.BeginQuorumEpochResponse(
        topics=[_quorum_topic(begin_schema, error, hint)], node_endpoints=_endpoints(begin_schema, config, hint)
    )


def _quorum_topic(schema: Any, error: int, hint: Hint) -> Any:
    data = schema.PartitionDataResponse(
        partition_index=PARTITION,
        error_code=error,
        leader_id=-1 if hint.leader_id is None else hint.leader_id,
        leader_epoch=hint.epoch,
    )
    return schema.TopicDataResponse(topic_name=TOPIC, partitions=[data])


def read_begin_response(response: Message) -> QuorumResponse:
    return _read_response(response)


def end_quorum_epoch(
    config: RaftConfig, epoch: int, successors: Sequence[ReplicaKey], leader: Voter | None = None
) -> end_schema.EndQuorumEpochRequest:
    """Announce that this node no longer leads; `leader` is its endpoint."""
    preferred = [
        end_schema.ReplicaInfo(candidate_id=voter.id, candidate_directory_id=voter.directory_id) for voter in successors
    ]
    data = end_schema.PartitionDataRequest(
        partition_index=PARTITION,
        leader_id=config.node_id,
        leader_epoch=epoch,
        preferred_candidates=preferred,
        preferred_successors=[voter.id for voter in successors],
    )
    return end_schema.EndQuorumEpochRequest(
        cluster_id=config.cluster_id,
        topics=[end_schema.TopicDataRequest(topic_name=TOPIC, partitions=[data])],
        leader_endpoints=_leader_endpoints(end_schema, leader),
    )


def read_end(body: Message) -> LeaderNews:
    request = cast(end_schema.EndQuorumEpochRequest, body)
    data = _only_partition(request.topics)
    if data is None:
        return LeaderNews(request.cluster_id, False)
    named = tuple(info.candidate_id for info in data.preferred_candidates) or tuple(data.preferred_successors)
    endpoint = _told_endpoint(request, data.leader_id)
    return LeaderNews(request.cluster_id, True, data.leader_epoch, data.leader_id, None, named, endpoint)


def end_refusal(error: int) -> end_schema.EndQuorumEpochResponse:
    return end_schema.EndQuorumEpochResponse(error_code=error)


def end_response(config: RaftConfig, error: int, hint: Hint) -> end_schema.EndQuorumEpochResponse:
    return end_schema.EndQuorumEpochResponse(
        topics=[_quorum_topic(end_schema, error, hint)], node_endpoints=_endpoints(end_schema, config, hint)
    )


def read_end_response(response: Message) -> QuorumResponse:
    return _read_response(response)


# -- Fetch -----------------------------------------------------------------------------------------------------


class FetchRequest(NamedTuple):
    """A replica fetches records from `offset` on; its record before that has `last_fetched_epoch`."""

    cluster_id: str | None
    valid_partition: bool
    replica_id: int = -1
    directory_id: bytes = NO_DIRECTORY
    epoch: int = -1
    offset: int = -1
    last_fetched_epoch: int = -1
    max_wait: int = 0
    max_bytes: int = 0


class FetchResponse(NamedTuple):
    """A fetch response from the leader or another node. `high_watermark` is -1 while unknown."""

    error: int
    hint: Hint
    high_watermark: int = -1
    diverging: tuple[int, int] | None = None
    snapshot: tuple[int, int] | None = None
    """(end offset, epoch) of the snapshot to fetch instead of records."""
    records: Buffer = b""


def fetch(config: RaftConfig, epoch: int, offset: int, last_fetched_epoch: int) -> fetch_schema.FetchRequest:
    data = fetch_schema.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=0,
        partition_max_bytes=config.fetch_max_bytes,
        replica_directory_id=config.directory_id,
    )
    return fetch_schema.FetchRequest(
        cluster_id=config.cluster_id,
        replica_state=fetch_schema.ReplicaState(replica_id=config.node_id, replica_epoch=-1),
        replica_id=config.node_id,
        max_wait_ms=config.fetch_max_wait // 1000,
        min_bytes=1,
        max_bytes=config.fetch_max_bytes,
        topics=[fetch_schema.FetchTopic(topic_id=TOPIC_ID, topic=TOPIC, partitions=[data])],
    )


def read_fetch(body: Message, version: int) -> FetchRequest:
    request = cast(fetch_schema.FetchRequest, body)
    data = _only_partition(request.topics, by_id=True) if version >= 13 else None
    if data is None:
        return FetchRequest(request.cluster_id, False)
    return FetchRequest(
        cluster_id=request.cluster_id,
        valid_partition=True,
        replica_id=request.replica_state.replica_id if version >= 15 else request.replica_id,
        directory_id=data.replica_directory_id,
        epoch=data.current_leader_epoch,
        offset=data.fetch_offset,
        last_fetched_epoch=data.last_fetched_epoch,
        max_wait=request.max_wait_ms * 1000,
        max_bytes=min(data.partition_max_bytes, request.max_bytes),
    )


def fetch_refusal(error: int) -> fetch_schema.FetchResponse:
    return fetch_schema.FetchResponse(error_code=error)


def fetch_response(
    config: RaftConfig,
    error: int,
    hint: Hint,
    *,
    high_watermark: int = -1,
    log_start: int = 0,
    diverging: tuple[int, int] | None = None,
    snapshot: tuple[int, int] | None = None,
    records: Buffer = b"",
) -> fetch_schema.FetchResponse:
    data = fetch_schema.PartitionData(
        partition_index=PARTITION,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start,
        current_leader=fetch_schema.LeaderIdAndEpoch(
            leader_id=-1 if hint.leader_id is None else hint.leader_id, leader_epoch=hint.epoch
        ),
        aborted_transactions=None,
        records=records,
    )
    if diverging is not None:
        data.diverging_epoch = fetch_schema.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    if snapshot is not None:
        data.snapshot_id = fetch_schema.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1])
    topic = fetch_schema.FetchableTopicResponse(topic_id=TOPIC_ID, topic=TOPIC, partitions=[data])
    return fetch_schema.FetchResponse(responses=[topic], node_endpoints=_endpoints(fetch_schema, config, hint))


def read_fetch_response(body: Message) -> FetchResponse:
    response = cast(fetch_schema.FetchResponse, body)
    data = _only_partition(response.responses, by_id=True)
    if response.error_code != NO_ERROR or data is None:
        return FetchResponse(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR, NO_NEWS)
    leader_id = _leader(data.current_leader.leader_id)
    diverging, snapshot = data.diverging_epoch, data.snapshot_id
    return FetchResponse(
        error=data.error_code,
        hint=Hint(data.current_leader.leader_epoch, leader_id, _endpoint(response, leader_id)),
        high_watermark=data.high_watermark,
        diverging=None if diverging.end_offset < 0 else (diverging.epoch, diverging.end_offset),
        snapshot=None if snapshot.end_offset < 0 else (snapshot.end_offset, snapshot.epoch),
        records=data.records if data.records is not None else b"",
    )

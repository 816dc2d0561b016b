"""What anybody may ask of the control plane, and how little memory that takes: per request, per connection, per node.

The data plane's bounds are tested with the channels (`test_channels.py`) and over sockets (`test_slow_reader.py`).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from squall.nodes.config import NodeConfig
from squall.nodes.node import node as node_module
from squall.nodes.node.channels import FETCHES_MAX, PLAIN_REQUEST_MAX
from squall.nodes.node.dispatch import BROKER_VERSIONS, CONTROLLER_VERSIONS
from squall.nodes.node.node import Close, Pause, Resume, Send
from squall.nodes.node.settings import raft_config
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from squall.nodes.protocol.messages.describe_quorum import DescribeQuorumRequest
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from squall.nodes.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    PartitionSnapshotRequest,
    SnapshotId,
    TopicSnapshotRequest,
)
from squall.nodes.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from squall.nodes.protocol.requests.headers import decode_response
from squall.nodes.raft.config import TOPIC, TOPIC_ID, RaftConfig
from tests.nodes.node.test_node import CLIENT, CONTROL, SECOND, Host

INT_MAX = 2**31 - 1
ASKER = 5
MANY = 50


def outgoing(host: Host) -> int:
    """Bytes that one turn would send to the asker; they are sent now."""
    host.node.turn(host.now)
    early = host.node.release_early()
    host.node.flush(host.now)
    effects = [*early, *host.node.outbox]
    host.node.outbox.clear()
    sent = [effect for effect in effects if isinstance(effect, Send) and effect.connection == ASKER]
    return sum(len(chunk) for effect in sent for chunk in effect.chunks)


def fetch(host: Host, offset: int, epoch: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, last_fetched_epoch=epoch)
    partition.current_leader_epoch = host.node.raft.epoch
    partition.partition_max_bytes = INT_MAX
    topics = [FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])]
    return FetchRequest(replica_state=ReplicaState(7, -1), max_wait_ms=500, max_bytes=INT_MAX, topics=topics)


# -- answers ---------------------------------------------------------------------------------------------------------


def test_a_metadata_log_fetch_is_answered_within_the_leaders_own_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the fetcher says that it would take; the log may have gigabytes."""

    def small(config: NodeConfig, directory_id: bytes) -> RaftConfig:
        return replace(raft_config(config, directory_id), fetch_max_bytes=20_000)

    monkeypatch.setattr(node_module, "raft_config", small)
    host = Host()
    host.run()
    host.open(77, CLIENT)
    for number in range(20):
        topic = CreatableTopic(f"topic-{number}", 100, 1)
        host.send(77, CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
        host.run(SECOND // 10)
    host.open(ASKER, CONTROL)
    host.send(ASKER, fetch(host, 0, 0), 17)
    host.iterate()
    [frame] = [frame for to, frame in host.sent if to == ASKER]
    _, answer = decode_response(ApiKey.FETCH, 17, frame)
    assert isinstance(answer, FetchResponse)
    assert (
        0 < len(answer.responses[0].partitions[0].records or b"") <= 20_000 < host.node.raft.log.read(0, INT_MAX).nbytes
    )


def test_a_pipelining_fetcher_has_few_fetches_parked_and_the_rest_unread() -> None:
    host = Host()
    host.run()
    host.open(ASKER, CONTROL)
    for _ in range(MANY):
        host.send(ASKER, fetch(host, host.node.raft.end_offset, host.node.raft.epoch), 17)
    host.iterate()
    host.iterate()
    [(api, parked)] = host.node.connections.parked(host.node.control)
    assert (api, parked) == (ApiKey.FETCH, FETCHES_MAX)


def test_a_paused_connection_is_resumed_as_soon_as_an_answer_that_took_the_memory_has_left() -> None:
    """Observer rule DUE, `worlds` seed 980308: the node waited for its next event of any kind."""
    limit = 2_000
    host = Host(properties={"queued.max.request.bytes": str(limit)})
    host.run()
    host.open(ASKER)
    host.effects.clear()
    asked = [ListOffsetsPartition(partition_index=number) for number in range(200)]
    host.send(ASKER, ListOffsetsRequest(topics=[ListOffsetsTopic(name="events", partitions=asked)]), 7)
    host.node.turn(host.now)
    assert host.node.outbox[0] == Pause(ASKER), "the request has used up the budget"
    assert host.node.data.budget.used > limit, "and now its answer has"
    host.node.flush(host.now)
    assert host.node.deadline() <= host.now
    host.node.outbox.clear()
    host.node.turn(host.now)
    assert host.node.outbox == [Resume(ASKER)]
    assert host.node.deadline() > host.now


@pytest.fixture
def snapshot_host() -> Host:
    host = Host(properties={"metadata.log.max.record.bytes.between.snapshots": "1"})
    host.run()
    return host


def ask_for_the_snapshot(host: Host) -> int:
    """Fifty times, all of it. Returns its size."""
    newest = host.node.raft.snapshots.latest
    assert newest is not None
    partition = PartitionSnapshotRequest(
        partition=0,
        current_leader_epoch=host.node.raft.epoch,
        snapshot_id=SnapshotId(end_offset=newest.end_offset, epoch=newest.epoch),
        position=0,
    )
    request = FetchSnapshotRequest(
        replica_id=7, max_bytes=INT_MAX, topics=[TopicSnapshotRequest(name=TOPIC, partitions=[partition])]
    )
    host.open(ASKER, CONTROL)
    for _ in range(MANY):
        host.send(ASKER, request, 1)
    return host.node.raft.snapshots.size_of(newest)


def test_pieces_of_a_snapshot_wait_until_those_before_them_were_taken(
    snapshot_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = snapshot_host
    size = ask_for_the_snapshot(host)
    monkeypatch.setattr("squall.nodes.node.channels.UNSENT_MAX", 2 * size)
    sent = [outgoing(host) for _ in range(MANY)]
    assert max(sent) < 4 * size, "as much as may be unsent, and the answer that reached it"
    assert sum(sent) >= MANY * size, "and yet all of it in the end"


def test_a_peer_that_takes_no_pieces_is_given_none(snapshot_host: Host) -> None:
    host = snapshot_host
    size = ask_for_the_snapshot(host)
    host.node.stalled(host.now, ASKER, True)
    assert [outgoing(host) for _ in range(5)] == [0] * 5
    host.node.stalled(host.now, ASKER, False)
    assert sum(outgoing(host) for _ in range(MANY)) >= MANY * size


# -- requests --------------------------------------------------------------------------------------------------------

PLANES = [(CLIENT, api) for api in BROKER_VERSIONS if api != ApiKey.PRODUCE] + [
    (CONTROL, api) for api in CONTROLLER_VERSIONS
]


@pytest.mark.parametrize(("port", "api"), PLANES)
def test_no_request_but_produce_may_be_long_on_any_listener(port: int, api: int) -> None:
    """Decoded, it would be objects of many times its size."""
    host = Host()
    host.run()
    host.open(ASKER, port)
    host.node.received(host.now, ASKER, bytearray(api.to_bytes(2, "big") + bytes(PLAIN_REQUEST_MAX)))
    host.iterate()
    host.iterate()
    assert host.effects == [Close(ASKER)]


def test_requests_of_the_control_plane_wait_in_a_bounded_channel_of_their_own() -> None:
    """CL-24: `queued.max.requests` holds for each plane."""
    host = Host()
    host.run()
    for asker in (ASKER, ASKER + 1, ASKER + 2):
        host.open(asker, CONTROL)
    for asker in (ASKER, ASKER + 1):
        for _ in range(10):
            host.send(asker, DescribeQuorumRequest(), 2)
    assert host.node.control.full
    assert len(host.node.control) == host.node.config.queued_max_requests == 20
    host.send(ASKER + 2, DescribeQuorumRequest(), 2)
    assert {effect.connection for effect in host.node.outbox if isinstance(effect, Pause)} == {ASKER + 1, ASKER + 2}
    assert not host.node.data.full


@pytest.mark.parametrize("partitions", [10_002, INT_MAX])
def test_a_few_bytes_cannot_ask_for_millions_of_topic_partitions(partitions: int) -> None:
    host = Host()
    host.run()
    host.open(77, CLIENT)
    host.send(77, CreateTopicsRequest(topics=[CreatableTopic("small", 1, 1)], timeout_ms=1000), 7)
    host.run(SECOND // 10)
    host.open(ASKER, CONTROL)
    before = host.node.raft.end_offset
    host.send(ASKER, CreateTopicsRequest(topics=[CreatableTopic("huge", partitions, 1)], timeout_ms=1000), 7)
    host.send(
        ASKER, CreatePartitionsRequest(topics=[CreatePartitionsTopic("small", partitions, None)], timeout_ms=1000), 3
    )
    host.iterate()
    created, grown = [frame for to, frame in host.sent if to == ASKER]
    _, answer = decode_response(ApiKey.CREATE_TOPICS, 7, created)
    assert answer.topics[0].error_code == ErrorCode.POLICY_VIOLATION  # type: ignore[attr-defined]
    _, answer = decode_response(ApiKey.CREATE_PARTITIONS, 3, grown)
    assert answer.results[0].error_code == ErrorCode.INVALID_PARTITIONS  # type: ignore[attr-defined]
    assert host.node.raft.end_offset == before

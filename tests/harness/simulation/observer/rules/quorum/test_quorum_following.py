"""QC-18 as the observer asserts it: a leader of the quorum leads as long as a majority fetches from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.quorum.quorum_following import QuorumFollowing
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshotRequest,
    PartitionSnapshotResponse,
    TopicSnapshotRequest,
    TopicSnapshotResponse,
)
from squall.nodes.protocol.requests.headers import decode_request, encode_request
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import METADATA_TOPIC_ID
from squall.nodes.raft.config import Voter
from squall.nodes.raft.roles import Leader, Resigned
from squall.nodes.raft.voters import VoterSet

SECOND, EPOCH = 1_000_000, 3
FETCH_VERSION = 17


def received() -> None:
    """A name for the input of a frame."""


def fetch(replica: int, topic_id: bytes = METADATA_TOPIC_ID, epoch: int = EPOCH) -> bytes:
    topics = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0, epoch)])]
    return _frame(ApiKey.FETCH, FETCH_VERSION, FetchRequest(replica_state=ReplicaState(replica), topics=topics))


def fetch_snapshot(replica: int) -> bytes:
    topics = [TopicSnapshotRequest(partitions=[PartitionSnapshotRequest(current_leader_epoch=EPOCH)])]
    return _frame(ApiKey.FETCH_SNAPSHOT, 0, FetchSnapshotRequest(replica_id=replica, topics=topics))


def _frame(key: ApiKey, version: int, message: Message) -> bytes:
    return b"".join(encode_request(key, version, 1, "node", message))


class Watched:
    """C1 leads controllers 1 to 3 from second 0 on; the fetch timeout is a second."""

    def __init__(self, *, pulls: bool = True) -> None:
        self.rule = QuorumFollowing(None)  # type: ignore[arg-type]
        raft = SimpleNamespace(role=None, epoch=EPOCH, pulls=pulls, voters=None)
        config = SimpleNamespace(node_id=1, controller_quorum_fetch_timeout_ms=1_000)
        self.node: Any = SimpleNamespace(raft=raft, config=config)
        self.process: Any = SimpleNamespace(name="c1", incarnation=1, now=0, last_inputs=[])
        self.votes(1, 2, 3)
        raft.role = Leader(EPOCH, leader_id=1, epoch_start_offset=0, since=0, majority=2, others={})
        self.turn(0.0)

    def votes(self, *voters: int) -> None:
        self.node.raft.voters = VoterSet(tuple(Voter(one, "c", 9093) for one in voters))

    def turn(self, second: float, *frames: bytes) -> None:
        self.process.now = round(second * SECOND)
        self.process.last_inputs = [(received, (7, frame)) for frame in frames]
        self.rule.turned(self.process, self.node)

    def serves(self, second: float, frame: bytes, error: int = 0, diverging: int = -1) -> None:
        """Serve a fetch in a turn of its own: with records, this error, or a divergence from this epoch."""
        self.process.now = round(second * SECOND)
        key, body = ApiKey(int.from_bytes(frame[:2], "big")), decode_request(frame)[1]
        response: Message
        if isinstance(body, FetchRequest):
            data = PartitionData(0, error, diverging_epoch=EpochEndOffset(diverging, 0))
            response = FetchResponse(responses=[FetchableTopicResponse(partitions=[data])])
        else:
            response = FetchSnapshotResponse(
                topics=[TopicSnapshotResponse(partitions=[PartitionSnapshotResponse(0, error)])]
            )
        request = ServerRequest(int(key), FETCH_VERSION, body, "node", "CONTROLLER", 7, self.process.now)
        request.answer = Answer(response=response)
        self.rule.answered(self.process, self.node, request)
        self.turn(second, frame)

    def resigns(self, second: float, *frames: bytes) -> None:
        self.rule.traced("state", {"node": 1, "role": "resigned", "epoch": EPOCH})
        self.node.raft.role = Resigned(EPOCH, 1, (), 0, {}, None)
        self.turn(second, *frames)


@pytest.mark.parametrize("asks", [fetch(3), fetch_snapshot(3)], ids=["records", "a snapshot"])
def test_a_leader_that_a_majority_follows_does_not_resign(asks: bytes) -> None:
    watched = Watched()
    watched.serves(1.0, asks)
    with pytest.raises(
        InvariantBroken, match=r"^QC-18: c1 resigns as leader of quorum epoch 3, although a majority of"
    ):
        watched.resigns(1.9)


def test_a_leader_that_nobody_follows_resigns() -> None:
    watched = Watched()
    watched.serves(1.0, fetch(3))
    watched.resigns(2.0)


def test_a_leader_that_was_paused_resigns_before_it_serves_what_waits() -> None:
    """Seed 948035 of worlds."""
    watched = Watched()
    watched.serves(1.0, fetch(3))
    watched.resigns(2.6, fetch(3))


def test_a_voter_that_is_told_to_truncate_does_not_follow_yet() -> None:
    """Seed 945014 of worlds: no other fetch of it arrived."""
    watched = Watched()
    watched.serves(1.0, fetch(3), diverging=2)
    watched.serves(1.1, fetch(2), error=ErrorCode.OFFSET_OUT_OF_RANGE)
    watched.serves(1.1, fetch_snapshot(2), error=ErrorCode.SNAPSHOT_NOT_FOUND)
    watched.resigns(1.4)


def test_a_fetch_that_arrived_and_was_never_served_shows_nothing() -> None:
    """Its connection had ended. Seed 971046 of worlds: one fetch from before a restart of c3, and one from after it."""
    watched = Watched()
    watched.turn(1.0, fetch(3))
    watched.turn(1.2, fetch(3), fetch(2))
    watched.resigns(1.4)


def test_a_voter_that_asks_in_another_epoch_does_not_follow() -> None:
    watched = Watched()
    watched.serves(1.0, fetch(3, epoch=EPOCH - 1))
    watched.resigns(1.4)


def test_a_leader_that_nobody_follows_may_not_stay_for_long() -> None:
    watched = Watched()
    watched.turn(1.0, fetch(3))
    watched.turn(2.9)
    with pytest.raises(
        InvariantBroken, match=r"^QC-18: c1 still leads quorum epoch 3, and for 2\.001 s no majority of"
    ):
        watched.turn(3.001)


def test_fetches_of_topics_and_of_observers_show_nothing() -> None:
    watched = Watched()
    watched.serves(1.0, fetch(3, bytes(15) + b"\x07"))
    watched.serves(1.0, fetch(9))
    watched.resigns(1.6)


def test_a_leader_that_has_removed_itself_resigns() -> None:
    watched = Watched()
    watched.serves(1.0, fetch(2))
    watched.serves(1.0, fetch(3))
    watched.votes(2, 3)
    watched.resigns(1.1)


def test_a_removal_may_leave_a_majority_that_was_not_heard() -> None:
    """Seed 380 of worlds: 1 and 2 were a majority of three, and are none of 1 and 3."""
    watched = Watched()
    watched.serves(1.0, fetch(2))
    watched.votes(1, 3)
    watched.resigns(1.1)


def test_a_voter_that_was_added_has_its_time() -> None:
    watched = Watched()
    watched.votes(1)
    watched.turn(1.0)
    watched.votes(1, 2)
    watched.turn(5.0)
    watched.turn(6.9)


def test_a_lone_voter_leads_for_ever() -> None:
    watched = Watched()
    watched.votes(1)
    watched.turn(9.0)


def test_a_leader_that_pushes_is_not_looked_at() -> None:
    Watched(pulls=False).turn(9.0)

"""One replica on its own, its peers played by the test: `Voting` is asked for votes, `Node` leads or follows."""

from __future__ import annotations

from random import Random
from typing import Any

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.vote import VoteResponse
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft import messages
from squall.nodes.raft.config import RaftConfig, Voter
from squall.nodes.raft.messages import Hint
from squall.nodes.raft.metadata_log import MetadataLog
from squall.nodes.raft.quorum_state import QuorumState, QuorumStateStore
from squall.nodes.raft.replica import RaftReplica

VOTERS = tuple(Voter(number, f"host{number}", 9093) for number in (1, 2, 3))


class Clock:
    def now_ms(self) -> int:
        return 1_000


def config(node_id: int = 1) -> RaftConfig:
    return RaftConfig(node_id, "cluster", node_id.to_bytes(16, "big"), VOTERS)


class Voting:
    """Node 1 with a log of given batches' epochs and a given quorum state, asked for its vote."""

    def __init__(self, epochs: list[int], state: QuorumState | None = None) -> None:
        self.disk = SimDisk(Random(0))
        log = MetadataLog(config(), disk=self.disk, now_ms=0, trace=NullTrace())
        for epoch in epochs:
            log.append([b"record"], epoch, 0)
        log.flush()
        if state is not None:
            QuorumStateStore(self.disk, config().directory).write(state)
        self.start()

    def start(self) -> None:
        self.replica = RaftReplica(config(), disk=self.disk, clock=Clock(), rng=Random(1), trace=NullTrace(), now=0)

    def quorum_state(self) -> QuorumState | None:
        """The state in the file, as a process that starts now would read it."""
        return QuorumStateStore(self.disk, config().directory).read()

    def ask(self, candidate: int, epoch: int, last_epoch: int, end_offset: int, **changes: Any) -> tuple[int, bool]:
        """The error and whether the vote was granted."""
        body = messages.vote(config(candidate), epoch, 1, last_epoch, end_offset)
        for name, value in changes.items():
            target = body if hasattr(body, name) else body.topics[0].partitions[0]
            setattr(target, name, value)
        response = self.send(ApiKey.VOTE, 1, body)
        assert isinstance(response, VoteResponse)
        if response.error_code:
            return response.error_code, False
        data = response.topics[0].partitions[0]
        return data.error_code, data.vote_granted

    def send(self, key: ApiKey, version: int, body: Message) -> Message:
        request = ServerRequest(key, version, body, "test", "CONTROLLER", 1, 0)
        handlers = {
            ApiKey.VOTE: self.replica.handle_vote,
            ApiKey.BEGIN_QUORUM_EPOCH: self.replica.handle_begin_quorum_epoch,
        }
        handlers[key](0, request)
        assert request.answer is not None and request.answer.response is not None
        return request.answer.response


class Node:
    """One replica on its own, its peers played by the test. `epochs` are those of the records already in its log."""

    def __init__(
        self, node_id: int, epochs: list[int], state: QuorumState | None = None, *, buggify: Buggify = OFF
    ) -> None:
        self.now = 0
        self.id = node_id
        self.disk = SimDisk(Random(0))
        log = MetadataLog(config(node_id), disk=self.disk, now_ms=0, trace=NullTrace())
        for number, epoch in enumerate(epochs):
            log.append([b"%d of epoch %d" % (number, epoch)], epoch, 0)
        log.close()
        if state is not None:
            QuorumStateStore(self.disk, config(node_id).directory).write(state)
        self.replica = RaftReplica(
            config(node_id), disk=self.disk, clock=Clock(), rng=Random(1), trace=NullTrace(), now=0, buggify=buggify
        )

    def sent(self) -> list[OutboundRequest]:
        requests = list(self.replica.requests)
        self.replica.requests.clear()
        return requests

    def win(self) -> Node:
        """Ask, stand, and be granted both the pre-vote and the vote by the first peer."""
        self.now = self.replica.deadline()
        for _ in ("pre-vote", "vote"):
            self.replica.tick(self.now)
            votes = self.sent()
            answer = messages.vote_response(config(2), ErrorCode.NONE, Hint(self.replica.epoch, None), True)
            votes[0].complete(self.now, answer)
        assert self.replica.is_leader
        self.replica.flush(self.now)
        return self

    def follow(self, leader_id: int, epoch: int) -> Node:
        body = messages.begin_quorum_epoch(config(leader_id), epoch, self.id)
        request = ServerRequest(ApiKey.BEGIN_QUORUM_EPOCH, 1, body, "test", "CONTROLLER", 1, self.now)
        self.replica.handle_begin_quorum_epoch(self.now, request)
        assert self.replica.leader_and_epoch == (leader_id, epoch)
        self.sent()
        return self

    def fetched_by(self, replica_id: int, offset: int, last_epoch: int, epoch: int | None = None) -> ServerRequest:
        body = messages.fetch(config(replica_id), self.replica.epoch if epoch is None else epoch, offset, last_epoch)
        request = ServerRequest(ApiKey.FETCH, 17, body, "test", "CONTROLLER", replica_id, self.now)
        self.replica.handle_fetch(self.now, request)
        return request

    def next_fetch(self) -> tuple[OutboundRequest, tuple[int, int]]:
        """The fetch it sends now, and the end of log it tells: (last epoch, end offset)."""
        self.replica.tick(self.now)
        self.replica.flush(self.now)
        (fetch,) = self.sent()
        fetch_request = messages.read_fetch(fetch.message, 17)
        return fetch, (fetch_request.last_fetched_epoch, fetch_request.offset)

    def told_divergence(self, epoch: int, end_offset: int) -> None:
        fetch, _ = self.next_fetch()
        hint = Hint(self.replica.epoch, self.replica.leader_and_epoch[0])
        fetch.complete(
            self.now, messages.fetch_response(config(3), ErrorCode.NONE, hint, diverging=(epoch, end_offset))
        )

    def told(self, records: Any, high_watermark: int) -> None:
        fetch, _ = self.next_fetch()
        hint = Hint(self.replica.epoch, self.replica.leader_and_epoch[0])
        fetch.complete(
            self.now,
            messages.fetch_response(config(3), ErrorCode.NONE, hint, records=records, high_watermark=high_watermark),
        )


def answer_of(request: ServerRequest) -> messages.FetchResponse:
    assert request.answer is not None and request.answer.response is not None
    return messages.read_fetch_response(request.answer.response)

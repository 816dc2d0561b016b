"""A leader and one follower of a quorum, alone: real replicas, logs by choice, every round trip counted.

The third voter is played: it grants the leader its vote and says no more, so that only the two replicas exchange
records. Messages travel as their bytes and take `DELAY` each way; disks take no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.compiler import decode, encode_bytes
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import APIS, ApiKey
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest, ToVoter
from squall.nodes.protocol.schema import Message
from squall.nodes.raft import messages
from squall.nodes.raft.config import RaftConfig, Variant, Voter
from squall.nodes.raft.messages import Hint
from squall.nodes.raft.metadata_log import MetadataLog
from squall.nodes.raft.push.messages import read_acknowledgement
from squall.nodes.raft.push.replication import pusher_of
from squall.nodes.raft.quorum_state import QuorumState, QuorumStateStore
from squall.nodes.raft.replica import RaftReplica

LEADER, FOLLOWER, PLAYED = 1, 2, 3
VOTERS = tuple(Voter(number, f"host{number}", 9093) for number in (LEADER, FOLLOWER, PLAYED))
VERSIONS = {ApiKey.BEGIN_QUORUM_EPOCH: 1, ApiKey.FETCH: 17, ApiKey.APPEND_ENTRIES: 0}
DELAY = 10_000
"""Microseconds that a message takes."""
STEPS_MAX = 10_000


class StoppedClock:
    """Wall time that does not pass; only timestamps depend on it."""

    def now_ms(self) -> int:
        return 1_000


@dataclass
class Exchange:
    """What it took until the follower's log was the leader's."""

    announcements: int = 0
    """BeginQuorumEpoch."""
    round_trips: int = 0
    """AppendEntries or Fetch, up to the first that the other side accepted."""
    milliseconds: float = 0.0
    """From the election until the follower has the leader's whole log."""


def replica(node: int, epochs: Sequence[int], latest: int, variant: Variant) -> RaftReplica:
    """A replica that starts with one record of each of these epochs in its log, in epoch `latest`."""
    config = RaftConfig(node, "cluster", node.to_bytes(16, "big"), VOTERS, variant=variant, fetch_max_wait=0)
    disk = SimDisk(Random(0))
    log = MetadataLog(config, disk=disk, now_ms=0, trace=NullTrace())
    for number, epoch in enumerate(epochs):
        log.append([b"%d of epoch %d" % (number, epoch)], epoch, 0)
    log.close()
    QuorumStateStore(disk, config.directory).write(QuorumState(epoch=latest))
    return RaftReplica(
        config, disk=disk, clock=StoppedClock(), rng=Random(1), trace=NullTrace(), now=0, pusher=pusher_of(variant)
    )


class Pair:
    """The two replicas. `reconcile` elects the leader and runs until both logs are equal."""

    def __init__(self, leader: Sequence[int], follower: Sequence[int], variant: Variant) -> None:
        latest = max([*leader, *follower], default=0)
        self.leader = replica(LEADER, leader, latest, variant)
        self.follower = replica(FOLLOWER, follower, latest, variant)
        self.now = 0
        self.accepted = False
        self.exchange = Exchange()

    def reconcile(self) -> Exchange:
        """Raises AssertionError if the logs never agree."""
        self._elect()
        began = self.now
        for _ in range(STEPS_MAX):
            self._turn(self.leader, self.follower)
            self._turn(self.follower, self.leader)
            if self.accepted and self.follower.end_offset == self.leader.end_offset:
                self.exchange.milliseconds = (self.now - began) / 1000
                return self.exchange
        raise AssertionError(f"not reconciled after {STEPS_MAX} steps: {self.exchange}")

    def _elect(self) -> None:
        """Have the played voter grant pre-vote and vote."""
        self.now = self.leader.deadline()
        while not self.leader.is_leader:
            self.leader.tick(self.now)
            asked = [one for one in self.leader.requests if one.destination == ToVoter(PLAYED)]
            self.leader.requests.clear()
            hint = Hint(self.leader.epoch, None)
            granted = messages.vote_response(self.leader.config, ErrorCode.NONE, hint, True)
            for one in asked:
                one.complete(self.now, granted)
        self.leader.flush(self.now)

    def _turn(self, sender: RaftReplica, receiver: RaftReplica) -> None:
        """Let one replica act, and carry what it asks of the other there and back."""
        sender.tick(self.now)
        sender.flush(self.now)
        asked = [one for one in sender.requests if one.destination == ToVoter(receiver.config.node_id)]
        sender.requests.clear()
        for one in asked:
            self._carry(one, sender, receiver)

    def _carry(self, request: OutboundRequest, sender: RaftReplica, receiver: RaftReplica) -> None:
        api = APIS[request.message.API_KEY]
        version = VERSIONS[ApiKey(api.key)]
        body = decode(api.request, version, encode_bytes(request.message, version))
        self.now += DELAY
        arrived = ServerRequest(api.key, version, body, "pair", "CONTROLLER", 1, self.now)
        handle = {
            ApiKey.BEGIN_QUORUM_EPOCH: receiver.handle_begin_quorum_epoch,
            ApiKey.FETCH: receiver.handle_fetch,
            ApiKey.APPEND_ENTRIES: receiver.handle_append_entries,
        }
        handle[ApiKey(api.key)](self.now, arrived)
        receiver.flush(self.now)
        assert arrived.answer is not None and arrived.answer.response is not None
        self._count(ApiKey(api.key), arrived.answer.response)
        self.now += DELAY
        request.complete(self.now, decode(api.response, version, encode_bytes(arrived.answer.response, version)))
        sender.flush(self.now)

    def _count(self, key: ApiKey, response: Message) -> None:
        if key == ApiKey.BEGIN_QUORUM_EPOCH:
            self.exchange.announcements += 1
        elif not self.accepted:
            self.exchange.round_trips += 1
            if key == ApiKey.FETCH:
                fetched = messages.read_fetch_response(response)
                self.accepted = fetched.error == ErrorCode.NONE and fetched.diverging is None
            else:
                self.accepted = read_acknowledgement(response).accepted

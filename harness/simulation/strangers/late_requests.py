"""A client that sends nodes' requests to their receivers again, late or with an older epoch.

A request may wait for long in a dead sender's connection, in the queue of a paused node, or at a proxy, and be served
when it is outdated. Kafka's protocols withstand that by epochs: of the leader, the topic-partition, the broker's
registration, and the quorum (EP-03, BL-05, IS-07). In this world a connection ends with its process and keeps the order
of its frames, so outdated requests are rare, and a node that forgets to look at an epoch is hardly ever found out. So
this client overhears some requests between nodes, and repeats them:

* unchanged, after a random time;
* with one of its epochs lowered, or with an ISR that no leader may propose: the receiver must refuse it. News of a
  leader of the quorum are repeated unchanged only;
* the last ordinary heartbeat of a broker, soon after the broker asked to stop: it must not make the broker a leader
  again (CS-04).

Only requests that the protocols fence are repeated. An administrator's would be carried out twice, a registration would
return a dead incarnation to life, and both would be right. `observer/rules/clients/fenced_requests.py` judges the
answers, all other rules what becomes of the cluster.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from squall.harness.simulation.world.connector import SimStream
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from squall.nodes.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState
from squall.nodes.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from squall.nodes.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from squall.nodes.protocol.messages.fetch import FetchRequest
from squall.nodes.protocol.messages.vote import VoteRequest
from squall.nodes.protocol.requests.headers import decode_request, encode_request
from squall.nodes.protocol.schema import Message

SHARE = 0.5
"""The probability that a run has this client."""
STREAM = "late requests"
PAUSE = (0.05, 0.4)
"""Seconds of virtual time between two requests."""
KEPT = 30
"""How many requests of one API are kept, the newest."""
OVERHEARD = 0.3
"""The probability that a Fetch or a heartbeat is kept; of what is rarer, all is."""
UNCHANGED = 0.5
"""The probability that a request is repeated as it was."""
NO_BROKER = 999
"""An id that no broker has."""
HEARTBEAT = int(ApiKey.BROKER_HEARTBEAT).to_bytes(2, "big")
UNKNOWN_STATE = 7
"""A leader recovery state that AlterPartition does not have."""


@dataclass(frozen=True, slots=True)
class Overheard:
    """A request of one node to another, which listens at this address and port."""

    address: str
    port: int
    frame: bytes


class StoppingBrokers:
    """The last ordinary heartbeats of brokers that ask to stop."""

    def __init__(self) -> None:
        self._ordinary: dict[str, Overheard] = {}
        self._late: deque[Overheard] = deque(maxlen=KEPT)

    def overhear(self, broker: str, heartbeat: Overheard) -> None:
        """Take note of a heartbeat. `broker` is the address of its sender."""
        _, message = decode_request(heartbeat.frame)
        assert isinstance(message, BrokerHeartbeatRequest)
        if not message.want_shut_down:
            self._ordinary[broker] = heartbeat
        elif broker in self._ordinary:
            self._late.append(self._ordinary[broker])

    def next_heartbeat(self) -> Overheard | None:
        """Return the next late heartbeat, each one once; None if there is none."""
        return self._late.popleft() if self._late else None


class LateRequests:
    """See the module."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._rng: Random = world.streams.stream(STREAM)
        self._nodes = {one.address for one in world.places}
        self._kept: dict[bytes, deque[Overheard]] = {}
        self._streams: dict[tuple[str, int], SimStream] = {}
        self._stopping = StoppingBrokers()
        self.sent = 0

    async def run(self) -> None:
        """Repeat requests until cancelled."""
        self._world.network.overheard = self._overhear
        try:
            while True:
                await asyncio.sleep(self._rng.uniform(*PAUSE))
                if heartbeat := self._stopping.next_heartbeat():
                    await self._send(heartbeat)
                if self._kept:
                    await self._repeat(self._rng.choice(self._kept[self._rng.choice(sorted(self._kept))]))
        finally:
            self._world.network.overheard = None
            for stream in self._streams.values():
                stream.close()

    def _overhear(self, source: str, address: str, port: int, frame: bytes) -> None:
        key = frame[:2]
        if key not in _REPEATED or source not in self._nodes:
            return
        request = Overheard(address, port, bytes(frame))
        if key == HEARTBEAT:
            self._stopping.overhear(source, request)
        if key not in _FREQUENT or self._rng.random() < OVERHEARD:
            self._kept.setdefault(key, deque(maxlen=KEPT)).append(request)

    async def _repeat(self, request: Overheard) -> None:
        if self._rng.random() >= UNCHANGED:
            request = replace(request, frame=outdated(request.frame, self._rng))
        await self._send(request)

    async def _send(self, request: Overheard) -> None:
        try:
            await (await self._stream(request.address, request.port)).send(request.frame)
        except OSError:
            self._streams.pop((request.address, request.port), None)
        else:
            self.sent += 1

    async def _stream(self, address: str, port: int) -> SimStream:
        found = self._streams.get((address, port))
        if found is None:
            found = await self._world.connector().connect(address, port)
            found.listen(_ignore, _ignore)
            self._streams[(address, port)] = found
        return found


def outdated(frame: bytes, rng: Random) -> bytes:
    """Return the request with an older epoch, or another defect for which its receiver must refuse it."""
    header, message = decode_request(frame)
    _REPEATED[frame[:2]](message, rng)
    chunks = encode_request(header.api_key, header.api_version, header.correlation_id, header.client_id, message)
    return b"".join(chunks)


def _ignore(_: object) -> None:
    """Nobody waits for the answer."""


def _of_earlier_incarnation(message: Message, rng: Random) -> None:
    assert isinstance(message, BrokerHeartbeatRequest | AllocateProducerIdsRequest)
    message.broker_epoch -= rng.randint(1, 3)


def _other_proposal(message: Message, rng: Random) -> None:
    assert isinstance(message, AlterPartitionRequest)
    if rng.random() < 0.2:
        message.broker_epoch -= 1
        return
    one = rng.choice([partition for topic in message.topics for partition in topic.partitions])
    kind = rng.randrange(6)
    if kind == 0:
        one.leader_epoch -= 1
        return
    if kind == 1:
        one.partition_epoch -= 1
        return
    one.partition_epoch += rng.randint(0, 1)  # as it is once the first of the two requests was accepted
    members = one.new_isr_with_epochs
    if kind == 2:
        one.leader_recovery_state = UNKNOWN_STATE
    elif kind == 3:
        members.clear()
    elif kind == 4:
        members.append(BrokerState(NO_BROKER))
    else:
        members[:] = [other for other in members if other.broker_id != message.broker_id]


def _of_earlier_leader(message: Message, rng: Random) -> None:
    assert isinstance(message, FetchRequest)
    for topic in message.topics:
        for one in topic.partitions:
            one.current_leader_epoch -= rng.randint(1, 2) if one.current_leader_epoch > 1 else 0


def _of_earlier_epoch(message: Message, rng: Random) -> None:
    """Take an epoch of the quorum that is over. A pre-vote asks about the next one."""
    assert isinstance(message, VoteRequest)
    older = rng.randint(2, 3)
    for vote in message.topics[0].partitions:
        vote.replica_epoch = max(0, vote.replica_epoch - older)
        vote.last_offset_epoch = min(vote.last_offset_epoch, vote.replica_epoch)


def _as_it_was(message: Message, rng: Random) -> None:
    """Change nothing: who led another epoch may be another node, and the receiver may know it (seed 982122)."""
    assert isinstance(message, BeginQuorumEpochRequest | EndQuorumEpochRequest)


_CHANGES: Mapping[ApiKey, Callable[[Message, Random], None]] = {
    ApiKey.FETCH: _of_earlier_leader,
    ApiKey.VOTE: _of_earlier_epoch,
    ApiKey.BEGIN_QUORUM_EPOCH: _as_it_was,
    ApiKey.END_QUORUM_EPOCH: _as_it_was,
    ApiKey.ALTER_PARTITION: _other_proposal,
    ApiKey.BROKER_HEARTBEAT: _of_earlier_incarnation,
    ApiKey.ALLOCATE_PRODUCER_IDS: _of_earlier_incarnation,
}
_REPEATED = {int(key).to_bytes(2, "big"): change for key, change in _CHANGES.items()}
"""By the first two bytes of a request."""
_FREQUENT = {int(key).to_bytes(2, "big") for key in (ApiKey.FETCH, ApiKey.BROKER_HEARTBEAT)}

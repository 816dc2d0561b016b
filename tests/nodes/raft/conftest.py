"""A small deterministic world for quorum replicas: virtual time, a lossy network, disks that lose power.

Hosts keep the contract of docs/architecture.md: deliver inputs, tick, flush, and only then release what is to be sent.
Messages travel as their bytes. After every iteration the invariants are checked: ELECT (one leader per epoch), HWM (no
node's high watermark falls, committed batches are the same everywhere and for ever).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from squall.harness.simulation.world.disk import CrashNow, DiskSpeed, SimDisk
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.protocol.compiler import decode, encode_bytes
from squall.nodes.protocol.messages import APIS, ApiKey
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest, ToVoter
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.config import KRAFT, RaftConfig, Variant, Voter
from squall.nodes.raft.push.replication import pusher_of
from squall.nodes.raft.replica import RaftReplica

MS = 1000
VERSIONS = {ApiKey.VOTE: 2, ApiKey.BEGIN_QUORUM_EPOCH: 1, ApiKey.END_QUORUM_EPOCH: 1, ApiKey.FETCH: 17}
VERSIONS |= {ApiKey.FETCH_SNAPSHOT: 1, ApiKey.APPEND_ENTRIES: 0}
VERSIONS |= {ApiKey.ADD_RAFT_VOTER: 1, ApiKey.REMOVE_RAFT_VOTER: 0, ApiKey.UPDATE_RAFT_VOTER: 0}


class Clock:
    """Wall time that stands still: nothing but timestamps may depend on it."""

    def now_ms(self) -> int:
        return 1_000


class Recorder:
    """Keeps trace events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def event(self, name: str, **fields: object) -> None:
        self.events.append((name, fields))

    def named(self, name: str) -> list[dict[str, object]]:
        return [fields for event, fields in self.events if event == name]


class Member:
    """One node: its disk outlives its replica."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster = cluster
        self.id = node_id
        self.disk = SimDisk(Random(f"{cluster.seed}/disk/{node_id}"), DiskSpeed(stall_probability=0))
        self.replica: RaftReplica | None = None
        self.incarnation = 0
        self.committed_seen = 0
        self.held: list[Callable[[], None]] = []
        self.next_wake = (0, 0)

    @property
    def up(self) -> RaftReplica:
        assert self.replica is not None
        return self.replica

    def start(self) -> None:
        cluster = self.cluster
        self.incarnation += 1
        self.committed_seen = 0
        self.held.clear()
        rng = Random(f"{cluster.seed}/{self.id}/{self.incarnation}")
        config = cluster.config(self.id)
        self.replica = RaftReplica(
            config, disk=self.disk, clock=Clock(), rng=rng, trace=cluster.trace, now=cluster.now,
            buggify=cluster.buggify, pusher=pusher_of(cluster.variant),
        )  # fmt: skip
        self.iterate()

    def lose_power(self) -> None:
        self.replica = None
        self.held.clear()
        self.disk.crash_after = None
        self.disk.lose_power()

    def stop(self) -> None:
        self.up.close(self.cluster.now)
        self._release()
        self.replica = None

    def iterate(self) -> None:
        self.guard(self._iterate)

    def guard(self, action: Callable[[], None]) -> None:
        """Run the node's code; if its disk stops between two calls, that was the power going out."""
        if self.replica is None:
            return
        try:
            action()
        except CrashNow:
            self.lose_power()

    def _iterate(self) -> None:
        replica = self.up
        for _ in range(20):
            replica.tick(self.cluster.now)
            replica.flush(self.cluster.now)
            self._release()
            self.cluster.check(self)
            if replica.deadline() > self.cluster.now:
                break
        else:
            raise AssertionError(f"node {self.id} is never done at {self.cluster.now}, role {replica.role}")
        self.cluster.wake(self, replica.deadline())

    def _release(self) -> None:
        """Everything this turn wanted to send, now that the log is durable."""
        held, self.held = self.held, []
        for send in held:
            send()
        requests = list(self.up.requests)
        self.up.requests.clear()
        for request in requests:
            self.cluster.send(self, request)

    def deliver(self, request: ServerRequest) -> None:
        replica = self.up
        handlers = {
            ApiKey.VOTE: replica.handle_vote,
            ApiKey.BEGIN_QUORUM_EPOCH: replica.handle_begin_quorum_epoch,
            ApiKey.END_QUORUM_EPOCH: replica.handle_end_quorum_epoch,
            ApiKey.FETCH: replica.handle_fetch,
            ApiKey.FETCH_SNAPSHOT: replica.handle_fetch_snapshot,
            ApiKey.APPEND_ENTRIES: replica.handle_append_entries,
            ApiKey.ADD_RAFT_VOTER: replica.handle_add_raft_voter,
            ApiKey.REMOVE_RAFT_VOTER: replica.handle_remove_raft_voter,
            ApiKey.UPDATE_RAFT_VOTER: replica.handle_update_raft_voter,
        }
        handlers[ApiKey(request.api_key)](self.cluster.now, request)


class Cluster:
    """Voters 1..n and observers 101..; `blocked` holds pairs (from, to) whose messages are lost.

    With dynamic voters there may be `spares`: controllers n+1.. that are no voters to begin with.
    """

    def __init__(
        self,
        voters: int = 3,
        observers: int = 0,
        seed: object = 0,
        *,
        dynamic: bool = False,
        spares: int = 0,
        variant: Variant = KRAFT,
    ) -> None:
        self.seed = seed
        self.dynamic = dynamic
        self.variant = variant
        self.buggify: Buggify = OFF
        self.controllers = range(1, voters + spares + 1)
        self.now = 0
        self.rng = Random(f"{seed}/network")
        self.trace = Recorder()
        self.voters = tuple(Voter(number, f"host{number}", 9093) for number in range(1, voters + 1))
        self.members: dict[int, Member] = {}
        self.blocked: set[tuple[int, int]] = set()
        self.loss = 0.0
        self.delay = (500, 3_000)
        self.leaders: dict[int, int] = {}
        self.history: dict[int, tuple[int, tuple[bytes, ...]]] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        for number in [*self.controllers, *range(101, 101 + observers)]:
            self.members[number] = Member(self, number)

    def config(self, node_id: int) -> RaftConfig:
        directory = node_id.to_bytes(16, "big")
        if not self.dynamic:
            return RaftConfig(node_id, "cluster", directory, self.voters, variant=self.variant)
        address = (f"host{node_id}", 9093)
        is_voter = node_id in self.controllers
        return RaftConfig(
            node_id, "cluster", directory, self.voters, dynamic_voters=True, address=address, is_voter=is_voter,
            variant=self.variant,
        )  # fmt: skip

    def start(self) -> Cluster:
        for member in self.members.values():
            member.start()
        return self

    # -- time -------------------------------------------------------------------------------------------------

    def at(self, when: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (max(when, self.now), self._sequence, action))

    def wake(self, member: Member, when: int) -> None:
        """Come back to a member when it says so; only the last thing it said counts, or wakes would multiply."""
        mark = (member.incarnation, max(when, self.now))
        if when < 2**62 and member.next_wake != mark:
            member.next_wake = mark
            self.at(when, lambda: self._wake(member, mark))

    def _wake(self, member: Member, mark: tuple[int, int]) -> None:
        if member.next_wake == mark:
            member.next_wake = (0, 0)
            member.iterate()

    def run(self, duration_ms: int) -> None:
        end = self.now + duration_ms * MS
        while self._events and self._events[0][0] <= end:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = end

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 30_000) -> None:
        end = self.now + limit_ms * MS
        while not condition():
            if not self._events or self._events[0][0] > end:
                raise AssertionError(f"seed {self.seed}: not so after {limit_ms} ms: {self.describe()}")
            self.now, _, action = heapq.heappop(self._events)
            action()

    # -- network ----------------------------------------------------------------------------------------------

    def cut(self, one: int, other: int) -> None:
        self.blocked |= {(one, other), (other, one)}

    def isolate(self, node_id: int) -> None:
        for other in self.members:
            if other != node_id:
                self.cut(node_id, other)

    def heal(self) -> None:
        self.blocked.clear()
        self.loss = 0.0

    def _lost(self, source: int, target: int) -> bool:
        return (source, target) in self.blocked or self.rng.random() < self.loss

    def send(self, sender: Member, outbound: OutboundRequest) -> None:
        assert isinstance(outbound.destination, ToVoter)
        target = self.members[outbound.destination.id]
        api = APIS[outbound.message.API_KEY]
        version = VERSIONS[ApiKey(api.key)]
        body = encode_bytes(outbound.message, version)
        incarnation = sender.incarnation
        done = [False]

        def finish(response: Message | None) -> None:
            if not done[0] and sender.replica is not None and sender.incarnation == incarnation:
                done[0] = True
                sender.guard(lambda: outbound.complete(self.now, response))
                sender.iterate()

        def respond(request: ServerRequest) -> None:
            assert request.answer is not None and request.answer.response is not None
            content = encode_bytes(request.answer.response, version)
            target.held.append(lambda: travel_back(content))

        def travel_back(content: bytes) -> None:
            if not self._lost(target.id, sender.id):
                self.at(self.now + self._travel(), lambda: finish(decode(api.response, version, content)))

        def arrive() -> None:
            if target.replica is None:
                self.at(self.now + self._travel(), lambda: finish(None))
                return
            connection = sender.id * 10_000 + sender.incarnation * 100 + target.incarnation
            message = decode(api.request, version, body)
            request = ServerRequest(api.key, version, message, "test", "CONTROLLER", connection, self.now)
            request.on_answer = respond
            target.guard(lambda: target.deliver(request))
            target.iterate()

        self.at(self.now + outbound.timeout, lambda: finish(None))
        if not self._lost(sender.id, target.id):
            self.at(self.now + self._travel(), arrive)

    def _travel(self) -> int:
        return self.rng.randint(*self.delay)

    # -- checks -----------------------------------------------------------------------------------------------

    def check(self, member: Member) -> None:
        replica = member.up
        if replica.is_leader:
            known = self.leaders.setdefault(replica.epoch, member.id)
            assert known == member.id, f"seed {self.seed}: ELECT: {known} and {member.id} lead epoch {replica.epoch}"
        member.committed_seen = max(member.committed_seen, replica.log.start_offset)  # a snapshot has the rest
        for batch in replica.committed(member.committed_seen):
            content = (batch.epoch, batch.values)
            known_batch = self.history.setdefault(batch.base_offset, content)
            assert known_batch == content, f"seed {self.seed}: HWM: offset {batch.base_offset} on {member.id}"
            member.committed_seen = batch.next_offset
        assert member.committed_seen == replica.high_watermark, f"seed {self.seed}: HWM inside a batch"

    def check_log_matching(self) -> None:
        """LM: where two logs have the same offset and epoch, they are the same up to there."""
        logs = {member.id: self.content(member.id) for member in self.members.values() if member.replica is not None}
        for one in logs.values():
            for other in logs.values():
                common = [at for at in range(min(len(one), len(other))) if one[at][:2] == other[at][:2]]
                if common:
                    last = common[-1] + 1
                    assert one[:last] == other[:last], f"seed {self.seed}: LM"

    def content(self, node_id: int) -> list[tuple[int, int, tuple[bytes, ...]]]:
        """A node's log: (base offset, epoch, values) of each batch, committed or not."""
        log = self.members[node_id].up.log
        return [(batch.base_offset, batch.epoch, batch.values) for batch in log.batches(0, log.end_offset)]

    # -- convenience ------------------------------------------------------------------------------------------

    @property
    def leader(self) -> Member | None:
        """The leader of the highest epoch, if one is up."""
        leading = [one for one in self.members.values() if one.replica is not None and one.replica.is_leader]
        return max(leading, key=lambda one: one.up.epoch, default=None)

    def elect(self) -> Member:
        """Run until there is a leader whose epoch has begun to commit."""
        self.run_until(lambda: self.leader is not None and self.leader.up.high_watermark > self.epoch_start)
        assert self.leader is not None
        return self.leader

    @property
    def epoch_start(self) -> int:
        assert self.leader is not None
        return self.leader.up.epoch_start_offset

    def append(self, *values: bytes) -> int:
        """Append one batch at the leader; its last offset."""
        leader = self.leader
        assert leader is not None
        offset = leader.up.append(self.now, [list(values)])
        leader.iterate()
        return offset

    def describe(self) -> str:
        states: list[Any] = []
        for member in self.members.values():
            replica = member.replica
            states.append((member.id, None if replica is None else (replica.role.name, replica.epoch)))
        return str(states)


@pytest.fixture
def make_cluster() -> type[Cluster]:
    return Cluster

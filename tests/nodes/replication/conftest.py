"""A world of a few replicas of one topic-partition, without brokers: fetches are carried by hand."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.protocol.records import Record, build_batch, iterate_batches, parse_records
from squall.nodes.replication.ports import (
    AppendAnswer,
    Applied,
    FetchBounds,
    PartitionState,
    ProposalAnswer,
    ReplicationConfig,
)
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.nodes.storage.log import Log, LogConfig

SECOND = 1_000_000
LAG = 10 * SECOND
TOPIC_ID = bytes(range(16))


class Recorder:
    """A trace that keeps everything."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def event(self, name: str, **fields: object) -> None:
        self.events.append((name, fields))

    def of(self, name: str) -> list[dict[str, object]]:
        return [fields for kind, fields in self.events if kind == name]


class Clock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


class View:
    """Every broker is registered with epoch 100 + id and eligible, unless a test says otherwise."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.ineligible: list[int] = []

    def broker_epoch(self, broker: int) -> int | None:
        return self.epochs.get(broker, 100 + broker)

    def is_eligible(self, broker: int) -> bool:
        return broker not in self.ineligible


class World:
    """Replicas by broker id, the state the controller has decided, and the time."""

    def __init__(self, mutants: Mutants = HEALTHY) -> None:
        self.now = 1000 * SECOND
        self.mutants = mutants
        self.view = View()
        self.trace = Recorder()
        self.disks: dict[int, SimDisk] = {}
        self.replicas: dict[int, TopicPartitionReplica] = {}
        self.state = PartitionState(TOPIC_ID, "orders", 0, (1, 2, 3), (1, 2, 3), 1, 0, 0, 2)
        self.written = 0

    def replica(self, broker: int) -> TopicPartitionReplica:
        if broker not in self.replicas:
            disk = self.disks.setdefault(broker, SimDisk(Random(broker)))
            log = Log.open(disk, "orders-0", LogConfig(segment_bytes=2000), now_ms=0, trace=self.trace)
            self.replicas[broker] = TopicPartitionReplica(
                broker,
                self.state,
                log,
                ReplicationConfig(lag_time_max=LAG),
                self.view,
                clock=Clock(),
                trace=self.trace,
                mutants=self.mutants,
            )
        return self.replicas[broker]

    def decide(self, **changes: object) -> PartitionState:
        """The controller commits a change: partition epoch +1, leader epoch +1 if it sets the leader (rule 23)."""
        bump = {"leader_epoch": self.state.leader_epoch + 1} if "leader" in changes else {}
        self.state = replace(self.state, partition_epoch=self.state.partition_epoch + 1, **(bump | changes))  # type: ignore[arg-type]
        return self.state

    def lead(self, leader: int, *told: int, **changes: object) -> None:
        """A new leader; `told` brokers (all if none is named) hear of it."""
        self.decide(leader=leader, **changes)
        self.tell(*told)

    def tell(self, *brokers: int) -> Applied:
        applied = Applied()
        for broker in brokers or self.state.replicas:
            applied = self.replica(broker).apply(self.now, self.state)
        return applied

    def produce(self, broker: int, count: int = 1, acks: int = -1) -> AppendAnswer:
        records = [Record(value=b"%06d" % (self.written + at)) for at in range(count)]
        self.written += count
        return self.replica(broker).append(self.now, build_batch(records), acks)

    def ask(self, follower: int, leader: int, *, arrived: bool = True) -> FetchBounds:
        position = self.replica(follower).fetch_position()
        epoch = self.view.broker_epoch(follower)
        assert epoch is not None
        return self.replica(leader).follower_fetch(
            self.now,
            follower,
            epoch,
            position.offset,
            position.last_fetched_epoch,
            position.leader_epoch,
            arrived=arrived,
        )

    def fetch(self, follower: int, leader: int) -> FetchBounds:
        """One fetch and what the follower makes of the answer."""
        bounds = self.ask(follower, leader)
        replica = self.replica(follower)
        if bounds.error:
            return bounds
        if bounds.diverging is not None:
            replica.truncate_diverging(self.now, *bounds.diverging)
            return bounds
        records = self.replica(leader).read(bounds.offset, 1 << 20, bounds.upper, at_least_one=True)
        replica.append_fetched(self.now, records, bounds.high_watermark, bounds.log_start_offset)
        return bounds

    def catch_up(self, follower: int, leader: int) -> int:
        """Fetch until there is nothing more to get; how often the follower had to truncate."""
        truncations = 0
        for _ in range(50):
            position = self.replica(follower).fetch_position()
            bounds = self.fetch(follower, leader)
            assert bounds.error == 0, bounds
            truncations += bounds.diverging is not None
            if bounds.diverging is None and self.replica(follower).fetch_position() == position:
                return truncations
        raise AssertionError(f"replica {follower} never caught up with {leader}")

    def answer(self, leader: int, error: int = 0) -> ProposalAnswer:
        """The controller's answer to the proposal under way; success commits it."""
        proposal = self.replica(leader).proposal
        assert proposal is not None
        if error:
            answer = ProposalAnswer(error)
        else:
            state = self.decide(isr=proposal.members)
            answer = ProposalAnswer(0, state.leader, state.leader_epoch, state.partition_epoch, state.isr)
        self.replica(leader).proposal_answered(self.now, proposal, answer)
        return answer

    def content(self, broker: int) -> list[tuple[int, int, bytes | None]]:
        """(offset, epoch, value) of every record a replica holds."""
        log = self.replica(broker).log
        return [
            (record.offset, header.leader_epoch, record.value)
            for whole in log.batches(log.start_offset, log.end_offset)
            for header, batch in iterate_batches(whole)
            for record in parse_records(batch)
        ]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def world_with() -> type[World]:
    """For tests that need mutants or several worlds."""
    return World

"""Hand-made logs, replicas and nodes for the tests of the observer: as little as it looks at, all of it in the open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

from squall.harness.simulation.observer.invariants import Observer
from squall.harness.simulation.world.disk import SimDisk
from squall.harness.simulation.world.process import NEVER
from squall.nodes.broker.hosting.clean_shutdown import clean_marker
from squall.nodes.broker.hosting.log_manager import PARTITION_METADATA
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_record,
)
from squall.nodes.node.identity import write_identity
from squall.nodes.protocol.records import BatchHeader, Record, build_batch, iterate_batches, parse_records, patch
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import format_id
from squall.nodes.raft.config import Voter
from squall.nodes.raft.metadata_log import CommittedBatch
from squall.nodes.raft.snapshots import SnapshotId
from squall.nodes.raft.voters import VoterSet
from squall.nodes.storage.checkpoints import CLEAN_SHUTDOWN, HIGH_WATERMARKS, write_offsets
from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.producers import ProducerStates
from squall.workloads.clients.common.payload import encode_value
from squall.workloads.core.operation import OK, POLL, SEND, Completion, Event, Operation

TOPIC, TOPIC_ID = "events", bytes(range(16))
METADATA_DIRECTORY = "__cluster_metadata-0"


def batch(base: int, epoch: int, *values: int, timestamp: int = 1_000) -> bytes:
    """A batch of these values, stamped as a leader of this epoch does."""
    return sealed(base, epoch, *(encode_value(value, 16) for value in values), timestamp=timestamp)


def sealed(base: int, epoch: int, *contents: bytes, timestamp: int = 1_000) -> bytes:
    made = bytearray(build_batch([Record(value=content) for content in contents], timestamp=timestamp))
    patch(made, base, epoch)
    return bytes(made)


def producers_of(headers: Iterable[BatchHeader]) -> ProducerStates:
    """What a replica knows of producers after these batches."""
    states = ProducerStates(SimDisk(Random(0)), "events-0")
    for one in headers:
        if one.producer_id >= 0:
            states.update(
                one.producer_id,
                one.producer_epoch,
                one.base_sequence,
                one.base_offset,
                one.last_offset,
                one.max_timestamp,
            )
    return states


CLUSTER_ID = "hand-made"


class HandMadeEpochs:
    """The epochs of a hand-made log: those of its batches, and one that `claimed` says it has."""

    def __init__(self, log: HandMadeLog) -> None:
        self.log = log
        self.claimed: tuple[int, int] | None = None

    @property
    def entries(self) -> list[tuple[int, int]]:
        starts: dict[int, int] = {}
        for header in self.log.headers():
            starts.setdefault(header.leader_epoch, header.base_offset)
        return [*starts.items(), *([] if self.claimed is None else [self.claimed])]

    def epoch_of(self, offset: int) -> int | None:
        found = [epoch for epoch, start in self.entries if start <= offset]
        return found[-1] if found else None


class HandMadeLog:
    """The batches of one replica, readable as the observer reads."""

    def __init__(self, *batches: bytes) -> None:
        self.batches = list(batches)
        self.start_offset = 0
        self.epochs = HandMadeEpochs(self)
        self.config = LogConfig(retention_ms=-1)
        self.directory = f"{TOPIC}-0"
        self.durable_offset = 0
        self.active_base_offset = 0
        self.segment_count = 1
        self.known: ProducerStates | None = None
        """The producers that the replica knows, where these are not those of its batches."""

    @property
    def producers(self) -> ProducerStates:
        return producers_of(self.headers()) if self.known is None else self.known

    @property
    def end_offset(self) -> int:
        return self.headers()[-1].next_offset if self.batches else self.start_offset

    def headers(self) -> list[BatchHeader]:
        return [next(iterate_batches(one))[0] for one in self.batches]

    def within(self, offset: int, upper: int) -> bytes:
        """Whole batches from the one that holds `offset`, below `upper`."""
        pairs = zip(self.batches, self.headers(), strict=True)
        return b"".join(one for one, header in pairs if header.last_offset >= offset and header.last_offset < upper)

    def read(self, offset: int, max_bytes: int, *, upper: int, at_least_one: bool) -> memoryview:
        return memoryview(self.within(offset, upper))

    def max_timestamp(self) -> int:
        return max((header.max_timestamp for header in self.headers()), default=-1)

    def offset_for_timestamp(self, timestamp_ms: int, upper: int) -> tuple[int, int] | None:
        found = (one for one in self.headers() if one.max_timestamp >= timestamp_ms)
        return next(((one.max_timestamp, one.base_offset) for one in found), None)

    def cut(self, offset: int) -> None:
        pairs = zip(self.batches, self.headers(), strict=True)
        self.batches = [one for one, header in pairs if header.last_offset < offset]
        self.durable_offset = min(self.durable_offset, self.end_offset)


@dataclass
class HandMadeReplica:
    """What the observer looks at of a `TopicPartitionReplica`."""

    broker: int
    log: HandMadeLog
    is_leader: bool = False
    leader_epoch: int = 0
    partition_epoch: int = 0
    high_watermark: int = 0
    maximal_isr: tuple[int, ...] = (1, 2, 3)
    min_isr: int = 2
    is_changing_isr: bool = False
    state: Any = None
    """The decision that it works by, of which only the min ISR and the replicas are looked at."""
    topic: str = TOPIC
    topic_id: bytes = TOPIC_ID
    partition: int = 0
    fetched_by: dict[int, int] = field(default_factory=dict)
    """The followers that have fetched, with the broker epochs that they named."""
    known_ends: dict[int, int] = field(default_factory=dict)
    """The log ends of followers, as their last fetches say."""

    def follower_epochs(self) -> list[tuple[int, int]]:
        return list(self.fetched_by.items())

    def followers_caught_up(self) -> dict[int, int]:
        return dict.fromkeys(self.known_ends, -NEVER)

    def follower_ends(self) -> dict[int, int]:
        return self.known_ends

    @property
    def isr(self) -> tuple[int, ...]:
        return self.maximal_isr

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    def read(self, offset: int, max_bytes: int, upper: int, *, at_least_one: bool) -> memoryview:
        return memoryview(self.log.within(offset, upper))


@dataclass
class HandMadeRaft:
    """What the observer looks at of a `RaftReplica`."""

    content: HandMadeLog
    high_watermark: int = 0
    durable_offset: int = 0
    is_leader: bool = False
    pulls: bool = False
    role: object = None
    epoch: int = 1
    address: tuple[str, int] = ("10.0.0.1", 9093)
    """Where it listens, and where its log has each voter, by node id; without any its voters are not in the log."""
    listed: dict[int, tuple[str, int]] = field(default_factory=dict)
    requests: Sequence[object] = ()

    @property
    def config(self) -> Any:
        return SimpleNamespace(dynamic_voters=bool(self.listed), address=self.address, directory=METADATA_DIRECTORY)

    @property
    def voters(self) -> VoterSet:
        return VoterSet(tuple(Voter(node_id, host, port) for node_id, (host, port) in self.listed.items()))

    @property
    def end_offset(self) -> int:
        return self.content.end_offset

    @property
    def leader_and_epoch(self) -> tuple[int | None, int]:
        return None, self.epoch

    @property
    def snapshots(self) -> Any:
        """It has none."""
        return SimpleNamespace(latest=None)

    @property
    def log(self) -> Any:
        return SimpleNamespace(
            start_offset=self.content.start_offset,
            durable_offset=self.durable_offset,
            read=lambda offset, max_bytes: self.content.within(offset, self.content.end_offset),
            raw_batches=lambda offset, upper: [self.content.within(offset, upper)],
        )

    def committed(self, from_offset: int) -> Iterator[CommittedBatch]:
        for one, header in zip(self.content.batches, self.content.headers(), strict=True):
            if from_offset <= header.last_offset < self.high_watermark:
                values = tuple(bytes(record.value or b"") for record in parse_records(one))
                yield CommittedBatch(header.base_offset, header.leader_epoch, 0, values, False)


class HandMadeSessions:
    """What the observer looks at of a broker's fetch sessions."""

    def __init__(self, sessions: dict[int, Any], named: int | None = None) -> None:
        self._sessions = sessions
        self.find = sessions.get
        self.all = sessions.values
        self.watched = sum(len(one.watches) for one in sessions.values()) if named is None else named

    def __len__(self) -> int:
        return len(self._sessions)


@dataclass
class HandMadeProcess:
    """A host with a broker of one topic-partition, as the observer sees one between two turns."""

    name: str
    node_id: int
    replica: HandMadeReplica | None = None
    raft: HandMadeRaft = field(default_factory=lambda: HandMadeRaft(HandMadeLog()))
    image: MetadataImage = field(default_factory=MetadataImage)
    incarnation: int = 1
    event_number: int = 0
    now: int = 0
    clock: Any = None
    connecting: dict[int, int] = field(default_factory=dict)
    last_inputs: list[Any] = field(default_factory=list)
    disk: SimDisk = field(default_factory=lambda: SimDisk(Random(0)))
    crashes_in_calls: int = 0
    disk_failures: int = 0
    requests: list[Any] = field(default_factory=list)
    """The requests that its connections have not answered."""
    fetchers: dict[int, Any] = field(default_factory=dict)
    """Its fetchers, by leader."""
    last_effects: int = 0
    sessions: dict[int, Any] = field(default_factory=dict)
    """The fetch sessions that it keeps, by id."""
    session_slots: int = 10
    named_in_sessions: int | None = None
    """How many topic-partitions it counts in them, if it counts wrongly."""
    is_busy: bool = False
    """Whether it has not applied its image to all replicas yet."""
    up: bool = True
    how_it_ended: str = "died"
    applied_offset: int = -1
    """Up to where its broker says that it has applied the metadata."""
    told_to_stop_at: int | None = None
    is_active: bool = False
    """Whether it is the active controller as well, and decides by its image."""
    has_unfinished: bool = False
    """Whether a decision of it is not written whole yet."""
    with_session: set[int] | None = None
    """As the active controller, the brokers of which it keeps a session; None for those that are not fenced."""

    def __post_init__(self) -> None:
        self.hosted = SimpleNamespace(
            replica=self.replica,
            name=(TOPIC, 0),
            topic=TOPIC,
            topic_id=TOPIC_ID,
            partition=0,
            followers={},
            consumers={},
            removed=False,
        )
        self.held_connections: frozenset[int] = frozenset()
        self.connections = SimpleNamespace(
            unanswered=lambda: iter(self.requests),
            on_answer=None,
            paused=lambda: iter(()),
            find=lambda connection: None,
        )
        self.note_topic_id()
        owner: Any = SimpleNamespace(cluster_id=CLUSTER_ID, node_id=self.node_id)
        write_identity(owner, self.disk, self.directory_id)

    @property
    def directory_id(self) -> bytes:
        return bytes([self.node_id]).ljust(16, b"\1")

    def note_topic_id(self) -> None:
        """Write the topic's id into the directory of its log, as a broker does that begins a log."""
        if self.replica is not None:
            found = self.disk.open(f"{self.replica.log.directory}/{PARTITION_METADATA}", create=True)
            found.truncate(0)
            found.append(f"version=0\ntopic_id={format_id(self.replica.topic_id)}\n".encode())
            found.close()

    def leave_proof(self, epoch: int) -> None:
        """Write the broker epoch that a clean stop proves."""
        marker = self.disk.open(CLEAN_SHUTDOWN, create=True)
        marker.truncate(0)
        marker.append(clean_marker(epoch).encode())
        marker.close()

    def leave_high_watermark(self, offset: int) -> None:
        """Write the high watermark of its replica into the checkpoint file."""
        write_offsets(self.disk, HIGH_WATERMARKS, {(TOPIC, 0): offset})

    def leave_snapshot(self, offset: int) -> None:
        """Write a snapshot of the metadata that ends there, durably."""
        snapshot = self.disk.open(f"{METADATA_DIRECTORY}/{SnapshotId(offset, 1).name}", create=True)
        snapshot.append(b"records")
        snapshot.sync()
        snapshot.close()
        self.disk.sync_directory(METADATA_DIRECTORY)

    def controller(self) -> Any:
        unfenced = {one.id for one in self.image.brokers.values() if not one.fenced}
        return SimpleNamespace(
            image=self.image,
            committed=self.image,
            has_unfinished=self.has_unfinished,
            sessions=SimpleNamespace(brokers=unfenced if self.with_session is None else self.with_session),
            config=SimpleNamespace(idle_interval=0),
            reported_offsets={},
        )

    @property
    def node(self) -> Any:
        if not self.up:
            return None
        hosted = None if self.replica is None else self.hosted
        replicas = SimpleNamespace(
            by_name=lambda topic, partition: hosted,
            by_id=lambda topic_id, partition: hosted if topic_id == TOPIC_ID else None,
            all=lambda: [] if hosted is None else [hosted],
            fetcher_of=self.fetchers.get,
            is_busy=self.is_busy,
            next_look=NEVER,
        )
        registration = self.image.brokers.get(self.node_id)
        epoch = -1 if registration is None else registration.epoch
        broker = SimpleNamespace(
            config=SimpleNamespace(directory_id=self.directory_id),
            image=self.image,
            replicas=replicas,
            lifecycle=SimpleNamespace(
                epoch=epoch if self.incarnation == 1 else -1,
                incarnation_id=incarnation_id(self.node_id, self.incarnation),
                is_fenced=False,
            ),
            applied_offset=self.applied_offset,
            parked=[],
            fetching=SimpleNamespace(sessions=HandMadeSessions(self.sessions, self.named_in_sessions)),
            is_serving=True,
            has_requests=False,
        )
        return SimpleNamespace(
            deadline=lambda: NEVER,
            config=SimpleNamespace(
                cluster_id=CLUSTER_ID,
                node_id=self.node_id,
                replica_lag_time_max_ms=1_000,
                replica_fetch_wait_max_ms=500,
                log_retention_bytes=-1,
                log_retention_ms=-1,
                broker_session_timeout_ms=2_000,
                log_segment_bytes=1 << 30,
                log_retention_check_interval_ms=1_000,
                max_incremental_fetch_session_cache_slots=self.session_slots,
                turn_requests_max=16,
                metadata_log_max_record_bytes_between_snapshots=1 << 30,
                metadata_log_max_snapshot_interval_ms=0,
            ),
            raft=self.raft,
            snapshot_generator=SimpleNamespace(made_at=0),
            is_active_controller=self.raft.is_leader and self.raft.high_watermark > 0,
            connections=self.connections,
            data=SimpleNamespace(served=0),
            control=SimpleNamespace(served=0),
            controller=self.controller() if self.is_active else None,
            broker=broker,
            links=SimpleNamespace(
                described=lambda connection: "the fetch link to broker 2", first_timeout=lambda: NEVER
            ),
        )


def incarnation_id(node_id: int, incarnation: int) -> bytes:
    """The id with which an incarnation of a broker registers."""
    return bytes([node_id, incarnation]).ljust(16, b"\0")


class Cluster:
    """Three brokers b1, b2, b3 with one topic-partition, b1 leading; every change is shown to the observer at once.

    A batch of its metadata says only what a test needs, so the laws over whole batches do not hold here.
    """

    def __init__(self, **settings: str) -> None:
        self.observer = Observer()
        self.observer.cluster.metadata.batch_laws = None
        self.processes = {
            f"b{node_id}": HandMadeProcess(f"b{node_id}", node_id, HandMadeReplica(node_id, HandMadeLog()))
            for node_id in (1, 2, 3)
        }
        self.observer.watch(self.processes, {node_id: f"b{node_id}" for node_id in (1, 2, 3)})  # type: ignore[arg-type]
        records: list[Message] = [
            RegisterBrokerRecord(
                broker_id=node_id,
                broker_epoch=node_id - 1,
                incarnation_id=incarnation_id(node_id, 1),
                fenced=False,
            )
            for node_id in (1, 2, 3)
        ]
        records += [TopicRecord(name=TOPIC, topic_id=TOPIC_ID)]
        records += [
            ConfigRecord(resource_type=2, resource_name=TOPIC, name=name.replace("_", "."), value=value)
            for name, value in ({"min_insync_replicas": "2"} | settings).items()
        ]
        records += [
            PartitionRecord(
                partition_id=0, topic_id=TOPIC_ID, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1, leader_epoch=0,
                partition_epoch=0,
            )
        ]  # fmt: skip
        self.decide(*records)
        self.replica("b1").is_leader = True
        self.show("b1")

    def replica(self, name: str) -> HandMadeReplica:
        found = self.processes[name].replica
        assert found is not None
        return found

    def decide(self, *records: Message, tell: tuple[str, ...] = ("b1", "b2", "b3")) -> None:
        """The controllers commit these records in one batch; the brokers told replay it."""
        for name in tell:
            process = self.processes[name]
            base = process.raft.end_offset
            process.raft.content.batches.append(sealed(base, 1, *(encode_record(record) for record in records)))
            process.raft.high_watermark = process.raft.end_offset
            for offset, record in enumerate(records, base):
                process.image.replay(record, offset, 1)
            self.observer.event("high_watermark", node=process.node_id, offset=process.raft.end_offset)
            self.observer.look(process)  # type: ignore[arg-type]

    def change(self, tell: tuple[str, ...] = ("b1", "b2", "b3"), **fields: Any) -> None:
        """One change record of the topic-partition."""
        for name in tell if "isr" in fields else ():
            self.replica(name).maximal_isr = tuple(fields["isr"])
        self.decide(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **fields), tell=tell)

    def append(self, epoch: int, value: int, *names: str) -> None:
        """These replicas append a batch of one value, in this order."""
        self.sent(value)
        for name in names:
            log = self.replica(name).log
            log.batches.append(batch(log.end_offset, epoch, value))
            self.show(name, "append")

    def commit(self, *names: str) -> None:
        """The high watermarks of these replicas reach their log ends."""
        for name in names:
            replica = self.replica(name)
            replica.high_watermark = replica.end_offset
            self.show(name, "high_watermark")

    def truncate(self, name: str, offset: int) -> None:
        replica = self.replica(name)
        end = replica.end_offset
        replica.log.cut(offset)
        replica.high_watermark = min(replica.high_watermark, offset)
        self.show(name, "truncate", to=offset, end=end)

    def delete_before(self, offset: int) -> None:
        """The leader b1 is asked to delete what lies below `offset`, and does so within its turn."""
        self.observer.event("deletion_asked", broker=1, topic=TOPIC, partition=0, offset=offset)
        self.raise_start("b1", offset)

    def raise_start(self, name: str, offset: int) -> None:
        """A replica's log begins at `offset`, where a batch begins."""
        log = self.replica(name).log
        log.batches = [
            one for one, header in zip(log.batches, log.headers(), strict=True) if header.last_offset >= offset
        ]
        log.start_offset = offset
        self.show(name, "log_start", offset=offset)

    def show(self, name: str, event: str = "high_watermark", **fields: object) -> None:
        """The observer hears what a node traced, and looks."""
        process = self.processes[name]
        process.event_number += 1
        if event in ("leader", "follower"):
            replica = self.replica(name)
            fields = {"epoch": replica.leader_epoch, "end": replica.end_offset, "topic_id": replica.topic_id, **fields}
        elif event == "isr_proposed":  # for an earlier partition epoch, so that it is over
            replica = self.replica(name)
            fields = {
                "leader_epoch": replica.leader_epoch, "partition_epoch": -1, "topic_id": replica.topic_id, **fields
            }  # fmt: skip
        self.observer.event(event, broker=process.node_id, topic=TOPIC, partition=0, **fields)
        self.observer.look(process)  # type: ignore[arg-type]

    # -- clients --------------------------------------------------------------------------------------------------

    def sent(self, value: int) -> None:
        if value not in self.observer.cluster.client_checker._sent:
            self.observer.client_event(Event(send(value), 0))

    def told(self, value: int, completion: Completion) -> None:
        self.observer.client_event(Event(send(value), 0, completion, 1))

    def acknowledge(self, value: int, offset: int) -> None:
        self.told(value, Completion(OK, offset=offset))

    def poll(self, position: int, *delivered: tuple[int, int]) -> None:
        operation = Operation(POLL, 9, 9, 4, 0, TOPIC, 0)
        offsets, values = tuple(one for one, _ in delivered), tuple(value for _, value in delivered)
        completion = Completion(OK, offsets=offsets, values=values, position=position)
        self.observer.client_event(Event(operation, 0, completion, 1))


def send(value: int) -> Operation:
    return Operation(SEND, 0, 0, 0, 0, TOPIC, 0, value)

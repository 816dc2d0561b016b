"""What only an omniscient observer can check, checked as the run goes (docs/requirements.md, "Invariants").

The observer looks at a node between two of its turns, before anything the turn said is released. It keeps one
*canonical* committed log per log of the cluster: what any leader's high watermark has ever covered. From then on

* LM, HWM, UNIQ   whoever's high watermark covers an offset has the canonical batch there; it is never replaced;
* ACK             what a client was told is acknowledged (acks=all) is covered by the canonical log;
* ELECT           one leader per (log, epoch), quorum and data alike, and a new leader has all that is committed;
* ISR             every running member of the leader's ISR has all records below the leader's high watermark, and
                  every running member of the newest committed ISR has all that is committed, since it may lead next;
* EPOCH           leader and partition epochs never go back, and a partition epoch names one state;
* IMAGE           images at the same offset are the same.

A breach raises `InvariantBroken`, which ends the run at the event that broke it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from squall.harness.simulation.process import SimProcess
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration
from squall.nodes.node.node import Node
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.replication.replica import TopicPartitionReplica

READ_BYTES = 1 << 20
METADATA_LOG = "__cluster_metadata-0"


class InvariantBroken(Exception):
    """An invariant of docs/requirements.md does not hold. `name` is its name there."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


@dataclass(slots=True)
class _Canonical:
    """One log's committed content: batches by base offset as (last offset, leader epoch, checksum)."""

    batches: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    end: int = 0


@dataclass
class Sightings:
    """What happened in a run, counted."""

    quorum_leaders: int = 0
    partition_leaders: int = 0
    isr_changes: int = 0
    committed_batches: int = 0
    acknowledged: int = 0


class Observer:
    """Watches all processes of one simulated cluster."""

    def __init__(self) -> None:
        self.sightings = Sightings()
        self._names: dict[int, str] = {}
        self._processes: dict[str, SimProcess] = {}
        self._newest: dict[str, int] = {}
        self._canonical: dict[str, _Canonical] = {}
        self._seen_to: dict[tuple[str, int, str], int] = {}
        self._leaders: dict[tuple[str, int], str] = {}
        self._images: dict[int, str] = {}
        self._image_seen: dict[tuple[str, int], int] = {}
        self._isr: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._states: dict[tuple[bytes, int, int], PartitionRegistration] = {}
        self._epochs: dict[tuple[str, int, bytes, int], tuple[int, int]] = {}

    def watch(self, processes: Mapping[str, SimProcess], names: Mapping[int, str]) -> None:
        """Learn of the processes by name, and of the names by node id."""
        self._processes = dict(processes)
        self._names = dict(names)

    def look(self, process: SimProcess) -> None:
        """Check everything that this process's last turn may have broken."""
        node = process.node
        if node is None:
            return
        self._look_at_quorum(process, node)
        if node.controller is not None:
            self._look_at_image(process, node.controller.committed)
        if node.broker is not None:
            self._look_at_image(process, node.broker.image)
            for hosted in node.broker.replicas.all():
                self._look_at_replica(process, node.config.node_id, hosted.replica)

    def acknowledged(self, topic: str, partition: int, offset: int) -> None:
        """A client was told that its record stands at this offset (acks=all)."""
        self.sightings.acknowledged += 1
        end = self._log(f"{topic}-{partition}").end
        if offset >= end:
            raise InvariantBroken("ACK", f"{topic}-{partition}: offset {offset} acknowledged, committed end is {end}")

    # -- the quorum -------------------------------------------------------------------------------------------

    def _look_at_quorum(self, process: SimProcess, node: Node) -> None:
        raft = node.raft
        if raft.is_leader:
            epoch = raft.leader_and_epoch[1]
            if self._one_leader(METADATA_LOG, epoch, process.name):
                self.sightings.quorum_leaders += 1
        batches = _metadata_batches(node, self._from(process, METADATA_LOG), raft.high_watermark)
        self._compare(process, METADATA_LOG, raft.high_watermark, batches)

    # -- topic-partitions -------------------------------------------------------------------------------------

    def _look_at_replica(self, process: SimProcess, node_id: int, replica: TopicPartitionReplica) -> None:
        name = f"{replica.topic}-{replica.partition}"
        if replica.is_leader:
            self._learn_isr(name, replica.partition_epoch, replica.isr)
            if self._one_leader(name, replica.leader_epoch, process.name):
                self.sightings.partition_leaders += 1
                self._has_all_committed(process, name, replica)
            self._check_isr(process, name, replica)
        start, end = self._from(process, name), replica.high_watermark
        if end > start:
            self._compare(process, name, end, _replica_batches(replica, start, end))
        self._may_lead_next(process, node_id, name, replica)

    def _learn_isr(self, name: str, partition_epoch: int, isr: tuple[int, ...]) -> None:
        if partition_epoch > self._isr.get(name, (-1, ()))[0]:
            self._isr[name] = (partition_epoch, isr)

    def _may_lead_next(self, process: SimProcess, node_id: int, name: str, replica: TopicPartitionReplica) -> None:
        """Whoever is in the committed ISR can be elected, so it must have every committed record."""
        committed = self._log(name).end
        if replica.end_offset < committed and node_id in self._isr.get(name, (-1, ()))[1]:
            raise InvariantBroken(
                "ISR",
                f"{name}: {process.name} is in the committed ISR and ends at {replica.end_offset}, "
                f"records up to {committed} are committed",
            )

    def _has_all_committed(self, process: SimProcess, name: str, replica: TopicPartitionReplica) -> None:
        committed = self._log(name).end
        if replica.end_offset < committed:
            raise InvariantBroken(
                "ELECT",
                f"{name}: {process.name} leads epoch {replica.leader_epoch} with log end {replica.end_offset}, "
                f"but records up to {committed} are committed",
            )

    def _check_isr(self, process: SimProcess, name: str, replica: TopicPartitionReplica) -> None:
        if self._newest.get(name, -1) != replica.leader_epoch:
            return
        for member in replica.maximal_isr:
            other = self._processes.get(self._names[member])
            if other is None or other.node is None or other.node.broker is None or other is process:
                continue
            hosted = other.node.broker.replicas.by_id(replica.topic_id, replica.partition)
            theirs = None if hosted is None else hosted.replica
            if theirs is not None and theirs.end_offset < replica.high_watermark:
                raise InvariantBroken(
                    "ISR",
                    f"{name}: leader {process.name} has high watermark {replica.high_watermark}, "
                    f"ISR member {other.name} ends at {theirs.end_offset}",
                )

    # -- what both kinds of log share -------------------------------------------------------------------------

    def _one_leader(self, log: str, epoch: int, name: str) -> bool:
        """Whether this leadership is news. Two leaders of one epoch break ELECT."""
        known = self._leaders.setdefault((log, epoch), name)
        if known != name:
            raise InvariantBroken("ELECT", f"{log}: both {known} and {name} lead epoch {epoch}")
        fresh = epoch > self._newest.get(log, -1)
        if fresh:
            self._newest[log] = epoch
        return fresh

    def _log(self, name: str) -> _Canonical:
        return self._canonical.setdefault(name, _Canonical())

    def _from(self, process: SimProcess, log: str) -> int:
        return self._seen_to.get((process.name, process.incarnation, log), 0)

    def _compare(self, process: SimProcess, log: str, end: int, batches: Iterable[tuple[int, int, int, int]]) -> None:
        """Batches newly covered by a high watermark are canonical, or must equal what is."""
        canonical = self._log(log)
        for base, last, epoch, checksum in batches:
            found = canonical.batches.get(base)
            if found is None and base >= canonical.end:
                canonical.batches[base] = (last, epoch, checksum)
                canonical.end = last + 1
                self.sightings.committed_batches += 1
            elif found != (last, epoch, checksum):
                raise InvariantBroken(
                    "LM",
                    f"{log}: {process.name} has committed batch {base}–{last} of epoch {epoch}, sum {checksum}; "
                    f"committed there was {found}",
                )
        self._seen_to[(process.name, process.incarnation, log)] = end

    # -- metadata ---------------------------------------------------------------------------------------------

    def _look_at_image(self, process: SimProcess, image: MetadataImage) -> None:
        place = (process.name, process.incarnation)
        if self._image_seen.get(place) == image.last_offset:
            return
        self._image_seen[place] = image.last_offset
        fingerprint = image.fingerprint()
        known = self._images.setdefault(image.last_offset, fingerprint)
        if known != fingerprint:
            raise InvariantBroken("IMAGE", f"{process.name} has another image at offset {image.last_offset}")
        for topic, number, registration in image.all_partitions():
            self._check_epochs(place, f"{topic.name}-{number}", topic.id, number, registration)

    def _check_epochs(
        self, place: tuple[str, int], name: str, topic_id: bytes, number: int, registration: PartitionRegistration
    ) -> None:
        epochs = (registration.partition_epoch, registration.leader_epoch)
        before = self._epochs.get((*place, topic_id, number), (-1, -1))
        if epochs[0] < before[0] or epochs[1] < before[1]:
            raise InvariantBroken("EPOCH", f"{name}: epochs went from {before} to {epochs} at {place[0]}")
        self._epochs[(*place, topic_id, number)] = epochs
        self._learn_isr(name, registration.partition_epoch, registration.isr)
        key = (topic_id, number, epochs[0])
        if key not in self._states:
            self._states[key] = registration
            self.sightings.isr_changes += 1
        elif self._states[key] != registration:
            raise InvariantBroken("EPOCH", f"{name}: partition epoch {epochs[0]} names two states")


def _metadata_batches(node: Node, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    position = start
    while position < end:
        buffer = node.raft.log.read(position, READ_BYTES)
        yielded = False
        for header, _ in iterate_batches(buffer):
            if header.last_offset >= end:
                return
            yield header.base_offset, header.last_offset, header.leader_epoch, header.crc
            position, yielded = header.last_offset + 1, True
        if not yielded:
            return


def _replica_batches(replica: TopicPartitionReplica, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    position = start
    while position < end:
        buffer = replica.read(position, READ_BYTES, end, at_least_one=True)
        yielded = False
        for header, _ in iterate_batches(buffer):
            yield header.base_offset, header.last_offset, header.leader_epoch, header.crc
            position, yielded = header.last_offset + 1, True
        if not yielded:
            return

"""Replay the committed metadata log in the observer, and check its records and the nodes' snapshots.

Nodes may agree with one another and all be wrong. So the observer keeps a separate image, replayed batch for batch from
what the quorum commits, and holds every record to `metadata_laws.py` at its place in the log, and every batch to
`batch_laws.py`. Beside those:

* FD-05  in a run that must be calm no broker is fenced

A snapshot is read back from the disk as soon as it is in place: it must hold exactly what replaying the log up to its
end gives (SN-01 to SN-03).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from squall.harness.simulation.observer.state.batch_laws import BatchLaws
from squall.harness.simulation.observer.state.metadata_laws import MetadataLaws, fenced_by
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration
from squall.nodes.metadata.records import (
    RECOVERING,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    decode_record,
)
from squall.nodes.metadata.snapshot import SnapshotLoader
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.metadata_log import CommittedBatch
from squall.nodes.raft.snapshots import SnapshotId, Snapshots
from squall.nodes.raft.voters import KRAFT_VOTERS, VoterSet, read_voters_record
from squall.results.checkers.replicas.metadata_laws import leaves_for_good


@dataclass(frozen=True, slots=True)
class Reregistered:
    """A broker that a committed batch registers under another incarnation id than before.

    `epoch` is the offset of the registration. `eligible_before` are the topic-partitions, by topic id and number, in
    whose ISR or ELR it was before the batch.
    """

    id: int
    epoch: int
    incarnation: bytes
    epoch_before: int
    incarnation_before: bytes
    eligible_before: frozenset[tuple[bytes, int]]


class ReplayedMetadata:
    """Replays committed metadata and checks it; see the module.

    `must_be_calm` is set while no broker may be fenced. `on_partition` is called with every topic-partition that
    appears or changes: its topic's name, its number, and its new state. `on_unclean` is called with every unclean
    election: the topic's name, its id and the number of the partition, and the leader epoch that it begins.
    `on_reregistered` is called with each broker's new incarnation, after the batch that registers it. `image` is the
    result of the committed records; `voters` are those of the last committed record about them, None before any.
    Histories written by hand, which say only what they need, have no `batch_laws`.
    """

    def __init__(self) -> None:
        self.must_be_calm = False
        self.on_partition: Callable[[str, int, PartitionRegistration], None] = lambda topic, number, stands: None
        self.on_unclean: Callable[[str, tuple[bytes, int], int], None] = lambda topic, place, leader_epoch: None
        self.on_reregistered: Callable[[Reregistered, MetadataImage], None] = lambda broker, image: None
        self.snapshots_checked = 0
        self.reassignments_completed = 0
        self.records: Counter[int] = Counter()
        """Committed records, those of the quorum itself included, by the quorum's epoch."""
        self.unclean_elections: Counter[int] = Counter()
        self.eligible_elections: Counter[int] = Counter()
        """Elections of replicas that were not in the ISR, by the quorum's epoch."""
        self.image = MetadataImage()
        self._laws = MetadataLaws(self.image)
        self.batch_laws: BatchLaws | None = BatchLaws(self.image)
        self.voters: VoterSet | None = None
        self._fingerprints: dict[int, str] = {}
        self._voters: dict[int, VoterSet | None] = {}
        self._waiting: list[tuple[str, Snapshots, SnapshotId]] = []

    def follow(self, batch: CommittedBatch) -> None:
        """Replay one committed batch; batches arrive in order. Raises InvariantBroken."""
        image = self.image
        self.records[batch.epoch] += batch.next_offset - batch.base_offset
        reregistered: list[Reregistered] = []
        if not batch.is_control:
            records = [decode_record(value) for value in batch.values]
            reregistered = [one for one in map(self._reregistration, records) if one is not None]
            for offset, record in enumerate(records, start=batch.base_offset):
                before = self._registration(record)
                self._laws.before(record, offset)
                if self.batch_laws is not None:
                    self.batch_laws.before(record, before)
                image.replay(record, offset, batch.epoch)
                if self.must_be_calm and fenced_by(record) is not None:
                    raise InvariantBroken("FD-05", f"offset {offset}: {record} although only clocks have changed")
                if isinstance(record, PartitionRecord | PartitionChangeRecord):
                    self._laws.after(record, before, offset)
                    self._tell(record, before, batch.epoch)
        image.passed(batch.next_offset - 1, batch.epoch)
        self._laws.batch_ended()
        if self.batch_laws is not None:
            self.batch_laws.ended(batch.next_offset - 1)
        for broker in reregistered:
            self.on_reregistered(broker, image)
        self._fingerprints[batch.next_offset] = image.fingerprint()
        self._voters[batch.next_offset] = self.voters
        waiting, self._waiting = self._waiting, []
        for name, snapshots, snapshot_id in waiting:
            self.written(name, snapshots, snapshot_id)

    def written(self, name: str, snapshots: Snapshots, snapshot_id: SnapshotId) -> None:
        """Check a new snapshot of a node. Raises InvariantBroken if it differs from what the log gives."""
        if snapshot_id.end_offset > self.image.last_offset + 1:
            self._waiting.append((name, snapshots, snapshot_id))
            return
        expected = self._fingerprints.get(snapshot_id.end_offset)
        if expected is None or snapshot_id not in snapshots.ids:
            return
        loader = SnapshotLoader(snapshots, snapshot_id)
        while not loader.advance():
            pass
        self.snapshots_checked += 1
        if loader.image.fingerprint() != expected:
            raise InvariantBroken(
                "SN-03",
                f"{name}: the snapshot of all below offset {snapshot_id.end_offset}, epoch {snapshot_id.epoch}, holds "
                "something else than the log below its end replayed",
            )
        self._check_voters(name, snapshots, snapshot_id)
        epoch = next(snapshots.batches(snapshot_id)).header.leader_epoch  # reading refuses a snapshot of several
        if epoch != snapshot_id.epoch:
            raise InvariantBroken(
                "SN-03",
                f"{name}: the snapshot of all below offset {snapshot_id.end_offset}, epoch {snapshot_id.epoch}, has "
                f"batches of epoch {epoch}",
            )

    def _check_voters(self, name: str, snapshots: Snapshots, snapshot_id: SnapshotId) -> None:
        """Check the voters in a snapshot. Before the first record about them they are those of the configuration."""
        expected = self._voters[snapshot_id.end_offset]
        records = snapshots.control_records(snapshot_id)
        found = [read_voters_record(one.value) for one in records if one.kind == KRAFT_VOTERS]
        if expected is not None and found != [expected]:
            raise InvariantBroken(
                "SN-03",
                f"{name}: the snapshot of all below offset {snapshot_id.end_offset}, epoch {snapshot_id.epoch}, holds "
                f"the voters {[list(one.ids) for one in found]}, the log below its end has {list(expected.ids)}",
            )

    def _tell(
        self, record: PartitionRecord | PartitionChangeRecord, before: PartitionRegistration | None, epoch: int
    ) -> None:
        topic = self.image.topics.get(record.topic_id)
        now = None if topic is None else topic.partitions.get(record.partition_id)
        if topic is None or now is None:
            return
        if before is not None:
            self.reassignments_completed += bool(leaves_for_good(before, now))
            self.eligible_elections[epoch] += now.leader != before.leader and now.leader in before.elr
            if is_unclean_election(before, now):
                self.unclean_elections[epoch] += 1
                self.on_unclean(topic.name, (topic.id, record.partition_id), now.leader_epoch)
        self.on_partition(topic.name, record.partition_id, now)

    def _reregistration(self, record: Message) -> Reregistered | None:
        """Return what a registration changes; None for a broker's first one, or another of the same incarnation."""
        if not isinstance(record, RegisterBrokerRecord):
            return None
        before = self.image.brokers.get(record.broker_id)
        if before is None or before.incarnation_id == record.incarnation_id:
            return None
        eligible = frozenset(
            (topic.id, number)
            for topic in self.image.topics.values()
            for number in topic.of_broker(record.broker_id)
            if record.broker_id in (*topic.partitions[number].isr, *topic.partitions[number].elr)
        )
        return Reregistered(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            before.epoch,
            before.incarnation_id,
            eligible,
        )

    def _registration(self, record: Message) -> PartitionRegistration | None:
        if not isinstance(record, PartitionChangeRecord):
            return None
        topic = self.image.topics.get(record.topic_id)
        return None if topic is None else topic.partitions.get(record.partition_id)


def is_unclean_election(before: PartitionRegistration, now: PartitionRegistration) -> bool:
    """Return whether the new leader was neither in the ISR nor an eligible leader replica (EL-04)."""
    if now.leader < 0 or now.leader_epoch == before.leader_epoch or now.recovery_state != RECOVERING:
        return False
    return now.leader not in before.isr and now.leader not in before.elr

"""Replay the committed metadata log in the observer, and check its records and the nodes' snapshots.

Nodes may agree with one another and all be wrong. So the observer keeps a separate image, replayed batch for batch from
what the quorum commits, and checks every record against the controller's rules at its place in the log:

* RA-05  replicas leave a topic-partition only when all that stay are in the ISR, or when a reassignment is cancelled,
         and then only those that it had added
* CS-02  a broker that joins an ISR, or becomes leader, is unfenced and not about to stop (KIP-841, IS-08). Switching
         eligible leader replicas off is exempt: an empty ISR gets back the replicas that it would have kept without
         them, and these are offline (EL-06)
* FD-05  in a run that must be calm no broker is fenced

`metadata_laws.py` has what must hold of every record.

A snapshot is read back from the disk as soon as it is in place: it must hold exactly what replaying the log up to its
end gives (SN-01 to SN-03).
"""

from __future__ import annotations

from collections.abc import Callable

from squall.harness.simulation.observer.state.metadata_laws import Laws
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration
from squall.nodes.metadata.records import (
    RECOVERING,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    decode_record,
)
from squall.nodes.metadata.snapshot import SnapshotLoader
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.metadata_log import CommittedBatch
from squall.nodes.raft.snapshots import SnapshotId, Snapshots
from squall.nodes.raft.voters import KRAFT_VOTERS, VoterSet, read_voters_record


class ReplayedMetadata:
    """Replays committed metadata and checks it; see the module.

    `must_be_calm` is set while no broker may be fenced. `on_partition` is called with every topic-partition that
    appears or changes: its topic's name, its number, and its new state. `on_unclean` is called with every unclean
    election: the topic's name, its id and the number of the partition, and the leader epoch that it begins. `image` is
    the result of the committed records; `voters` are those of the last committed record about them, None before any.
    """

    def __init__(self) -> None:
        self.must_be_calm = False
        self.on_partition: Callable[[str, int, PartitionRegistration], None] = lambda topic, number, stands: None
        self.on_unclean: Callable[[str, tuple[bytes, int], int], None] = lambda topic, place, leader_epoch: None
        self.snapshots_checked = 0
        self.reassignments_completed = 0
        self.image = MetadataImage()
        self._laws = Laws(self.image)
        self.voters: VoterSet | None = None
        self._fingerprints: dict[int, str] = {}
        self._voters: dict[int, VoterSet | None] = {}
        self._waiting: list[tuple[str, Snapshots, SnapshotId]] = []

    def follow(self, batch: CommittedBatch) -> None:
        """Replay one committed batch; batches arrive in order. Raises InvariantBroken."""
        image = self.image
        if not batch.is_control:
            for offset, value in enumerate(batch.values, start=batch.base_offset):
                record = decode_record(value)
                before = self._registration(record)
                self._laws.before(record, offset)
                image.replay(record, offset, batch.epoch)
                if isinstance(record, PartitionChangeRecord) and before is not None:
                    self._check_change(record, before, offset)
                elif self.must_be_calm and _fences(record):
                    raise InvariantBroken("FD-05", f"offset {offset}: {record} although only clocks have changed")
                if isinstance(record, PartitionRecord | PartitionChangeRecord):
                    self._laws.after(record, before, offset)
                    self._tell(record)
        image.passed(batch.next_offset - 1, batch.epoch)
        self._laws.batch_ended()
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

    def _tell(self, record: PartitionRecord | PartitionChangeRecord) -> None:
        topic = self.image.topics.get(record.topic_id)
        stands = None if topic is None else topic.partitions.get(record.partition_id)
        if topic is not None and stands is not None:
            self.on_partition(topic.name, record.partition_id, stands)

    @property
    def _eligible_leaders(self) -> bool:
        return self.image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0

    def _registration(self, record: Message) -> PartitionRegistration | None:
        if not isinstance(record, PartitionChangeRecord):
            return None
        topic = self.image.topics.get(record.topic_id)
        return None if topic is None else topic.partitions.get(record.partition_id)

    def _check_change(self, record: PartitionChangeRecord, before: PartitionRegistration, offset: int) -> None:
        topic = self.image.topics[record.topic_id]
        now = topic.partitions[record.partition_id]
        where = f"{topic.name}-{record.partition_id} at offset {offset}"
        self._check_leaving(where, before, now)
        self._check_coming(where, before, now)
        if is_unclean_election(before, now):
            self.on_unclean(topic.name, (topic.id, record.partition_id), now.leader_epoch)

    def _check_leaving(self, where: str, before: PartitionRegistration, now: PartitionRegistration) -> None:
        leaving = [one for one in before.replicas if one not in now.replicas]
        if not leaving or all(one in before.adding for one in leaving):
            return
        self.reassignments_completed += 1
        behind = [one for one in now.replicas if one not in now.isr]
        if behind:
            raise InvariantBroken(
                "RA-05",
                f"{where}: replicas {leaving} leave, but {behind} of {list(now.replicas)} are not in the ISR "
                f"{list(now.isr)}",
            )

    def _check_coming(self, where: str, before: PartitionRegistration, now: PartitionRegistration) -> None:
        kept = () if before.isr or self._eligible_leaders else before.elr or before.last_known_elr[:1]
        coming = [one for one in now.isr if one not in before.isr and one not in kept]
        if now.leader >= 0 and now.leader != before.leader and now.leader not in coming:
            coming.append(now.leader)
        for one in coming:
            broker = self.image.brokers.get(one)
            if broker is None or not broker.active:
                raise InvariantBroken(
                    "CS-02", f"{where}: broker {one} leads or joins the ISR, but is {broker or 'not registered'}"
                )


def is_unclean_election(before: PartitionRegistration, now: PartitionRegistration) -> bool:
    """Return whether the new leader was neither in the ISR nor an eligible leader replica (EL-04)."""
    if now.leader < 0 or now.leader_epoch == before.leader_epoch or now.recovery_state != RECOVERING:
        return False
    return now.leader not in before.isr and now.leader not in before.elr


def _fences(record: Message) -> bool:
    if isinstance(record, BrokerRegistrationChangeRecord):
        return record.fenced > 0
    return isinstance(record, FenceBrokerRecord)

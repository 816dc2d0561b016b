"""The log of `__cluster_metadata` with the rules of a quorum.

Adds to `storage.Log`: record batches built from values, the order of log ends (X05), the response to a fetcher whose
log is not a prefix of this one (QC-15, rule 13), truncation that never goes below the high watermark (rule 36), and the
reading of committed batches.

Snapshots replace a prefix (SN-03, rule 39). The log begins at 0 or at the end of the oldest kept snapshot: `retain`
moves its start from one snapshot to the next, `restart_at` empties it at the end of a downloaded one. The log's start
is on the disk before anything is deleted, as the start of the first epoch in its epoch cache.

A start makes log and snapshots agree. A log that ends before the newest snapshot is left over from a download that
ended between rename and reset; it is emptied. A log that begins above every snapshot is refused at a voter, which is
responsible for what it acknowledged, and dropped by an observer, which fetches it again.

Everything below the newest snapshot is durable (`flush` precedes a snapshot), so a start scans only the log above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Disk, Trace
from squall.nodes.protocol.compiler import encode_bytes
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.records import BatchHeader, Record, build_batch, control_key, crc_ok, iterate_batches
from squall.nodes.protocol.schema import Message, array, int16, int32, message
from squall.nodes.protocol.value_batches import build_value_batch, parse_values
from squall.nodes.raft.config import RaftConfig
from squall.nodes.raft.errors import Implausible, InvariantViolation
from squall.nodes.raft.plausibility import check_endpoint
from squall.nodes.raft.snapshots import SnapshotId, Snapshots
from squall.nodes.raft.voters import VoterSet, voters_in
from squall.nodes.storage.epochs import LeaderEpochCache
from squall.nodes.storage.errors import CorruptFile
from squall.nodes.storage.log import Appended, Log

UNREAD_BATCHES = 64
"""How many batches written here are kept decoded, so that they need no decoding when read after commit."""
LEADER_CHANGE = 2
"""The kind of the control record that names the leader of an epoch."""


@message()
class LeaderChangeVoter(Message):
    voter_id: int = int32()


@message(flexible=0)
class LeaderChangeMessage(Message):
    """The first record of every epoch: nothing of an older epoch is committed before it (QC-16)."""

    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)
    granting_voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)


class CommittedBatch(NamedTuple):
    """One committed batch. `values` are the record values, of a control batch too; they end before `next_offset`."""

    base_offset: int
    epoch: int
    timestamp_ms: int
    values: tuple[bytes, ...]
    is_control: bool
    size: int = 0
    """Bytes in the log."""

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)

    @property
    def last_offset(self) -> int:
        return self.next_offset - 1


class MetadataLog:
    """One replica's copy of the metadata log."""

    def __init__(
        self,
        config: RaftConfig,
        *,
        disk: Disk,
        now_ms: int,
        trace: Trace,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
    ) -> None:
        self._node = config.node_id
        self._config = config
        self._trace = trace
        self._claims_durability = mutants.has("metadata-not-fsynced")
        self._unread: dict[tuple[int, int], tuple[bytes, ...]] = {}
        """Values this leader wrote and has not read back, by (epoch, offset), which always identify the same batch."""
        self.written_records = self.fetched_records = 0
        """Records appended since the start, from this node as the leader and from other leaders; for metrics."""
        self.snapshots = Snapshots(disk, config.directory, node_id=config.node_id, trace=trace)
        latest = self.snapshots.latest
        known_epochs = LeaderEpochCache(disk, config.directory).entries
        self._log = Log.open(
            disk,
            config.directory,
            config.log,
            now_ms=now_ms,
            trace=trace,
            recovery_point=0 if latest is None else latest.end_offset,
            start_offset=known_epochs[0][1] if known_epochs else 0,
            buggify=buggify,
        )
        self._agree_with_snapshots()

    def _agree_with_snapshots(self) -> None:
        """Reconcile log and snapshots, which a crash may leave in any state; see the module."""
        latest, start = self.snapshots.latest, self.start_offset
        if start > (0 if latest is None else latest.end_offset):
            if self._config.votes:
                raise CorruptFile(
                    f"{self._config.directory}: the log begins at {start} and no undamaged snapshot reaches there; "
                    "restore one, or remove this voter's whole directory and let it catch up"
                )
            self.snapshots.notices.append(
                f"node {self._node}: the metadata log begins at {start} and no undamaged snapshot reaches there; "
                "fetching all of it again"
            )
            self._log.restart_at(0)
            start = 0
        if latest is not None and (self.last_epoch, self.end_offset) < (latest.epoch, latest.end_offset):
            self.restart_at(latest)
        self.snapshots.remove_before(start)

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def durable_offset(self) -> int:
        return self._log.end_offset if self._claims_durability else self._log.durable_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 for an empty log."""
        return self._log.last_epoch or 0

    # -- writing ----------------------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes], epoch: int, now_ms: int) -> int:
        """Append one batch as the leader; return the offset of its last record."""
        batch = build_value_batch(values, now_ms)
        if len(self._unread) >= UNREAD_BATCHES:
            self._unread.clear()
        self._unread[epoch, self.end_offset] = tuple(values)
        return self._append(batch, epoch, now_ms)

    def append_leader_change(self, voters: tuple[int, ...], granted: tuple[int, ...], epoch: int, now_ms: int) -> int:
        """Append the control batch that opens this node's epoch as leader."""
        change = LeaderChangeMessage(
            leader_id=self._node,
            voters=[LeaderChangeVoter(voter_id=voter) for voter in voters],
            granting_voters=[LeaderChangeVoter(voter_id=voter) for voter in granted],
        )
        record = Record(key=control_key(LEADER_CHANGE), value=encode_bytes(change, 0))
        return self._append(build_batch([record], timestamp=now_ms, control=True), epoch, now_ms)

    def append_control(self, records: Sequence[tuple[int, bytes]], epoch: int, now_ms: int) -> int:
        """Append one control batch of (kind, value) records; return the offset of the last record."""
        built = [Record(key=control_key(kind), value=value) for kind, value in records]
        return self._append(build_batch(built, timestamp=now_ms, control=True), epoch, now_ms)

    def _append(self, batch: bytearray, epoch: int, now_ms: int) -> int:
        appended = self._log.append_as_leader(batch, epoch, now_ms)
        self.written_records += appended.last_offset - appended.first_offset + 1
        self._trace_append(appended)
        return appended.last_offset

    def _trace_append(self, appended: Appended) -> None:
        self._trace.event(
            "append", node=self._node, epoch=self.last_epoch, first=appended.first_offset, last=appended.last_offset
        )

    def append_fetched(self, content: memoryview, leader_epoch: int) -> list[tuple[int, VoterSet]]:
        """Append whole batches that the leader of an epoch sent; return the voters in them, by offset.

        They must continue this log, offsets and epochs. Raises Implausible, and then nothing is appended.
        """
        self._check_fetched(content, leader_epoch)
        try:
            changes = list(voters_in(content))
        except ProtocolError as trouble:
            raise Implausible(f"what was fetched cannot be read: {trouble}") from trouble
        for _, voters in changes:
            if not voters.voters or len(frozenset(voters.ids)) != len(voters.ids):
                raise Implausible(f"what was fetched makes voters of {list(voters.ids)}")
            for voter in voters.voters:
                check_endpoint(voter)
        self._unread.clear()
        appended = self._log.append_as_follower(content)
        self.fetched_records += appended.last_offset - appended.first_offset + 1
        self._trace_append(appended)
        return changes

    def _check_fetched(self, content: memoryview, leader_epoch: int) -> None:
        expected, epoch = self.end_offset, self.last_epoch
        try:
            for header, batch in iterate_batches(content):
                if header.base_offset != expected:
                    raise Implausible(f"fetched a batch at {header.base_offset}, the log ends at {expected}")
                if not epoch <= header.leader_epoch <= leader_epoch:
                    raise Implausible(
                        f"fetched a batch of epoch {header.leader_epoch} after {epoch} in epoch {leader_epoch}"
                    )
                if header.count != header.last_offset_delta + 1 or not 0 < header.count <= header.size:
                    raise Implausible(f"fetched a batch of {header.count} records in {header.size} bytes")
                if not crc_ok(batch):
                    raise Implausible(f"the batch fetched at {expected} is damaged")
                expected, epoch = header.next_offset, header.leader_epoch
        except ProtocolError as trouble:
            raise Implausible(f"what was fetched cannot be read: {trouble}") from trouble

    def flush(self) -> int:
        """Make everything durable; return its end. Mutant `metadata-not-fsynced`: only claims so."""
        if self._claims_durability:
            return self._log.end_offset
        if self._log.durable_offset < self._log.end_offset:
            self._log.flush()
            self._trace.event("fsync", node=self._node, durable=self._log.durable_offset)
        return self._log.durable_offset

    def close(self) -> None:
        self._log.close()

    # -- a snapshot in place of a prefix ----------------------------------------------------------------------

    def restart_at(self, snapshot: SnapshotId) -> None:
        """Empty the log and continue at the snapshot's end: only the snapshot counts. Durable at once."""
        self._trace.event("log_reset", node=self._node, end=snapshot.end_offset, was=self.end_offset)
        self._log.restart_at(snapshot.end_offset)
        self._log.assign_epoch(snapshot.epoch, snapshot.end_offset)
        self._log.epochs.save()
        self.snapshots.remove_before(snapshot.end_offset)

    def retain(self, now_ms: int) -> bool:
        """Delete old snapshots and the log before the kept ones, as the limits require; return whether any was deleted.

        The limits are soft: the newest snapshot and all of the log after the oldest kept snapshot always stay.
        """
        before = self.snapshots.oldest
        while len(self.snapshots.ids) > 1 and self._is_too_much(now_ms):
            following = self.snapshots.ids[1]
            if self._log.advance_start(following.end_offset):
                self._log.epochs.save()
                self._trace.event("log_start", node=self._node, offset=following.end_offset)
            self.snapshots.remove_before(following.end_offset)
            self._log.drop_before_start()
        return self.snapshots.oldest != before

    def _is_too_much(self, now_ms: int) -> bool:
        config = self._config
        if 0 <= config.retention_bytes < self._log.size + self.snapshots.size:
            return True
        oldest = self.snapshots.ids[0]
        return 0 <= config.retention_ms < now_ms - self.snapshots.timestamp_of(oldest)

    def snapshot_for(self, fetch_offset: int, last_fetched_epoch: int) -> SnapshotId | None:
        """The snapshot that a replica with this log end must fetch, None if records suffice (SN-05, rule 36).

        Offset 0 takes a snapshot even where the log is whole: it is shorter (SN-06). Otherwise a whole log determines
        exactly where two logs diverge, regardless of their epochs. The bootstrap snapshot represents no record of the
        log.
        """
        oldest, latest, start = self.snapshots.oldest, self.snapshots.latest, self.start_offset
        if oldest is None or latest is None or latest.end_offset == 0:
            return None
        if fetch_offset == 0:
            return latest
        if start == 0:
            return None
        strange = fetch_offset == start and last_fetched_epoch != oldest.epoch
        return latest if fetch_offset < start or strange or last_fetched_epoch < oldest.epoch else None

    # -- agreement --------------------------------------------------------------------------------------------

    def is_covered_by(self, last_epoch: int, end_offset: int) -> bool:
        """Whether a log with this end has at least as much as this one: compares the epoch first, then the offset."""
        return (last_epoch, end_offset) >= (self.last_epoch, self.end_offset)

    def divergence(self, fetch_offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """None if a log with this end is a prefix of this one, else the possible divergence: (epoch, its end)."""
        if fetch_offset == 0:
            return None
        epoch, end_offset = self._log.end_offset_for(last_fetched_epoch)
        if epoch < 0:
            return 0, self.start_offset
        if epoch != last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    def truncate_diverged(self, epoch: int, end_offset: int, high_watermark: int) -> None:
        """Truncate what the leader does not have: to the end of `epoch`, or of the next lower one known here.

        Raises Implausible rather than truncate committed records (rule 36).
        """
        own_epoch, own_end = self._log.end_offset_for(epoch)
        if own_epoch < 0:
            target = self.start_offset
        else:
            target = min(own_end, end_offset) if own_epoch == epoch else own_end
        if target < high_watermark:
            raise Implausible(
                f"epoch {epoch} is said to end at {end_offset} at the leader, which would cut this log to {target}, "
                f"below its high watermark {high_watermark}"
            )
        self._truncate_to(target)

    def _truncate_to(self, target: int) -> None:
        self._trace.event("truncate", node=self._node, end=target, was=self.end_offset)
        self._log.truncate_to(target)
        latest = self.snapshots.latest
        if latest is not None and target == latest.end_offset:
            self._log.assign_epoch(latest.epoch, target)  # the only record of this epoch if the log begins here

    def epoch_before(self, offset: int) -> int | None:
        """The epoch of the record before `offset`: -1 at the beginning of the log, None where this log has none."""
        if offset == 0:
            return -1
        if not self.start_offset <= offset <= self.end_offset:
            return None
        oldest = self.snapshots.oldest
        if offset == self.start_offset:
            return None if oldest is None else oldest.epoch
        return self._log.epochs.epoch_of(offset - 1)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest epoch here that is not above `epoch`, and its end."""
        return self._log.end_offset_for(epoch)

    def epoch_start(self, epoch: int) -> int:
        """Where an epoch of this log begins."""
        return next((start for known, start in self._log.epochs.entries if known == epoch), self.start_offset)

    def without_known(self, content: memoryview, high_watermark: int) -> memoryview:
        """What this log lacks of whole batches that continue a prefix of it, having truncated what contradicts them.

        A batch that is here at the same offset and epoch is the same batch (LM). Raises Implausible rather than
        truncate committed records.
        """
        position = 0
        for header, batch in iterate_batches(content):
            if header.base_offset >= self.end_offset:
                break
            if self._log.epochs.epoch_of(header.base_offset) != header.leader_epoch:
                if header.base_offset < high_watermark:
                    raise Implausible(
                        f"the batch at {header.base_offset} of epoch {header.leader_epoch} contradicts this log, "
                        f"which is committed up to {high_watermark}"
                    )
                self._truncate_to(header.base_offset)
                break
            position += len(batch)
        return content[position:]

    # -- reading ----------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int) -> memoryview:
        return self._log.read(offset, max_bytes, upper=self.end_offset, at_least_one=True)

    def raw_batches(self, from_offset: int, upper: int) -> Iterator[memoryview]:
        """Whole batches as stored in the log."""
        return self._log.batches(from_offset, upper)

    def batches(self, from_offset: int, upper: int) -> Iterator[CommittedBatch]:
        """Whole batches from the batch that holds `from_offset`, all below `upper`."""
        if from_offset < self.start_offset:
            raise InvariantViolation(
                f"node {self._node}: records from {from_offset} are wanted, the log begins at {self.start_offset}; "
                "the snapshot was to be loaded first"
            )
        for batch in self._log.batches(from_offset, upper):
            header = BatchHeader.read(batch)
            values = self._unread.pop((header.leader_epoch, header.base_offset), None)
            yield CommittedBatch(
                base_offset=header.base_offset,
                epoch=header.leader_epoch,
                timestamp_ms=header.max_timestamp,
                values=parse_values(batch) if values is None else values,
                is_control=header.is_control,
                size=header.size,
            )

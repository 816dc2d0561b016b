"""One replica's log: record batches in segments on a disk, for topic-partitions and `__cluster_metadata`.

A batch is opaque except for its header. The leader's append validates the batch (rule 1), checks its producer (rules 5
to 7), stamps base offset and leader epoch in place, in the buffer the request arrived in, and passes that buffer to the
disk: the payload is never copied. The CRC covers neither stamped field, so it is computed again only for LogAppendTime.
A follower's append takes batches as the leader stored them.

Durability. Appends go to the host's page cache; `flush` makes everything before `durable_offset` survive a power loss.
Data logs rely on replication; they are flushed at a clean close, when `flush.messages` requires it, and long after
their segments were sealed (`flush_below`). The owner of the metadata log flushes every turn. Truncations are durable at
once: if a power loss undid a truncation but kept later records, the log would hold records of two leaders. A leader
epoch is durable, or can be read from the batches that may have been written in it (epochs.py).

`recovery.py` opens the log after an unclean stop (rule 17), from `recovery_point` on, which is an earlier
`durable_offset` that the owner wrote down. Such checkpoints must be lowered before they cease to hold; `Keeper` does
this. After recovery the epoch cache is truncated to the new end, the producers' state is rebuilt from the newest
snapshot and the batches after it (rule 7), and the remaining log is flushed.

DeleteRecords and retention move the log start offset past the first segment's base offset (`advance_start`). Records
below `start_offset` can no longer be read; `drop_before_start` removes whole segments below it, once the owner has
written the new start down. The start must not pass the high watermark: the caller, who knows it, ensures this.

Files in the log's directory, named by the first offset in twenty digits: `.log`, `.index` (segment.py), `.timeindex`
(time_index.py), `.snapshot` (producers.py); and `leader-epoch-checkpoint` (epochs.py).

Traced here: `log_opened`, `recovery_cut`, `epoch` and `segment`. The log's owner traces appends, truncations and
flushes, because it knows what they mean.

Errors: LogError if the log refuses and nothing changed; DiskFailure, an OSError, if the disk fails. After a failed
`flush`, durability is unknown.

Mutants: `dedup-wrong-offset` in `_repeated`, `dedup-lost-on-failover` in `append_as_follower`,
`producer-state-survives-truncation` and `epoch-cache-not-truncated` in `truncate_to`, `torn-tail-accepted` in
recovery.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Disk, Trace
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.record_times import first_not_older, largest_from
from squall.nodes.protocol.records import (
    BatchHeader,
    InvalidBatch,
    crc_ok,
    iterate_batches,
    patch,
    stamp_log_append_time,
    validate_client_batch,
)
from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.epochs import LeaderEpochCache
from squall.nodes.storage.errors import LogError, on_disk
from squall.nodes.storage.producers import ProducedBatch, ProducerStates
from squall.nodes.storage.recovery import Recovery
from squall.nodes.storage.retention import retention_start
from squall.nodes.storage.segment import HEADER_SIZE, Segment
from squall.nodes.storage.segments import Segments
from squall.nodes.storage.time_index import NO_TIMESTAMP

__all__ = ["Appended", "Keeper", "Log", "LogConfig"]

_RELATIVE_OFFSET_MAX = (1 << 31) - 1
_NOTHING = memoryview(b"")


class Keeper(Protocol):
    """Keeps checkpoints about a log in files elsewhere: recovery point, high watermark, log start."""

    def before_cut(self, offset: int) -> None:
        """Before truncation, durably lower checkpoints above `offset`."""
        ...

    def keep_start(self, offset: int) -> None:
        """Before the first segment begins below the log start, durably write that down."""
        ...

    def start_moved(self) -> None:
        """The log start offset rose. The keeper writes it down, then calls `drop_before_start`."""
        ...


class _Nobody:
    """Keeps no checkpoints."""

    def before_cut(self, offset: int) -> None:
        return None

    def keep_start(self, offset: int) -> None:
        return None

    def start_moved(self) -> None:
        return None


class Appended(NamedTuple):
    """Result of an append. For a duplicate the offsets are those of the first append, and nothing was written."""

    first_offset: int
    last_offset: int
    log_append_time: int
    duplicate: bool
    size: int


def _first_not_older(
    header: BatchHeader, batch: bytes, timestamp_ms: int, start: int, upper: int
) -> tuple[int, int] | None:
    """(timestamp, offset) of a batch's first record not older than a time; None if the log does not cover it.

    Only a record in [start, upper) counts. If the batch cannot be opened, or only at a cost that a client must not
    cause (`protocol/record_times.py`), the result is the first offset of the batch that counts.
    """
    first = max(header.base_offset, start)
    if header.is_log_append_time:
        return (header.max_timestamp, first) if first < upper else None
    if first == header.base_offset < upper and header.base_timestamp >= timestamp_ms:
        return header.base_timestamp, first
    try:
        return first_not_older(batch, timestamp_ms, start=start, upper=upper)
    except ProtocolError:
        return (header.max_timestamp, first) if first < upper else None


def _largest_from(header: BatchHeader, batch: bytes, start: int) -> int:
    """The largest timestamp of the records at or above `start`; the batch's if it cannot be opened."""
    if header.is_log_append_time:
        return header.max_timestamp
    try:
        return largest_from(batch, start)
    except ProtocolError:
        return header.max_timestamp


class Log:
    """See the module. Offsets in [start_offset, end_offset) can be read; `end_offset` is the next offset to write."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        start_offset: int,
        *,
        trace: Trace,
        mutants: Mutants,
        keeper: Keeper | None,
        buggify: Buggify,
    ) -> None:
        """Use `Log.open`."""
        self.directory = directory
        self.config = config
        self.epochs = LeaderEpochCache(disk, directory)
        self.producers = ProducerStates(disk, directory)
        self.start_offset = start_offset
        self.durable_offset = 0
        self._disk = disk
        self._trace = trace
        self._mutants = mutants
        self._buggify = buggify
        self._keeper = keeper or _Nobody()
        self._segments = Segments(disk, directory, config.index_interval_bytes, start_offset, buggify)
        self._duplicates_get_log_end = mutants.has("dedup-wrong-offset")
        self._followers_know_producers = not mutants.has("dedup-lost-on-failover")
        self._truncation_rebuilds_producers = not mutants.has("producer-state-survives-truncation")
        self._truncation_cuts_epochs = not mutants.has("epoch-cache-not-truncated")

    # -- opening --------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        now_ms: int,
        trace: Trace,
        clean_shutdown: bool = False,
        recovery_point: int = 0,
        start_offset: int = 0,
        mutants: Mutants = HEALTHY,
        keeper: Keeper | None = None,
        buggify: Buggify = OFF,
    ) -> Log:
        """Open the log in a directory, creating it if it does not exist. It begins at `start_offset` or later.

        Unless the last stop was clean, everything from `recovery_point` on is checked (see the module); afterwards the
        whole log is durable. Raises DiskFailure, CorruptFile.
        """
        if not disk.exists(directory):
            with on_disk(directory, "create the directory"):
                disk.make_directory(directory)
                disk.sync_directory(directory.rpartition("/")[0])
        log = cls(disk, directory, config, start_offset, trace=trace, mutants=mutants, keeper=keeper, buggify=buggify)
        log._segments.remove_below(start_offset)
        if clean_shutdown:
            log._load()
        else:
            log._recover(recovery_point)
        log._prune_producers()
        log.producers.expire(now_ms, config.producer_expiration_ms)
        log._trace.event("log_opened", log=directory, start=log.start_offset, end=log.end_offset, clean=clean_shutdown)
        return log

    def _load(self) -> None:
        for segment in self._segments:
            if not segment.load() and segment is not self._segments.active:
                segment.write_index()
        self._settle_ends()
        self.durable_offset = self.end_offset

    def _recover(self, recovery_point: int) -> None:
        """Keep the longest sound prefix (rule 17)."""
        Recovery(
            self.directory, self._segments, self.epochs, recovery_point, trace=self._trace, mutants=self._mutants
        ).run()
        # The process that created the files may have died before it synced their directory.
        self._segments.names_dirty = True
        self._settle_ends()
        self.epochs.settle(self.end_offset)
        self.flush()

    def _settle_ends(self) -> None:
        """Set start, epochs and producers by what the segments turned out to hold."""
        self.start_offset = max(self.start_offset, self._segments.base_offset)
        if self.end_offset < self.start_offset:
            # Records below the log's start are deleted, and the disk has lost all above it.
            self.restart_at(self.start_offset)
            return
        self.epochs.truncate_from_end(self.end_offset)
        self.epochs.truncate_from_start(self.start_offset)
        self._rebuild_producers()

    def _rebuild_producers(self) -> None:
        """Rebuild the producers' state before the log's end: the newest snapshot, and every batch after it (rule 7)."""
        restored = self.producers.restore(self.end_offset)
        begin = self._segments.base_offset if restored is None else restored
        for segment in self._segments:
            if segment.next_offset <= begin:
                continue
            for place in segment.places(segment.position_of(begin)):
                self._follow_producer(BatchHeader.read(segment.read(place.position, HEADER_SIZE)))

    # -- what is here ---------------------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        return self._segments.active.next_offset

    @property
    def last_epoch(self) -> int | None:
        """The latest leader epoch in the cache: what a follower sends as its last fetched epoch."""
        return self.epochs.latest

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return self._segments.size

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch not above `epoch`, its end offset); (-1, -1) if no epoch is known (KIP-320)."""
        return self.epochs.end_offset_for(epoch, self.end_offset)

    # -- appending ------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        batch: bytes | bytearray | memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        from_client: bool = False,
        produce_version: int = 12,
    ) -> Appended:
        """Append one batch, stamping it in place (a copy, if it is read-only).

        A batch `from_client` is validated first. Raises LogError: CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE,
        UNSUPPORTED_COMPRESSION_TYPE, INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER. Timestamps are the
        producers' and `log_append_time` is -1, unless the log uses LogAppendTime: then a batch `from_client` gets
        `now_ms`.
        """
        header = self._judged(batch, produce_version) if from_client else BatchHeader.read(batch)
        if header.producer_id >= 0 and not header.is_control:
            earlier = self.producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.count
            )
            if earlier is not None:
                return self._repeated(earlier)
        header.base_offset = self._segments.active.next_offset
        header.leader_epoch = leader_epoch
        if isinstance(batch, bytes) or (isinstance(batch, memoryview) and batch.readonly):
            batch = bytearray(batch)
        patch(batch, header.base_offset, leader_epoch)
        log_append_time = -1
        if from_client and self.config.log_append_time:
            stamp_log_append_time(batch, now_ms)
            log_append_time = header.max_timestamp = now_ms
        self._append([header], batch)
        return Appended(header.base_offset, header.last_offset, log_append_time, False, len(batch))

    def _repeated(self, earlier: ProducedBatch) -> Appended:
        """The result for a batch that is in the log already (rule 5). Mutant `dedup-wrong-offset`: the log's end."""
        time = earlier.timestamp if self.config.log_append_time else -1
        if self._duplicates_get_log_end:
            return Appended(self.end_offset, self.end_offset - 1, time, True, 0)
        return Appended(earlier.first_offset, earlier.last_offset, time, True, 0)

    def _judged(self, batch: bytes | bytearray | memoryview, produce_version: int) -> BatchHeader:
        """Validate a client's batch (rule 1). Raises LogError."""
        try:
            return validate_client_batch(
                batch, max_bytes=self.config.max_message_bytes, produce_version=produce_version
            )
        except InvalidBatch as refusal:
            raise LogError(refusal.error.name, str(refusal)) from refusal

    def append_as_follower(self, batches: bytes | bytearray | memoryview) -> Appended:
        """Append whole batches as the leader holds them. Raises LogError (CORRUPT_MESSAGE) at the first unsound one.

        A partial batch at the end, as a size-bounded fetch may return, is left out. Batches before an unsound one stay.
        """
        self._align_empty_log(batches)
        first, expected = self.end_offset, self.end_offset
        sound: list[BatchHeader] = []
        problem: str | None = None
        try:
            for header, batch in iterate_batches(batches, torn_tail=True):
                if header.base_offset != expected:
                    problem = f"a batch begins at offset {header.base_offset}, expected {expected}"
                elif header.last_offset_delta < 0 or not crc_ok(batch):
                    problem = f"the batch at offset {expected} is damaged"
                if problem is not None:
                    break
                sound.append(header)
                expected = header.next_offset
        except ProtocolError as trouble:
            problem = str(trouble)
        size = self._append(sound, memoryview(batches), know_producers=self._followers_know_producers)
        if problem is not None:
            raise LogError("CORRUPT_MESSAGE", problem)
        return Appended(first, self.end_offset - 1, -1, False, size)

    def _align_empty_log(self, batches: bytes | bytearray | memoryview) -> None:
        """Let an empty log that begins in the middle of a batch, as its leader's does, take that batch as a whole.

        Its first segment will begin before the log. So far it begins with it, and nothing else may say where that is.
        """
        if self._segments.active.size or self.end_offset != self.start_offset or len(batches) < HEADER_SIZE:
            return
        first = BatchHeader.read(batches)
        if first.base_offset < self.end_offset <= first.last_offset:
            self._keeper.keep_start(self.start_offset)
            self._segments.restart(first.base_offset)

    def _append(
        self, headers: list[BatchHeader], batches: bytes | bytearray | memoryview, *, know_producers: bool = True
    ) -> int:
        """Write consecutive batches, in one call per segment that they span; return their size in bytes."""
        begin = end = 0
        waiting: list[BatchHeader] = []
        segment = self._segments.active
        for header in headers:
            size = header.size
            if (waiting or segment.size) and self._is_full(segment, end - begin + size, header):
                self._write(waiting, memoryview(batches)[begin:end], know_producers)
                self._roll()
                segment = self._segments.active
                begin, waiting = end, []
            if not waiting and not segment.size:
                segment.begin(header.max_timestamp)  # the batches after it are compared with it before it is written
            waiting.append(header)
            end += size
        whole = batches if begin == 0 and end == len(batches) else memoryview(batches)[begin:end]
        self._write(waiting, whole, know_producers)
        if segment.next_offset - self.durable_offset >= self.config.flush_messages:
            self.flush()
        return end

    def _is_full(self, segment: Segment, more: int, header: BatchHeader) -> bool:
        """Whether a batch must begin another segment: by size, by the range of an index, by age."""
        config = self.config
        return (
            segment.size + more > config.segment_bytes
            or header.base_offset + header.last_offset_delta - segment.base_offset > _RELATIVE_OFFSET_MAX
            or header.max_timestamp > segment.first_timestamp + config.segment_ms
            or self._buggify.happens("segment-rolled-early")
        )

    def _write(
        self, headers: list[BatchHeader], batches: bytes | bytearray | memoryview, know_producers: bool = True
    ) -> None:
        """Write batches to the last segment, then account for them. New epochs are recorded first (rule 4)."""
        if not headers:
            return
        for header in headers:
            if header.leader_epoch != self.epochs.latest and header.leader_epoch >= 0:
                self.assign_epoch(header.leader_epoch, header.base_offset)
        segment = self._segments.active
        segment.write(batches)
        for header in headers:
            segment.note(header.base_offset, header.last_offset, header.max_timestamp, header.size)
            if know_producers:
                self._follow_producer(header)

    def _follow_producer(self, header: BatchHeader) -> None:
        if header.producer_id >= 0 and not header.is_control:
            self.producers.update(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
            )

    def _roll(self) -> None:
        """Seal the last segment and begin another, with a snapshot of the producers (rule 7)."""
        self.producers.take_snapshot(self.end_offset)
        self.epochs.settle(self.end_offset)
        self._segments.roll()
        self._trace.event("segment", log=self.directory, start=self.end_offset)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Record that a leader epoch begins at an offset, before anything is appended in it (rule 9).

        An empty log that begins within a batch records its own start: the batch's first records are not of this log,
        and an opening would say so as well (DP-15, `worlds` seed 1011796).
        """
        start = max(start_offset, self.start_offset)
        if self.epochs.assign(epoch, start):
            if self._buggify.happens("epoch-saved-early"):
                self.epochs.save()
            self._trace.event("epoch", log=self.directory, epoch=epoch, start=start)

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, upper: int, at_least_one: bool) -> memoryview:
        """Return whole batches of one segment, from the batch that holds `offset`, all of them below `upper`.

        At most `max_bytes`, unless the first batch alone is larger and `at_least_one`. Empty if `offset` is at or above
        `upper`. Raises LogError (OFFSET_OUT_OF_RANGE) for an offset this log does not have.
        """
        log_end = self._segments.active.next_offset
        if not self.start_offset <= offset <= log_end:
            raise LogError("OFFSET_OUT_OF_RANGE", f"offset {offset} is not in [{self.start_offset}, {log_end}]")
        if offset >= upper or offset == log_end:
            return _NOTHING
        segment = self._segments.holding(offset)
        begin = segment.position_of(offset)
        end = segment.position_of(upper)
        if end > begin + max_bytes:
            end = segment.boundary_at_or_before(begin + max_bytes)
            if end <= begin and at_least_one:
                end = segment.end_of_batch_at(begin)
        if end <= begin:
            return _NOTHING
        return memoryview(segment.read(begin, end - begin))

    def batches(self, offset: int, upper: int) -> Iterator[memoryview]:
        """Yield each whole batch from the batch that holds `offset`, as long as it lies below `upper`."""
        while offset < min(upper, self.end_offset):
            segment = self._segments.holding(offset)
            place = segment.find(offset)
            if place is None or place.last_offset >= upper:
                return
            yield memoryview(segment.read(place.position, place.end - place.position))
            offset = place.last_offset + 1

    def offset_for_timestamp(self, timestamp_ms: int, upper: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record below `upper` not older than a time; None if all are older.

        A batch that spans the log's start is opened: records that DeleteRecords has removed from it do not count.
        """
        start = self.start_offset
        for segment in self._segments:
            if segment.next_offset <= start:
                continue
            for place in segment.not_older(timestamp_ms, start):
                if place.base_offset >= upper:
                    return None
                batch = segment.read(place.position, place.end - place.position)
                found = _first_not_older(BatchHeader.read(batch), batch, timestamp_ms, start, upper)
                if found is not None:
                    return found
        return None

    def max_timestamp(self) -> int:
        """The largest record timestamp in the log, -1 if it is empty.

        If the log begins within a segment, its batches from there on are read: deleted records do not count.
        """
        return max(self._largest_time(segment) for segment in self._segments)

    def _largest_time(self, segment: Segment) -> int:
        if segment.next_offset <= self.start_offset:
            return NO_TIMESTAMP
        if segment.base_offset >= self.start_offset:
            return segment.max_timestamp()
        largest = NO_TIMESTAMP
        for place in segment.places(segment.position_of(self.start_offset)):
            time = place.max_timestamp
            if place.base_offset < self.start_offset:
                batch = segment.read(place.position, place.end - place.position)
                time = _largest_from(BatchHeader.read(batch), batch, self.start_offset)
            largest = max(largest, time)
        return largest

    # -- shrinking at the end -------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Remove every record at or above `offset`, and every epoch that began there (rule 14). Durable at once.

        The epochs are removed even if no record is. A batch that spans the offset is removed as a whole. An offset
        below the log's start empties the log at that offset.
        """
        if offset < self.start_offset:
            self.restart_at(offset)
            return
        place = self._segments.holding(offset).find(offset)
        end = offset if place is None else min(offset, place.base_offset)
        if end < self.start_offset:
            self.restart_at(self.start_offset)
            return
        if place is not None:
            self._cut(end)
        if self._truncation_cuts_epochs:
            self.epochs.truncate_from_end(end)

    def _cut(self, end: int) -> None:
        """Truncate segments and producers' state at `end`, where a batch begins."""
        self._keeper.before_cut(end)
        self._segments.truncate(end)
        self.durable_offset = min(self.durable_offset, self.end_offset)
        if self._truncation_rebuilds_producers:
            self._rebuild_producers()
        self._sync_removals()

    def restart_at(self, offset: int) -> None:
        """Drop everything; the log is empty and begins at `offset` (rule 15, and snapshots). Durable at once."""
        self._keeper.before_cut(min(offset, self.start_offset))
        # In this order, so that a crash in between leaves a shorter log, which a scan describes completely.
        self.producers.forget_all()
        self.epochs.clear()
        self._sync_removals()
        self._segments.restart(offset)
        self._sync_removals()
        self.start_offset = offset
        self.durable_offset = min(self.durable_offset, offset)

    def _sync_removals(self) -> None:
        """Sync removals: segments and snapshots that a power loss brings back would be taken as part of new records."""
        self._segments.names_dirty = True
        self._segments.sync_names()

    # -- shrinking at the beginning -------------------------------------------------------------------------------

    def advance_start(self, offset: int) -> bool:
        """Raise the log start to `offset`, at most to the log's end; return whether it moved.

        The caller passes at most the high watermark.
        """
        if offset <= self.start_offset:
            return False
        self.start_offset = min(offset, self.end_offset)
        self.epochs.truncate_from_start(self.start_offset)
        self._keeper.start_moved()
        return True

    def retain(self, high_watermark: int, now_ms: int) -> bool:
        """Raise the log start as far as retention allows, and forget silent producers; return whether it moved."""
        self.producers.expire(now_ms, self.config.producer_expiration_ms)
        start = retention_start(self._segments.all, self.config, high_watermark=high_watermark, now_ms=now_ms)
        if start == self.end_offset and self._segments.active.size:
            self._roll()
            self._keeper.start_moved()  # also where a deletion or the leader had moved it before
        return self.advance_start(start)

    def drop_before_start(self) -> bool:
        """Remove segments that end below the log's start, and unneeded snapshots; return whether there were any.

        Call only after the new start is on the disk: a segment in the middle may be missing after a power loss, and a
        log that began before it would end there.
        """
        if not self._segments.remove_below(self.start_offset):
            return False
        self._prune_producers()
        return True

    def _prune_producers(self) -> None:
        self.producers.prune([segment.base_offset for segment in self._segments])

    # -- durability and the end -----------------------------------------------------------------------------------

    def flush(self) -> int:
        """Make everything appended survive a power loss; return the new durable offset. Raises DiskFailure."""
        self._segments.sync()
        self.durable_offset = self.end_offset
        return self.durable_offset

    @property
    def active_base_offset(self) -> int:
        """Base offset of the segment that takes appends: everything before it is sealed."""
        return self._segments.active.base_offset

    def flush_below(self, offset: int) -> None:
        """Make sealed segments that end at or below an offset durable."""
        if self.durable_offset < offset:
            self.durable_offset = max(self.durable_offset, self._segments.sync_below(offset))

    def close(self) -> None:
        """Close cleanly: all is durable, with a snapshot of the producers, and the next opening may trust it.

        A log that never held anything gets no snapshot, since it would spare no reading: a broker may have thousands of
        such logs, and each snapshot takes two waits for the disk.
        """
        holds = self._segments.size or len(self.producers) or self.producers.snapshots()
        if holds and not self._buggify.happens("producer-snapshot-skipped"):
            self.producers.take_snapshot(self.end_offset)
            self._prune_producers()
        self.epochs.settle(self.end_offset)
        self._segments.active.write_index()
        self.flush()
        self._segments.close()

    def delete(self) -> None:
        """Remove the log and its directory. Durable once the owner has synced the parent directory."""
        self._segments.close()
        with on_disk(self.directory, "remove the log"):
            self._disk.remove_tree(self.directory)

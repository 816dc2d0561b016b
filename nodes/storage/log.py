"""One replica's log: record batches in segments on a disk, for topic-partitions and `__cluster_metadata` alike.

A batch is opaque but for its header. The leader's append judges it (rule 1), judges its producer (rules 5 to 7),
stamps base offset and leader epoch in place, in the buffer the request arrived in, and hands that buffer to the disk:
the payload is never copied. The CRC covers neither stamped field, so it is not computed again. A follower's append
takes batches as the leader stored them.

Durability. Appends go to the host's page cache; `flush` makes everything before `durable_offset` survive a power
loss. Data logs rely on replication and are flushed at a clean close only (Kafka's default); the owner of the metadata
log flushes every turn. Epoch assignments are durable at once (rule 14).

Opening after an unclean stop (rule 17) re-reads everything from the recovery point, drops the tail from the first
batch that is torn, does not match its CRC or does not continue the log, cuts the epoch cache to the new end, rebuilds
the producers' state from the newest snapshot and the batches after it, and flushes what it kept.

Files in the log's directory, named by the first offset in twenty digits: `.log`, `.index` (segment.py), `.snapshot`
(producers.py); and `leader-epoch-checkpoint` (epochs.py).

Traced here: `log_opened`, `recovery_cut` and `epoch`. Appends, truncations and flushes are traced by the log's owner,
who knows what they mean.

Errors: LogError where the log refuses and nothing changed; OSError from the disk passes through. After an OSError from
`append_*` the log is still as before; after one from `flush` durability is unknown and the owner must stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from squall.nodes.ports import Disk, Trace
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.records import (
    BatchHeader,
    InvalidBatch,
    crc_ok,
    iterate_batches,
    parse_records,
    patch,
    validate_client_batch,
)
from squall.nodes.storage.epochs import LeaderEpochCache
from squall.nodes.storage.errors import LogError
from squall.nodes.storage.producers import ProducerStates
from squall.nodes.storage.segment import HEADER_SIZE, Segment

_RELATIVE_OFFSET_MAX = (1 << 31) - 1
_NOTHING = memoryview(b"")


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's settings that concern one log."""

    segment_bytes: int = 1 << 30
    """`segment.bytes`: a segment is sealed when the next batch would make it larger."""
    index_interval_bytes: int = 4096
    """`index.interval.bytes`."""
    max_message_bytes: int = 1_048_588
    """`max.message.bytes`: the largest batch a leader accepts."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append did. For a duplicate the offsets are those of the first append, and nothing was written."""

    first_offset: int
    last_offset: int
    log_append_time: int
    duplicate: bool
    size: int


def _sound_header(batch: memoryview) -> BatchHeader | None:
    """The header of a batch read back from disk, None if the batch is not what was once written."""
    try:
        header = BatchHeader.read(batch)
    except ProtocolError:
        return None
    return header if header.last_offset_delta >= 0 and crc_ok(batch) else None


def _first_not_older(header: BatchHeader, batch: bytes, timestamp_ms: int) -> tuple[int, int]:
    """(timestamp, offset) of the record looked for within its batch; of the batch itself if it cannot be opened."""
    if header.base_timestamp < timestamp_ms:
        try:
            for record in parse_records(batch):
                if record.timestamp >= timestamp_ms:
                    return record.timestamp, record.offset
        except ProtocolError:
            return header.max_timestamp, header.base_offset
    return header.base_timestamp, header.base_offset


class Log:
    """See the module. Offsets in [start_offset, end_offset) can be read; `end_offset` is the next to be written."""

    def __init__(self, disk: Disk, directory: str, config: LogConfig, trace: Trace) -> None:
        """Use `Log.open`."""
        self.directory = directory
        self.config = config
        self.epochs = LeaderEpochCache(disk, directory)
        self.producers = ProducerStates(disk, directory)
        self.durable_offset = 0
        self._disk = disk
        self._trace = trace
        self._segments: list[Segment] = []
        self._names_dirty = False

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
    ) -> Log:
        """Open the log in a directory, creating it at `start_offset` if there is none.

        Unless the last stop was clean, everything from `recovery_point` on is checked (see the module); afterwards
        the whole log is durable. Raises OSError, CorruptFile.
        """
        if not disk.exists(directory):
            disk.make_directory(directory)
            disk.sync_directory(directory.rpartition("/")[0])
        log = cls(disk, directory, config, trace)
        log._open_segments(start_offset)
        if clean_shutdown:
            log._load()
        else:
            log._recover(recovery_point)
        log._trace.event("log_opened", log=directory, start=log.start_offset, end=log.end_offset, clean=clean_shutdown)
        return log

    def _open_segments(self, start_offset: int) -> None:
        names = [name for name in self._disk.list(self.directory) if name.endswith(".log") and name[:-4].isdigit()]
        for name in names:
            self._segments.append(self._segment(int(name[:-4]), create=False))
        if not self._segments:
            self._segments.append(self._segment(start_offset, create=True))

    def _segment(self, base_offset: int, *, create: bool) -> Segment:
        self._names_dirty = self._names_dirty or create
        return Segment(self._disk, self.directory, base_offset, self.config.index_interval_bytes, create=create)

    def _load(self) -> None:
        for segment in self._segments:
            segment.load()
        self._restore_epochs_and_producers()
        self.durable_offset = self.end_offset

    def _recover(self, recovery_point: int) -> None:
        """Keep the longest sound prefix (rule 17)."""
        known = self.epochs.entries
        self._names_dirty = True  # the process that created the files may have died before it said so to the disk
        for at, segment in enumerate(self._segments):
            following = self._segments[at + 1].base_offset if at + 1 < len(self._segments) else None
            if following is not None and following <= recovery_point:
                segment.load()
                sound = segment.next_offset == following
            else:
                sound = self._rescan(segment) and following in (None, segment.next_offset)
            if not sound:
                self._drop_segments(at + 1)
                break
        if self.epochs.entries != known:
            self.epochs.save()
        self._restore_epochs_and_producers()
        self.flush()

    def _rescan(self, segment: Segment) -> bool:
        """Account for every sound batch of a segment and cut the rest. Whether nothing had to be cut."""
        size = segment.size
        places = list(segment.places(0))
        segment.dirty = True
        segment.forget()
        for place in places:
            batch = memoryview(segment.file.read(place.position, place.end - place.position))
            header = _sound_header(batch)
            if header is None or place.base_offset != segment.next_offset:
                break
            segment.note(place.base_offset, place.last_offset, header.max_timestamp, len(batch))
            self.epochs.observe(header.leader_epoch, place.base_offset)
        if segment.size == size:
            return True
        self._trace.event("recovery_cut", log=self.directory, end=segment.next_offset, bytes=size - segment.size)
        segment.file.truncate(segment.size)
        return False

    def _restore_epochs_and_producers(self) -> None:
        self.epochs.truncate_from_end(self.end_offset)
        self.epochs.truncate_from_start(self.start_offset)
        self._rebuild_producers()

    def _rebuild_producers(self) -> None:
        """The producers' state before the log's end: the newest snapshot, and every batch after it."""
        restored = self.producers.restore(self.end_offset)
        begin = self.start_offset if restored is None else max(restored, self.start_offset)
        for segment in self._segments:
            if segment.next_offset <= begin:
                continue
            for place in segment.places(segment.position_of(begin)):
                self._follow_producer(BatchHeader.read(segment.file.read(place.position, HEADER_SIZE)))

    # -- what is here ---------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self._segments[0].base_offset

    @property
    def end_offset(self) -> int:
        return self._segments[-1].next_offset

    @property
    def last_epoch(self) -> int | None:
        """The latest leader epoch in the cache: what a follower sends as its last fetched epoch."""
        return self.epochs.latest

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._segments)

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
        """Append one batch, stamping it in place (a copy, if it is read-only); what came `from_client` is judged first.

        Raises LogError: CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE,
        INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER. Timestamps are the producers' (CreateTime), so
        `log_append_time` is -1 and `now_ms` judges nothing.
        """
        header = self._judged(batch, produce_version) if from_client else BatchHeader.read(batch)
        if header.producer_id >= 0 and not header.is_control:
            earlier = self.producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.count
            )
            if earlier is not None:
                return Appended(earlier.first_offset, earlier.last_offset, -1, True, 0)
        header.base_offset = self._segments[-1].next_offset
        header.leader_epoch = leader_epoch
        if isinstance(batch, bytes) or (isinstance(batch, memoryview) and batch.readonly):
            batch = bytearray(batch)
        patch(batch, header.base_offset, leader_epoch)
        self._append([header], batch)
        return Appended(header.base_offset, header.last_offset, -1, False, len(batch))

    def _judged(self, batch: bytes | bytearray | memoryview, produce_version: int) -> BatchHeader:
        """Rule 1."""
        try:
            return validate_client_batch(
                batch, max_bytes=self.config.max_message_bytes, produce_version=produce_version
            )
        except InvalidBatch as refusal:
            raise LogError(refusal.error.name, str(refusal)) from refusal

    def append_as_follower(self, batches: bytes | bytearray | memoryview) -> Appended:
        """Append whole batches as the leader holds them. Raises LogError (CORRUPT_MESSAGE) at the first unsound one.

        A partial batch at the end, as a size-bounded fetch may bring, is left out. Batches before an unsound one stay.
        """
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
        size = self._append(sound, memoryview(batches))
        if problem is not None:
            raise LogError("CORRUPT_MESSAGE", problem)
        return Appended(first, self.end_offset - 1, -1, False, size)

    def _append(self, headers: list[BatchHeader], batches: bytes | bytearray | memoryview) -> int:
        """Write consecutive batches, in one call per segment they fall into; how many bytes they are."""
        begin = end = 0
        waiting: list[BatchHeader] = []
        for header in headers:
            size = header.size
            if self._is_full(end - begin + size, header.last_offset) and (waiting or self._segments[-1].size):
                self._write(waiting, memoryview(batches)[begin:end])
                self._roll()
                begin, waiting = end, []
            waiting.append(header)
            end += size
        self._write(waiting, batches if begin == 0 and end == len(batches) else memoryview(batches)[begin:end])
        return end

    def _is_full(self, more: int, last_offset: int) -> bool:
        segment = self._segments[-1]
        return (
            segment.size + more > self.config.segment_bytes or last_offset - segment.base_offset > _RELATIVE_OFFSET_MAX
        )

    def _write(self, headers: list[BatchHeader], batches: bytes | bytearray | memoryview) -> None:
        """Write batches to the last segment, then account for them. New epochs are recorded first (rule 4)."""
        if not headers:
            return
        for header in headers:
            if header.leader_epoch != self.epochs.latest and header.leader_epoch >= 0:
                self.assign_epoch(header.leader_epoch, header.base_offset)
        segment = self._segments[-1]
        segment.write(batches)
        for header in headers:
            segment.note(header.base_offset, header.last_offset, header.max_timestamp, header.size)
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

    def _roll(self) -> Segment:
        """Seal the last segment and begin another (rule 7: with a snapshot of the producers)."""
        sealed = self._segments[-1]
        sealed.write_index()
        if len(self.producers):
            self.producers.take_snapshot(sealed.next_offset)
        segment = self._segment(sealed.next_offset, create=True)
        self._segments.append(segment)
        return segment

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Record that a leader epoch begins at an offset, durably, before anything is appended in it (rule 9)."""
        if self.epochs.assign(epoch, start_offset):
            self._trace.event("epoch", log=self.directory, epoch=epoch, start=start_offset)

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, upper: int, at_least_one: bool) -> memoryview:
        """Whole batches, from the one that holds `offset`, all of them below `upper`, out of one segment.

        At most `max_bytes`, unless the first batch alone is larger and `at_least_one`. Empty if `offset` is at or
        above `upper`. Raises LogError (OFFSET_OUT_OF_RANGE) for an offset this log does not have.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise LogError("OFFSET_OUT_OF_RANGE", f"offset {offset} is not in [{self.start_offset}, {self.end_offset}]")
        if offset >= min(upper, self.end_offset):
            return _NOTHING
        segment = self._segment_of(offset)
        begin = segment.position_of(offset)
        end = segment.position_of(upper)
        if end > begin + max_bytes:
            end = segment.boundary_at_or_before(begin + max_bytes)
            if end <= begin and at_least_one:
                end = segment.end_of_batch_at(begin)
        if end <= begin:
            return _NOTHING
        return memoryview(segment.file.read(begin, end - begin))

    def _segment_of(self, offset: int) -> Segment:
        """The segment that holds an offset of the log; usually the last."""
        segments = self._segments
        if offset >= segments[-1].base_offset:
            return segments[-1]
        low, high = 0, len(segments) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if segments[middle].base_offset <= offset:
                low = middle
            else:
                high = middle
        return segments[low]

    def batches(self, offset: int, upper: int) -> Iterator[memoryview]:
        """Each whole batch from the one that holds `offset`, as long as it lies below `upper`."""
        while offset < min(upper, self.end_offset):
            segment = self._segment_of(offset)
            place = segment.find(offset)
            if place is None or place.last_offset >= upper:
                return
            yield memoryview(segment.file.read(place.position, place.end - place.position))
            offset = place.last_offset + 1

    def offset_for_timestamp(self, timestamp_ms: int, upper: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record below `upper` that is not older than a time; None if all are."""
        for segment in self._segments:
            if segment.max_timestamp() < timestamp_ms:
                continue
            for place in segment.places(0):
                if place.last_offset >= upper:
                    return None
                header = BatchHeader.read(segment.file.read(place.position, HEADER_SIZE))
                if header.max_timestamp >= timestamp_ms:
                    batch = segment.file.read(place.position, place.end - place.position)
                    return _first_not_older(header, batch, timestamp_ms)
        return None

    def max_timestamp(self) -> int:
        """The largest record timestamp in the log, -1 if it is empty."""
        return max(segment.max_timestamp() for segment in self._segments)

    # -- shrinking ------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Remove every record at or above `offset`, and every epoch that began there (rule 14).

        The epochs go even if no record does. A batch that spans the offset goes as a whole. An offset below the log's
        start empties the log at that offset.
        """
        if offset < self.start_offset:
            self.restart_at(offset)
            return
        before = self.end_offset
        if offset < before:
            self._drop_segments(max(1, self._first_segment_from(offset)))
            self._segments[-1].truncate(offset)
            self.durable_offset = min(self.durable_offset, self.end_offset)
            self._rebuild_producers()
        self.epochs.truncate_from_end(self.end_offset if offset < before else offset)

    def _first_segment_from(self, offset: int) -> int:
        """The index of the first segment that begins at or above an offset."""
        for at, segment in enumerate(self._segments):
            if segment.base_offset >= offset:
                return at
        return len(self._segments)

    def _drop_segments(self, keep: int) -> None:
        """Delete all segments but the first `keep`, last first, so that a crash leaves a log without a hole."""
        while len(self._segments) > keep:
            self._segments.pop().delete()
            self._names_dirty = True

    def restart_at(self, offset: int) -> None:
        """Drop everything; the log is empty and begins at `offset` (rule 15, and snapshots)."""
        self._drop_segments(0)
        self._segments.append(self._segment(offset, create=True))
        self.epochs.clear()
        self.producers.forget_all()
        self.durable_offset = min(self.durable_offset, offset)

    # -- durability and the end -----------------------------------------------------------------------------------

    def flush(self) -> int:
        """Make everything appended survive a power loss; the new durable offset. Raises OSError."""
        for segment in self._segments:
            segment.sync()
        if self._names_dirty:
            self._disk.sync_directory(self.directory)
            self._names_dirty = False
        self.durable_offset = self.end_offset
        return self.durable_offset

    def close(self) -> None:
        """A clean end: all is durable, with a snapshot of the producers, and the next opening may trust it."""
        if len(self.producers):
            self.producers.take_snapshot(self.end_offset)
        self.flush()
        self._segments[-1].write_index()
        for segment in self._segments:
            segment.close()

    def delete(self) -> None:
        """Remove the log and its directory, durably."""
        for segment in self._segments:
            segment.close()
        self._disk.remove_tree(self.directory)
        self._disk.sync_directory(self.directory.rpartition("/")[0])

"""Decide when a node writes a snapshot of its image, and write it in small steps (SN-01).

Every node does so independently, after a number of bytes of new records or, if there are any, after a time (Kafka's
`metadata.log.max.record.bytes.between.snapshots` and `metadata.log.max.snapshot.interval.ms`). The image is frozen at
one offset by a `clone`, which costs next to nothing: topics are shared until the log's next record changes one. Then
each turn writes some records, while the node continues to replay into its own image.

A snapshot represents committed state (rule 39): `image` is the committed one, at the end of a batch. Mutant
`snapshot-above-hw`: the active controller's image that runs ahead of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.snapshot import snapshot_values
from squall.nodes.raft.snapshots import SnapshotId, Snapshots, SnapshotWriter

NEVER = 2**63 - 1
WRITE_RECORDS = 4_000
"""Records written in one turn: some 20 ms."""
PAUSE = 100_000
"""Microseconds that buggify makes a snapshot wait."""


class ImageSource(Protocol):
    """The component that replays the log on this node."""

    @property
    def snapshot_image(self) -> MetadataImage:
        """The image to write into a snapshot, at the end of a batch."""
        ...

    @property
    def replayed_bytes(self) -> int:
        """Bytes of batches replayed since the start."""
        ...

    @property
    def last_applied_ms(self) -> int:
        """The time of the last replayed batch."""
        ...


class SnapshotLog(Protocol):
    """The quorum replica."""

    @property
    def snapshots(self) -> Snapshots: ...

    def begin_snapshot(self, snapshot_id: SnapshotId, timestamp_ms: int) -> SnapshotWriter: ...

    def finish_snapshot(self, writer: SnapshotWriter) -> bool: ...


@dataclass(frozen=True, slots=True)
class SnapshotConfig:
    """`interval` is in microseconds; 0 is never."""

    bytes_between: int = 20 << 20
    interval: int = 3600 * 1_000_000


class SnapshotGenerator:
    """See the module. The host calls `advance` in every turn, after it has replayed the committed records."""

    def __init__(
        self, config: SnapshotConfig, log: SnapshotLog, source: ImageSource, now: int, buggify: Buggify = OFF
    ) -> None:
        self._config = config
        self._log = log
        self._source = source
        self._begun_at = now
        self.made_at = now
        """When the newest snapshot made here was finished; at first when the node started. For metrics."""
        self._bytes_then = 0
        self._buggify = buggify
        self._bytes_considered = 0
        self._writer: SnapshotWriter | None = None
        self._paused_until = 0
        self._values: Iterator[list[bytes]] = iter(())

    def advance(self, now: int) -> None:
        """Begin a snapshot if one is due, or continue writing the current one."""
        if self._writer is not None:
            self._go_on(now, self._writer)
        elif self._is_due(now):
            self._begin(now)

    def deadline(self) -> int:
        if self._writer is not None:
            return self._paused_until
        return self._begun_at + self._config.interval if self._config.interval > 0 and self._has_news() else NEVER

    def close(self) -> None:
        """Discard an unfinished snapshot."""
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None

    def _is_due(self, now: int) -> bool:
        config = self._config
        enough = self._source.replayed_bytes - self._bytes_then >= config.bytes_between
        late = config.interval > 0 and now >= self._begun_at + config.interval
        return (enough or late or self._is_early()) and self._has_news()

    def _is_early(self) -> bool:
        """Whether `buggify` wants a snapshot now; asked once after each batch."""
        replayed = self._source.replayed_bytes
        if replayed == self._bytes_considered:
            return False
        self._bytes_considered = replayed
        return self._buggify.happens("snapshot-early")

    def _has_news(self) -> bool:
        latest = self._log.snapshots.latest
        return self._source.snapshot_image.last_offset >= (0 if latest is None else latest.end_offset)

    def _begin(self, now: int) -> None:
        self._begun_at = now
        self._bytes_then = self._source.replayed_bytes
        image = self._source.snapshot_image
        snapshot_id = SnapshotId(image.last_offset + 1, image.last_epoch)
        self._writer = self._log.begin_snapshot(snapshot_id, self._source.last_applied_ms)
        self._values = snapshot_values(image.clone(), WRITE_RECORDS)

    def _go_on(self, now: int, writer: SnapshotWriter) -> None:
        if now < self._paused_until:
            return
        self._paused_until = 0
        if self._buggify.happens("snapshot-paused"):
            self._paused_until = now + PAUSE
        else:
            self._write(now, writer)

    def _write(self, now: int, writer: SnapshotWriter) -> None:
        values = next(self._values, None)
        if values is not None:
            writer.append(values)
            return
        self._writer = None
        self._values = iter(())
        if self._log.finish_snapshot(writer):
            self.made_at = now

"""The broker's view of the metadata log: apply committed records, batch by batch (MD-03, rule 30).

The quorum replica, which a controller in the same node shares, also holds uncommitted records; this module reads
nothing above its high watermark. One batch is one delta: what the controller writes atomically takes effect atomically.

Where the log does not continue at the replayed offset, a snapshot fills the gap (SN-04, SN-05). It is loaded beside the
image, some records at a time, and then replaces it; the delta is the difference between the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.metadata.image import MetadataDelta, MetadataImage
from squall.nodes.metadata.snapshot import SnapshotLoader, difference
from squall.nodes.ports import Trace
from squall.nodes.raft.metadata_log import CommittedBatch
from squall.nodes.raft.snapshots import SnapshotId, Snapshots


class CommittedLog(Protocol):
    """The part of the quorum replica that is used here."""

    @property
    def high_watermark(self) -> int: ...

    def committed(self, from_offset: int) -> Iterator[CommittedBatch]: ...

    def snapshot_before(self, next_offset: int) -> SnapshotId | None: ...

    @property
    def snapshots(self) -> Snapshots: ...


class MetadataObserver:
    """Applies committed metadata records to the broker's image."""

    def __init__(
        self, node_id: int, log: CommittedLog, image: MetadataImage, trace: Trace, buggify: Buggify = OFF
    ) -> None:
        self._node_id = node_id
        self._log = log
        self._image = image
        self._trace = trace
        self._buggify = buggify
        self.next_offset = 0
        self.replayed_bytes = 0
        self.last_applied_ms = -1
        self.snapshots_loaded = 0
        self.names_all = True
        self.controller_id: int | None = None
        self._loader: SnapshotLoader | None = None

    @property
    def snapshot_image(self) -> MetadataImage:
        """The image that snapshots are made of."""
        return self._image

    @property
    def is_loading(self) -> bool:
        """Whether a snapshot is being loaded; the caller calls `advance` again soon."""
        return self._loader is not None

    @property
    def behind(self) -> bool:
        """Whether committed records remain to be applied."""
        return self._log.high_watermark > self.next_offset

    def advance(self, gathered: MetadataDelta | None = None) -> Iterator[MetadataDelta]:
        """Replay committed records, one batch at a time; when a delta is yielded the image is at the end of its batch.

        With `gathered`, all batches add to that one delta.
        """
        if not self.behind:
            return
        due = self._log.snapshot_before(self.next_offset)
        if due is not None:
            delta = MetadataDelta() if gathered is None else gathered
            if not self._loaded(due, delta):
                return
            yield delta
        for batch in self._log.committed(self.next_offset):
            delta = MetadataDelta() if gathered is None else gathered
            if not batch.is_control:
                self._image.replay_values(batch.values, batch.base_offset, batch.epoch, delta)
            self._image.passed(batch.last_offset, batch.epoch)
            self.next_offset = batch.next_offset
            self.replayed_bytes += batch.size
            self.last_applied_ms = batch.timestamp_ms
            self._trace.event("metadata_applied", node=self._node_id, offset=batch.last_offset, epoch=batch.epoch)
            yield delta

    def _loaded(self, snapshot_id: SnapshotId, delta: MetadataDelta) -> bool:
        """Load some more of a snapshot. Returns whether it is loaded, with the difference in `delta`."""
        if self._loader is None or self._loader.id != snapshot_id:
            self._loader = SnapshotLoader(self._log.snapshots, snapshot_id, self._buggify)
        if not self._loader.advance():
            return False
        image, self._loader = self._loader.image, None
        difference(self._image, image, self._node_id, delta)
        self._image.become(image)
        self.next_offset = snapshot_id.end_offset
        self.snapshots_loaded += 1
        node, end, epoch = self._node_id, snapshot_id.end_offset, snapshot_id.epoch
        self._trace.event("snapshot_loaded", node=node, end=end, epoch=epoch)
        self._trace.event("metadata_applied", node=node, offset=end - 1, epoch=epoch)
        return True

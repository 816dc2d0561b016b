"""The broker's view of the metadata log: committed records, applied batch by batch (MD-03, rule 30).

The quorum replica beneath, shared with a controller in the same node, holds uncommitted records too; nothing above
its high watermark is ever looked at here. One batch is one delta: what the controller wrote in one breath takes effect
in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from squall.nodes.metadata.image import MetadataDelta, MetadataImage
from squall.nodes.metadata.records import decode_record
from squall.nodes.ports import Trace
from squall.nodes.raft.metadata_log import CommittedBatch


class CommittedLog(Protocol):
    """What is asked of the quorum replica."""

    @property
    def high_watermark(self) -> int: ...

    def committed(self, from_offset: int) -> Iterator[CommittedBatch]: ...


class MetadataObserver:
    """See the module."""

    def __init__(self, node_id: int, log: CommittedLog, image: MetadataImage, trace: Trace) -> None:
        self._node_id = node_id
        self._log = log
        self._image = image
        self._trace = trace
        self.next_offset = 0

    @property
    def behind(self) -> bool:
        """Whether something is committed that has not been applied."""
        return self._log.high_watermark > self.next_offset

    def advance(self, gathered: MetadataDelta | None = None) -> Iterator[MetadataDelta]:
        """Replay what is committed, one batch at a time; the image is at that batch's end when its delta comes.

        With `gathered`, every batch adds to that one delta instead of having its own.
        """
        if not self.behind:
            return
        for batch in self._log.committed(self.next_offset):
            delta = MetadataDelta() if gathered is None else gathered
            if not batch.is_control:
                for offset, value in enumerate(batch.values, start=batch.base_offset):
                    self._image.replay(decode_record(value), offset, batch.epoch, delta)
            self._image.passed(batch.last_offset, batch.epoch)
            self.next_offset = batch.next_offset
            self._trace.event("metadata_applied", node=self._node_id, offset=batch.last_offset, epoch=batch.epoch)
            yield delta

"""What a single controller has decided, in memory: each batch is committed when it is appended."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence

from squall.nodes.ports import NullTrace, Trace, WallClock
from squall.nodes.raft.metadata_log import CommittedBatch
from squall.nodes.raft.snapshots import SnapshotId, Snapshots


class MemoryLog:
    """A `DecisionLog`. `on_append` is called with each batch, as soon as it is there.

    `on_begin` is called with the controller's node id and the epoch when an incarnation begins.
    """

    is_leader = True

    def __init__(self) -> None:
        self.epoch = 0
        """Raised at each start of the controller, so that work of an earlier incarnation is recognised."""
        self.end_offset = 0
        self.epoch_start_offset = -1
        self.on_append: Callable[[CommittedBatch], None] = lambda batch: None
        self.on_begin: Callable[[int, int], None] = lambda node, epoch: None
        self._batches: list[CommittedBatch] = []
        self._ends: list[int] = []
        self._clock: WallClock | None = None
        self._trace: Trace = NullTrace()
        self._node = -1

    def begin(self, node: int, clock: WallClock, trace: Trace) -> None:
        """A new incarnation of the controller writes from now on."""
        self._node = node
        self._trace = trace
        self.epoch += 1
        self.epoch_start_offset = self.end_offset - 1
        self._clock = clock
        self.on_begin(node, self.epoch)

    @property
    def high_watermark(self) -> int:
        return self.end_offset

    def append(self, now: int, batches: Sequence[Sequence[bytes]]) -> int:
        assert self._clock is not None, "a controller begins before it appends"
        for values in batches:
            batch = CommittedBatch(self.end_offset, self.epoch, self._clock.now_ms(), tuple(values), is_control=False)
            self._batches.append(batch)
            self._ends.append(batch.next_offset)
            self.end_offset = batch.next_offset
            self._trace.event("metadata_decided", node=self._node, epoch=self.epoch, last=batch.last_offset)
            self.on_append(batch)
        return self.end_offset - 1

    def committed(self, from_offset: int) -> Iterator[CommittedBatch]:
        yield from self._batches[bisect.bisect_right(self._ends, from_offset) :]

    def snapshot_before(self, next_offset: int) -> SnapshotId | None:
        return None

    @property
    def snapshots(self) -> Snapshots:
        raise LookupError("a log in memory has no snapshots")

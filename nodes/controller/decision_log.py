"""The log into which a controller writes its decisions, as it uses one (DA-04).

With KRaft it is a replica of the metadata quorum (`nodes.raft.replica`). A controller needs this much and no more: that
it alone writes, and that what is committed stays. So the log may as well be a list in memory, of a single controller
(`harness/simulation/world/memory`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from squall.nodes.raft.metadata_log import CommittedBatch
from squall.nodes.raft.snapshots import SnapshotId, Snapshots


class DecisionLog(Protocol):
    """See the module."""

    @property
    def is_leader(self) -> bool:
        """Whether this controller may write."""
        ...

    @property
    def epoch(self) -> int: ...

    @property
    def epoch_start_offset(self) -> int:
        """The offset at which this controller's epoch began. Raises NotLeader."""
        ...

    @property
    def end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""
        ...

    def append(self, now: int, batches: Sequence[Sequence[bytes]]) -> int:
        """Append batches of record values, each of them atomic. Return the last offset. Raises NotLeader."""
        ...

    def committed(self, from_offset: int) -> Iterator[CommittedBatch]:
        """Committed batches in order, from the one that holds the offset."""
        ...

    def snapshot_before(self, next_offset: int) -> SnapshotId | None:
        """The snapshot to load after everything below the offset; None if the log continues there."""
        ...

    @property
    def snapshots(self) -> Snapshots:
        """Those that `snapshot_before` names."""
        ...

"""The leader epoch cache: the offset at which each leader epoch began in this log (KIP-101, KIP-279, KIP-320).

It makes truncation after a leader change exact (DP-13). Two logs that agree on (epoch, offset) agree on all before it,
so the truncation point is where the common epochs end, and never merely the high watermark.

Invariant: epochs and start offsets both increase strictly from entry to entry, so that an entry's end is the next
entry's start. An assignment that would break this removes the entries that contradict it: later entries are wrong as
soon as an earlier epoch is known to start at or before them.

The file may lack entries. A batch carries its epoch, so an assignment need not be on the disk as long as the next
opening after a crash reads the batches again (recovery.py always does so for the last segment). The log therefore saves
the cache before it seals a segment and when it is closed, and not when an epoch begins: a broker that takes over
thousands of topic-partitions would wait for thousands of fsyncs. Every opening forgets an epoch in which nothing was
written, durable or not. Removals may be lost in a crash, because opening a log truncates the cache again, at both ends;
removals at the start are not written until the next save. An epoch whose records have all been deleted begins at the
log's end, like one in which nothing was written. It is saved nevertheless: without it the file would end with an older
epoch, which a clean opening believes (`worlds` seed 997379 with an attentive administrator).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from squall.nodes.ports import Disk
from squall.nodes.storage.checkpoints import LEADER_EPOCHS, join, read_lines, write_lines
from squall.nodes.storage.errors import CorruptFile

UNKNOWN = (-1, -1)


class LeaderEpochCache:
    """(epoch, start offset) entries of one log, kept in `leader-epoch-checkpoint`."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = join(directory, LEADER_EPOCHS)
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._unsaved = False
        self._shifted = False
        """Whether a raised log start has moved the begin of an epoch since the last save."""
        for epoch, start in self._read():
            self._push(epoch, start)

    def _read(self) -> list[tuple[int, int]]:
        try:
            entries = [(int(epoch), int(start)) for epoch, start in read_lines(self._disk, self._path, 2)]
        except ValueError:
            raise CorruptFile(f"{self._path}: entries must be two integers; remove the file to rebuild it") from None
        return entries

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int | None:
        """The largest known epoch, None if there is none."""
        return self._epochs[-1] if self._epochs else None

    def epoch_of(self, offset: int) -> int | None:
        """The epoch that wrote (or would write) an offset, None if the offset precedes all entries."""
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else None

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest known epoch not above `epoch`, and its end offset (rule 13).

        The latest epoch ends at the log's end. An epoch older than all entries ends where the first entry starts; it is
        returned unchanged, since no entry contradicts it. Without any entry: (-1, -1).
        """
        if epoch < 0 or not self._epochs:
            return UNKNOWN
        above = bisect_right(self._epochs, epoch)
        end = self._starts[above] if above < len(self._epochs) else log_end
        return (self._epochs[above - 1] if above > 0 else epoch), end

    # -- changing -------------------------------------------------------------------------------------------------

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record where an epoch begins; it is in the file after `settle`. False if it had begun already."""
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start_offset:
            return False
        self._push(epoch, start_offset)
        self._unsaved = True
        return True

    def settle(self, offset: int) -> None:
        """Make entries that start before `offset` durable: from now on they are not rebuilt from the batches."""
        if self._unsaved and (self._shifted or bisect_left(self._starts, offset)):
            self.save()

    def _push(self, epoch: int, start_offset: int) -> None:
        """Remove entries that contradict this one, then append it unless its epoch had begun earlier."""
        while self._epochs and (self._epochs[-1] > epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        if not self._epochs or self._epochs[-1] < epoch:
            self._epochs.append(epoch)
            self._starts.append(start_offset)

    def observe(self, epoch: int, offset: int) -> None:
        """Prefer the epoch of a batch read during recovery over the file.

        They disagree if the epoch had not been saved, or if a power loss undid a truncation after the next epoch was
        assigned: the old records are back where, according to the file, the new epoch begins.
        """
        if epoch >= 0 and self.epoch_of(offset) != epoch:
            self._push(epoch, offset)
            self._unsaved = True

    def truncate_from_end(self, offset: int) -> None:
        """Forget epochs that begin at or after `offset` (rule 14), whether or not records were truncated."""
        keep = bisect_left(self._starts, offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self.save()

    def truncate_from_start(self, offset: int) -> None:
        """Forget epochs that end at or before `offset`; an epoch that spans it begins there from now on."""
        last = bisect_right(self._starts, offset) - 1
        if last > 0 or (last == 0 and self._starts[0] < offset):
            del self._epochs[:last], self._starts[:last]
            self._starts[0] = offset
            self._shifted = True

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.save()

    def save(self) -> None:
        self._unsaved = self._shifted = False
        write_lines(self._disk, self._path, (f"{epoch} {start}" for epoch, start in self.entries))

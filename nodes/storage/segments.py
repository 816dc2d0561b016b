"""The ordered segments of one log: oldest first, without a gap, never empty; the last, `active`, takes appends.

Creating and removing files is durable only when their directory has been synced. `names_dirty` stays set until then; a
caller that needs a removal to be durable before it writes elsewhere syncs at once. Removal starts at the outer end: the
last segment first when a log is truncated, the first segment first when its start moves. A crash in between leaves a
log without a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.ports import Disk
from squall.nodes.storage.errors import on_disk
from squall.nodes.storage.segment import Segment


class Segments:
    """See the module. `names_dirty`: files were created or removed since the directory was synced."""

    active: Segment

    def __init__(
        self, disk: Disk, directory: str, index_interval: int, start_offset: int, buggify: Buggify = OFF
    ) -> None:
        """Open the existing segments, or create one at `start_offset` if there is none. Nothing is read yet."""
        self.names_dirty = False
        self._disk = disk
        self._directory = directory
        self._index_interval = index_interval
        self._buggify = buggify
        self._all: list[Segment] = []
        for name in disk.list(directory):
            if name.endswith(".log") and name[:-4].isdecimal():
                self._add(int(name[:-4]), create=False)
        if not self._all:
            self._add(start_offset, create=True)

    def _add(self, base_offset: int, *, create: bool) -> None:
        self.names_dirty = self.names_dirty or create
        self.active = Segment(
            self._disk, self._directory, base_offset, self._index_interval, create=create, buggify=self._buggify
        )
        self._all.append(self.active)

    # -- looking --------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def all(self) -> Sequence[Segment]:
        return self._all

    @property
    def base_offset(self) -> int:
        """Base offset of the first segment. The log may begin later, never earlier."""
        return self._all[0].base_offset

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._all)

    def holding(self, offset: int) -> Segment:
        """The segment that holds an offset of the log; usually the last."""
        segments = self._all
        if offset >= self.active.base_offset:
            return self.active
        low, high = 0, len(segments) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if segments[middle].base_offset <= offset:
                low = middle
            else:
                high = middle
        return segments[low]

    # -- growing and shrinking ------------------------------------------------------------------------------------

    def roll(self) -> None:
        """Seal the active segment and begin another after it."""
        self.active.write_index()
        self._add(self.active.next_offset, create=True)

    def truncate(self, offset: int) -> None:
        """Remove everything at or above `offset`; durable when the names are synced as well."""
        keep = len(self._all)
        while keep > 1 and self._all[keep - 1].base_offset >= offset:
            keep -= 1
        self.keep_first(keep)
        self.active.truncate(offset)

    def keep_first(self, count: int) -> None:
        """Remove all but the first `count`, which is at least one; the last is removed first."""
        while len(self._all) > count:
            self._all.pop().delete()
            self.names_dirty = True
        self.active = self._all[-1]

    def restart(self, offset: int) -> None:
        """Become empty and begin at an offset. At least one segment always exists: it records where the log begins."""
        old = [segment for segment in self._all if segment.base_offset != offset]
        if len(old) == len(self._all):
            self._add(offset, create=True)
        else:
            [self.active] = [segment for segment in self._all if segment.base_offset == offset]
            self.active.truncate(offset)
        self._all = [self.active]
        for segment in reversed(old):
            segment.delete()
            self.names_dirty = True

    def remove_below(self, offset: int) -> bool:
        """Remove segments that end at or below an offset, except the active one; return whether there were any."""
        removed = False
        while len(self._all) > 1 and self._all[1].base_offset <= offset:
            self._all.pop(0).delete()
            self.names_dirty = removed = True
        return removed

    # -- durability -----------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make content and names durable."""
        for segment in self._all:
            segment.sync()
        self.sync_names()

    def sync_below(self, offset: int) -> int:
        """Make segments that end at or below an offset durable; return where the last of them ends."""
        end = self.base_offset
        for segment in self._all:
            if segment is self.active or segment.next_offset > offset:
                break
            segment.sync()
            end = segment.next_offset
        self.sync_names()
        return end

    def sync_names(self) -> None:
        if self.names_dirty:
            with on_disk(self._directory, "sync the directory"):
                self._disk.sync_directory(self._directory)
            self.names_dirty = False

    def close(self) -> None:
        for segment in self._all:
            segment.close()

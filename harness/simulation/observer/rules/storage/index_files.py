"""INDEX: the index files of a node that has stopped cleanly name batches of their segments, as Kafka's tools read them.

A node verifies what it reads there, and look-ups begin before the batch that they look for. So wrong entries cost reads
and show nowhere, and another program that opens the same directory, such as Kafka's DumpLogSegments, is misled.
Asserted after a clean stop, of each segment of the logs that the node had opened:

* it has both files, if it has records;
* an entry of the offset index is the last offset of a batch, and the position of its first byte;
* an entry of the time index is the largest timestamp of a batch, and its last offset; both rise;
* the last entry of the time index is the largest timestamp of the segment, if any of its records has a time. Who opens
  the log finds it there, and need not read the segment.

A power loss may take these files, since they are never synced, and a disk may damage them. A node that opens a log
writes those anew that do not fit their segment (`worlds` 38). Asserted in the turn in which it opens one: each segment
but the last, to which it appends, has both, and they consist of whole entries.

Source: Kafka's OffsetIndex and TimeIndex. Legal: a disk whose calls fail, or that has pretended to sync, is not judged.
The last entry may be missing on a host that has had index files damaged, and of a segment that was there at a power
loss: what is left of the file after that is as correct as the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.rules.storage.index_entries import (
    LOG,
    OFFSET_ENTRY,
    TIME_ENTRY,
    entries,
)
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.records import BatchHeader, iterate_batches
from squall.nodes.storage.checkpoints import join
from squall.nodes.storage.segment import index_name, log_name, time_index_name
from squall.nodes.storage.time_index import NO_TIMESTAMP

TIME_INDEX = ".timeindex"


class IndexFiles(Rule):
    """See the module."""

    events = ("log_opened",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._opening: list[str] = []
        """The directories of logs that were opened in a turn that is not over yet."""
        self._opened: dict[str, set[str]] = {}
        """By host, the directories of logs that its process has opened."""
        self._cut: dict[str, set[str]] = {}
        """By host, the time indexes that were there when it lost power."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        self._opening.append(fields["log"])

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if self._opening:
            opening, self._opening = self._opening, []
            self._opened.setdefault(process.name, set()).update(opening)
            if not process.disk.errors:
                with process.disk.at_no_cost():
                    _check_opened(process, opening)

    def power_lost(self, name: str) -> None:
        disk = self.cluster.processes[name].disk
        with disk.at_no_cost():
            paths = [path for path in disk.paths() if path.endswith(TIME_INDEX)]
        self._cut.setdefault(name, set()).update(paths)

    def died(self, process: SimProcess) -> None:
        self._opening.clear()
        opened, disk = self._opened.pop(process.name, set()), process.disk
        if process.how_it_ended != "stopped" or disk.errors or not disk.keeps_promises:
            return
        with disk.at_no_cost():
            cut = self._cut.get(process.name, set())
            wrong = next((wrong for directory in sorted(opened) for wrong in _mistakes(disk, directory, cut)), None)
        if wrong is not None:
            raise InvariantBroken("INDEX", f"{process.name} has stopped, and {wrong}")


def _check_opened(process: SimProcess, opened: list[str]) -> None:
    """Check that these logs have an index of each segment but the last."""
    disk = process.disk
    for directory in opened:
        for name in sorted(one for one in disk.list(directory) if one.endswith(LOG))[:-1]:
            missing = _missing(disk, directory, int(name.removesuffix(LOG)))
            if missing and disk.content(join(directory, name)):
                raise InvariantBroken(
                    "INDEX", f"{process.name} has opened {directory}, and {missing[0]} is missing, beside its segment"
                )
            torn = _torn(disk, directory, int(name.removesuffix(LOG)))
            if torn is not None and disk.content(join(directory, name)):
                raise InvariantBroken(
                    "INDEX", f"{process.name} has opened {directory}, and left {torn}, which ends within an entry"
                )


def _mistakes(disk: SimDisk, directory: str, cut: set[str]) -> Iterator[str]:
    for name in disk.list(directory):
        if name.endswith(LOG):
            base = int(name.removesuffix(LOG))
            batches = dict(_batches(disk.content(join(directory, log_name(base))) or b""))
            for missing in _missing(disk, directory, base) if batches else ():
                yield f"{directory}/{missing} is missing, of a segment with {len(batches)} batches"
            yield from _misplaced(disk.content(join(directory, index_name(base))), directory, base, batches)
            path = join(directory, time_index_name(base))
            times = disk.content(path)
            yield from _misdated(times, directory, base, batches)
            if not disk.damaged_files and path not in cut:
                yield from _unfinished(times, directory, base, batches)


def _batches(content: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the headers of a segment's batches by position."""
    position = 0
    for header, _ in iterate_batches(content, torn_tail=True):
        yield position, header
        position += header.size


def _missing(disk: SimDisk, directory: str, base: int) -> list[str]:
    """Return the names of the index files that a segment lacks."""
    return [name for name in (index_name(base), time_index_name(base)) if not disk.exists(join(directory, name))]


def _torn(disk: SimDisk, directory: str, base: int) -> str | None:
    """Return the name of an index file of a segment that ends within an entry, None if neither does."""
    for name, form in ((index_name(base), OFFSET_ENTRY), (time_index_name(base), TIME_ENTRY)):
        if len(disk.content(join(directory, name)) or b"") % form.size:
            return name
    return None


def _misplaced(content: bytes | None, directory: str, base: int, batches: dict[int, BatchHeader]) -> Iterator[str]:
    for after, position in entries(OFFSET_ENTRY, content):
        found = batches.get(position)
        if found is None or found.last_offset != base + after:
            there = "no batch" if found is None else f"the batch that ends with offset {found.last_offset}"
            yield f"{directory}/{index_name(base)} has offset {base + after} at byte {position}, where {there} begins"


def _misdated(content: bytes | None, directory: str, base: int, batches: dict[int, BatchHeader]) -> Iterator[str]:
    times = {one.last_offset: one.max_timestamp for one in batches.values()}
    before = (-1, -1)
    for timestamp, after in entries(TIME_ENTRY, content):
        if times.get(base + after) != timestamp or not (before[0] < timestamp and before[1] < after):
            yield (
                f"{directory}/{time_index_name(base)} has time {timestamp} at offset {base + after}, after {before}, "
                f"and the batch that ends there has {times.get(base + after)}"
            )
        before = timestamp, after


def _unfinished(content: bytes | None, directory: str, base: int, batches: dict[int, BatchHeader]) -> Iterator[str]:
    largest = max((one.max_timestamp for one in batches.values()), default=NO_TIMESTAMP)
    last = max((timestamp for timestamp, _ in entries(TIME_ENTRY, content)), default=NO_TIMESTAMP)
    if content is not None and last != largest != NO_TIMESTAMP:
        yield (
            f"{directory}/{time_index_name(base)} ends with time {last}, and the largest of its segment is {largest}"
        )

"""INDEX: a node that starts finds what it trusts of its logs by their indexes, and reads no more of it.

An index is a hint: a node that does not use one reads the batches instead, and finds the same. So a defect there shows
nowhere, and on a host with terabytes of logs each start takes hours. A process trusts all segments after a clean stop,
and after any other end those below the recovery point. Asserted of each of these, on a host that has lost nothing:

* the process that starts reads of it only the first batch's header, and what begins at or after the batch of the last
  entry of the offset index, of the last entry of the time index, and of the newest snapshot of the producers, whichever
  is first;
* its largest time is found from the batch of the last entry of the time index on. This is tried when the process has
  ended, on the files that it leaves.

A search for an offset begins at the nearest entry of the offset index before it. The metadata log is not judged, since
all of it is read. Legal: a segment without index entries; a snapshot of the producers that was skipped, so that the
batches after an older one are read; index files that were damaged while no process ran (`lost_indexes.py`).

Source: Kafka's `LogLoader`, OffsetIndex and TimeIndex; KIP-33.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.rules.storage.index_entries import (
    LOG,
    OFFSET_ENTRY,
    TIME_ENTRY,
    entries,
    has_kept_all,
)
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import Read, SimDisk
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.protocol.topic_partition import METADATA_TOPIC
from squall.nodes.storage.checkpoints import RECOVERY_POINTS, join, read_offsets
from squall.nodes.storage.segment import HEADER_SIZE, Segment, index_name, log_name, time_index_name

SNAPSHOT = ".snapshot"


class _Indexed(NamedTuple):
    """A segment, and the first position from which its indexes and the producers' snapshot leave it to be read."""

    directory: str
    base: int
    opened_from: int
    timed_from: int

    @property
    def path(self) -> str:
        return join(self.directory, log_name(self.base))


class OpenedLogs(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._left: dict[str, list[_Indexed]] = {}
        """By host, the indexed segments that its process left, and that the next one trusts."""
        self._damaged: dict[str, int] = {}
        """By host, how many of its index files had been damaged when its last process ended."""

    def died(self, process: SimProcess) -> None:
        self._left.pop(process.name, None)
        if not has_kept_all(process.disk):
            return
        with process.disk.at_no_cost():
            self._damaged[process.name] = process.disk.damaged_files
            left = self._left[process.name] = list(_indexed(process.disk, trusts_all=process.how_it_ended == "stopped"))
            for one in left:
                _check_times(process, one)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if process.name not in self._left:
            return
        allowed = {one.path: one.opened_from for one in self._left.pop(process.name)}
        if not has_kept_all(process.disk) or process.disk.damaged_files > self._damaged[process.name]:
            return
        for read in process.disk.read_at_start:
            if read.position < allowed.get(read.path, 0) and not _is_first_header(read):
                raise InvariantBroken(
                    "INDEX",
                    f"{process.name} has started, and read {read.path} from byte {read.position} on: "
                    f"its indexes lead to byte {allowed[read.path]}",
                )


def _is_first_header(read: Read) -> bool:
    return read.position == 0 and read.length <= HEADER_SIZE


def _check_times(process: SimProcess, one: _Indexed) -> None:
    """Look for the largest time in a segment as a process would that opens it."""
    segment = Segment(process.disk, one.directory, one.base, 0, create=False)
    segment.load()
    with process.disk.reads_noted() as reads:
        segment.max_timestamp()
    segment.close()
    early = min((read.position for read in reads), default=one.timed_from)
    if early < one.timed_from:
        raise InvariantBroken(
            "INDEX",
            f"{process.name} has ended, and the largest time of {one.path} is looked for from byte {early} on: its "
            f"time index leads to byte {one.timed_from}",
        )


def _indexed(disk: SimDisk, *, trusts_all: bool) -> Iterator[_Indexed]:
    points = read_offsets(disk, RECOVERY_POINTS)
    for directory in disk.list(""):
        names = disk.list(directory)
        bases = sorted(int(name.removesuffix(LOG)) for name in names if name.endswith(LOG))
        topic, _, number = directory.rpartition("-")
        if not bases or topic == METADATA_TOPIC:
            continue
        trusted = points.get((topic, int(number)), 0) if number.isdecimal() else 0
        end = _end_of(disk, directory, bases[-1])
        followed = max((at for at in _snapshots(names) if at <= end), default=0)
        for base, following in zip(bases, [*bases[1:], end], strict=True):
            places = entries(OFFSET_ENTRY, disk.content(join(directory, index_name(base))))
            if not places or not (trusts_all or (base < bases[-1] and following <= trusted)):
                continue
            offsets = [after for _, after in entries(TIME_ENTRY, disk.content(join(directory, time_index_name(base))))]
            timed = _floor(places, offsets[-1]) if offsets else 0
            starts = [places[-1][1], timed] + ([_floor(places, followed - base)] if followed < following else [])
            yield _Indexed(directory, base, min(starts), timed)


def _floor(places: Sequence[tuple[int, int]], after: int) -> int:
    """Return the position of the last entry that is not after an offset."""
    return max((position for offset, position in places if offset <= after), default=0)


def _end_of(disk: SimDisk, directory: str, base: int) -> int:
    end = base
    for header, _ in iterate_batches(disk.content(join(directory, log_name(base))) or b"", torn_tail=True):
        end = header.last_offset + 1
    return end


def _snapshots(names: Sequence[str]) -> list[int]:
    return [int(name.removesuffix(SNAPSHOT)) for name in names if name.endswith(SNAPSHOT)]

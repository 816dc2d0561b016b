"""DP-18: a segment takes no batch that would make it larger, or older, than the topic's settings allow.

Retention removes whole segments, so `segment.bytes` and `segment.ms` bound by how much it lags behind. A log that rolls
too late keeps what should be gone, and nothing else shows it. Asserted when a replica has appended, about its last
segment: with more than one batch it is no larger than `segment.bytes`, and no batch in it is younger than its first one
by more than `segment.ms`. Legal: what was written under other settings. So of the segment in which the log was when its
settings were first seen, only what is appended later is judged; a log that never rolls has no other one.

And a log begins another segment only for a reason: for a batch that would make the last one larger than `segment.bytes`
or that is younger than its first one by more than `segment.ms`, or since all before it is deleted. One that rolls for
nothing has more and more files, and nobody notices. Asserted after a turn in which a log has rolled, from the sizes and
times on the disk. Legal: a log that was truncated in the same turn; a roll for a batch under settings that may have
changed in that turn, or in a turn in which the rarity `segment-rolled-early` happened.

Source: DP-18; `LogSegment.shouldRoll` of Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.records import HEADER_SIZE, BatchHeader, iterate_batches
from squall.nodes.storage.checkpoints import join
from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.log import Log

SUFFIX = ".log"
OFFSETS = 2**31
"""An index has four bytes for an offset."""
ROLLED_EARLY = "segment-rolled-early"
"""The place of buggify at which a log rolls although its last segment has room."""
Place = tuple[str, bytes, int]
"""Host, topic id and partition."""


@dataclass(slots=True)
class _Looked:
    """The settings of a log when it was looked at last, and its last segment then."""

    config: LogConfig
    not_judged: int
    """The last segment when these settings were first seen: what it and those before it held may be of other ones."""
    base: int
    size: int
    """Of the last segment then; 0 if it was truncated since."""
    incarnation: int
    """Of the process: the next one may begin with a shorter log (seed 999857)."""

    def has_settings_of(self, process: SimProcess, log: Log) -> bool:
        """Return whether the log has still the settings that it had then, in the same process."""
        return self.incarnation == process.incarnation and self.config == log.config


class SegmentBounds(Rule):
    """See the module."""

    events = ("segment", "truncate", "buggify")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._looked: dict[Place, _Looked] = {}
        self._rolled: dict[str, list[int]] = {}
        """By directory of the logs that have rolled in a turn that is not examined yet, where segments begin."""
        self._rolled_early = False
        """Whether some log has rolled in that turn for no other reason than that buggify said so."""
        self._truncated = False
        """Whether a log was truncated in that turn."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == "segment":
            self._rolled.setdefault(str(fields["log"]), []).append(int(fields["start"]))
        elif name == "truncate":
            self._truncated = True
        elif fields["place"] == ROLLED_EARLY:
            self._rolled_early = True

    def died(self, process: SimProcess) -> None:
        self._rolled.clear()
        self._truncated = self._rolled_early = False

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        truncated, self._truncated = self._truncated, False
        early, self._rolled_early = self._rolled_early, False
        if not self._rolled:
            return
        rolled, self._rolled = self._rolled, {}
        for hosted in [] if truncated or node.broker is None else node.broker.replicas.all():
            replica, log = hosted.replica, hosted.replica.log
            if log.directory not in rolled:
                continue
            _check_roll(process, log)
            known = self._looked.get((process.name, bytes(replica.topic_id), replica.partition))
            if not early and known is not None and known.has_settings_of(process, log):
                for base in rolled[log.directory]:
                    _check_reason(process, log, base)

    def replica_touched(self, turn: ReplicaTurn) -> None:
        known = self._looked.get(_place(turn)) if turn.cut is not None else None
        if known is not None:
            known.size = 0

    def appended(self, turn: ReplicaTurn) -> None:
        replica, log, place = turn.replica, turn.replica.log, _place(turn)
        base, known = log.active_base_offset, self._looked.get(place)
        path, disk = join(log.directory, f"{base:020}.log"), turn.process.disk
        if not disk.exists(path):
            return
        with disk.at_no_cost():
            file = disk.open(path)
            size = file.size()
            if known is None or known.config != log.config:
                self._looked[place] = _Looked(log.config, base, base, size, turn.process.incarnation)
                return
            same_file = (known.base, known.incarnation) == (base, turn.process.incarnation)
            seen = known.size if same_file and known.size <= size else 0
            known.base, known.size, known.incarnation = base, size, turn.process.incarnation
            if size and (base > known.not_judged or 0 < seen < size):
                where = f"{replica.topic}-{replica.partition} of {turn.process.name}"
                _check(where, log.config, base, size, file.read(0, HEADER_SIZE), file.read(seen, size - seen))


def _check_roll(process: SimProcess, log: Log) -> None:
    base = log.active_base_offset
    path = join(log.directory, f"{base:020}.log")
    with process.disk.at_no_cost():
        is_empty = process.disk.exists(path) and not process.disk.open(path).size()
    if is_empty and log.start_offset < base:
        raise InvariantBroken(
            "DP-18",
            f"{log.directory} of {process.name}: an empty segment begins at {base} in a turn that has appended nothing "
            f"there, and the records from {log.start_offset} on are kept",
        )


def _check_reason(process: SimProcess, log: Log, base: int) -> None:
    """Check that the segment that begins at `base` was needed: the previous one had no room for its first batch."""
    disk = process.disk
    with disk.at_no_cost():
        names = [name for name in disk.list(log.directory) if name.endswith(SUFFIX)]
        before = max((one for one in map(_base_of, names) if one < base), default=None)
        if base <= log.start_offset or before is None or f"{base:020}{SUFFIX}" not in names:
            return
        last = disk.open(join(log.directory, f"{before:020}{SUFFIX}"))
        size, oldest = last.size(), last.read(0, HEADER_SIZE)
        youngest = disk.open(join(log.directory, f"{base:020}{SUFFIX}")).read(0, HEADER_SIZE)
    if not oldest or not youngest:
        return
    first, batch = BatchHeader.read(memoryview(oldest)), BatchHeader.read(memoryview(youngest))
    is_old = 0 <= first.max_timestamp < batch.max_timestamp - log.config.segment_ms
    if size + batch.size <= log.config.segment_bytes and not is_old and batch.last_offset - before < OFFSETS:
        raise InvariantBroken(
            "DP-18",
            f"{log.directory} of {process.name}: a segment begins at {base} for a batch of {batch.size} bytes and time "
            f"{batch.max_timestamp}, and the one before has {size} bytes of {log.config.segment_bytes}, and begins "
            f"with time {first.max_timestamp} where segment.ms is {log.config.segment_ms}",
        )


def _base_of(name: str) -> int:
    return int(name.removesuffix(SUFFIX))


def _place(turn: ReplicaTurn) -> Place:
    return turn.process.name, bytes(turn.replica.topic_id), turn.replica.partition


def _check(where: str, config: LogConfig, base: int, size: int, begin: bytes, added: bytes) -> None:
    """Check a segment of this size. `begin` is the header of its first batch, `added` the batches not seen before."""
    first = BatchHeader.read(memoryview(begin))
    if size > max(config.segment_bytes, first.size):
        raise InvariantBroken(
            "DP-18",
            f"{where}: the segment that begins at {base} has {size} bytes, and segment.bytes is {config.segment_bytes}",
        )
    for header, _ in iterate_batches(added):
        if 0 <= first.max_timestamp < header.max_timestamp - config.segment_ms:
            raise InvariantBroken(
                "DP-18",
                f"{where}: the segment that begins at {base} has batches of the times {first.max_timestamp} and "
                f"{header.max_timestamp}, and segment.ms is {config.segment_ms}",
            )

"""DP-18: a segment takes no batch that would make it larger, or older, than the topic's settings allow.

Retention removes whole segments, so `segment.bytes` and `segment.ms` bound by how much it lags behind. A log that rolls
too late keeps what should be gone, and nothing else shows it. Asserted when a replica has appended, about its last
segment: with more than one batch it is no larger than `segment.bytes`, and no batch in it is younger than its first one
by more than `segment.ms`. Legal: what was written under other settings. So of the segment in which the log was when its
settings were first seen, only what is appended later is judged; a log that never rolls has no other one.

And a log begins another segment for a batch that belongs there, or since all before it is deleted. One that rolls for
nothing has more and more files, and nobody notices. Asserted after a turn in which a log has rolled. Legal: a log that
was truncated in the same turn.

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


class SegmentBounds(Rule):
    """See the module."""

    events = ("segment", "truncate")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._looked: dict[Place, _Looked] = {}
        self._rolled: set[str] = set()
        """The directories of the logs that have rolled in a turn that is not examined yet."""
        self._truncated = False
        """Whether a log was truncated in that turn."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == "segment":
            self._rolled.add(str(fields["log"]))
        else:
            self._truncated = True

    def died(self, process: SimProcess) -> None:
        self._rolled.clear()
        self._truncated = False

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        truncated, self._truncated = self._truncated, False
        if not self._rolled:
            return
        rolled, self._rolled = self._rolled, set()
        for hosted in [] if truncated or node.broker is None else node.broker.replicas.all():
            if hosted.replica.log.directory in rolled:
                _check_roll(process, hosted.replica.log)

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

"""SN-01: a node begins a snapshot of its metadata when its settings require one, and at no other time.

Too few snapshots lengthen the next start, and keep the log long; too many cost as much as the log itself, or more. Both
go unseen as long as the node has one. Asserted

* when a node has begun a snapshot: since it began the last one, or started, there have been
  `metadata.log.max.record.bytes.between.snapshots` bytes of committed records, or
  `metadata.log.max.snapshot.interval.ms` has passed;
* after each turn of a node that writes none: none has been due for longer than a second and twenty turns.

Source: KIP-630. Legal: a node that has applied less than what is committed, within that second; a snapshot that
buggify wants early; one after the log was emptied to go on after a downloaded snapshot, since nobody can tell how much
the node had applied before; no new records, or none at all (`worlds` 1012601).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node

MS, LATE, LATE_TURNS = 1000, 1_000_000, 20
BEGUN, BUGGIFY, EARLY = "snapshot_begun", "buggify", "snapshot-early"


@dataclass(slots=True)
class _Seen:
    """What one incarnation has done; times in µs. `size` is the bytes of the records counted up to `counted`."""

    incarnation: int
    since: int
    counted: int
    size: int = 0
    has_jumped: bool = False
    """The log was emptied since the last snapshot began, so that `size` may be too small."""
    is_writing: bool = False
    due_since: int | None = None
    due_turns: int = 0

    def count(self, node: Node, end: int) -> None:
        """Count the committed records below `end`."""
        start = node.raft.log.start_offset
        if start > self.counted:
            self.has_jumped, self.counted = True, start
        if end > self.counted:
            self.size += sum(map(len, node.raft.log.raw_batches(self.counted, end)))
            self.counted = end

    def begin(self, now: int, end: int) -> None:
        self.since, self.counted, self.size, self.has_jumped, self.is_writing = now, end, 0, False, True


class BegunSnapshots(Rule):
    """See the module."""

    events = (BEGUN, "snapshot", BUGGIFY)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._seen: dict[str, _Seen] = {}
        self._begun: dict[str, int] = {}
        """By host, the end of the snapshot that it has begun, in a turn that is not over."""
        self._ended: dict[str, None] = {}
        self._early: dict[str, None] = {}

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == BUGGIFY and fields["place"] != EARLY:
            return
        host = self.cluster.names[int(fields["node"])]
        if name == BEGUN:
            self._begun[host] = int(fields["end"])
        elif name == BUGGIFY:
            self._early[host] = None
        else:
            self._ended[host] = None

    def died(self, process: SimProcess) -> None:
        self._seen.pop(process.name, None)
        self._turn_over(process.name)

    def _turn_over(self, name: str) -> None:
        self._begun.pop(name, None)
        self._ended.pop(name, None)
        self._early.pop(name, None)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        with_quorum = node_of_quorum(node)
        if with_quorum is None:
            return
        seen = self._seen.get(process.name)
        if seen is None or seen.incarnation != process.incarnation:
            started = with_quorum.snapshot_generator.made_at
            seen = self._seen[process.name] = _Seen(process.incarnation, started, with_quorum.raft.log.start_offset)
            latest = with_quorum.raft.snapshots.latest
            seen.counted = max(seen.counted, 0 if latest is None else latest.end_offset)
        if process.name in self._ended:
            seen.is_writing = False
        begun = self._begun.get(process.name)
        if begun is not None:
            seen.count(with_quorum, begun)
            if process.name not in self._early:
                _check_begun(process, with_quorum, seen)
            seen.begin(process.now, begun)
        self._turn_over(process.name)
        seen.count(with_quorum, with_quorum.raft.high_watermark)
        _check_late(process, with_quorum, seen)


def _check_begun(process: SimProcess, node: Node, seen: _Seen) -> None:
    if not seen.has_jumped and not _is_due(process, node, seen):
        raise InvariantBroken(
            "SN-01",
            f"{process.name} has begun a snapshot {_since(process, seen)} after the last or its start, {_said(node)}",
        )


def _check_late(process: SimProcess, node: Node, seen: _Seen) -> None:
    latest = node.raft.snapshots.latest
    has_news = node.raft.high_watermark > (0 if latest is None else latest.end_offset)
    if seen.is_writing or not has_news or not _is_due(process, node, seen):
        seen.due_since, seen.due_turns = None, 0
        return
    if seen.due_since is None:
        seen.due_since = process.now
    seen.due_turns += 1
    if process.now - seen.due_since > LATE and seen.due_turns > LATE_TURNS:
        raise InvariantBroken(
            "SN-01",
            f"{process.name} has begun no snapshot for {_since(process, seen)}, {_said(node)}",
        )


def _is_due(process: SimProcess, node: Node, seen: _Seen) -> bool:
    interval = node.config.metadata_log_max_snapshot_interval_ms * MS
    if 0 < interval <= process.now - seen.since:
        return True
    return seen.size >= node.config.metadata_log_max_record_bytes_between_snapshots


def _since(process: SimProcess, seen: _Seen) -> str:
    return f"{(process.now - seen.since) / MS:g} ms and {seen.size} bytes of records"


def _said(node: Node) -> str:
    settings = node.config
    return (
        f"with metadata.log.max.record.bytes.between.snapshots="
        f"{settings.metadata_log_max_record_bytes_between_snapshots} and "
        f"metadata.log.max.snapshot.interval.ms={settings.metadata_log_max_snapshot_interval_ms}"
    )

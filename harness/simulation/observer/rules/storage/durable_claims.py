"""DURABLE: what a node takes for durable is durable.

A node acts on what it has made durable: a voter acknowledges records of the metadata log, and a broker notes a recovery
point, below which the next process reads nothing again. If the claim is wrong, only a power loss at the right moment
shows it. So the claims are compared with the disk, whose simulation knows what a power loss could take:

* after a turn that raised the durable offset of a log: all of the log's files below it are durable, content and name;
* after each turn that touched a log: its durable offset is not above its end, so that what is appended next, in place
  of what was truncated, is not taken for durable;
* after a turn that truncated a log: no power loss brings back what it has removed, which what is appended next would be
  taken to follow;
* after a turn that truncated a log: its recovery point in the checkpoint file is not above its durable offset, since
  the log may grow again before the file is written again;
* when a node has another newest snapshot of the metadata: all of it, content and name, since the log before it goes;
* when a node empties its log of the metadata: the snapshot that takes its place, at that moment;
* when a Fetch of the metadata log leaves before the flush of its turn: its offset is not above the durable one, since
  it acknowledges all below (KIP-595);
* when a process has ended: the same below each recovery point in the checkpoint file that it leaves.

Legal: a disk that lies, or was wiped; content that nobody calls durable, and content that is.

Source: rule 17, QC-08, QC-20; fsync(2): a new name is durable once its directory is synced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from squall.harness.simulation.observer.rules.rule import (
    METADATA_DIRECTORY,
    QuorumTurn,
    ReplicaTurn,
    Rule,
    is_of_quorum,
    node_of_quorum,
    wire_keys,
)
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.effects import Effect, Send
from squall.nodes.node.node import Node
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchRequest
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.protocol.requests.headers import decode_request
from squall.nodes.raft.snapshots import SUFFIX as SNAPSHOT
from squall.nodes.raft.snapshots import SnapshotId
from squall.nodes.storage.checkpoints import RECOVERY_POINTS, join, read_offsets
from squall.nodes.storage.errors import CorruptFile

SUFFIX = ".log"
REMOVED = (SUFFIX, ".snapshot")
FETCH = wire_keys(ApiKey.FETCH)


class DurableClaims(Rule):
    """See the module."""

    events = ("log_reset",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._unfounded: dict[str, int] = {}
        """By host, the end of a durable snapshot that was missing when the log was emptied in this turn."""
        self._claims: dict[tuple[str, str], int] = {}
        """By host and directory, the durable offset after the last turn that touched the log."""
        self._snapshots: dict[str, SnapshotId] = {}
        """By host, the newest snapshot that was looked at."""

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        log = turn.replica.log
        self._look(turn.process, log.directory, log.durable_offset, log.end_offset)
        if turn.cut is not None:
            _check_removals(turn.process, log.directory, turn.cut)
            self._check_recovery_point(turn, turn.cut)

    def _check_recovery_point(self, turn: ReplicaTurn, cut: int) -> None:
        replica = turn.replica
        with turn.process.disk.at_no_cost():
            point = read_offsets(turn.process.disk, RECOVERY_POINTS).get((replica.topic, replica.partition), 0)
        if point > replica.log.durable_offset:
            raise InvariantBroken(
                "DURABLE",
                f"{turn.process.name} has cut {replica.log.directory} to {cut}, where all below "
                f"{replica.log.durable_offset} is durable, and keeps the recovery point {point}",
            )

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        host, end = self.cluster.names[int(fields["node"])], int(fields["end"])
        if not _has_durable_snapshot(self.cluster.processes[host].disk, end):
            self._unfounded[host] = end

    def quorum_moved(self, turn: QuorumTurn) -> None:
        raft, name = turn.node.raft, turn.process.name
        if (end := self._unfounded.pop(name, None)) is not None:
            raise InvariantBroken(
                "DURABLE",
                f"{name} has emptied its log of the metadata to go on at offset {end}, before it had a snapshot up to "
                "there that survives a power loss",
            )
        if turn.cut is not None:
            _check_removals(turn.process, raft.config.directory, turn.cut)
        self._look(turn.process, raft.config.directory, raft.log.durable_offset, raft.end_offset)

    def released_early(self, process: SimProcess, node: BaseNode, effects: Sequence[Effect]) -> None:
        with_quorum = node_of_quorum(node)
        if with_quorum is None:
            return
        for effect in effects:
            if not isinstance(effect, Send) or effect.connection > 0:  # a response, to whoever has connected
                continue
            frame = b"".join(effect.chunks)
            request = decode_request(frame)[1] if frame[:2] in FETCH else None
            if isinstance(request, FetchRequest) and is_of_quorum(request):
                _check_acknowledged(process.name, with_quorum, request.topics[0].partitions[0].fetch_offset)

    def metadata_touched(self, process: SimProcess, node: Node) -> None:
        snapshots = node.raft.snapshots
        latest = snapshots.latest
        if latest is None or self._snapshots.get(process.name) == latest:
            return
        self._snapshots[process.name] = latest
        path = snapshots.path(latest)
        with process.disk.at_no_cost():
            size = len(process.disk.content(path) or b"")
        if process.disk.keeps_promises and process.disk.durable_bytes(path) < size:
            raise InvariantBroken(
                "DURABLE",
                f"{process.name} has a snapshot of the metadata up to offset {latest.end_offset}; of its {size} bytes "
                f"{process.disk.durable_bytes(path)} survive a power loss",
            )

    def _look(self, process: SimProcess, directory: str, claim: int, end: int) -> None:
        before = self._claims.get((process.name, directory), 0)
        self._claims[process.name, directory] = claim
        if claim > end:
            raise InvariantBroken(
                "DURABLE", f"{process.name} calls durable all of {directory} below offset {claim}, and it ends at {end}"
            )
        if claim > before:
            _check(process, directory, claim, "calls durable")

    def died(self, process: SimProcess) -> None:
        self._unfounded.pop(process.name, None)
        for place in [one for one in self._claims if one[0] == process.name]:
            del self._claims[place]
        with process.disk.at_no_cost():
            try:
                points = read_offsets(process.disk, RECOVERY_POINTS)
            except CorruptFile:
                return
        for (topic, number), point in points.items():
            _check(process, f"{topic}-{number}", point, "has left as a recovery point")


def _check_removals(process: SimProcess, directory: str, cut: int) -> None:
    if not process.disk.keeps_promises:
        return
    returning = [path for path in process.disk.returning(directory) if path.endswith(REMOVED)]
    if returning:
        raise InvariantBroken(
            "DURABLE",
            f"{process.name} has cut {directory} to {cut}, and a power loss brings back {', '.join(returning)}",
        )


def _check_acknowledged(name: str, node: Node, offset: int) -> None:
    durable = node.raft.log.durable_offset
    if offset > durable:
        raise InvariantBroken(
            "DURABLE",
            f"{name} fetches the metadata log from {offset} before it has flushed it, and only what is below {durable} "
            "is durable",
        )


def _has_durable_snapshot(disk: SimDisk, end: int) -> bool:
    if not disk.keeps_promises:
        return True
    with disk.at_no_cost():
        paths = [join(METADATA_DIRECTORY, name) for name in disk.list(METADATA_DIRECTORY)]
        named = [path for path in paths if path.endswith(SNAPSHOT) and f"/{end:020d}-" in path]
        sizes = [(len(disk.content(path) or b""), disk.durable_bytes(path)) for path in named]
    return any(0 < size <= durable for size, durable in sizes)


def _check(process: SimProcess, directory: str, claim: int, how: str) -> None:
    if not process.disk.keeps_promises:
        return
    for base, size, needed, durable in _files(process.disk, directory, claim):
        if durable < needed:
            raise InvariantBroken(
                "DURABLE",
                f"{process.name} {how} all of {directory} below offset {claim}; of the segment that begins at "
                f"{base}, with {size} bytes, {needed} lie below that, and {durable} survive a power loss",
            )


def _files(disk: SimDisk, directory: str, claim: int) -> list[tuple[int, int, int, int]]:
    """Return base offset, size, bytes below the offset, and durable bytes of each segment that has records below it."""
    found = []
    with disk.at_no_cost():
        names = sorted(
            name for name in disk.list(directory) if name.endswith(SUFFIX) and name[: -len(SUFFIX)].isdecimal()
        )
        bases = [int(name[: -len(SUFFIX)]) for name in names]
        for name, base, following in zip(names, bases, [*bases[1:], claim + 1], strict=False):
            path = join(directory, name)
            content = disk.open(path)
            size, durable = content.size(), disk.durable_bytes(path)
            if base >= claim or durable == size:
                continue
            needed = size if following <= claim else _bytes_below(content.read(0, size), claim)
            found.append((base, size, needed, durable))
    return found


def _bytes_below(content: bytes, offset: int) -> int:
    """Return where the first batch begins that reaches the offset."""
    position = 0
    for header, _ in iterate_batches(memoryview(content), torn_tail=True):
        if header.last_offset >= offset:
            break
        position += header.size
    return position

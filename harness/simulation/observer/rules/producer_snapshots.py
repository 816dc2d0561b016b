"""DP-05: the snapshot of idempotent producers that a roll writes has all that is known, and a start loses none of it.

A snapshot is all that remains of a producer whose records retention or DeleteRecords has removed. If it lacks a batch,
a replica that starts again takes a retry of that batch for a new one. No comparison with the log shows that, because
the log does not have the batch either (`producer_states.py`). So the rule reads the file itself, and remembers it:

* when a log rolls, there is a sound snapshot at the new segment's first offset. It holds, of every producer, the
  batches below that offset that the replica knows;
* when a log was truncated, or opened again, no snapshot is left at an offset above its end: there it would be taken for
  one of the records that come to be there;
* when a host has started again, its replica knows the batches of the newest snapshot that its log reaches, apart from
  those that later batches have pushed out of the last five (rule 7). A clean stop writes one at the log's end, so when
  a host has died, the rule reads the newest file that is there. A power loss may take that file with it;
* when a log has begun or removed segments, or was opened again: each of its segments that a roll began still has its
  snapshot, however many are newer. A recovery that finds the newer ones damaged, or cuts the log below them, starts
  from there, and without it knows nothing of batches that are deleted;
* when the run ends, a log has at most two snapshots below its first segment, which were its newest when the segments
  before it were removed: no recovery would start from others, and they would grow to any number.

Legal: a producer that was silent for `producer.id.expiration.ms`; one that has begun a new epoch; a log that was
truncated below the snapshot, or that began again elsewhere, empty, perhaps in the turn in which its process died; a
replica that was moved away; a disk that a fault has wiped or made lie. Source: KIP-98; of the segments' snapshots
Kafka's `ProducerStateManager.removeStraySnapshots`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, TopicPartitionId, Watched
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.nodes.storage.producers import BATCHES_KEPT, ProducedBatch, ProducerStates

SUFFIX = ".snapshot"
Windows = dict[int, tuple[int, tuple[ProducedBatch, ...]]]
"""By producer id: its epoch and its last batches."""


@dataclass(slots=True)
class _Kept:
    """The snapshots of one replica by offset, the incarnation of its host, and where its last segment began."""

    directory: str
    incarnation: int
    active_base: int
    snapshots: dict[int, Windows]
    left: tuple[int, Windows] | None = None
    """The newest snapshot that the last incarnation has left, and its offset."""
    rolled: set[int] = field(default_factory=set)
    """Where rolls have begun segments. Each had its snapshot then."""
    segment_count: int = 1
    deaths_within_turns: int = 0

    def forget_unneeded(self, start: int) -> None:
        """Forget the snapshots that the replica may remove: all below the log's start but the newest two."""
        newest = sorted(self.snapshots)[-2:]
        self.snapshots = {at: one for at, one in self.snapshots.items() if at >= start or at in newest}

    def forget_rolls(self, turn: ReplicaTurn) -> None:
        """Forget the segments whose place others may have taken that no roll began."""
        process, log = turn.process, turn.replica.log
        deaths = process.crashes_in_calls + process.disk_failures
        is_unclear = deaths != self.deaths_within_turns or not process.disk.keeps_promises
        self.deaths_within_turns = deaths
        began_again = turn.cut is None and log.active_base_offset < self.active_base
        if is_unclear or began_again or log.segment_count == 1:
            self.rolled.clear()
        elif turn.cut is not None:
            self.rolled = {at for at in self.rolled if at < turn.cut}


class ProducerSnapshots(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._kept: dict[tuple[str, TopicPartitionId], _Kept] = {}

    def membership_changed(self, key: TopicPartitionId, watched: Watched) -> None:
        replicas = {self.cluster.names[one] for one in self.cluster.images.newest[key].replicas}
        for place in [place for place in self._kept if place[1] == key and place[0] not in replicas]:
            del self._kept[place]

    def at_end(self) -> None:
        for process in self.cluster.processes.values():
            if process.node is not None:
                unneeded = unneeded_snapshots(process.disk)
                if unneeded:
                    raise InvariantBroken(
                        "DP-05", f"{process.name} keeps snapshots of producers that no recovery needs: {min(unneeded)}"
                    )

    def died(self, process: SimProcess) -> None:
        for (name, _), kept in self._kept.items():
            if name == process.name:
                kept.left = newest_left(process.disk, kept.directory)

    def power_lost(self, name: str) -> None:
        for place, kept in self._kept.items():
            if place[0] == name:
                kept.left = None

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        process, log = turn.process, turn.replica.log
        place, base = (process.name, (turn.replica.topic_id, turn.replica.partition)), log.active_base_offset
        kept = self._kept.get(place)
        if kept is None:
            self._kept[place] = _Kept(log.directory, process.incarnation, base, {})
            return
        restarted = kept.incarnation != process.incarnation
        if turn.cut is not None or restarted:
            check_none_above(turn.watched.log.name, process, turn.replica)
        if turn.cut is not None:
            kept.snapshots = {at: one for at, one in kept.snapshots.items() if log.start_offset < at <= turn.cut}
            kept.left = None
        changed = restarted or (base, log.segment_count) != (kept.active_base, kept.segment_count)
        kept.forget_rolls(turn)
        if restarted:
            kept.incarnation = process.incarnation
            self._check_start(turn, kept)
        elif base > kept.active_base and log.segment_count > 1:
            windows = check_snapshot(turn.watched.log.name, process, turn.replica, base)
            kept.snapshots[base] = windows
            kept.rolled.add(base)
            kept.forget_unneeded(log.start_offset)
        elif base > kept.active_base:  # the log began again elsewhere, or retention has removed all of it
            kept.snapshots.clear()
        kept.active_base, kept.segment_count = base, log.segment_count
        if changed:
            check_segments(turn.watched.log.name, process, log.directory, kept.rolled)

    def _check_start(self, turn: ReplicaTurn, kept: _Kept) -> None:
        process, replica, left = turn.process, turn.replica, kept.left
        if not process.disk.keeps_promises or replica.log.start_offset == replica.end_offset:
            kept.snapshots.clear()
        kept.snapshots = {at: one for at, one in kept.snapshots.items() if at <= replica.end_offset}
        snapshots = dict(kept.snapshots)
        if left is not None and process.disk.keeps_promises:
            at, end = left[0], replica.end_offset
            snapshots |= dict([left]) if at == end or replica.log.start_offset < at < end else {}
        if snapshots:
            at = max(snapshots)
            check_remembered(turn.watched.log.name, process.name, replica, at, snapshots[at])


def check_none_above(log: str, process: SimProcess, replica: TopicPartitionReplica) -> None:
    """Check that no snapshot file is at an offset above the log's end."""
    at = max(_snapshots_in(process.disk, replica.log.directory), default=0)
    if at > replica.end_offset:
        raise InvariantBroken(
            "DP-05",
            f"{log}: {process.name} has a snapshot of producers at {at}, and its log ends at {replica.end_offset}",
        )


def check_segments(log: str, process: SimProcess, directory: str, rolled: Collection[int]) -> None:
    """Check that the segments that rolls have begun at the offsets `rolled`, and that remain, have their snapshots."""
    with process.disk.at_no_cost():
        names = set(process.disk.list(directory))
    bare = sorted(at for at in rolled if f"{at:020}.log" in names and f"{at:020}{SUFFIX}" not in names)
    if bare:
        raise InvariantBroken(
            "DP-05",
            f"{log}: {process.name} has a segment that begins at {bare[0]}, and has removed the snapshot of producers "
            "that it wrote there",
        )


def unneeded_snapshots(disk: SimDisk) -> set[str]:
    """Return the paths of snapshots below the first segment of their log, but for the newest two of them."""
    found: set[str] = set()
    with disk.at_no_cost():
        for directory in disk.list(""):
            names = disk.list(directory)
            first = min((int(name.removesuffix(".log")) for name in names if name.endswith(".log")), default=0)
            below = sorted(at for at in _snapshots_in(disk, directory) if at < first)
            found |= {f"{directory}/{at:020d}{SUFFIX}" for at in below[:-2]}
    return found


def _snapshots_in(disk: SimDisk, directory: str) -> list[int]:
    """The offsets of the snapshots in a log's directory."""
    with disk.at_no_cost():
        names = [name.removesuffix(SUFFIX) for name in disk.list(directory) if name.endswith(SUFFIX)]
    return [int(name) for name in names if name.isdecimal()]


def _read(disk: SimDisk, directory: str, at: int) -> tuple[bool, Windows | None]:
    """Whether there is a snapshot at this offset, and what it holds; None if it is damaged."""
    content, read = disk.content(f"{directory}/{at:020d}{SUFFIX}"), ProducerStates(disk, directory)
    return content is not None, windows_of(read) if content is not None and read.decode(content) else None


def newest_left(disk: SimDisk, directory: str) -> tuple[int, Windows] | None:
    """Return the newest sound snapshot in a log's directory, and its offset."""
    found = ((at, _read(disk, directory, at)[1]) for at in sorted(_snapshots_in(disk, directory), reverse=True))
    return next(((at, windows) for at, windows in found if windows is not None), None)


def check_snapshot(log: str, process: SimProcess, replica: TopicPartitionReplica, at: int) -> Windows:
    """Compare the snapshot file at the offset of a roll with what the replica knows, and return its content."""
    there_is, written = _read(process.disk, replica.log.directory, at)
    if written is None:
        found = "a damaged snapshot" if there_is else "no snapshot"
        raise InvariantBroken(
            "DP-05", f"{log}: {process.name} rolled its log at {at}, and there is {found} of producers"
        )
    known = windows_of(replica.log.producers)
    for producer_id, (_, batches) in written.items():
        if batches and batches[-1].last_offset >= at:
            raise InvariantBroken(
                "DP-05",
                f"{log}: {process.name} has a snapshot of producers at {at}, and in it {_described(batches)} of "
                f"producer {producer_id}",
            )
    for producer_id, (epoch, batches) in known.items():
        below = [batch for batch in batches if batch.last_offset < at]
        there = written.get(producer_id, (epoch, ()))
        if below and (there[0] != epoch or list(there[1][-len(below) :]) != below):
            raise InvariantBroken(
                "DP-05",
                f"{log}: {process.name} rolled its log at {at} and knew {_described(below)} of producer {producer_id}; "
                f"the snapshot has {_described(there[1])}",
            )
    return written


def check_remembered(log: str, name: str, replica: TopicPartitionReplica, at: int, written: Windows) -> None:
    """Check that a replica which starts again knows what its snapshot at offset `at` held."""
    known = windows_of(replica.log.producers)
    every = [batch.timestamp for windows in (known, written) for _, batches in windows.values() for batch in batches]
    oldest = max(every, default=0) - replica.log.config.producer_expiration_ms
    for producer_id, (epoch, batches) in written.items():
        now_epoch, now = known.get(producer_id, (epoch, ()))
        if now_epoch != epoch or not batches or batches[-1].timestamp < oldest:
            continue
        later = sum(batch.first_offset >= at for batch in now)
        expected = batches[max(0, len(batches) + later - BATCHES_KEPT) :]
        if now[: len(now) - later] != expected:
            raise InvariantBroken(
                "DP-05",
                f"{log}: {name} comes back with records up to {replica.end_offset} and knows {_described(now)} of "
                f"producer {producer_id}; its snapshot at {at} has {_described(batches)}",
            )


def windows_of(states: ProducerStates) -> Windows:
    """The last batches of every producer."""
    found = {one: states.state_of(one) for one in states.ids}
    return {one: (state.epoch, tuple(state.batches)) for one, state in found.items() if state is not None}


def _described(batches: list[ProducedBatch] | tuple[ProducedBatch, ...]) -> str:
    sequences = [f"{batch.first_sequence} to {batch.last_sequence}" for batch in batches]
    return f"sequences {', '.join(sequences)}" if sequences else "nothing"

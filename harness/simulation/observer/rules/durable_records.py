"""DURABLE: records survive the death of a process, and those that the node calls durable survive a power loss.

After each turn the rule notes what a replica holds: its log end, the end of what the log calls durable, and for the
metadata quorum the epoch, which a node writes down before it acts on it (QC-08). At the first turn of the next
incarnation the log must reach at least as far: to its former end if only the process died, since the page cache
survives; to its former durable end after a power loss (QC-20, rule 17). That the records are the same ones is checked
by LM and EP-04.

Two more things are written down, and must be there again:

* the start of a topic-partition's log, at the end of the turn that raised it (DP-16): deleted records do not come back;
* the high watermark, when the node stops cleanly: consumers do not have to wait for a leader to learn it again. After
  any other end, a follower begins with the one in its checkpoint file, as far as its log reaches.

Legal: a log that ends earlier

* because it is truncated in that very turn, or begins again after a snapshot;
* because the process died within a turn, which may have truncated what is not committed: what lies beyond the committed
  end, or differs from what is committed there;
* because it was empty, began in the middle of a batch, and the process died within a turn, which may have begun it
  again where that batch begins: it must take the batch as a whole;
* because the topic-partition was moved away from the host meanwhile, or moved away and back before the host knew of it:
  once the host does, the log begins again (seed 916447);
* on a disk that a fault has wiped, or that has pretended to sync.

Legal as well: a start or a high watermark that is lower because the log is truncated in that turn, or was when the
process died; a high watermark that is lower after any other end than a clean one.
"""

from __future__ import annotations

from dataclasses import dataclass

from squall.harness.simulation.observer.rules.rule import QuorumTurn, ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, TopicPartitionId, Watched
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.nodes.storage.checkpoints import HIGH_WATERMARKS, read_offsets

QUORUM: TopicPartitionId = (b"", -1)
"""The place of the metadata log among the logs of a host."""


@dataclass(slots=True)
class _Held:
    """What a host held of a log after its last turn that touched it, and whether it has lost power since."""

    incarnation: int
    deaths_within_turns: int
    end: int
    durable: int
    epoch: int
    committed: int
    """The end of what was committed: a process that dies in its next turn may have truncated down to it."""
    is_empty: bool = False
    lost_power: bool = False
    start: int = 0
    high_watermark: int = 0

    @property
    def survives(self) -> int:
        """How far the log of the next incarnation must reach."""
        return self.durable if self.lost_power else self.end


class DurableRecords(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._held: dict[tuple[str, TopicPartitionId], _Held] = {}
        self._stopped: dict[str, int] = {}
        """By host, the newest incarnation that stopped cleanly."""
        self._moved_away: dict[tuple[str, TopicPartitionId], int] = {}
        """The newest partition epoch at which a log that a host held was moved away."""

    def power_lost(self, name: str) -> None:
        for (host, _), held in self._held.items():
            if host == name:
                held.lost_power = True

    def died(self, process: SimProcess) -> None:
        if process.how_it_ended == "stopped":
            self._stopped[process.name] = process.incarnation

    def membership_changed(self, key: TopicPartitionId, watched: Watched) -> None:
        registration = self.cluster.images.newest[key]
        replicas = {self.cluster.names[one] for one in registration.replicas}
        for place in [place for place in self._held if place[1] == key and place[0] not in replicas]:
            del self._held[place]
            self._moved_away[place] = registration.partition_epoch

    def replica_touched(self, turn: ReplicaTurn) -> None:
        replica, process = turn.replica, turn.process
        key = (replica.topic_id, replica.partition)
        place = (process.name, key)
        held = self._held.get(place)
        if held is not None and held.incarnation != process.incarnation:
            log = turn.watched.log
            committed = 0 if turn.watched.unclean else min(held.committed, log.agreed_end((place[0], held.incarnation)))
            if held.is_empty and (batch := log.at(held.end)) is not None:
                committed = min(committed, batch.base)
            self._check(process, log.name, held, replica.end_offset, turn.cut, committed)
            self._check_written(turn, held)
        registration = self.cluster.images.newest.get(key)
        is_away = registration is not None and replica.broker not in registration.replicas
        if is_away or replica.partition_epoch < self._moved_away.get(place, -1):
            self._held.pop(place, None)
            return
        self._hold(place, process, replica.end_offset, replica.log.durable_offset, 0, turn.watched.log.end)
        noted = self._held[place]
        noted.is_empty = replica.log.start_offset == replica.end_offset
        noted.start, noted.high_watermark = replica.log.start_offset, replica.high_watermark

    def _check_written(self, turn: ReplicaTurn, held: _Held) -> None:
        """Check what a node writes down besides records."""
        process, replica, name = turn.process, turn.replica, turn.watched.log.name
        deaths = process.crashes_in_calls + process.disk_failures
        if turn.cut is not None or deaths != held.deaths_within_turns or not process.disk.keeps_promises:
            return
        if replica.log.start_offset < held.start:
            raise InvariantBroken(
                "DURABLE",
                f"{name}: {process.name} comes back with a log that begins at {replica.log.start_offset}, and "
                f"everything below {held.start} had been deleted",
            )
        clean = self._stopped.get(process.name) == held.incarnation == process.incarnation - 1
        if clean and not held.lost_power and replica.high_watermark < held.high_watermark:
            raise InvariantBroken(
                "DURABLE",
                f"{name}: {process.name} comes back from a clean stop with high watermark {replica.high_watermark}, "
                f"and had {held.high_watermark}",
            )

        if not replica.is_leader:
            _check_high_watermark(process, replica, name)

    def quorum_moved(self, turn: QuorumTurn) -> None:
        process, (end, _, _, epoch) = turn.process, turn.now
        place = (process.name, QUORUM)
        held = self._held.get(place)
        if turn.before is None and held is not None:
            if epoch < held.epoch and process.disk.keeps_promises:
                raise InvariantBroken(
                    "DURABLE",
                    f"{process.name} comes back in quorum epoch {epoch}, and was in epoch {held.epoch} before",
                )
            if turn.reset is None:
                log = self.cluster.quorum
                committed = min(held.committed, log.agreed_end((process.name, held.incarnation)))
                self._check(process, log.name, held, end, turn.cut, committed)
        self._hold(place, process, end, turn.node.raft.log.durable_offset, epoch, self.cluster.quorum.end)

    def _hold(
        self,
        place: tuple[str, TopicPartitionId],
        process: SimProcess,
        end: int,
        durable: int,
        epoch: int,
        committed: int,
    ) -> None:
        deaths = process.crashes_in_calls + process.disk_failures
        if durable > end:
            durable = end
        held = self._held.get(place)
        if held is None or held.incarnation != process.incarnation:
            self._held[place] = _Held(process.incarnation, deaths, end, durable, epoch, committed)
            return
        held.deaths_within_turns, held.end, held.durable, held.epoch = deaths, end, durable, epoch
        held.lost_power, held.committed = False, committed

    def _check(self, process: SimProcess, log: str, held: _Held, end: int, cut: int | None, committed: int) -> None:
        """Check the log of a new incarnation. `committed` is the least that a dying process may have truncated to."""
        if not process.disk.keeps_promises:
            return
        least = held.survives if cut is None else min(cut, held.survives)
        if process.crashes_in_calls + process.disk_failures != held.deaths_within_turns:
            least = min(least, committed)
        if held.lost_power and held.durable < held.end:
            self.cluster.counters.unsynced_ends_lost += end < held.end
            self.cluster.counters.unsynced_ends_kept += end >= held.end
        if end < least:
            how = "were durable before a power loss" if held.lost_power else "were there when its process died"
            raise InvariantBroken(
                "DURABLE", f"{log}: {process.name} comes back with records up to {end}, and those up to {least} {how}"
            )


def _check_high_watermark(process: SimProcess, replica: TopicPartitionReplica, name: str) -> None:
    """Check that a follower which comes back begins with the high watermark that is written down."""
    with process.disk.at_no_cost():
        written = read_offsets(process.disk, HIGH_WATERMARKS).get((replica.topic, replica.partition), 0)
    expected = min(max(written, replica.log.start_offset), replica.end_offset)
    if replica.high_watermark != expected:
        raise InvariantBroken(
            "DURABLE",
            f"{name}: {process.name} comes back with high watermark {replica.high_watermark}; {written} is written "
            f"down, and its log begins at {replica.log.start_offset} and ends at {replica.end_offset}",
        )

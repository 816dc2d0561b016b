"""EP-04: a follower appends what the leader of its epoch has, and a leader nothing of another epoch (rule 9).

Most errors between a follower and its leader show sooner or later as two logs that differ. This one does not, because
the next fetch corrects it: a response to a fetch of an older epoch may fit the log's end and hold records that this
leader never had. Asserted when a replica appends. Legal: a record of an older epoch that the leader has too; a replica
seen for the first time, a change of epochs in between, no leader now.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken, SeenReplica
from squall.nodes.replication.replica import TopicPartitionReplica


class FollowerAppend(Rule):
    """See the module."""

    def appended(self, turn: ReplicaTurn) -> None:
        log, replica = turn.watched.log, turn.replica
        name = log.leaders.get(replica.leader_epoch)
        leader = None if name is None else self.cluster.replica_of(name, (replica.topic_id, replica.partition))
        check_append(log.name, turn.process.name, replica, turn.seen, leader)


def check_append(
    log: str, name: str, replica: TopicPartitionReplica, seen: SeenReplica, leader: TopicPartitionReplica | None
) -> None:
    """Check the batch by which `seen` has just grown.

    Skips a replica seen for the first time, a change of epochs in between, and the absence of a leader.
    """
    epoch, newest = replica.leader_epoch, seen.previous
    if newest is None or seen.leader_epoch != epoch or newest[1] >= epoch:
        return
    base, batch_epoch = newest
    if not replica.is_leader and not _lacks(leader, epoch, base, batch_epoch):
        return
    whose = "though it leads" if replica.is_leader else "which its leader does not have"
    raise InvariantBroken(
        "EP-04",
        f"{log}: {name} is in leader epoch {epoch} and has appended a batch at offset {base} of epoch {batch_epoch}, "
        f"{whose}",
    )


def _lacks(leader: TopicPartitionReplica | None, epoch: int, base: int, batch_epoch: int) -> bool:
    """Return whether a leader of `epoch`, if there is one now, has no batch of `batch_epoch` at `base`."""
    if leader is None or not leader.is_leader or leader.leader_epoch != epoch or base < leader.log.start_offset:
        return False
    return base >= leader.end_offset or leader.log.epochs.epoch_of(base) != batch_epoch

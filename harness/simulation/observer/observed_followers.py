"""Check what a follower does to its log against its leader (EP-04, DP-13, rules 9 and 14).

Most errors between a follower and its leader show sooner or later as two logs that differ. Two do not, because the next
fetch corrects them, or because the follower makes no progress after them:

* EP-04  a follower appends what the leader of its epoch has, and a leader nothing of another epoch. A response to a
         fetch of an older epoch may fit the log's end and hold records that this leader never had.
* DP-13  a truncated log has no epoch beyond its end. A follower reports its last known epoch as fetched; if that epoch
         has no records, every fetch returns the same truncation, forever.
"""

from __future__ import annotations

from squall.harness.simulation.observer.observed_log import InvariantBroken, SeenReplica
from squall.nodes.replication.replica import TopicPartitionReplica


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


def check_truncation(log: str, name: str, replica: TopicPartitionReplica) -> None:
    """Check `replica`, which was truncated in this turn and has not become a leader since."""
    entries = replica.log.epochs.entries
    if not entries or entries[-1][1] < max(replica.end_offset, replica.log.start_offset + 1):
        return
    epoch, start = entries[-1]
    raise InvariantBroken(
        "DP-13",
        f"{log}: {name} has cut its log to {replica.end_offset} and still claims epoch {epoch}, which began at {start}",
    )

"""DP-13: a truncated log has no epoch beyond its end (rule 14).

A follower reports its last known epoch as fetched. If that epoch has no records, every fetch returns the same
truncation, forever: no log differs, and the follower makes no progress. Source: KIP-101, KIP-595. Asserted on a replica
that was truncated in this turn. Legal: a replica that has become a leader since, whose epoch begins at its log's end.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.replication.replica import TopicPartitionReplica


class TruncatedEpochs(Rule):
    """See the module."""

    def truncated(self, process: SimProcess, where: str, replica: TopicPartitionReplica) -> None:
        check_truncation(where, process.name, replica)


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

"""DP-17: a follower can append what its leader sends: every batch is whole, undamaged, and the next one.

A follower checks the checksum and the offset of each batch, refuses what is unsound, and tries again later. That keeps
damage from spreading and hides where it came from: clients see nothing as long as the leader lives. Simulated
connections damage nothing, and recovery removes what a power loss has torn, so each refusal shows a leader that read or
sent its log wrongly. Source: rule 1 and rule 17.

Asserted in the turn that refuses. Legal: a response whose last batch is cut off at the size limit of the fetch, of
which the follower takes the whole batches; a refusal in a turn in which the node then dies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess


class RefusedRecords(Rule):
    """See the module."""

    events = ("records_refused",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._refused: list[Mapping[str, Any]] = []

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        self._refused.append(fields)

    def died(self, process: SimProcess) -> None:
        self._refused.clear()

    def replica_touched(self, turn: ReplicaTurn) -> None:
        refused, self._refused = self._refused, []
        for fields in refused:
            raise InvariantBroken(
                "DP-17",
                f"{fields['topic']}-{fields['partition']}: {self.cluster.names[int(fields['broker'])]} ends at "
                f"{fields['end']} in leader epoch {fields['epoch']} and refuses what its leader sends: {fields['why']}",
            )

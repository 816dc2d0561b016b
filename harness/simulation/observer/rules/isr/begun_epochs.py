"""EP-01: a replica begins to lead an epoch once, and the epochs that it leads rise.

What a leader knows of its followers holds for one epoch. At its beginning nothing is known, and members of the ISR
count as caught up. A leader that begins its epoch again, at a change that needs no new one, forgets what its followers
have. So the high watermark waits for them, and a member that lags is given another time. Asserted in the turn in which
a replica begins to lead. Legal: another incarnation of the broker, which begins with the epoch that metadata say; a
topic of the same name with another id; a replica that a ZooKeeper-era controller had deleted, and that begins anew.

Source: rule 9 (KIP-101), requirement EP-01.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess


class BegunEpochs(Rule):
    """See the module."""

    events = ("leader", "zk_replica_deleted")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._newest: dict[tuple[int, bytes, int], int] = {}
        """By broker, topic id and partition, the newest epoch that this incarnation began to lead."""
        self._breach = ""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == "zk_replica_deleted":
            self._newest.pop((int(fields["node"]), bytes(fields["topic_id"]), int(fields["number"])), None)
            return
        key = (int(fields["broker"]), bytes(fields["topic_id"]), int(fields["partition"]))
        epoch, before = int(fields["epoch"]), self._newest.get(key, -1)
        self._newest[key] = max(epoch, before)
        if epoch <= before and not self._breach:
            place = f"{fields['topic']}-{fields['partition']}"
            self._breach = f"broker {key[0]} begins to lead {place} in epoch {epoch}, it has begun {before} before"

    def died(self, process: SimProcess) -> None:
        self._breach = ""
        self._newest = {key: one for key, one in self._newest.items() if self.cluster.names.get(key[0]) != process.name}

    def replica_touched(self, turn: ReplicaTurn) -> None:
        if self._breach:
            raise InvariantBroken("EP-01", self._breach)

"""QC-08: before a node sends what depends on a quorum epoch, that epoch and its leader are durable in `quorum-state`.

A node that forgets an epoch in a power loss may answer in an older one again, and vote in it. Double votes break ELECT
only if the power is lost at the right moment; this rule needs no power loss. It reads what the disk would keep, in the
turn in which the node enters a role and before the output of the turn is released. Source: KIP-595, rule 32. Legal: a
disk that pretends to sync, which no node can notice. The vote itself is left to ELECT (`quorum_votes.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.node import Node
from squall.nodes.raft.quorum_state import FILE


class DurableEpoch(Rule):
    """See the module."""

    events = ("state",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._entered: tuple[int, int] | None = None

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        self._entered = (int(fields["epoch"]), int(fields["leader"]))

    def died(self, process: SimProcess) -> None:
        self._entered = None

    def messages_seen(self, process: SimProcess, node: Node) -> None:
        entered, self._entered = self._entered, None
        if entered is None or process.disk.pretended_syncs:
            return
        content = process.disk.durable_content(FILE)
        kept = None if content is None else json.loads(content)
        if kept is not None and (kept["leaderEpoch"], kept["leaderId"]) == entered:
            return
        durable = "nothing" if kept is None else f"epoch {kept['leaderEpoch']}, leader {kept['leaderId']}"
        raise InvariantBroken(
            "QC-08",
            f"{process.name} has entered quorum epoch {entered[0]}, leader {entered[1]}; "
            f"its disk would keep {durable} after a power loss",
        )

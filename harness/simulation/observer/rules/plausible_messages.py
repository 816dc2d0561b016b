"""ELECT: no node sends another a message of the quorum's protocol that can never be valid.

A voter refuses such a message and traces `implausible`. In simulation every sender is one of our nodes, so each is a
bug. Asserted in the turn that refuses the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.node import Node


class PlausibleMessages(Rule):
    """See the module."""

    events = ("implausible",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._refused: list[str] = []

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        self._refused.append(f"{fields['what']}: {fields['why']}")

    def died(self, process: SimProcess) -> None:
        self._refused.clear()

    def messages_seen(self, process: SimProcess, node: Node) -> None:
        if self._refused:
            raise InvariantBroken("ELECT", f"{process.name} refused {self._refused[0]}")

"""SN-07: a node keeps no more of the metadata log than `metadata.max.retention.bytes` allows.

Snapshots shorten a restart only if what they replace goes. A node that keeps it serves the same records as before, so
nobody misses anything until its disk is full.

Asserted after each turn in which a snapshot has been put in place: either the node has that snapshot alone, or the
files of its log and of its snapshots are together within the limit. The log after the oldest snapshot counts as well,
since a later snapshot could take its place. Source: KIP-630. Legal: any size without a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode

LOG, SNAPSHOT = ".log", ".checkpoint"


class RetainedMetadata(Rule):
    """See the module."""

    events = ("snapshot",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._placed: set[str] = set()
        """The hosts that have put a snapshot in place, in a turn that is not over."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        self._placed.add(self.cluster.names[int(fields["node"])])

    def died(self, process: SimProcess) -> None:
        self._placed.discard(process.name)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if process.name not in self._placed:
            return
        self._placed.discard(process.name)
        with_quorum = node_of_quorum(node)
        if with_quorum is None:
            return
        limit = with_quorum.config.metadata_max_retention_bytes
        sizes = _sizes(process, self.cluster.quorum.name)
        snapshots = [name for name in sizes if name.endswith(SNAPSHOT)]
        if 0 <= limit < sum(sizes.values()) and len(snapshots) > 1:
            raise InvariantBroken(
                "SN-07",
                f"{process.name} has put a snapshot in place, and keeps {sum(sizes.values())} bytes of metadata with "
                f"{len(snapshots)} snapshots; the limit is {limit}",
            )


def _sizes(process: SimProcess, directory: str) -> dict[str, int]:
    """The bytes in each file of the log and each snapshot."""
    with process.disk.at_no_cost():
        names = [name for name in process.disk.list(directory) if name.endswith((LOG, SNAPSHOT))]
    return {name: len(process.disk.content(f"{directory}/{name}") or b"") for name in names}

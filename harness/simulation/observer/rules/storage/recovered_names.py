"""DURABLE: a process makes durable the names of the files that it finds in the directories of its logs.

A process may die after it has created or renamed a file, and before it has synced the directory. The next one finds the
file, and takes what it holds for durable. If it does not sync the directory, a later power loss takes the file away,
with records, or votes, that were promised by then. Asserted after the first turn of each process. Legal: names that the
process has created itself since, which it syncs before it promises anything; files outside of the directories of logs,
which are written anew and synced each time; a disk that was wiped, or lies.

Source: fsync(2): a new name is durable once its directory is synced.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode


class RecoveredNames(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._seen: dict[str, int] = {}
        """By host, the newest incarnation that has been examined."""

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if self._seen.get(process.name) == process.incarnation:
            return
        self._seen[process.name] = process.incarnation
        left = [path for path in process.disk.names_left() if "/" in path]
        if left and process.disk.keeps_promises:
            raise InvariantBroken(
                "DURABLE",
                f"{process.name} has started, and a power loss would take away {left}, which it has found",
            )

"""SYNC: no process syncs a file a second time that it has not changed since.

An fsync is what a log waits for longest. One that changes nothing costs as much as one that does, and shows nowhere: a
node that syncs all segments where one has changed does so at each flush. Asserted when a process has ended, and at the
end of the run.

Source: fsync(2). Legal: the first sync of a file by a process, which does not know what an earlier one has synced; one
that repeats a sync that has failed.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess


class NeedlessSyncs(Rule):
    """See the module."""

    def died(self, process: SimProcess) -> None:
        _check(process)

    def at_end(self) -> None:
        for process in self.cluster.processes.values():
            _check(process)


def _check(process: SimProcess) -> None:
    needless = process.disk.needless_syncs()
    if needless:
        raise InvariantBroken(
            "SYNC",
            f"{process.name} has synced {needless[0]} twice without a change between, and {len(needless) - 1} more",
        )

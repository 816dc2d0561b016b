"""FILES: a node closes the files that it opens, and does nothing to an open file that a host cannot bear.

A file that is never closed keeps a descriptor, and a node that has leaked thousands can open no more. A host's open
file caches its size, and is closed and opened again by its path when many are open (`nodes/server/open_files.py`). So a
second open file of the same path would write over what the first has written, and one that is renamed or removed while
it is open fails at its next use. The simulated disk has none of these troubles, and would hide them. Asserted

* when a node has stopped cleanly: it has closed every file;
* when a node stops, dies, or the run ends: it never opened, renamed, replaced or removed a file that it had open;
* when a node has stopped cleanly, or the run ends: it has open every file whose name ends with `.part`. It writes such
  a file and then renames it; an abandoned one only fills the disk.

Source: `nodes/ports.py`. Legal: files that a process has open when it dies, which its host closes; unfinished ones that
it leaves then, which the next process removes as it starts; a disk whose calls have failed.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.raft.snapshots import PART

NAMED = 3
"""How many files a breach names."""


class OpenFiles(Rule):
    """See the module."""

    def died(self, process: SimProcess) -> None:
        _check_use(process)
        if process.how_it_ended != "stopped":
            return
        _check_unfinished(process)
        left = process.disk.open_files()
        if left:
            raise InvariantBroken(
                "FILES", f"{process.name} has stopped, and has not closed {len(left)} of its files: {_few(left)}"
            )

    def at_end(self) -> None:
        for process in self.cluster.processes.values():
            _check_use(process)
            if process.node is not None:
                _check_unfinished(process)


def _check_use(process: SimProcess) -> None:
    misused = process.disk.misused_files()
    if misused:
        raise InvariantBroken("FILES", f"{process.name} had a file open: {_few(misused)}")


def _check_unfinished(process: SimProcess) -> None:
    left = sorted({path for path in process.disk.paths() if path.endswith(PART)}.difference(process.disk.open_files()))
    if left and not process.disk.errors:
        raise InvariantBroken("FILES", f"{process.name} has left {len(left)} unfinished files: {_few(left)}")


def _few(found: list[str]) -> str:
    return ", ".join(found[:NAMED]) + (" ..." if len(found) > NAMED else "")

"""Relate the wall clocks of hosts to a run's time, so that lines of node logs have a place in it.

Nodes stamp their log with their host's time of day; a run is timed by the control process's monotonic clock. The
difference is read twice, when the load begins and when the nodes have been stopped, both times with no fault open, and
kept in `clocks.json`: per host the nanoseconds to be added to its wall clock, and their error (`clocks.py`). A clock
that another program set meanwhile shows as uncertainty, never as another order of events.

Hosts of a lab read the control node's own clock. Other hosts report their time over SSH, several times for a good
reading; an unreachable host has no reading, and its log is not placed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from squall.harness.hosts.clocks import ClockReading
from squall.harness.hosts.ssh import Remote, on_all
from squall.harness.hosts.ssh_access import SshError

CLOCKS_FILE = "clocks.json"
EXCHANGES = 5
ASK_SECONDS = 5.0


class HostClocks:
    """The readings of a run; each `read` extends them to that time. Saved to disk after each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.readings: dict[str, ClockReading] = {}

    async def read(self, remotes: Iterable[Remote], *, shared: bool) -> None:
        """Read the clocks of these hosts, which in a lab are all this machine's own (`shared`)."""
        listed, now = list(remotes), time.monotonic_ns()
        if shared:
            own = best_of(time.time_ns)
            found: Mapping[str, ClockReading | None] = {remote.name: own for remote in listed}
        else:
            found = await asyncio.to_thread(on_all, listed, _asked)
        for name, reading in found.items():
            before = self.readings.get(name)
            if reading is not None:
                self.readings[name] = reading if before is None else before.and_later(reading)
            elif before is not None:
                self.readings[name] = replace(before.until(now), taken=now)
        save_clocks(self._directory, self.readings)


def best_of(theirs: Callable[[], int]) -> ClockReading:
    """Return the quickest of several exchanges, which is the most accurate."""
    readings = []
    for _ in range(EXCHANGES):
        asked = time.monotonic_ns()
        readings.append(ClockReading.of_exchange(asked, theirs(), time.monotonic_ns()))
    return min(readings, key=lambda reading: reading.error)


def _asked(remote: Remote) -> ClockReading | None:
    try:
        return best_of(lambda: int(remote.run(["date", "+%s%N"], timeout=ASK_SECONDS, check=True).stdout))
    except (SshError, ValueError):  # unreachable, or a `date` without nanoseconds
        return None


def save_clocks(directory: Path, readings: Mapping[str, ClockReading]) -> None:
    written = {name: asdict(reading) for name, reading in readings.items()}
    (directory / CLOCKS_FILE).write_text(json.dumps(written, indent=2) + "\n")


def load_clocks(directory: Path) -> dict[str, ClockReading]:
    """Return the readings of a run; none if their file is missing or damaged."""
    try:
        written = json.loads((directory / CLOCKS_FILE).read_text())
        return {name: ClockReading(**reading) for name, reading in written.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}

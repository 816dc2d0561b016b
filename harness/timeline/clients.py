"""Find what clients noticed of each fault: the first failure, and the longest wait for an acknowledgement.

Both are read from `history.parquet`, one row group at a time and only the needed columns. A run that was not closed has
no such file; its timeline has no clients in it until `squall check` has made one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from squall.harness.timeline.entry import Entry
from squall.results.history.history import FUNCTIONS, HISTORY_FILE, TYPES, layout
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.segments import FaultWindow

COLUMNS = ["f", "type", "completed", "error"]
LEAST_WAIT = 1_000_000_000
"""A wait of less than a second is not worth a line."""

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Trouble:
    """A send that failed, or whose outcome is unknown."""

    time: int
    where: str
    error: str

    def __str__(self) -> str:
        return f"first trouble: send to {self.where}, {self.error}"


@dataclass(frozen=True)
class Wait:
    """A time without any acknowledgement on a topic-partition."""

    since: int
    until: int
    where: str

    @property
    def time(self) -> int:
        return self.until

    @property
    def length(self) -> int:
        return self.until - self.since

    def __str__(self) -> str:
        return f"{self.where} acknowledges again after {self.length / 1e9:.2f} s, the longest wait"


@dataclass
class _Noticed:
    """What clients noticed of one fault so far."""

    window: FaultWindow
    trouble: Trouble | None = None
    wait: Wait | None = None

    def look(self, where: str, sends: pa.Table, acknowledged: Times) -> None:
        self._look_for_trouble(where, sends)
        self._look_for_wait(where, acknowledged)

    def _look_for_trouble(self, where: str, sends: pa.Table) -> None:
        times = np.asarray(sends["completed"])
        failed = (np.asarray(sends["type"]) != TYPES["ok"]) & (times >= self._since) & (times <= self._until)
        if not failed.any():
            return
        row = int(np.flatnonzero(failed)[np.argmin(times[failed])])
        if self.trouble is None or times[row] < self.trouble.time:
            error = sends["error"][row].as_py() or "no answer"
            self.trouble = Trouble(int(times[row]), where, error)

    def _look_for_wait(self, where: str, acknowledged: Times) -> None:
        ends, begins = acknowledged[1:], acknowledged[:-1]
        under = np.flatnonzero((ends > self._since) & (begins < self._until))
        if not len(under):
            return
        longest = under[np.argmax(ends[under] - begins[under])]
        wait = Wait(int(begins[longest]), int(ends[longest]), where)
        if wait.length >= LEAST_WAIT and (self.wait is None or wait.length > self.wait.length):
            self.wait = wait

    @property
    def _since(self) -> int:
        assert self.window.injected is not None
        return self.window.injected

    @property
    def _until(self) -> int:
        """The end of the fault; without one, the end of time."""
        return self.window.healed if self.window.healed is not None else np.iinfo(np.int64).max


def client_entries(run_directory: Path, windows: Sequence[FaultWindow]) -> Iterator[Entry]:
    """Yield what clients noticed of these faults. Raises IllFormedHistory for a history that cannot be read."""
    path = run_directory / HISTORY_FILE
    noticed = [_Noticed(window) for window in windows if window.injected is not None]
    if not noticed or not path.exists():
        return
    places = layout(path)
    try:
        with pq.ParquetFile(path) as file:
            for place in places:
                sends = _sends(file, place.row_groups)
                ok = np.asarray(sends["type"]) == TYPES["ok"]
                acknowledged = np.sort(np.asarray(sends["completed"])[ok])
                for one in noticed:
                    one.look(f"{place.topic}-{place.partition}", sends, acknowledged)
    except (pa.ArrowException, OSError) as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}") from trouble
    yield from _told(noticed)


def _told(noticed: Sequence[_Noticed]) -> Iterator[Entry]:
    """Yield one entry for an observation under several faults that were open together."""
    found: dict[Trouble | Wait, list[FaultWindow]] = {}
    for one in noticed:
        for what in (one.trouble, one.wait):
            if what is not None:
                found.setdefault(what, []).append(one.window)
    for what, windows in found.items():
        under = ", ".join(window.id for window in windows)
        hosts = frozenset(host for window in windows for host in window.targets)
        yield Entry(what.time, "clients", f"{what}, under {under}", hosts)


def _sends(file: pq.ParquetFile, row_groups: Sequence[int]) -> pa.Table:
    """Return the completed sends of one topic-partition."""
    table = file.read_row_groups(list(row_groups), columns=COLUMNS, use_threads=False)
    wanted = (np.asarray(table["f"]) == FUNCTIONS["send"]) & np.asarray(table["completed"].is_valid())
    return table.filter(pa.array(wanted))

"""Write the trace of protocol actions to a file of JSON lines, one event each: time, node, name, fields.

Times are the process's monotonic microseconds. Lines are buffered and written when the shell is idle or a buffer is
full, so that tracing costs little. A killed process loses the last fraction of a second and may leave half a line,
after which the next process begins a new one. A full or failing disk loses lines but never stops the node: the next
line written states how many were lost.

`ControlTrace` keeps only `CONTROL_EVENTS`, events per election, ISR change, metadata commit or request of a
ZooKeeper-era controller, and never per record (HX-05). Nodes on hosts write one by default; from it the checker sees
who led which epoch, and up to which offset a node knew the metadata to be committed.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from squall.nodes.server.clock import monotonic_us

BUFFERED_LINES = 256
STARTED: Final = "node_started"
LOST: Final = "lines_lost"
CONTROL_EVENTS: Final = frozenset(
    {
        *("state", "vote", "voters", "controller", "snapshot", "log_reset", "log_start", "truncate", "high_watermark"),
        *("leader", "follower", "isr", "isr_proposed", "stale_state", "stray"),
        *("broker_registered", "broker_duplicate", "broker_fenced", "broker_unfenced", "broker_stopping"),
        *("broker_shuts_down", "broker_let_go"),
        "zk_request_taken",
    }
)
"""The events in a control trace; of high watermarks only those of the metadata log, which name no topic."""


class FileTrace:
    """See `nodes.ports.Trace`."""

    def __init__(self, path: Path, node: int) -> None:
        self._path = path
        self._file = path.open("a", encoding="utf-8")
        self._node = node
        self._lines: list[str] = [""] if _ends_within_a_line(path) else []
        self._lost = 0
        self._write(STARTED, {"pid": os.getpid()})

    def event(self, name: str, **fields: object) -> None:
        self._write(name, fields)
        if len(self._lines) >= BUFFERED_LINES:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered. Lines that the disk refuses are counted and dropped."""
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        try:
            self._file.write("\n".join(lines) + "\n")
            self._file.flush()
        except (OSError, ValueError):  # ValueError: it could not be reopened
            self._lost += len(lines)
            self._begin_anew()
            return
        if self._lost:
            lost, self._lost = self._lost, 0
            self._write(LOST, {"lines": lost})

    def close(self) -> None:
        self.flush()
        self.flush()  # the first one may have found that lines were lost
        with suppress(OSError):
            self._file.close()

    def _write(self, name: str, fields: dict[str, object]) -> None:
        line = {"t": monotonic_us(), "node": self._node, "event": name} | fields
        self._lines.append(json.dumps(line, default=_plain))

    def _begin_anew(self) -> None:
        """Reopen the file: what a failed write left in its buffer would fail again, or be written twice."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._file = self._path.open("a", encoding="utf-8")
            self._lines = [""]


class ControlTrace(FileTrace):
    """A trace of control events only."""

    def event(self, name: str, **fields: object) -> None:
        if name in CONTROL_EVENTS and (name != "high_watermark" or "topic" not in fields):
            super().event(name, **fields)


def _ends_within_a_line(path: Path) -> bool:
    """Whether a killed process has left half a line."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return str(value)

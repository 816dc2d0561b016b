"""The trace of protocol actions as a file of JSON lines, one event each: when, which node, what, and its fields.

Times are the process's monotonic microseconds. Lines are buffered and written when the shell is idle or a buffer is
full, so that tracing costs little; a killed process loses the last fraction of a second.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from squall.nodes.server.clock import monotonic_us

BUFFERED_LINES = 256


class FileTrace:
    """See `nodes.ports.Trace`."""

    def __init__(self, path: Path, node: int) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._node = node
        self._lines: list[str] = []

    def event(self, name: str, **fields: object) -> None:
        line = {"t": monotonic_us(), "node": self._node, "event": name} | fields
        self._lines.append(json.dumps(line, default=_plain))
        if len(self._lines) >= BUFFERED_LINES:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            self._file.write("\n".join(self._lines) + "\n")
            self._file.flush()
            self._lines.clear()

    def close(self) -> None:
        self.flush()
        self._file.close()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return str(value)

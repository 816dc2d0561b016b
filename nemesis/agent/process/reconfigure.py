"""`proc.reconfigure`: other settings in a process's configuration file, until the fault ends.

The file is in the format of Java's properties, in which the last of equal keys counts. So the settings of each open
fault are appended, oldest first, below a line that marks where the original content ends. A process reads its file when
it starts: the verb changes the file only, and its caller restarts the process.

When the fault ends, the file is as before. A process that was started meanwhile runs by settings that are no longer in
its file: it is killed and started again. A caller that wants it to stop cleanly stops it before it heals the fault.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import required, text
from squall.nemesis.agent.core.durable import write_durably
from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.core.processes import Processes, send_signal, wait_until_absent
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.process.signals import identity_in

VERB = "proc.reconfigure"
MARK = "# What follows was appended by a fault, and is removed when it ends."
_KEY = re.compile(r"[A-Za-z0-9._-]{1,200}")


class Reconfigure:
    """The fault verb."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name = text(arguments, "name")
        if not self._processes.definition(name).config:
            raise VerbError("unsupported", f"{name} was defined without `config`, its configuration file")
        settings = _checked(required(arguments, "settings", dict, "a mapping of settings to texts"))
        identity = self._processes.alive(name)
        pid, started = (identity.pid, identity.started) if identity else (0, 0)
        return {"name": name, "settings": settings, "pid": pid, "started": started}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        config = self._write(entry.arguments["name"], open_entries)
        return {"config": config}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        name = entry.arguments["name"]
        self._write(name, remaining)
        running = self._processes.alive(name)
        if running is not None and running != identity_in(entry):
            self._start_again(name)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        """Write every configuration file as the other faults require, and start again what ran by another one."""
        for name in self._processes.names():
            if self._processes.definition(name).config and self._differs(name, remaining):
                self._write(name, remaining)
                if self._processes.alive(name) is not None:
                    self._start_again(name)

    def _start_again(self, name: str) -> None:
        identity = self._processes.alive(name)
        if identity is None or not self._processes.wanted(name):
            return
        send_signal(identity, signal.SIGKILL)
        if not wait_until_absent(identity, timeout=5):
            raise VerbError("failed", f"pid {identity.pid} is still there 5 s after SIGKILL")
        self._processes.start(name)

    def _differs(self, name: str, entries: Sequence[Entry]) -> bool:
        content = Path(self._processes.definition(name).config).read_text()
        return content != self._content(name, content, entries)

    def _write(self, name: str, entries: Sequence[Entry]) -> str:
        """Write the file as these faults require it; return its path."""
        path = Path(self._processes.definition(name).config)
        write_durably(path, self._content(name, path.read_text(), entries))
        return str(path)

    def _content(self, name: str, content: str, entries: Sequence[Entry]) -> str:
        original = content.partition(f"{MARK}\n")[0]
        settings = [entry.arguments["settings"] for entry in entries if entry.arguments["name"] == name]
        lines = [f"{key}={value}\n" for one in settings for key, value in one.items()]
        return original + (f"{MARK}\n{''.join(lines)}" if lines else "")


def _checked(settings: dict[str, Any]) -> dict[str, str]:
    """Return settings that fit into one line each. Raises VerbError."""
    for key, value in settings.items():
        if _KEY.fullmatch(key) is None:
            raise VerbError("bad_argument", f"settings: {key!r} is no name: letters, digits and . _ - only")
        if not isinstance(value, str) or not value.isprintable() or "\\" in value:
            raise VerbError("bad_argument", f"settings: {key}: {value!r} must be a printable text without backslash")
    if not settings:
        raise VerbError("bad_argument", "settings: none is given")
    return dict(settings)

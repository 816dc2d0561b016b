"""Takes a log directory back in time: `disk.copy` saves it, `disk.rewind` replaces it by that copy.

The process is stopped while the copy is made, so that the copy is consistent. `disk.rewind` is a kill, after which the
log directory is the copy, as after restoring a backup or an old snapshot of a virtual machine's disk; when the fault
ends, the process starts on it. What the copy lacked is reported as with a power loss (`probe.disk`); that the files
equal the copy's is verified by another process that reads both (`probe.copy`).
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import text
from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.core.names import file_name
from squall.nemesis.agent.core.processes import Processes, send_signal, state_of, wait_for_state
from squall.nemesis.agent.core.programs import command
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.core.verbs import PAUSE
from squall.nemesis.agent.disk.disk_load import log_directory
from squall.nemesis.agent.disk.power import NOT_DURABLE, Damage, Loss, Losses, NodeFiles

MOST_BYTES = 2 << 30
ROOM = 2
"""This multiple of the copy's size must be free."""


class Copies:
    """Copies of log directories, by fault."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "copies"
        self._directory.mkdir(parents=True, exist_ok=True)

    def of(self, id: str) -> Path:
        return self._directory / file_name(id)

    def make(self, id: str, data: Path) -> None:
        """Make a complete copy, or none."""
        draft = self._directory / f"{file_name(id)}.draft"
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(data, draft, ignore=shutil.ignore_patterns(".lock"))
        draft.rename(self.of(id))

    def forget(self, id: str) -> None:
        shutil.rmtree(self.of(id), ignore_errors=True)


class CopyDisk:
    """`disk.copy`"""

    def __init__(self, processes: Processes, copies: Copies) -> None:
        self._processes = processes
        self._copies = copies

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name = text(arguments, "name")
        data = log_directory(self._processes, name)
        size = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
        free = shutil.disk_usage(self._copies.of("any").parent).free
        if size > MOST_BYTES or size * ROOM > free:
            raise VerbError("unsupported", f"the log directory has {size} bytes, and {free} are free: too much to copy")
        self._copies.forget(text(arguments, "id"))
        return {"name": name, "data": str(data)}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        if not self._copies.of(entry.id).exists():
            self._copy_at_rest(entry)
        return {"copy": str(self._copies.of(entry.id))}

    def _copy_at_rest(self, entry: Entry) -> None:
        running = self._processes.alive(entry.arguments["name"])
        pauses = running is not None and state_of(running) == "running"
        if running and pauses:
            send_signal(running, signal.SIGSTOP)
            wait_for_state(running, ("stopped", "absent"), timeout=5)
        try:
            self._copies.make(entry.id, Path(entry.arguments["data"]))
        finally:
            if running and pauses:
                send_signal(running, signal.SIGCONT)

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        """Delete the copy, and continue a process that was left stopped because the agent was killed."""
        self._copies.forget(entry.id)
        running = self._processes.alive(entry.arguments["name"])
        paused = any(other.arguments["name"] == entry.arguments["name"] for other in remaining if other.verb == PAUSE)
        if running and not paused and state_of(running) == "stopped":
            send_signal(running, signal.SIGCONT)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        self._copies.forget(id)  # a process that was left stopped is continued by `proc.pause`


class RewindDisk(Damage):
    """`disk.rewind`"""

    def __init__(self, processes: Processes, losses: Losses, copies: Copies) -> None:
        super().__init__(processes, losses)
        self._copies = copies

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        copy = self._copies.of(text(arguments, "copy"))
        if not copy.is_dir():
            raise VerbError("failed", f"copy: {arguments['copy']!r} is not a copy made by `disk.copy`")
        return {**super().prepare(arguments), "copy": str(copy)}

    def damage(self, entry: Entry, files: NodeFiles) -> Loss:
        copy, loss = Path(entry.arguments["copy"]), Loss()
        for name in files.files():
            path, older = files.directory / name, copy / name
            kept = older.stat().st_size if older.is_file() else NOT_DURABLE
            if kept < path.stat().st_size:
                loss.note(name, path, kept, max(kept, 0))
        files.empty()
        shutil.copytree(copy, files.directory, dirs_exist_ok=True)
        return loss


def probe_copy(copies: Copies, processes: Processes, arguments: dict[str, Any]) -> dict[str, Any]:
    """`probe.copy`: whether the copy exists, and whether the log directory equals it, file by file."""
    copy, data = copies.of(text(arguments, "copy")), str(log_directory(processes, text(arguments, "name")))
    if not copy.is_dir():
        return {"copied": False, "same": None, "files": None}
    compare = [*command("disk.digests"), str(copy), data]
    told = subprocess.run(compare, capture_output=True, text=True, timeout=60, check=False)
    if told.returncode:
        return {"copied": True, "same": False, "files": None}  # a file was removed while it was read
    one, other = json.loads(told.stdout)
    return {"copied": True, "same": one == other, "files": sum(1 for path in copy.rglob("*") if path.is_file())}

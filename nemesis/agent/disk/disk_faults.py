"""`disk.error` and `disk.slow`: failing and slow disks, by the watch over the node's disk calls.

A process that these faults may affect is defined with the `disk_calls` they concern. It then runs under a watch
(`disk_watch.py`), which reads the rules written here. The rules are a function of the open entries of both verbs, and
are always rewritten as a whole. A node whose disk fails ends. Reverting the last such fault restarts it, unless another
fault keeps it down or it was stopped on purpose; if it ends only after that, the keeper restarts it soon. A process
that died with its killed watch is restarted too.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import number, required, text
from squall.nemesis.agent.core.disk_launch import Watches
from squall.nemesis.agent.core.disk_rules import STRUCK, DiskState, Rule
from squall.nemesis.agent.core.journal import Entry, Journal
from squall.nemesis.agent.core.processes import STEP, Definition, Identity, Processes
from squall.nemesis.agent.core.programs import command
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.core.verbs import DISK_FULL, ERROR, KILL_AT_CALL, KILLS
from squall.nemesis.agent.disk.disk_calls import KINDS, chosen

ERROR_NAMES = ("EIO", "ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EMFILE", "ENFILE", "ENOMEM", "EFBIG")
ERRORS = {name: getattr(errno, name) for name in ERROR_NAMES}
USUAL_CALLS = ("write", "fsync")
LAST_WORDS_WITHIN = 2.0


def checked_calls(calls: object) -> list[str]:
    """Check names of disk calls. Raises VerbError."""
    if not isinstance(calls, list) or not all(call in KINDS for call in calls):
        raise VerbError("bad_argument", f"calls: {calls!r} must be a list of {', '.join(KINDS)}")
    return list(dict.fromkeys(calls))


def refuse_what_cannot_be_watched(definition: Definition) -> None:
    """Raise VerbError if disk calls are to be watched and this machine cannot do it."""
    if not definition.disk_calls:
        return
    if not definition.data:
        raise VerbError("bad_argument", "data: needed with `disk_calls`, as only calls on files below it count")
    # In a process of its own: the trial forks, and we have threads.
    trial = command("disk.seccomp")
    tried = subprocess.run(trial, capture_output=True, text=True, timeout=20, check=False)
    if tried.returncode:
        reason = tried.stdout.strip() or tried.stderr.strip()
        raise VerbError("unsupported", f"disk calls of {definition.name} cannot be watched: {reason}")


def where_in(directory: str, pattern: object) -> str:
    """The pattern of whole paths for a pattern of names below the directory. Raises VerbError."""
    if not isinstance(pattern, str) or not pattern or pattern.startswith("/"):
        raise VerbError("bad_argument", f"path: {pattern!r} must be like *.log or events-0/*, below the log directory")
    return "*" if pattern == "*" else f"{glob.escape(os.path.realpath(directory))}/{pattern}"


def calls_under_way(identity: Identity | None) -> list[str]:
    """The kinds of disk call in which threads of a process wait right now, by the kernel's account."""
    if identity is None:
        return []
    known, found = chosen(KINDS, platform.machine()), set()
    for file in Path(f"/proc/{identity.pid}/task").glob("*/syscall"):
        with contextlib.suppress(OSError, ValueError):
            number = int(file.read_text().split()[0])  # or `running`
            found |= {known[number].kind} if number in known else set()
    return sorted(found)


class RestartPolicy:
    """Restarts processes that ended because of a fault that is over."""

    def __init__(self, processes: Processes, watches: Watches) -> None:
        self._processes = processes
        self._watches = watches

    def revive(self, name: str, open_entries: Sequence[Entry]) -> str | None:
        """Restart the process if it is due. Returns what was done. The caller holds the journal's lock."""
        remains = self._watches.remains(name)
        if not remains or not self._processes.wanted(name) or self._processes.alive(name):
            return None
        if not self._processes.definition(name).disk_calls:  # left by a watch of an earlier definition
            return None
        against = KILLS if remains != STRUCK else (*KILLS, ERROR, DISK_FULL, KILL_AT_CALL)
        if any(entry.verb in against and entry.arguments["name"] == name for entry in open_entries):
            return None
        identity = self._processes.start(name)
        why = "its disk failed, or it was killed at a call, which is over"
        if remains != STRUCK:
            why = f"the watch over its disk calls, pid {remains}, died"
        return f"started {name} again as pid {identity.pid}: {why}"

    def revive_all(self, journal: Journal) -> list[str]:
        """For the keeper: restart all processes that are due. Returns what was done."""
        if not any(self._watches.remains(name) for name in self._watches.names()):
            return []
        with journal.locked():
            done = [self.revive(name, journal.entries()) for name in self._watches.names()]
        return [one for one in done if one]

    def see_it_end(self, name: str) -> None:
        """Give the watch of a process that has just ended a moment to record why."""
        deadline = time.monotonic() + LAST_WORDS_WITHIN
        while self._watches.lives(name) and self._processes.alive(name) is None and time.monotonic() < deadline:
            time.sleep(STEP)


class DisturbDisk:
    """The common part of the verbs that write disk rules."""

    def __init__(self, processes: Processes, files: DiskState, restart_policy: RestartPolicy) -> None:
        self._processes = processes
        self._files = files
        self._restart_policy = restart_policy

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name, calls = text(arguments, "name"), checked_calls(arguments.get("calls", list(USUAL_CALLS)))
        definition = self._processes.definition(name)
        unwatched = [call for call in calls if call not in definition.disk_calls]
        if not calls or unwatched:
            asked = ", ".join(unwatched) or "no"
            raise VerbError(
                "unsupported", f"{name} was defined without `disk_calls` for {asked} calls: none is watched"
            )
        self._files.forget_count(text(arguments, "id"))
        path = where_in(definition.data, arguments.get("path", "*"))
        return {"name": name, "calls": calls, "path": path, **self._particulars(arguments)}

    def _particulars(self, arguments: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        self._write(entry.arguments["name"], open_entries)
        return {"calls": entry.arguments["calls"]}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._write(entry.arguments["name"], remaining)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        """Rewrite the rules of every process that has some, and restart those that ended because of them."""
        for name in self._processes.names():
            if self._files.rules_file(name).exists():
                self._write(name, remaining)
                self._restart_policy.revive(name, remaining)

    def _write(self, name: str, entries: Sequence[Entry]) -> None:
        ours = [entry for entry in entries if entry.arguments["name"] == name and entry.verb not in KILLS]
        self._files.write_rules(name, [rule_in(entry) for entry in ours])


class FailDisk(DisturbDisk):
    """`disk.error`"""

    def _particulars(self, arguments: dict[str, Any]) -> dict[str, Any]:
        error = required({"errno": "EIO", **arguments}, "errno", str, "the name of an error")
        if error not in ERRORS:
            raise VerbError("bad_argument", f"errno: {error!r} must be one of {', '.join(ERRORS)}")
        probability = number({"probability": 1.0, **arguments}, "probability")
        if not 0 < probability <= 1:
            raise VerbError("bad_argument", f"probability: {probability} must be more than 0 and at most 1")
        return {"error": ERRORS[error], "probability": probability}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        super().undo(entry, remaining)
        self._restart_policy.see_it_end(entry.arguments["name"])
        self._restart_policy.revive(entry.arguments["name"], remaining)


class SlowDisk(DisturbDisk):
    """`disk.slow`"""

    def _particulars(self, arguments: dict[str, Any]) -> dict[str, Any]:
        latency = number(arguments, "latency_s")
        if latency <= 0:
            raise VerbError("bad_argument", f"latency_s: {latency} must be more than 0")
        return {"delay": latency}


def rule_in(entry: Entry) -> Rule:
    """The watch's rule for an open fault."""
    told = entry.arguments
    how = {key: told[key] for key in ("error", "probability", "delay", "kill", "nth", "path", "lie") if key in told}
    return Rule(entry.id, tuple(told["calls"]), entry.deadline, **how)

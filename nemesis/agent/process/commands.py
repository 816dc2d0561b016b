"""`host.command`: a user-defined fault by shell commands; and `probe.command`, the user's check of it.

The heal command is in the journal before the inject command runs, so that the keeper can run it when the time to live
is over, whichever other processes have died. It runs whether injecting succeeded or not, and is retried until it
succeeds: it must be harmless where there is nothing to heal. The inject command runs once; repeating the verb only
renews the time to live.

Commands run as `sh -c`, as the agent's user, in the agent's state directory, with `SQUALL_FAULT` and `SQUALL_HOST`. A
command that exceeds its timeout is killed with all its children, and has failed. Its output goes to a file, so that
programs left in the background do not block the caller.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import number, text
from squall.nemesis.agent.core.journal import Entry, Journal, write_durably
from squall.nemesis.agent.core.names import file_name
from squall.nemesis.agent.core.processes import kept_environment
from squall.nemesis.agent.core.verb_error import VerbError

LONGEST_TIMEOUT = 60.0
USUAL_TIMEOUT = 10.0
LAST_WORDS = 300


def timeout_of(arguments: dict[str, Any]) -> float:
    """The command's timeout in seconds. Raises VerbError."""
    timeout = number({"timeout": USUAL_TIMEOUT, **arguments}, "timeout")
    if not 0 < timeout <= LONGEST_TIMEOUT:
        raise VerbError("bad_argument", f"timeout: {timeout:g} must be more than 0 and at most {LONGEST_TIMEOUT:g} s")
    return timeout


class Shell:
    """Runs commands on this host."""

    def __init__(self, state: Path, host: str) -> None:
        self._state = state
        self._host = host

    def run(self, command: str, id: str, timeout: float) -> tuple[int | None, str]:
        """Run a command. Returns its exit status (None: it exceeded its timeout and was killed) and the end of its
        output.
        """
        environment = {**kept_environment(), "SQUALL_FAULT": id, "SQUALL_HOST": self._host}
        with os.fdopen(os.memfd_create("said"), "r+b") as said:  # in memory: the disk may be full
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self._state,
                env=environment,
                start_new_session=True,
            )
            status: int | None
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = None
            said.seek(max(0, said.seek(0, os.SEEK_END) - LAST_WORDS))
            return status, said.read().decode(errors="replace").strip()


class RunCommand:
    """The fault verb."""

    def __init__(self, state: Path, shell: Shell) -> None:
        self._directory = state / "commands"
        self._shell = shell

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            "inject": text(arguments, "inject"),
            "heal": text(arguments, "heal"),
            "timeout": timeout_of(arguments),
        }

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        done = self._done(entry.id)
        if not done.exists():
            self._run("inject", entry)
            done.parent.mkdir(exist_ok=True)
            write_durably(done, json.dumps(entry.arguments))
        return {"command": entry.arguments["inject"]}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._run("heal", entry)
        self._done(entry.id).unlink(missing_ok=True)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        """Heal by the arguments that were stored beside the journal after the inject command ran."""
        with contextlib.suppress(FileNotFoundError):
            told = json.loads(self._done(id).read_text())
            self.undo(Entry(id, "host.command", told, 0.0, 0.0, ""), remaining)

    def _run(self, which: str, entry: Entry) -> None:
        status, said = self._shell.run(entry.arguments[which], entry.id, entry.arguments["timeout"])
        if status != 0:
            how = f"took more than {entry.arguments['timeout']:g} s" if status is None else f"ended with {status}"
            raise VerbError("failed", f"the {which} command {how}{': ' + said if said else ''}")

    def _done(self, id: str) -> Path:
        return self._directory / f"{file_name(id)}.injected"


class CheckCommand:
    """`probe.command`"""

    def __init__(self, journal: Journal, shell: Shell) -> None:
        self._journal = journal
        self._shell = shell

    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        id = text(arguments, "id")
        status, said = self._shell.run(text(arguments, "check"), id, timeout_of(arguments))
        return {"open": self._journal.find(id) is not None, "status": status, "said": said}

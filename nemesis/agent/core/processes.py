"""Launches, identifies and signals the processes of this host.

Launch commands are kept here, so that the agent or the keeper can restart a process. `define` stores the command;
`start` launches it in its own session, detached from the SSH channel, with its output in a log file. A process is
identified by **pid and start time** (/proc/PID/stat, field 22): pids are reused, and a signal to a reused pid would
kill an unrelated process. Signals go to the whole process group, so that helpers of a launch script die with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.disk_launch import start_watched
from squall.nemesis.agent.core.journal import write_durably
from squall.nemesis.agent.core.names import checked_process
from squall.nemesis.agent.core.process_launch import start_held
from squall.nemesis.agent.core.verb_error import VerbError

KEPT_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
STEP = 0.005


@dataclass(frozen=True)
class Definition:
    """How to launch a process."""

    name: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    log: str
    stop_signal: str
    data: str = ""
    """The process's data directory and, in `ledger`, the file in which it records what of its data is durable. Empty if
    it has none.
    """
    ledger: str = ""
    ports: list[int] = field(default_factory=list)
    """Ports where it accepts connections that carry the Kafka protocol."""
    config: str = ""
    """The configuration file that it reads when it starts, in the format of Java's properties. Empty if it has none."""
    disk_calls: list[str] = field(default_factory=list)
    """The kinds of disk call that faults will affect: the process starts under a watch that stops these calls. Empty:
    no watch.
    """

    def environment(self) -> dict[str, str]:
        """The environment of the process: a few variables of the agent's, and the defined ones."""
        return {**kept_environment(), **self.env}


def kept_environment() -> dict[str, str]:
    """The part of this process's environment that child processes get."""
    return {key: os.environ[key] for key in KEPT_ENVIRONMENT if key in os.environ}


@dataclass(frozen=True)
class Identity:
    """Identifies a process uniquely; `started` is in clock ticks since boot."""

    pid: int
    started: int


def read_stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time of a pid; None if no process has it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may contain any character, even ")"
    return fields[0], int(fields[19])


def identity_of(pid: int) -> Identity:
    """The identity of the process that has this pid now."""
    found = read_stat(pid)
    return Identity(pid, found[1] if found else 0)


def state_of(identity: Identity) -> str:
    """`running`, `stopped` or `absent` (also if the pid belongs to a zombie or to another process)."""
    found = read_stat(identity.pid)
    if found is None or found[1] != identity.started or found[0] in "ZX":
        return "absent"
    return "stopped" if found[0] in "Tt" else "running"


def send_signal(identity: Identity, number: int) -> bool:
    """Signal the process group if the pid still belongs to that process. Returns whether it did."""
    if state_of(identity) == "absent":
        return False
    try:
        os.killpg(identity.pid, number)
    except ProcessLookupError:
        return False
    return True


def wait_for_state(identity: Identity, states: tuple[str, ...], timeout: float) -> bool:
    """Wait for a state, since signals take effect a little later than they are sent. Returns whether it was reached in
    time.
    """
    deadline = time.monotonic() + timeout
    while state_of(identity) not in states:
        if time.monotonic() >= deadline:
            return False
        time.sleep(STEP)
    return True


def wait_until_absent(identity: Identity, timeout: float) -> bool:
    return wait_for_state(identity, ("absent",), timeout)


class Processes:
    """The defined processes, in a directory that the agent and the keeper share."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._directory = state / "processes"
        self._directory.mkdir(parents=True, exist_ok=True)

    def define(self, definition: Definition) -> None:
        Path(definition.cwd).mkdir(parents=True, exist_ok=True)
        Path(definition.log).parent.mkdir(parents=True, exist_ok=True)
        write_durably(self._file(definition.name, "definition"), json.dumps(asdict(definition)))

    def definition(self, name: str) -> Definition:
        try:
            return Definition(**json.loads(self._file(name, "definition").read_text()))
        except FileNotFoundError:
            known = ", ".join(self.names()) or "none"
            raise VerbError("unknown_process", f"no process {name!r} is defined; known are {known}") from None

    def names(self) -> list[str]:
        return sorted(path.name.removesuffix(".definition") for path in self._directory.glob("*.definition"))

    def identity(self, name: str) -> Identity | None:
        """The process last started under that name, alive or not."""
        record = self._record(name)
        return Identity(record["pid"], record["started"]) if record else None

    def alive(self, name: str) -> Identity | None:
        identity = self.identity(name)
        return identity if identity and state_of(identity) != "absent" else None

    def wanted(self, name: str) -> bool:
        """Whether it was started and not stopped since: only then may a killed process be restarted."""
        record = self._record(name)
        return bool(record and record["wanted"])

    def start(self, name: str) -> Identity:
        """Start the process unless it is alive. The caller holds the journal's lock."""
        definition = self.definition(name)
        identity = self.alive(name)
        if identity is None:
            return self._launch(definition)
        self._keep(name, identity, wanted=True)
        return identity

    def adopt(self, name: str, pid: int) -> Identity:
        """Register under this name a process that was started elsewhere. It is never restarted. Raises VerbError."""
        identity = identity_of(pid)
        if state_of(identity) == "absent":
            raise VerbError("not_running", f"no process has the pid {pid}")
        self.define(Definition(name, [], {}, str(self._state), str(self._state / f"{name}.log"), "SIGTERM"))
        self._keep(name, identity, wanted=False)
        return identity

    def stop_signal(self, name: str) -> signal.Signals:
        """The signal that asks a process of this name to stop."""
        return signal.Signals[self.definition(name).stop_signal]

    def ask_to_stop(self, name: str) -> Identity | None:
        """Mark the process as not wanted and send its stop signal. The caller holds the journal's lock."""
        identity = self.identity(name)
        if identity is not None:
            self._keep(name, identity, wanted=False)
            send_signal(identity, self.stop_signal(name))
            send_signal(identity, signal.SIGCONT)
        return identity

    def see_it_stopped(self, identity: Identity, timeout: float) -> bool:
        """Wait until the process ends; send SIGKILL after `timeout`. Returns whether it ended without SIGKILL."""
        if wait_until_absent(identity, timeout):
            return True
        send_signal(identity, signal.SIGKILL)
        if not wait_until_absent(identity, timeout=5):
            raise VerbError("failed", f"pid {identity.pid} is still there 5 s after SIGKILL")
        return False

    def _launch(self, definition: Definition) -> Identity:
        """Start the process and record its identity before it begins. If the agent were killed between start and
        record, the process would be unknown, and healing would start it a second time.
        """
        began: list[Identity] = []

        def keep(pid: int) -> None:
            began.append(identity_of(pid))
            self._keep(definition.name, began[0], wanted=True)

        with open(definition.log, "ab") as log:
            if definition.disk_calls:
                start_watched(self._state, definition.name, log, kept_environment(), keep)
            else:
                start_held(definition, log, keep)
        return began[0]

    def _record(self, name: str) -> dict[str, Any] | None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            record: dict[str, Any] = json.loads(self._file(name, "running").read_text())
            return record
        return None

    def _keep(self, name: str, identity: Identity, *, wanted: bool) -> None:
        record = {**asdict(identity), "wanted": wanted}
        write_durably(self._file(name, "running"), json.dumps(record))

    def _file(self, name: str, kind: str) -> Path:
        return self._directory / f"{checked_process(name)}.{kind}"

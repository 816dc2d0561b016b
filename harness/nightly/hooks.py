"""Run the hooks of a night: any command, by the shell, with a time limit; and its guard, which tears down.

A hook finds the night in its environment: `SQUALL_NIGHT` (its name), `SQUALL_NIGHT_DIR` (its directory) and, when hosts
are torn down, `SQUALL_INVENTORY` (the inventory that was made of what the provision hook printed, if it exists).
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from squall.harness.errors import UsageError
from squall.harness.hosts.network import process_started
from squall.harness.nightly import guard
from squall.harness.nightly.ledger.ledger import LEDGER, TornDown
from squall.harness.nightly.plan.night_file import Hooks
from squall.results.history.whole_file import write_whole

ARM_SECONDS: Final = 30.0
TAIL: Final = 400
HUNTED_BY: Final = ("RUNNER_TRACKING_ID", "JENKINS_NODE_COOKIE")
"""By these variables GitHub's runner and Jenkins find what a job has left behind, and kill it; not the guard."""


class HookFailed(UsageError):
    """A hook did not do what it is for."""


def missing_program(command: str) -> str:
    """Return the program that a command begins with if it cannot be found; nothing otherwise."""
    try:
        words = shlex.split(command)
    except ValueError as wrong:
        return f"{command!r} ({wrong})"
    words = [word for word in words if "=" not in word or word.startswith(("/", "."))]
    if not words:
        return repr(command)
    known = shutil.which(words[0]) or words[0] in ("exit", "true", "cd", ":", "test", "[", "if", "for", "set", "{", "(")
    return "" if known else words[0]


def run_hook(
    what: str,
    command: str,
    *,
    environment: Mapping[str, str],
    timeout_s: float,
    given: str = "",
    log: Path,
    leader: Path | None = None,
) -> str:
    """Run a hook and return what it printed. Raises HookFailed if it fails or takes too long.

    `leader` is where to write which process it is, for a guard that has to end it.
    """
    with log.open("ab") as errors:
        hook = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            env={**os.environ, **environment}, start_new_session=True,
        )  # fmt: skip
        if leader is not None:
            write_whole(leader, json.dumps({"pid": hook.pid, "pid_started": process_started(hook.pid) or 0}))
        try:
            said, _ = hook.communicate(given.encode(), timeout_s)
        except BaseException as trouble:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(hook.pid, signal.SIGKILL)
            hook.wait()
            if isinstance(trouble, subprocess.TimeoutExpired):
                raise HookFailed(
                    f"{what}: {command!r} did not end within {timeout_s:.0f} s",
                    remedy=f"what it printed is in {log}; --hook-timeout allows it more time",
                ) from None
            raise
    if hook.returncode != 0:
        tail = log.read_text(errors="replace").strip()[-TAIL:]
        raise HookFailed(
            f"{what}: {command!r} ended with exit status {hook.returncode}" + (f": {tail}" if tail else ""),
            remedy=f"all that it printed is in {log}",
        )
    return said.decode(errors="replace")


# -- the guard --------------------------------------------------------------------------------------------------------


def rounds_of(night: Path) -> list[Path]:
    """Return the folders of all rounds of a night in which a guard was to be armed, the first one first."""
    found = [path.parent for path in night.glob(f"round-*/{guard.ORDER}")]
    return sorted(found, key=lambda path: int(path.name.partition("-")[2]))


class Guard:
    """The guard of one round, as the night sees it."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self._process = process

    @classmethod
    def arm(
        cls, night: Path, number: int, hooks: Hooks, environment: Mapping[str, str], deadline_s: float | None
    ) -> Guard:
        """Start the guard of a round, and wait until it watches. Raises HookFailed."""
        folder = night / f"round-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        order: dict[str, Any] = {
            "command": hooks.teardown,
            "environment": dict(environment),
            "cwd": str(Path.cwd()),
            "timeout_s": hooks.timeout_s,
            "deadline_s": deadline_s,
            "ledger": str(night / LEDGER),
            "pid": os.getpid(),
            "pid_started": process_started(os.getpid()),
        }
        write_whole(folder / guard.ORDER, json.dumps(order, indent=2))
        with (folder / "guard.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", guard.__name__, str(folder)],
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env={name: value for name, value in os.environ.items() if name not in HUNTED_BY},
            )  # fmt: skip
        until = time.monotonic() + ARM_SECONDS
        while not (folder / guard.ARMED).exists():
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                raise HookFailed(f"the guard of the night did not start: see {folder / 'guard.log'}")
            time.sleep(0.01)
        return cls(folder, process)

    def end(self) -> TornDown:
        """Have the guard tear down, and return how that ended. If the guard is gone, the hook is run here."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(guard.END)
            self._process.stdin.close()
        self._process.wait()
        return torn_down(self.folder)


def torn_down(folder: Path) -> TornDown:
    """Return how the teardown of a round ended. Waits for a process that is at it; without one it is done here.

    A hook that was under way when its process was killed is run again: machines that stay cost more than a hook that
    finds nothing left to do.
    """
    number = int(folder.name.partition("-")[2])
    again = ""
    while not (folder / guard.DONE).exists():
        if (folder / guard.CLAIM).exists():
            if guard.claimer_is_alive(folder):
                time.sleep(guard.LOOK_SECONDS)
                continue
            if (folder / guard.DONE).exists():
                break
            again = "; it had been killed half-way before and was run again"
            (folder / guard.CLAIM).unlink(missing_ok=True)
        guard.tear_down(folder)
    done = json.loads((folder / guard.DONE).read_text())
    problem = "" if done["status"] == 0 else f"the teardown hook ended with {done['status']}: see {folder / guard.LOG}"
    return TornDown(round=number, seconds=done["seconds"], problem=problem + again)

"""The keeper: one detached process per host that ends faults when their time is up, and listens for probes.

It has a session of its own, so it survives the agent and the SSH connection; it needs nobody to tell it anything:
it reads the journal. One runs per host (an exclusive lock says so) for as long as an agent lives or a fault is
open; then it goes. What will not heal is tried again each second and noted in `keeper.log`.

The hand-over without a gap: an agent makes sure under the journal's lock that a keeper holds its lock *before* it
writes an entry, and the keeper lets go only under the same lock, when the journal is empty and no agent is left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from detached import start_detached
from faults import FaultDesk
from journal import Journal
from probes import Ear
from trouble import Trouble

GLANCE = 0.2
AGAIN_AFTER_FAILURE = 1.0
START_TIMEOUT = 10.0


def try_lock(file: IO[str], mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class KeeperLocks:
    """`keeper.lock` is held by the keeper, `agents.lock` is shared by all live agents."""

    def __init__(self, state: Path) -> None:
        self._keeper_file = state / "keeper.lock"
        self._agents_file = state / "agents.lock"

    def keeper_lives(self) -> bool:
        with open(self._keeper_file, "a") as file:
            return not try_lock(file, fcntl.LOCK_EX)

    def agents_live(self) -> bool:
        with open(self._agents_file, "w") as file:
            return not try_lock(file, fcntl.LOCK_EX)

    def join_agents(self) -> IO[str]:
        """The returned file, while open, counts as one live agent."""
        file = open(self._agents_file, "w")  # noqa: SIM115 (the caller closes it)
        fcntl.flock(file, fcntl.LOCK_SH)
        return file

    @contextlib.contextmanager
    def as_keeper(self) -> Iterator[IO[str] | None]:
        """The locked file if we are the keeper now; None if there is one."""
        with open(self._keeper_file, "a") as file:
            if not try_lock(file, fcntl.LOCK_EX):
                yield None
                return
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield file


def start_keeper(program: Path, state: Path, options: list[str], locks: KeeperLocks) -> None:
    """Starts a keeper unless one lives, and returns when it is on duty. The caller holds the journal's lock."""
    if locks.keeper_lives():
        return
    command = [sys.executable, "-u", str(program), "--state", str(state), *options]
    log_path = state / "keeper.log"
    if not start_detached("keeper", command, "--keeper", log_path, START_TIMEOUT):
        raise Trouble("failed", f"the keeper did not start, so no fault is injected: {log_path.read_text()[-300:]}")


def keep(
    journal: Journal,
    desk: FaultDesk,
    locks: KeeperLocks,
    ear: Callable[[], Ear],
    tell_ready: int,
    revive: Callable[[], list[str]],
) -> None:
    """The keeper's life."""
    with locks.as_keeper() as duty:
        if duty is None:
            return
        listener = open_ear(ear)
        os.write(tell_ready, b"+")
        os.close(tell_ready)
        while True:
            heal_what_is_due(journal, desk)
            start_what_fell_with_its_watch(revive)
            with journal.locked():
                if not journal.entries() and not locks.agents_live():
                    if listener:
                        listener.close()  # or the next keeper, on duty the moment we are not, finds the port taken
                    fcntl.flock(duty, fcntl.LOCK_UN)  # before the journal's lock goes: no agent may count on us
                    return
            if listener:
                listener.listen(GLANCE)
            else:
                time.sleep(GLANCE)
                listener = open_ear(ear)


def open_ear(ear: Callable[[], Ear]) -> Ear | None:
    """Without its port the keeper still keeps; probes then say that nobody listens."""
    try:
        return ear()
    except OSError as trouble:
        print(f"cannot listen for probes: {trouble}", flush=True)
        return None


def start_what_fell_with_its_watch(revive: Callable[[], list[str]]) -> None:
    """Processes that ended because of the watch over their disk calls (`disk_faults.py`) are started again."""
    try:
        for done in revive():
            print(done, flush=True)
    except Trouble as trouble:
        print(trouble.error, flush=True)
        time.sleep(AGAIN_AFTER_FAILURE)


def heal_what_is_due(journal: Journal, desk: FaultDesk) -> None:
    try:
        if journal.expired():
            print(f"healed, their time being up: {', '.join(desk.heal_expired())}", flush=True)
        if desk.broken():
            print(f"ended before their time, their process having died: {', '.join(desk.heal_broken())}", flush=True)
    except Trouble as trouble:
        print(trouble.error, flush=True)
        time.sleep(AGAIN_AFTER_FAILURE)

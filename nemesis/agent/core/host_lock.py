"""The lock of this host: only its owner may change what runs here; others can see the owner.

A lock is a record in a file, `lock` in a directory of the host. It is taken for a *lease*, which its owner renews. A
lease that is not renewed ends, and so does every lease of an earlier boot: an owner that was killed, or that lost its
network permanently, does not keep the host. Every change is made under an exclusive `flock`, so that of two processes
that want the lock at the same moment exactly one gets it.

A *token*, drawn by the owner, identifies the lease. An owner whose lease ended may not know it yet. So agents that were
started with a token refuse to change anything unless the lock still has it (`HostLock.is_held_by`), and later commands
of such an owner have no effect.

    python3 -u -c SOURCE [--reduced]          # over SSH, a line of JSON in, a line out
    → {"op": 1, "do": "take", "record": {…}, "lease": 60, "instead_of": null}
    ← {"op": 1, "taken": true, "instead_of": null, "boot": "…"}
    → {"op": 2, "do": "renew", "record": {…}, "lease": 60, "boot": "…"}
    ← {"op": 2, "held": true, "boot": "…"}

The program ends with its input, or after `SILENCE_S` seconds without a request, since the end of a connection may be
lost on the way. It leaves the lock as it is: a lost connection may come back. It uses the standard
library only and imports no neighbouring module, because its source is sent as an argument.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HOST_WIDE = Path("/run/squall-host")
"""Owned by root and empty after a reboot. With sudo, a host has one lock for all users."""
OF_A_USER = Path(".squall/host-lock")
"""Below the home directory, for users without root and for hosts of a reduced lab, which share /run."""

SILENCE_S = 120
"""An owner renews its lease every few seconds; whole seconds, more than any lease."""

Record = dict[str, Any]
"""Fields of the owner: token, owner, pid, control, started, run, command, since. Of the host: taken, renewed, lease,
boot.
"""


def lock_directory(*, reduced: bool) -> Path:
    """The directory of this host's lock."""
    if os.geteuid() == 0 and not reduced:
        return HOST_WIDE
    return Path.home() / OF_A_USER


def read_boot() -> str:
    """An id that differs after every reboot; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class HostLock:
    """The lock in `directory`. Durations are seconds of the monotonic clock."""

    def __init__(
        self,
        directory: Path,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        boot: Callable[[], str] = read_boot,
        above: Path | None = None,
    ) -> None:
        self._directory = directory
        self._file = directory / "lock"
        self._monotonic = monotonic
        self._boot = boot
        self._above = above
        """The directory of a second lock that also excludes this one; only other owners take it."""

    def take(self, record: Record, lease: float, instead_of: str | None = None) -> Record:
        """Become the owner if there is none, or if the only owner has the token `instead_of`.

        Returns `taken`, and either the `holder` that prevents it or the replaced one, `instead_of`.
        """
        with self._alone():
            holder = self.look()
            if holder is not None and holder["token"] not in (record["token"], instead_of) and holder["left"] > 0:
                return {"taken": False, "holder": holder}
            self._write({**record, "taken": self._monotonic()}, lease)
        replaced = holder if holder is not None and holder["token"] != record["token"] else None
        return {"taken": True, "instead_of": replaced, "boot": self._boot()}

    def renew(self, record: Record, lease: float, boot: str) -> Record:
        """Renew the lease from now on. `boot` is the host's boot id when the lock was taken.

        Returns `held` and, if that is false, the `holder` if there is one. An ended lease can be renewed until another
        owner takes the lock. After a reboot the lock is taken again if it is free.
        """
        with self._alone():
            holder = self.look()
            rebooted = boot != self._boot()
            if holder is None or holder["token"] != record["token"]:
                if not rebooted or (holder is not None and holder["left"] > 0):
                    return {"held": False, "holder": holder}
                holder = {"taken": self._monotonic()}
            self._write({**record, "taken": holder["taken"]}, lease)
        return {"held": True, "boot": self._boot()}

    def release(self, token: str) -> Record:
        """Release the lock if it still has this token."""
        with self._alone():
            released = self.is_held_by(token)
            if released:
                self._file.unlink()
        return {"released": released}

    def look(self) -> Record | None:
        """The lock's holder, with its `age` and what is `left` of its lease: 0 or less if the lease has ended."""
        found = self._read(self._file)
        if found is None and self._above is not None:
            found = self._read(self._above / "lock")
        if found is None:
            return None
        now = self._monotonic()
        left = found["renewed"] + found["lease"] - now if found["boot"] == self._boot() else 0.0
        return {**found, "age": now - found["taken"], "left": left}

    def is_held_by(self, token: str) -> bool:
        """Whether the lock has this token. An ended lease counts until another owner takes the lock."""
        found = self._read(self._file)
        return found is not None and found["token"] == token and found["boot"] == self._boot()

    def _read(self, path: Path) -> Record | None:
        """Read a record; None if no owner wrote the file, which then is no lock."""
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError):
            return None
        numbers, texts = ("taken", "renewed", "lease"), ("token", "boot")
        whole = isinstance(found, dict) and all(isinstance(found.get(key), int | float) for key in numbers)
        return found if whole and all(isinstance(found.get(key), str) for key in texts) else None

    def _write(self, record: Record, lease: float) -> None:
        draft = self._file.with_name(".lock.draft")
        full = {**record, "renewed": self._monotonic(), "lease": lease, "boot": self._boot()}
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        with open(descriptor, "w") as file:
            file.write(json.dumps(full))
        draft.rename(self._file)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude every other change of the lock."""
        self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(self._directory / "mutex", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def lock_here(*, reduced: bool) -> HostLock:
    """The lock of this host. A user without root respects root's lock."""
    directory = lock_directory(reduced=reduced)
    return HostLock(directory, above=None if reduced or directory == HOST_WIDE else HOST_WIDE)


def answer(lock: HostLock, request: Record) -> Record:
    """Carry out one request."""
    if request["do"] == "take":
        return lock.take(request["record"], request["lease"], request.get("instead_of"))
    if request["do"] == "renew":
        return lock.renew(request["record"], request["lease"], request["boot"])
    if request["do"] == "release":
        return lock.release(request["token"])
    return {"holder": lock.look()}


def serve(lock: HostLock) -> None:
    """Answer requests until input ends, or is silent for too long (then SIGALRM ends the process)."""
    signal.alarm(SILENCE_S)
    for line in sys.stdin:
        signal.alarm(SILENCE_S)
        request = json.loads(line)
        try:
            said = answer(lock, request)
        except OSError as trouble:
            said = {"error": f"{trouble.strerror or trouble}: {trouble.filename or lock._directory}"}
        print(json.dumps({"op": request["op"], **said}), flush=True)


if __name__ == "__main__":
    serve(lock_here(reduced="--reduced" in sys.argv))

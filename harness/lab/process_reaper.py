"""End processes where no namespace does it: all descendants, and all whose HOME lies in a directory.

A reduced lab (`reduced_supervisor.py`) has two processes that adopt orphans, so everything that was started on its
hosts descends from them, regardless of forks and sessions. Processes escape only if both are killed at the same moment;
they are recognised by their HOME, which lies in the lab's own directory. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

PATIENCE_SECONDS = 10.0
DEAD = "ZX"


def end_all_below() -> None:
    """Kill every descendant, and reap those that have become children of this process, until there are none."""
    end_all(lambda: descendants(os.getpid()), bury)


def end_all_at_home(directory: Path) -> None:
    """Kill every process of this user whose HOME lies in a directory."""
    end_all(lambda: at_home(directory))


def end_all(found: Callable[[], Iterable[int]], afterwards: Callable[[], object] = lambda: None) -> None:
    """Kill the processes found, repeatedly, because a process may have started another before it died.

    Processes of other users (a program that sudo started) are skipped. `afterwards` runs after every round; it may reap
    all dead children only if the caller has no other children. Raises TimeoutError.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while dying := [pid for pid in found() if _kill(pid)]:
        _await_deaths(dying, deadline)
        afterwards()
        if time.monotonic() > deadline:
            raise TimeoutError(f"not gone {PATIENCE_SECONDS:g} s after SIGKILL: {' '.join(map(str, dying))}")
    afterwards()


def bury() -> set[int]:
    """Reap this process's children that have ended. Return their pids.

    The caller has to keep the `Popen` of a child whose end matters: a `Popen` collected as garbage after its process
    has ended reaps that process silently.
    """
    gone = set()
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            gone.add(pid)
    return gone


def descendants(ancestor: int) -> list[int]:
    """Return all live descendants."""
    everybody = list(_everybody())
    children: dict[int, list[int]] = {}
    for pid, _, parent in everybody:
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [ancestor]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    dead = {pid for pid, state, _ in everybody if state in DEAD}
    return [pid for pid in found if pid not in dead]


def at_home(directory: Path) -> list[int]:
    """Return the live processes of this user whose HOME lies in a directory. Others' environments are not readable."""
    mark = f"HOME={directory}/".encode()
    found = []
    for pid, state, _ in _everybody():
        with contextlib.suppress(OSError):
            if state not in DEAD and pid != os.getpid():
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                found += [pid] if any(line.startswith(mark) for line in environment) else []
    return found


def _everybody() -> Iterable[tuple[int, str, int]]:
    """Yield id, state and parent of every process."""
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with contextlib.suppress(OSError):
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                yield int(path.name), fields[0], int(fields[1])


def _kill(pid: int) -> bool:
    """Kill a process. Return whether it existed and this user may kill it."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _await_deaths(pids: Iterable[int], deadline: float) -> None:
    with contextlib.ExitStack() as stack:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                stack.callback(os.close, descriptor)
                death = select.poll()
                death.register(descriptor, select.POLLIN)
                death.poll(max(0.0, deadline - time.monotonic()) * 1000)

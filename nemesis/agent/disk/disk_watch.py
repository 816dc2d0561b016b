"""The watch: a node's parent process, which decides each of its disk calls by the open faults.

    python3 -u program.py disk.disk_watch --state DIR --name NAME --tell DESCRIPTOR --go DESCRIPTOR

It starts the process NAME by its definition, as the leader of its own session, under a filter that stops the calls
which the definition names (`seccomp.py`); writes `PID` or `error: REASON` to the descriptor; and answers calls until
the process has ended. Without an open fault it lets every call proceed at once. One thread does all: a call that must
take longer waits in a queue, and no other call waits behind it. It proceeds early when its fault ends.

Not LazyFS: it needs FUSE and a mount. The watch works on any file system and leaves no mount behind.

**If the watch dies.** Without a watch the filtered calls would fail with ENOSYS for ever. So the kernel kills the node
together with its watch (PR_SET_PDEATHSIG), however the watch ended; the keeper finds both dead and restarts them
(`RestartPolicy.revive_all`). The rules and counts are in files (`disk_rules.py`), so an open fault continues.

**What the watch leaves.** The watch file is locked while the watch lives, and holds its pid. Afterwards the file is
empty if the node's end has nothing to do with a disk fault. It says `struck` if the node exited within seconds after a
call was made to fail, as a node does whose disk fails, or was killed at a call (`failpoint_strike.py`): then reverting
the last such fault, or the keeper soon after, restarts the node. If the pid is still in it, the watch was killed.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import fnmatch
import heapq
import os
import platform
import random
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from squall.nemesis.agent.core.disk_rules import STRUCK, Counts, DiskState, Rule, RuleReader
from squall.nemesis.agent.core.processes import Definition, Processes
from squall.nemesis.agent.disk import seccomp
from squall.nemesis.agent.disk.disk_calls import Watched, chosen, traps
from squall.nemesis.agent.disk.failpoint_strike import Deeds, KillTrigger, places
from squall.nemesis.agent.disk.seccomp import Notice, Trap, Unsupported

GLANCE = 0.02
"""Seconds until a delayed call proceeds after its fault has ended."""
ENDS_BY_ITSELF_WITHIN = 10.0
START_TIMEOUT = 10.0
KILL_WHEN_PARENT_DIES = 1


@dataclass(frozen=True, order=True)
class Waiting:
    """A call that is being delayed."""

    due: float
    id: int
    error: int = field(compare=False)
    causes: frozenset[str] = field(compare=False)
    lie: bool = field(default=False, compare=False)


class SyscallSupervisor:
    """Answers the calls of one process."""

    def __init__(
        self,
        listener: int,
        watched: Watched,
        rules: RuleReader,
        counts: Counts,
        rng: random.Random,
        kill_trigger: KillTrigger,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listener = listener
        self._kill_trigger = kill_trigger
        self._watched = watched
        self._rules = rules
        self._counts = counts
        self._rng = rng
        self._monotonic = monotonic
        self._waiting: list[Waiting] = []
        self.failed_last: float | None = None
        """When a call was last made to fail."""

    def serve(self, process: int) -> None:
        """Answer calls until the process of this descriptor (`pidfd_open`) has ended."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(process, select.POLLIN)
        while True:
            for descriptor, event in poll.poll(self._patience()):
                if descriptor == process:
                    return
                if event & select.POLLIN:
                    self._meet(seccomp.receive(self._listener))
                else:  # no process is left under the filter: the other descriptor is about to report it
                    poll.unregister(self._listener)
            if self._waiting:
                self._let_go()

    def _patience(self) -> int | None:
        """Milliseconds until the next check of delayed calls; None if there are none."""
        if not self._waiting:
            return None
        left = min(self._waiting[0].due - self._monotonic(), GLANCE)
        return max(0, int(left * 1000 + 0.999))

    def _meet(self, notice: Notice | None) -> None:
        if notice is None:
            return
        now = self._monotonic()
        rules = self._rules.current(now)
        if not rules:
            seccomp.proceed(self._listener, notice.id)
            return
        kind = self._watched.kind_of(notice)
        struck = [rule for rule in rules if kind in rule.calls and self._is_about(rule, notice)]
        if not seccomp.is_valid(self._listener, notice.id):
            return
        if kind and any(self._kill_trigger.strikes(one, kind, notice, self._counts) for one in struck if one.kill):
            return
        self._suffer(notice.id, [rule for rule in struck if not rule.kill], now)

    def _is_about(self, rule: Rule, notice: Notice) -> bool:
        """Whether the rule concerns the call's file. The `KillTrigger` checks this itself for rules that kill."""
        if rule.kill or rule.path == "*":
            return True
        try:
            return any(fnmatch.fnmatch(path, rule.path) for path in places(self._watched.calls[notice.number], notice))
        except OSError:  # the thread has ended
            return False

    def _suffer(self, id: int, rules: Sequence[Rule], now: float) -> None:
        """Apply the rules: delays add up; then the first error that strikes is the call's result, or else a lie."""
        due, error, lie, causes = now, 0, False, set()
        for rule in rules:
            if rule.delay:
                due += min(rule.delay, rule.deadline - now)
                causes.add(rule.id)
                self._counts.add(rule.id)
            elif rule.lie:
                lie = True
                self._counts.add(rule.id)
            elif not error and self._rng.random() < rule.probability:
                error = rule.error
                self._counts.add(rule.id)
        if causes:
            heapq.heappush(self._waiting, Waiting(due, id, error, frozenset(causes), lie))
        else:
            self._answer(id, error, lie)

    def _answer(self, id: int, error: int, lie: bool) -> None:
        if error:
            self.failed_last = self._monotonic()
            seccomp.refuse(self._listener, id, error)
        elif lie:
            seccomp.pretend(self._listener, id)
        else:
            seccomp.proceed(self._listener, id)

    def _let_go(self) -> None:
        """Answer the calls whose time has come or whose fault has ended."""
        now = self._monotonic()
        open_faults = {rule.id for rule in self._rules.current(now)}
        over = [one for one in self._waiting if one.due <= now or not one.causes <= open_faults]
        if over:
            self._waiting = [one for one in self._waiting if one not in over]
            heapq.heapify(self._waiting)
        for one in over:
            self._answer(one.id, one.error, one.lie)


# --- The watched process ------------------------------------------------------------------------------------------


def launch(definition: Definition, stops: Sequence[Trap]) -> tuple[int, int]:
    """Start the process. Returns its pid and the listener of the calls to watch. Raises OSError, Unsupported."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        _become(definition, stops, theirs, parent)
    theirs.close()
    with ours:
        ours.settimeout(START_TIMEOUT)
        said, descriptors, _, _ = socket.recv_fds(ours, 1000, 1)
        if descriptors:
            ours.sendall(b"+")
            said = ours.recv(1000)  # empty: the channel closed when the program began
        if said or not descriptors:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise OSError(said.decode(errors="replace") or "it ended before its program began")
    return pid, descriptors[0]


def _become(definition: Definition, stops: Sequence[Trap], channel: socket.socket, parent: int) -> None:
    """In the child; does not return. Calls after the filter is installed must be answered by the parent, which is not
    ready yet: sending, receiving and executing are not disk calls.
    """
    try:
        os.setsid()
        die_with_parent(parent)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
            signal.signal(number, signal.SIG_DFL)
        os.chdir(definition.cwd)
        listener = seccomp.install(stops)
        socket.send_fds(channel, [b"+"], [listener])
        channel.recv(1)
        os.execvpe(definition.argv[0], definition.argv, definition.environment())
    except (OSError, Unsupported) as trouble:
        with contextlib.suppress(OSError):
            channel.sendall(str(trouble).encode())
    finally:
        os._exit(127)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process however its parent ends. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(KILL_WHEN_PARENT_DIES, int(signal.SIGKILL), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        raise OSError("the watch died before its process began")


def run(state: Path, name: str, tell: Callable[[str], None], is_known: Callable[[], bool]) -> None:
    """Run the watch. It ends again if the pid of its process was not recorded because the starter died."""
    files, definition = DiskState(state), Processes(state).definition(name)
    with open(files.watch_file(name), "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        leave(file.fileno(), f"{os.getpid()}\n")
        try:
            calls = chosen(definition.disk_calls, platform.machine())
            pid, listener = launch(definition, traps(calls))
        except (OSError, Unsupported) as trouble:
            leave(file.fileno(), "")
            tell(f"error: {trouble}")
            return
        seccomp.quicken(listener)
        process = os.pidfd_open(pid)
        tell(str(pid))
        if not is_known():
            signal.pidfd_send_signal(process, signal.SIGKILL)
            os.waitpid(pid, 0)
            leave(file.fileno(), "")
            return
        rules, counts = RuleReader(files, name), Counts(files)
        kill_trigger = KillTrigger(listener, pid, process, calls, Deeds(state))
        rng = random.Random(f"{name} {pid}")
        supervisor = SyscallSupervisor(listener, Watched(definition.data, calls), rules, counts, rng, kill_trigger)
        supervisor.serve(process)
        _, status = os.waitpid(pid, 0)
        killed_here = kill_trigger.struck is not None
        leave(file.fileno(), STRUCK if killed_here else farewell(status, supervisor.failed_last, time.monotonic()))


def farewell(status: int, failed_last: float | None, now: float) -> str:
    """What the watch file says after the process's end."""
    hit = failed_last is not None and now - failed_last <= ENDS_BY_ITSELF_WITHIN
    return STRUCK if hit and os.WIFEXITED(status) else ""


def leave(descriptor: int, text: str) -> None:
    """Replace the content of the watch file."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="asks before each disk call of a node")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--tell", type=int, required=True, metavar="DESCRIPTOR")
    parser.add_argument("--go", type=int, required=True, metavar="DESCRIPTOR", help="says + when the pid is kept")
    options = parser.parse_args(argv)
    for one in (options.tell, options.go):
        os.set_inheritable(one, False)

    def tell(text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the starter has died, which `is_known` detects
            os.write(options.tell, text.encode())
        os.close(options.tell)

    def is_known() -> bool:
        word = os.read(options.go, 1)
        os.close(options.go)
        return word == b"+"

    run(options.state, options.name, tell, is_known)
    return 0

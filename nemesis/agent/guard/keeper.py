"""The keeper: one detached process per host that ends expired faults and answers probes.

It runs in its own session, so it survives the agent and the SSH connection. It needs no commands: it reads the journal.
One keeper runs per host (an exclusive lock ensures it) as long as an agent lives or a fault is open; then it exits. A
fault that does not heal is retried each second and noted in `keeper.log`. No datagram, journal entry, full disk or
error while healing one fault ends the keeper: the steps of each turn of its loop fail independently.

Other processes watch it. Sentries (`sentries.py`) restart it when it is killed, stopped or hangs, and it restarts them.
A live agent watches both, and one agent stays to do so until no fault is open, even after its control process has
ended. Where systemd runs, a timer does the same (`systemd_timer.py`). Faults that the kernel can end without a process
end that way (`network.py`).

Hand-over without a gap: under the journal's lock, an agent ensures that a keeper holds the keeper's lock *before* it
writes an entry. The keeper releases its lock only under the journal's lock, when the journal is empty and no agent is
left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from squall.nemesis.agent.core.daemonize import daemonize
from squall.nemesis.agent.core.durable import fill_reserve, write_in_place
from squall.nemesis.agent.core.journal import Journal
from squall.nemesis.agent.core.lock_holders import end_stopped_keepers, holders, is_stopped
from squall.nemesis.agent.core.manager import FaultManager
from squall.nemesis.agent.core.processes import identity_of
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.guard.heartbeat import STALE_AFTER, Heartbeat
from squall.nemesis.agent.guard.sentries import Sentries
from squall.nemesis.agent.guard.systemd_timer import SystemdTimer
from squall.nemesis.agent.probe.probes import UdpResponder

GLANCE = 0.2
AGAIN_AFTER_FAILURE = 1.0
LOOK_AFTER_KEEPER = 1.0
RESERVE_EVERY = 5.0
TELL_IGNORED_EVERY = 60.0
START_TIMEOUT = 10.0
LINE = 48
LOCK_SECONDS = 0.5
LONGEST_LOG = 1 << 20


def try_lock(file: IO[str], mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class KeeperLocks:
    """The keeper holds `keeper.lock`, all live agents share `agents.lock`, and the agent that stays without a control
    process holds `staying.lock`.
    """

    def __init__(self, state: Path) -> None:
        self._keeper_file = state / "keeper.lock"
        self._agents_file = state / "agents.lock"
        self._staying_file = state / "staying.lock"
        self._heartbeat = Heartbeat(state)

    def keeper_lives(self) -> bool:
        """Whether a keeper exists, even if it is stopped or hangs."""
        with open(self._keeper_file, "a") as file:
            return not try_lock(file, fcntl.LOCK_SH)

    def keeper_works(self) -> bool:
        """Whether a keeper exists, is not stopped, and its heartbeat is fresh."""
        return self.keeper_lives() and self._heartbeat.age() < STALE_AFTER and not any(map(is_stopped, self._keepers()))

    def end_keeper_that_does_not_work(self) -> None:
        """Kill the process that holds the lock and wait until the lock is free. Raises VerbError if it does not become
        free.
        """
        deadline = time.monotonic() + START_TIMEOUT
        while self.keeper_lives() and not self.keeper_works():
            for pid in self._keepers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise VerbError("failed", f"a keeper that does not work holds {self._keeper_file} and does not end")
            time.sleep(0.01)

    def _keepers(self) -> list[int]:
        return holders(self._keeper_file)

    def agents_live(self) -> bool:
        with open(self._agents_file, "a") as file:
            return not try_lock(file, fcntl.LOCK_EX)

    def join_agents(self) -> IO[str]:
        """Register as a live agent for as long as the returned file is open."""
        file = open(self._agents_file, "a")  # noqa: SIM115 (the caller closes it)
        fcntl.flock(file, fcntl.LOCK_SH)
        return file

    @contextlib.contextmanager
    def as_agent_that_stays(self) -> Iterator[bool]:
        """Whether this is the one agent that stays after its control process has ended. Where no lock file can be made
        (a full disk), every agent stays.
        """
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(open(self._staying_file, "a"))
            except OSError:
                yield True
            else:
                yield try_lock(file, fcntl.LOCK_EX)

    @contextlib.contextmanager
    def as_keeper(self) -> Iterator[IO[str] | None]:
        """Yield the locked file if this process is now the keeper, None if another one is. The file holds the keeper's
        pid and start time.

        A process that only checks for a keeper holds the lock for a moment, so locking is retried for a while.
        """
        with open(self._keeper_file, "a") as file:
            deadline = time.monotonic() + LOCK_SECONDS
            while not try_lock(file, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    yield None
                    return
                time.sleep(0.005)
            with open(self._keeper_file, "r+") as line, contextlib.suppress(OSError):
                identity = identity_of(os.getpid())
                write_in_place(line.fileno(), f"{identity.pid} {identity.started}", LINE)
            yield file


@dataclass(frozen=True)
class Guard:
    """Everything that ensures that the faults of this host end, as agent and keeper both use it."""

    state: Path
    command: Sequence[str]
    """Starts the agent, without `--keeper`."""
    locks: KeeperLocks
    sentries: Sentries
    heartbeat: Heartbeat
    timer: SystemdTimer

    @classmethod
    def of(cls, state: Path, command: Sequence[str], locks: KeeperLocks) -> Guard:
        timer = SystemdTimer(state, command)
        return cls(state, command, locks, Sentries(state, command), Heartbeat(state), timer)

    def ensure_keeper(self) -> None:
        """Start a keeper unless one works. Returns when it is on duty. The caller holds the journal's lock."""
        if self.locks.keeper_works():
            return
        self.locks.end_keeper_that_does_not_work()
        if self.locks.keeper_lives():
            return
        log_path = self.state / "keeper.log"
        if not daemonize("keeper", self.command, "--keeper", log_path, START_TIMEOUT):
            raise VerbError("failed", f"the keeper did not start, so no fault is injected: {_last_words(log_path)}")

    def ensure_all(self) -> None:
        """Before an injection, ensure room to heal, a keeper, its sentries and the timer. The caller holds the lock.

        Raises VerbError: without room, keeper and sentries no fault is injected.
        """
        try:
            self.heartbeat.reserve()
            if not fill_reserve(self.state):
                raise VerbError("failed", f"no fault is injected: {self.state} has no free space to heal it")
            self.ensure_keeper()
            self.sentries.ensure()
        except OSError as trouble:
            raise VerbError("failed", f"no fault is injected: it could not be healed: {trouble}") from None
        self.timer.start()

    def watch(self, journal: Journal) -> None:
        """In a thread of a live agent: replace a dead keeper or sentry while a fault is open."""
        while True:
            time.sleep(LOOK_AFTER_KEEPER)
            with contextlib.suppress(Exception):  # retried in a second
                if journal.entries():
                    self._replace_what_does_not_work(journal)

    def leave(self, journal: Journal) -> None:
        """For an agent whose control process has ended: keep watching until no fault is open, then return.

        One agent per host does this; agents whose control processes end later do not wait for it. A stopped keeper or
        sentry would stay for ever, so it is replaced by a working one, which exits after this agent.
        """
        with self.locks.as_agent_that_stays() as staying:
            while staying and journal.entries():
                time.sleep(GLANCE)
        with contextlib.suppress(VerbError, OSError):
            self._replace_what_does_not_work(journal)

    def _replace_what_does_not_work(self, journal: Journal) -> None:
        if not (self.sentries.all_well() and self.locks.keeper_works()):
            with journal.locked():
                self.ensure_keeper()
                self.sentries.ensure()

    def watch_in_thread(self, journal: Journal) -> None:
        threading.Thread(target=self.watch, args=(journal,), name="guard", daemon=True).start()


def _last_words(log_path: Path) -> str:
    with contextlib.suppress(OSError):
        return log_path.read_text(errors="replace")[-300:]
    return "it said nothing"


def say(text: str) -> None:
    """Write to `keeper.log` if there is room."""
    with contextlib.suppress(OSError, ValueError):
        if os.fstat(sys.stdout.fileno()).st_size < LONGEST_LOG:
            print(text, flush=True)


class Listener:
    """Answers probes in its own thread: neither healing nor a flood of datagrams delays the other."""

    def __init__(self, responder: Callable[[], UdpResponder]) -> None:
        self._open = responder
        self._responder: UdpResponder | None = None
        self._ending = False
        self._said = ""
        self._ignored: Counter[str] = Counter()
        self._tell_ignored_at = 0.0
        self._thread = threading.Thread(target=self._listen, name="ear", daemon=True)

    def start(self) -> None:
        """Open the port if possible, then start the thread."""
        self._try_to_open()
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and free the port before returning."""
        self._ending = True
        self._thread.join()
        if self._responder is not None:
            self._responder.close()

    def _listen(self) -> None:
        while not self._ending:
            if self._responder is None:
                self._try_to_open()
            try:
                if self._responder is None:
                    time.sleep(GLANCE)
                else:
                    self._responder.listen(GLANCE)
                    self._tell_ignored(self._responder)
            except Exception as trouble:  # no error may end the listening
                self._tell(f"listening for probes: {type(trouble).__name__}: {trouble}")
                time.sleep(GLANCE)

    def _try_to_open(self) -> None:
        """Try to open the port. Without it the keeper still heals; probes then find no listener."""
        try:
            self._responder = self._open()
        except Exception as trouble:
            self._tell(f"cannot listen for probes: {trouble}")

    def _tell_ignored(self, responder: UdpResponder) -> None:
        """Log the counts once a minute, if they have grown."""
        if responder.ignored != self._ignored and time.monotonic() >= self._tell_ignored_at:
            self._ignored = responder.ignored.copy()
            self._tell_ignored_at = time.monotonic() + TELL_IGNORED_EVERY
            told = ", ".join(f"{count} {why}" for why, count in sorted(responder.ignored.items()))
            say(f"datagrams ignored so far: {told}")

    def _tell(self, what: str) -> None:
        if what != self._said:
            say(what)
        self._said = what


class Keeper:
    """The keeper's main loop."""

    def __init__(
        self,
        journal: Journal,
        manager: FaultManager,
        guard: Guard,
        responder: Callable[[], UdpResponder],
        revive: Callable[[], list[str]],
    ) -> None:
        self._journal = journal
        self._manager = manager
        self._guard = guard
        self._listener = Listener(responder)
        self._revive = revive
        self._said: str = ""
        self._reserve_due = 0.0

    def keep(self, tell_ready: int) -> None:
        """Run until there is nothing to keep. Returns at once if another keeper runs."""
        with self._guard.locks.as_keeper() as duty:
            if duty is None:
                return
            self._guard.heartbeat.start()
            self._listener.start()
            with contextlib.suppress(OSError):  # the waiting process may have died
                os.write(tell_ready, b"+")
                os.close(tell_ready)
            while not self._turn(duty):
                time.sleep(GLANCE)

    def _turn(self, duty: IO[str]) -> bool:
        """Run one turn. Returns whether the keeper is now off duty."""
        self._guard.heartbeat.turn()
        self._try(self._heal_what_is_due)
        self._try(self._start_what_fell_with_its_watch)
        self._try(self._see_to_sentries)
        return bool(self._try(lambda: self._go_off_duty(duty)))

    def _try(self, do: Callable[[], object]) -> object:
        """Run one step. An error is logged once, and the step is retried in the next turn."""
        try:
            return do()
        except Exception as trouble:
            said = f"{type(trouble).__name__}: {trouble}" if not isinstance(trouble, VerbError) else trouble.error
            if said != self._said:
                say(said)
            self._said = said
            time.sleep(AGAIN_AFTER_FAILURE)
            return None

    def _heal_what_is_due(self) -> None:
        if self._journal.expired():
            say(f"healed, their time being up: {', '.join(self._manager.heal_expired())}")
        if self._manager.broken():
            say(f"ended before their time, their process having died: {', '.join(self._manager.heal_broken())}")

    def _start_what_fell_with_its_watch(self) -> None:
        """Restart processes that ended because of the watch over their disk calls (`disk_faults.py`)."""
        for done in self._revive():
            say(done)

    def _see_to_sentries(self) -> None:
        """Restart sentries that do not work, and refill the reserve while there is room."""
        if not self._guard.sentries.all_well():
            with self._journal.locked():
                self._guard.sentries.ensure()
        if time.monotonic() >= self._reserve_due:
            fill_reserve(self._guard.state)
            self._reserve_due = time.monotonic() + RESERVE_EVERY

    def _go_off_duty(self, duty: IO[str]) -> bool:
        if self._journal.entries() or self._guard.locks.agents_live():
            return False
        with self._journal.locked():
            if self._journal.entries() or self._guard.locks.agents_live():
                return False
            end_stopped_keepers(self._guard.state)
            self._guard.timer.stop()
            self._listener.close()  # else the next keeper, which is on duty at once, finds the port taken
            fcntl.flock(duty, fcntl.LOCK_UN)  # while the journal's lock is held: no agent may rely on this keeper
            return True

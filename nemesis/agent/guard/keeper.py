"""The keeper: one detached process per host that ends faults when their time is up, and listens for probes.

It has a session of its own, so it survives the agent and the SSH connection; it needs nobody to tell it anything:
it reads the journal. One runs per host (an exclusive lock says so) for as long as an agent lives or a fault is
open; then it goes. What will not heal is tried again each second and noted in `keeper.log`. No datagram, no entry of
the journal, no full disk and no error in one fault's healing ends it: each turn of its loop stands by itself.

It does not stand alone. Sentries (`sentries.py`) start it again when it is killed, stopped or hangs, and it starts them
again. A live agent looks after both, and one agent stays for that until no fault is open although its control process
has gone. Where systemd runs, a timer does the same (`systemd_timer.py`); and what the kernel can end by itself ends
without any of them (`network.py`).

The hand-over without a gap: an agent makes sure under the journal's lock that a keeper holds its lock *before* it
writes an entry, and the keeper lets go only under the same lock, when the journal is empty and no agent is left.
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

from squall.nemesis.agent.core.detached import start_detached
from squall.nemesis.agent.core.durable import fill_reserve, write_in_place
from squall.nemesis.agent.core.journal import Journal
from squall.nemesis.agent.core.lock_holders import end_stopped_keepers, holders, is_stopped
from squall.nemesis.agent.core.manager import FaultDesk
from squall.nemesis.agent.core.processes import identity_of
from squall.nemesis.agent.core.trouble import Trouble
from squall.nemesis.agent.guard.heartbeat import STALE_AFTER, Heartbeat
from squall.nemesis.agent.guard.sentries import Sentries
from squall.nemesis.agent.guard.systemd_timer import SystemdTimer
from squall.nemesis.agent.probe.probes import Ear

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
    """`keeper.lock` is held by the keeper, `agents.lock` is shared by all live agents, `staying.lock` is held by the
    one that stays without a control process.
    """

    def __init__(self, state: Path) -> None:
        self._keeper_file = state / "keeper.lock"
        self._agents_file = state / "agents.lock"
        self._staying_file = state / "staying.lock"
        self._heartbeat = Heartbeat(state)

    def keeper_lives(self) -> bool:
        """Whether there is one, in whatever condition."""
        with open(self._keeper_file, "a") as file:
            return not try_lock(file, fcntl.LOCK_SH)

    def keeper_works(self) -> bool:
        """Whether there is one, not stopped, whose heart beats."""
        return self.keeper_lives() and self._heartbeat.age() < STALE_AFTER and not any(map(is_stopped, self._keepers()))

    def end_keeper_that_does_not_work(self) -> None:
        """Kill the one that holds the lock, and wait until it has let go. Raises Trouble if it does not."""
        deadline = time.monotonic() + START_TIMEOUT
        while self.keeper_lives() and not self.keeper_works():
            for pid in self._keepers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise Trouble("failed", f"a keeper that does not work holds {self._keeper_file} and does not end")
            time.sleep(0.01)

    def _keepers(self) -> list[int]:
        return holders(self._keeper_file)

    def agents_live(self) -> bool:
        with open(self._agents_file, "a") as file:
            return not try_lock(file, fcntl.LOCK_EX)

    def join_agents(self) -> IO[str]:
        """The returned file, while open, counts as one live agent."""
        file = open(self._agents_file, "a")  # noqa: SIM115 (the caller closes it)
        fcntl.flock(file, fcntl.LOCK_SH)
        return file

    @contextlib.contextmanager
    def as_agent_that_stays(self) -> Iterator[bool]:
        """Whether we are the one agent that stays after its control process has gone. Where no lock file can be made
        (a full disk), each is.
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
        """The locked file if we are the keeper now; None if there is one. It says who the keeper is.

        Whoever only looks whether a keeper lives holds the lock for a moment, so it is tried for a while.
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
    """All that sees to it that faults of this host end, as agent and keeper both handle it."""

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
        """Start a keeper unless one works; returns when it is on duty. The caller holds the journal's lock."""
        if self.locks.keeper_works():
            return
        self.locks.end_keeper_that_does_not_work()
        if self.locks.keeper_lives():
            return
        log_path = self.state / "keeper.log"
        if not start_detached("keeper", self.command, "--keeper", log_path, START_TIMEOUT):
            raise Trouble("failed", f"the keeper did not start, so no fault is injected: {_last_words(log_path)}")

    def ensure_all(self) -> None:
        """Before a fault is injected: room to heal it, a keeper, its sentries, and the timer. Lock held by caller.

        Raises Trouble: without them no fault is injected.
        """
        try:
            self.heartbeat.reserve()
            if not fill_reserve(self.state):
                raise Trouble("failed", f"no fault is injected: there is no room in {self.state} to heal it with")
            self.ensure_keeper()
            self.sentries.ensure()
        except OSError as trouble:
            raise Trouble("failed", f"no fault is injected: it could not be healed: {trouble}") from None
        self.timer.start()

    def watch(self, journal: Journal) -> None:
        """For a live agent, in a thread: while a fault is open, whoever has died is replaced."""
        while True:
            time.sleep(LOOK_AFTER_KEEPER)
            with contextlib.suppress(Exception):  # it is tried again in a second
                if journal.entries():
                    self._replace_what_does_not_work(journal)

    def leave(self, journal: Journal) -> None:
        """For an agent whose control process has gone: go on watching until no fault is open, then return.

        One agent per host watches on; those whose control processes went later do not wait for it. A keeper or sentry
        that was stopped would stay for ever, so it is replaced by one that works, and that goes when we have gone.
        """
        with self.locks.as_agent_that_stays() as staying:
            while staying and journal.entries():
                time.sleep(GLANCE)
        with contextlib.suppress(Trouble, OSError):
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
    """Into `keeper.log`, if there is room."""
    with contextlib.suppress(OSError, ValueError):
        if os.fstat(sys.stdout.fileno()).st_size < LONGEST_LOG:
            print(text, flush=True)


class Listener:
    """The ear, in a thread of its own: healing makes nobody deaf, and a flood of datagrams holds up no healing."""

    def __init__(self, ear: Callable[[], Ear]) -> None:
        self._open = ear
        self._ear: Ear | None = None
        self._ending = False
        self._said = ""
        self._ignored: Counter[str] = Counter()
        self._tell_ignored_at = 0.0
        self._thread = threading.Thread(target=self._listen, name="ear", daemon=True)

    def start(self) -> None:
        """When this returns, the port is open, if it can be."""
        self._try_to_open()
        self._thread.start()

    def close(self) -> None:
        """When this returns, the port is free."""
        self._ending = True
        self._thread.join()
        if self._ear is not None:
            self._ear.close()

    def _listen(self) -> None:
        while not self._ending:
            if self._ear is None:
                self._try_to_open()
            try:
                if self._ear is None:
                    time.sleep(GLANCE)
                else:
                    self._ear.listen(GLANCE)
                    self._tell_ignored(self._ear)
            except Exception as trouble:  # whatever it was, it is nothing to go deaf of
                self._tell(f"listening for probes: {type(trouble).__name__}: {trouble}")
                time.sleep(GLANCE)

    def _try_to_open(self) -> None:
        """Without its port the keeper still keeps; probes then say that nobody listens."""
        try:
            self._ear = self._open()
        except Exception as trouble:
            self._tell(f"cannot listen for probes: {trouble}")

    def _tell_ignored(self, ear: Ear) -> None:
        """Once a minute, if there were more."""
        if ear.ignored != self._ignored and time.monotonic() >= self._tell_ignored_at:
            self._ignored = ear.ignored.copy()
            self._tell_ignored_at = time.monotonic() + TELL_IGNORED_EVERY
            told = ", ".join(f"{count} {why}" for why, count in sorted(ear.ignored.items()))
            say(f"datagrams ignored so far: {told}")

    def _tell(self, what: str) -> None:
        if what != self._said:
            say(what)
        self._said = what


class Keeper:
    """The keeper's life."""

    def __init__(
        self,
        journal: Journal,
        desk: FaultDesk,
        guard: Guard,
        ear: Callable[[], Ear],
        revive: Callable[[], list[str]],
    ) -> None:
        self._journal = journal
        self._desk = desk
        self._guard = guard
        self._listener = Listener(ear)
        self._revive = revive
        self._said: str = ""
        self._reserve_due = 0.0

    def keep(self, tell_ready: int) -> None:
        """Until there is nothing to keep, or another keeper is there."""
        with self._guard.locks.as_keeper() as duty:
            if duty is None:
                return
            self._guard.heartbeat.start()
            self._listener.start()
            with contextlib.suppress(OSError):  # whoever waited may have died
                os.write(tell_ready, b"+")
                os.close(tell_ready)
            while not self._turn(duty):
                time.sleep(GLANCE)

    def _turn(self, duty: IO[str]) -> bool:
        """Whether it is off duty now."""
        self._guard.heartbeat.turn()
        self._try(self._heal_what_is_due)
        self._try(self._start_what_fell_with_its_watch)
        self._try(self._see_to_sentries)
        return bool(self._try(lambda: self._go_off_duty(duty)))

    def _try(self, do: Callable[[], object]) -> object:
        """Whatever goes wrong is told once, and tried again."""
        try:
            return do()
        except Exception as trouble:
            said = f"{type(trouble).__name__}: {trouble}" if not isinstance(trouble, Trouble) else trouble.error
            if said != self._said:
                say(said)
            self._said = said
            time.sleep(AGAIN_AFTER_FAILURE)
            return None

    def _heal_what_is_due(self) -> None:
        if self._journal.expired():
            say(f"healed, their time being up: {', '.join(self._desk.heal_expired())}")
        if self._desk.broken():
            say(f"ended before their time, their process having died: {', '.join(self._desk.heal_broken())}")

    def _start_what_fell_with_its_watch(self) -> None:
        """Processes that ended because of the watch over their disk calls (`disk_faults.py`) are started again."""
        for done in self._revive():
            say(done)

    def _see_to_sentries(self) -> None:
        """And the reserve is filled up while there is room."""
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
            self._guard.sentries.end()
            end_stopped_keepers(self._guard.state)
            self._guard.timer.stop()
            self._listener.close()  # or the next keeper, on duty the moment we are not, finds the port taken
            fcntl.flock(duty, fcntl.LOCK_UN)  # before the journal's lock goes: no agent may count on us
            return True

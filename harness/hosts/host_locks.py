"""Lock hosts from the control process, so that two runs never share a host.

    with HostLocks("squall run suites/smoke.yaml", wait=None, say=print) as locks:
        lock = await locks.take(inventory, network, run_id)      # raises HostsInUse
        await lock.guard(work())                                 # raises LockLost if another run takes a host
        …
    # every lock is released here, after errors too

The lock is on the host (`nemesis/agent/core/host_lock.py`), so it also excludes other control machines. All hosts of a
run are locked in one order, by address, before anything is sent to any of them. If one is in use, the locks already
taken are released before the run waits, so that no two runs wait for each other. Each host has a thread that renews its
lease. An owner on this machine whose process has ended is replaced at once, any other when its lease has ended.

One `HostLocks` keeps its locks until it is closed: a suite locks its hosts with its first scenario and keeps them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import getpass
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import paramiko

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import probe
from squall.harness.hosts.network import Network, process_started
from squall.harness.hosts.ssh import LineChannel, Remote, on_all
from squall.harness.hosts.ssh_access import ConnectionLost, SshError, reason_of
from squall.harness.scenario.inventory import HostSpec, Inventory

LEASE_SECONDS = 60.0
"""How long hosts stay locked after their owner was killed on another machine.

Longer than a fault that cuts off SSH.
"""
BEAT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
AGAIN_SECONDS = 1.0
TOLD_EVERY_SECONDS = 10.0
LOOK_SECONDS = 3.0
PROGRAM = "core/host_lock.py"

Answer = dict[str, Any]
Done = TypeVar("Done")
Say = Callable[[str], None]


class LockLost(Exception):
    """Another run has taken a host of this run; what happens on it since then does not belong to this run."""


@dataclass(frozen=True)
class Owner:
    """The owner of a host, as the host's lock reports it."""

    host: str
    """The host, as an error names it: `b1 (10.0.0.12)`."""
    token: str
    who: str
    """`ann@laptop`, of the control process."""
    pid: int
    control: str
    started: int
    run: str
    command: str
    since: float
    """Seconds since 1970, by the control machine's clock."""
    age: float
    left: float
    """Remaining seconds of the lease; 0 or less if it has ended."""

    @classmethod
    def of(cls, host: str, record: Mapping[str, Any]) -> Owner:
        """Build an owner from a host's response; a record of another version may lack informational fields."""
        return cls(
            host=host,
            token=str(record["token"]),
            who=str(record.get("owner", "somebody")),
            pid=int(record.get("pid", 0)),
            control=str(record.get("control", "")),
            started=int(record.get("started", 0)),
            run=str(record.get("run", "")),
            command=str(record.get("command", "")),
            since=float(record.get("since", 0.0)),
            age=float(record["age"]),
            left=float(record["left"]),
        )

    @property
    def is_gone(self) -> bool:
        """Return whether its lease has ended, or its process, if that ran on this machine."""
        if self.left <= 0:
            return True
        return bool(self.control) and self.control == this_control() and process_started(self.pid) != self.started

    def __str__(self) -> str:
        stamp = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        words = [self.who, f"pid {self.pid}", f"since {stamp} ({_span(self.age)})"]
        return ", ".join([*words, *([f"`{self.command}`"] if self.command else [])])


class HostsInUse(UsageError):
    """A host belongs to another run."""

    def __init__(self, owner: Owner, *, waited: float | None = None, remedy: str | None = None) -> None:
        after = "" if waited is None else f" after {waited:.0f} s of waiting"
        where = owner.who.partition("@")[2] or "its machine"
        super().__init__(
            f"{owner.host}: in use{after} by {owner}",
            remedy=remedy
            or f"wait for it: --wait; or end it: kill -TERM {owner.pid} on {where}; or use other hosts: "
            "`squall lab up --name OTHER`, and `--lab OTHER` here",
        )
        self.owner = owner


class HostLocks:
    """The locks of one command. A context manager; `take` and `release` are for one event loop at a time."""

    def __init__(self, command: str, *, wait: float | None, say: Say) -> None:
        """`wait`: how many seconds to wait for hosts in use, `inf` for no limit, None for no waiting."""
        self._command = command
        self._wait = wait
        self._say = say
        self._held: list[HeldLock] = []
        self._closed = False
        self._changing = threading.Lock()

    def __enter__(self) -> HostLocks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def take(self, inventory: Inventory, network: Network, run: str) -> HeldLock:
        """Lock all these hosts for this run; return the existing lock if it covers the same hosts.

        Raises:
            HostsInUse: another run has one of them, for longer than the permitted wait.
            UsageError: a host cannot be reached, or has no Python or no sudo.
        """
        wanted = sorted((spec.address, spec.port) for spec in inventory.hosts)
        for held in self._held:
            if held.hosts == wanted:
                await asyncio.to_thread(held.name_run, run)
                return held
        lock = HeldLock(inventory, network, wanted, record_of(self._command, run), self._say)
        with self._changing:
            self._held.append(lock)  # before anything is locked, so that `close` releases it in every case
        try:
            await self._until_taken(lock)
        except UsageError:
            await asyncio.to_thread(self.release, lock)
            raise
        return lock

    async def _until_taken(self, lock: HeldLock) -> None:
        began, told, told_at = time.monotonic(), "", 0.0
        while (owner := await asyncio.to_thread(lock.attempt)) is not None:
            waited = time.monotonic() - began
            if self._wait is None or waited >= self._wait:
                raise HostsInUse(owner, waited=None if self._wait is None else waited)
            if owner.token != told or waited - told_at >= TOLD_EVERY_SECONDS:
                told, told_at = owner.token, waited
                self._say(f"wait       {owner.host}: in use by {owner}; waited {waited:.0f} s")
            await asyncio.sleep(min(AGAIN_SECONDS, max(self._wait - waited, 0.0)))
        await asyncio.to_thread(lock.keep)

    def release(self, lock: HeldLock, *, hosts_remain: bool = True) -> None:
        """Release a lock early. With `hosts_remain` false, the hosts no longer exist and are not contacted."""
        with self._changing:
            if lock in self._held:
                self._held.remove(lock)
        lock.close(tell=hosts_remain)

    def close(self) -> None:
        """Release every lock. May be called again."""
        while self._held:
            self.release(self._held[-1])


class HeldLock:
    """The lock of all hosts of a run; one record, a thread for each host that renews it."""

    def __init__(
        self, inventory: Inventory, network: Network, hosts: list[tuple[str, int]], record: Answer, say: Say
    ) -> None:
        self.token: str = record["token"]
        self.hosts = hosts
        self.lost: str | None = None
        """Who took which host, once another run has."""
        self._record = record
        self._say = say
        ordered = sorted(inventory.hosts, key=lambda spec: (spec.address, spec.port))
        self._links = [_Link(Remote(spec, network), record, self._is_lost) for spec in ordered]
        self._tell_lost: Callable[[], None] = lambda: None

    def attempt(self) -> Owner | None:
        """Lock all hosts, or none. Return the owner in the way. Blocking. Raises UsageError."""
        if (owner := self._seen_in_the_way()) is not None:
            return owner
        taken: list[_Link] = []
        try:
            for link in self._links:
                taken.append(link)
                owner, replaced = link.take()
                if owner is not None:
                    taken.pop()
                    self._give_back(taken)
                    return owner
                if replaced is not None:
                    why = "its lease has ended" if replaced.left <= 0 else "that process is gone"
                    self._say(f"lock       {replaced.host}: taken over from {replaced}: {why}")
        except BaseException:
            self._give_back(taken)
            raise
        return None

    def _seen_in_the_way(self) -> Owner | None:
        """Return the owner of one of the hosts, without locking any.

        A lease that ended while its host was cut off is respected as long as its owner has the other hosts.
        """
        ours = {link.remote.name: link for link in self._links}
        found = on_all([link.remote for link in self._links], lambda remote: ours[remote.name].look(explain=True))
        owners = [found[link.remote.name] for link in self._links]
        return next((one for one in owners if one is not None and not one.is_gone and one.token != self.token), None)

    def keep(self) -> None:
        """Renew the lock from now on, until `close`."""
        for link in self._links:
            link.start_beating()

    def name_run(self, run: str) -> None:
        """Change the run that the hosts report for this lock. Blocking."""
        self._record["run"] = run
        for link in self._links:
            link.beat_now()

    async def guard(self, work: Coroutine[Any, Any, Done]) -> Done:
        """Run `work` while the lock is held. Cancels it and raises LockLost once another run has taken a host."""
        loop = asyncio.get_running_loop()
        lost: asyncio.Future[None] = loop.create_future()
        self._tell_lost = lambda: _call_in(loop, lost.cancel)
        if self.lost:
            self._tell_lost()
        task = asyncio.create_task(work)
        waited_for: set[asyncio.Future[Any]] = {task, lost}
        try:
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise LockLost(self.lost)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()  # retrieve the exception of cancelled work, which has no other reader
            lost.cancel()

    def stop(self) -> None:
        """Stop renewing; used before hosts end that stay locked until then."""
        for link in self._links:
            link.stop_beating()

    def close(self, *, tell: bool) -> None:
        """Stop renewing, release every host that can be reached, and close the connections. Blocking."""
        self.stop()
        if tell:
            self._give_back(self._links)
        for link in self._links:
            link.close()

    def _give_back(self, links: list[_Link]) -> None:
        """Release all in parallel: an unresponsive host must not delay the others. Its lease will end."""
        ours = {link.remote.name: link for link in links}
        with contextlib.suppress(UsageError):
            on_all([link.remote for link in links], lambda remote: ours[remote.name].release())

    def _is_lost(self, said: str) -> None:
        self.lost = self.lost or said
        self._tell_lost()


class _Link:
    """The lock of one host, over a separate channel. Used by one thread at a time, guarded by `_talking`."""

    def __init__(self, remote: Remote, record: Answer, lost: Callable[[str], None]) -> None:
        self.remote = remote
        self._record = record
        self._lost = lost
        self._boot = ""
        self._taken = False
        self._channel: LineChannel | None = None
        self._operations = 0
        self._talking = threading.Lock()
        self._stop = threading.Event()
        self._beating: threading.Thread | None = None

    def take(self) -> tuple[Owner | None, Owner | None]:
        """Lock the host. Return the owner in the way, and the owner that was replaced. Raises UsageError."""
        instead_of = None
        while True:
            self._taken = True  # until a refusal arrives: the response may be lost
            said = self._ask("take", True, record=self._record, lease=LEASE_SECONDS, instead_of=instead_of)
            if said["taken"]:
                self._boot = said["boot"]
                replaced = said["instead_of"]
                return None, None if replaced is None else self._owner(replaced)
            self._taken = False
            owner = self._owner(said["holder"])
            if not owner.is_gone or owner.token == instead_of:
                return owner, None
            instead_of = owner.token

    def release(self) -> None:
        """Release the host's lock if it is held. Raises UsageError."""
        if self._taken:
            self._taken = False
            with contextlib.suppress(OSError):
                self._ask("release", token=self._record["token"])

    def look(self, *, explain: bool = False) -> Owner | None:
        """Return the owner of the host. Raises UsageError, and TimeoutError unless `explain` asks for a remedy."""
        found = self._ask("look", explain)["holder"]
        return None if found is None else self._owner(found)

    def start_beating(self) -> None:
        self._beating = threading.Thread(target=self._beat, name=f"lock-{self.remote.name}", daemon=True)
        self._beating.start()

    def stop_beating(self) -> None:
        self._stop.set()

    def beat_now(self) -> None:
        """Renew the lease; an unresponsive host is retried with the next beat."""
        with contextlib.suppress(UsageError, OSError):
            said = self._ask("renew", record=self._record, lease=LEASE_SECONDS, boot=self._boot)
            if said["held"]:
                self._boot = said["boot"]
            elif not self._stop.is_set():
                holder = said["holder"]
                by = "its lock was removed" if holder is None else f"taken over by {self._owner(holder)}"
                self._taken = False
                self._lost(f"{self.remote.spec.described()}: no longer ours: {by}")
                self._stop.set()

    def close(self) -> None:
        """Close the channel and the connection; the lock remains."""
        if self._beating is not None:
            self._beating.join(ANSWER_SECONDS)
        self.remote.close()

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            self.beat_now()

    def _owner(self, record: Mapping[str, Any]) -> Owner:
        return Owner.of(self.remote.spec.described(), record)

    def _ask(self, do: str, explain: bool = False, **arguments: object) -> Answer:
        """Send one request and return its response; use a new channel if the old one is lost.

        Raises UsageError, TimeoutError.
        """
        with self._talking:
            try:
                return self._exchange(do, arguments)
            except (ConnectionLost, TimeoutError):
                self._hang_up()
            try:
                return self._exchange(do, arguments)
            except (ConnectionLost, TimeoutError) as trouble:
                self._hang_up()
                if not explain:
                    raise
                _explain(self.remote)
                raise SshError(self.remote.spec, f"its lock does not answer: {trouble}") from None

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _exchange(self, do: str, arguments: Mapping[str, object]) -> Answer:
        if self._channel is None:
            try:
                self._channel = self.remote.open_channel(lock_command(self.remote.spec), sudo=self.remote.spec.sudo)
            except (EOFError, paramiko.SSHException) as trouble:
                raise TimeoutError(reason_of(trouble)) from None
        self._operations += 1
        self._channel.send_line(json.dumps({"op": self._operations, "do": do, **arguments}).encode(), ANSWER_SECONDS)
        said: Answer = {}
        while said.get("op") != self._operations:
            try:
                said = json.loads(self._channel.receive_line(ANSWER_SECONDS))
            except ValueError as trouble:
                raise TimeoutError(f"what it said is not JSON ({trouble})") from None
        if "error" in said:
            raise SshError(self.remote.spec, f"it cannot be locked: {said['error']}")
        return said


def owners_of(inventory: Inventory, network: Network) -> list[Owner]:
    """Return the live owners of these hosts. Hosts that do not respond are left out."""
    found: list[Owner] = []

    def look(remote: Remote) -> None:
        link = _Link(remote, {}, lambda said: None)
        with contextlib.suppress(UsageError, OSError):  # a timeout is an OSError
            remote.connect(LOOK_SECONDS)
            owner = link.look()
            if owner is not None and not owner.is_gone:
                found.append(owner)
        link.close()

    on_all([Remote(spec, network) for spec in inventory.hosts], look)
    return sorted(found, key=lambda owner: owner.host)


def lock_command(spec: HostSpec) -> list[str]:
    """Return the command that serves the lock on a host."""
    return [spec.python, "-u", "-c", _source(), *(["--reduced"] if spec.reduced else [])]


@functools.cache
def _source() -> str:
    from squall.harness.hosts.system import room

    return (room("nemesis") / "agent" / PROGRAM).read_text()


def record_of(command: str, run: str) -> Answer:
    """Return the record of this process, shown to every command that finds a host in use."""
    pid = os.getpid()
    return {
        "token": secrets.token_hex(16),
        "owner": f"{_user()}@{socket.gethostname()}",
        "pid": pid,
        "control": this_control(),
        "started": process_started(pid) or 0,
        "run": run,
        "command": command,
        "since": time.time(),
    }


@functools.cache
def this_control() -> str:
    """Identify this control machine and its pid namespace, so that process ids of other containers stay distinct."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return str(os.geteuid())


def _explain(remote: Remote) -> None:
    """Raise an error with a remedy if a host's lock fails because it has no Python or no sudo."""
    probe(remote)
    remote.run(["true"], sudo=remote.spec.sudo, check=True)


def _call_in(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits any more
        loop.call_soon_threadsafe(work)


def _span(seconds: float) -> str:
    """Format as `12 s`, `4 min`, `3 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"

"""Reach hosts from the right network namespace.

Rented hosts are reached from the machine's own network. Lab hosts are on a bridge in a separate namespace (`lab.py`),
which the control process does not enter: it stays where the user's browser and files are, and only the *sockets* it
opens towards hosts belong to the lab. A socket stays in the namespace it was created in, even if another thread
connects it later. So a short-lived thread enters the namespace, creates the socket and ends. Where the lab was made
without root, a thread may not enter it, and the lab provides the socket (`sockets.py`).

Client libraries that open their own sockets (librdkafka) run in worker processes; these call `enter()` first, before
any thread starts, because a namespace is entered per thread. Foreign programs are started with `command_prefix()`
before their argv.

Hosts of a reduced lab are in the machine's own network, like rented ones; but the lab may have ended.

All kinds are small frozen values that pickle, so a worker process can receive its network.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from squall.harness.errors import UsageError
from squall.harness.hosts.kernel import CLONE_NEWNET, CLONE_NEWUSER
from squall.harness.hosts.sockets import ask_for_socket


class Network(Protocol):
    """Creates sockets that can reach the hosts."""

    def socket(self) -> socket.socket:
        """A new, unconnected TCP/IPv4 socket that can reach the hosts."""
        ...

    def enter(self) -> None:
        """Move the calling thread, and what it starts from now on, to where the hosts can be reached."""
        ...

    def command_prefix(self) -> list[str]:
        """Return what to put before an argv so that the program runs where the hosts can be reached."""
        ...


@dataclass(frozen=True)
class MachineNetwork:
    """The machine's own network, for hosts reachable from it."""

    def socket(self) -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def enter(self) -> None:
        """Nothing to do: every thread is there already."""

    def command_prefix(self) -> list[str]:
        return []


@dataclass(frozen=True)
class LabNetwork:
    """The namespace of a lab's switch, held by process `holder` that started at `holder_started` (ticks)."""

    holder: int
    holder_started: int
    sockets: Path | None = None
    """For a lab without root: where it provides sockets."""

    def socket(self) -> socket.socket:
        if self.sockets is not None:
            self._check_alive()
            return ask_for_socket(self.sockets)
        made: list[socket.socket | BaseException] = []

        def make() -> None:
            try:
                self.enter()
                made.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            except BaseException as trouble:  # raised again in the caller's thread just below
                made.append(trouble)

        thread = threading.Thread(target=make, name="lab-socket", daemon=True)
        thread.start()
        thread.join()
        if isinstance(made[0], BaseException):
            raise made[0]
        return made[0]

    def enter(self) -> None:
        self._check_alive()
        if self.sockets is not None:
            self._enter("user", CLONE_NEWUSER)  # only there this process has the right to enter the other one
        self._enter("net", CLONE_NEWNET)

    def _enter(self, kind: str, flag: int) -> None:
        namespace = os.open(f"/proc/{self.holder}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(namespace, flag) != 0:
                number = ctypes.get_errno()
                raise OSError(number, f"cannot enter the lab's {kind} namespace: {os.strerror(number)}")
        finally:
            os.close(namespace)

    def command_prefix(self) -> list[str]:
        self._check_alive()
        network = f"--net=/proc/{self.holder}/ns/net"
        if self.sockets is None:
            return ["nsenter", network, "--"]
        return ["nsenter", f"--user=/proc/{self.holder}/ns/user", "--preserve-credentials", network, "--"]

    def _check_alive(self) -> None:
        refuse_if_gone(self.holder, self.holder_started)


@dataclass(frozen=True)
class LoopbackNetwork:
    """The network of a reduced lab: the machine's own, for as long as process `holder` lives."""

    holder: int
    holder_started: int

    def socket(self) -> socket.socket:
        self._check_alive()
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def enter(self) -> None:
        """Nothing to do: every thread is there already."""
        self._check_alive()

    def command_prefix(self) -> list[str]:
        self._check_alive()
        return []

    def _check_alive(self) -> None:
        refuse_if_gone(self.holder, self.holder_started)


def refuse_if_gone(holder: int, started: int) -> None:
    """Raise UsageError unless a lab's holder lives.

    The kernel may reuse a process id; together with its start time it identifies one process forever.
    """
    if process_started(holder) != started:
        raise UsageError("the lab is no longer up", remedy="start it again: squall lab up")


def process_started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if there is none (a zombie counts as none)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])

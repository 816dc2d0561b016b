"""`net.storm`: this host opens and holds many connections to a port of another host.

They send nothing. A connection that the other end closes or refuses is retried. A separate errand does this; however it
ends, the kernel closes all of them.
"""

from __future__ import annotations

import errno
import ipaddress
import resource
import select
import socket
from typing import Any

from squall.nemesis.agent.core.arguments import required, text
from squall.nemesis.agent.core.fault_workers import CarriedOutByWorker, FaultWorker, run_fault_worker
from squall.nemesis.agent.core.verb_error import VerbError

MOST = 20_000
AT_ONCE = 200
ROUND_SECONDS = 0.05
SPARE_FILES = 50


class Storm(CarriedOutByWorker):
    """The fault verb."""

    program = "net.net_storm"

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        address = text(arguments, "address")
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise VerbError("bad_argument", f"address: {address!r} is not an IP address") from None
        port = required(arguments, "port", int, "a port number")
        if not 0 < port < 65_536:
            raise VerbError("bad_argument", f"port: {port} must be from 1 to 65535")
        count = required(arguments, "connections", int, "a whole number")
        _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = min(MOST, allowed - SPARE_FILES)
        if not 0 < count <= most:
            raise VerbError(
                "bad_argument", f"connections: {count} must be from 1 to {most}, which is what this host may open"
            )
        return {"address": address, "port": port, "connections": count}


class Held:
    """Connections that are being established, or are established."""

    def __init__(self, address: str, port: int, count: int) -> None:
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._target = (address, port)
        self._count = count
        self._poll = select.poll()
        self._waiting: dict[int, socket.socket] = {}
        self._made: dict[int, socket.socket] = {}

    @property
    def made(self) -> int:
        return len(self._made)

    def go_on(self) -> None:
        """Begin some of the missing connections, and check the others."""
        missing = self._count - len(self._waiting) - len(self._made)
        for _ in range(min(missing, AT_ONCE)):
            self._begin()
        for descriptor, event in self._poll.poll(0):
            self._look(descriptor, event)

    def _begin(self) -> None:
        one = socket.socket(self._family, socket.SOCK_STREAM)
        one.setblocking(False)
        if one.connect_ex(self._target) not in (0, errno.EINPROGRESS):
            one.close()
            return
        self._waiting[one.fileno()] = one
        self._poll.register(one, select.POLLOUT)

    def _look(self, descriptor: int, event: int) -> None:
        """The connection is established, has failed, or was closed by the other end."""
        if descriptor in self._waiting and not event & (select.POLLERR | select.POLLHUP):
            self._made[descriptor] = self._waiting.pop(descriptor)
            self._poll.modify(descriptor, select.POLLRDHUP)
            return
        self._poll.unregister(descriptor)
        for kept in (self._waiting, self._made):
            if descriptor in kept:
                kept.pop(descriptor).close()


def storm(worker: FaultWorker) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    arguments = worker.arguments
    held = Held(arguments["address"], arguments["port"], arguments["connections"])
    goes_on = True
    while goes_on:
        held.go_on()
        worker.note(connected=held.made)
        goes_on = worker.wait(ROUND_SECONDS)


def main(argv: list[str]) -> int:
    return run_fault_worker(argv, storm)

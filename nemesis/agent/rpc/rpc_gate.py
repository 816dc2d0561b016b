"""A gate: the listener to which the firewall redirects new connections to one port of the node (TPROXY).

The listener is transparent: an accepted connection has the client's address on one side and the node's address and port
on the other, as if the node itself had accepted it. Nothing is translated, so no connection tracking entry is left
behind, and a connection continues on its sockets alone after the firewall's rule is removed.

The rule takes effect only while a socket listens at the gate's port. `close` stops listening and keeps the port, so
that the gate can be reopened without a new rule. Needs CAP_NET_ADMIN.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
import socket
from collections.abc import Callable

from squall.nemesis.agent.net.tcp_sockets import mark

_IP_TRANSPARENT, _IPV6_TRANSPARENT = 19, 75
BACKLOG = 512
PAUSE_AFTER_TROUBLE = 0.01
PORTS = range(20_000, 32_000)
"""Below the kernel's range for outgoing connections, so that none of them takes a gate's port."""
FAMILIES = {"ip": socket.AF_INET, "ip6": socket.AF_INET6}


class Gate:
    """Accepts connections to one port of the node, in the address families that this host has."""

    def __init__(self, node_port: int, take: Callable[[socket.socket, Gate], None]) -> None:
        self.node_port = node_port
        self._take = take
        self._sockets = transparent_sockets()
        self._accepting: list[asyncio.Task[None]] = []

    @property
    def is_open(self) -> bool:
        return bool(self._accepting)

    @property
    def listening_at(self) -> dict[str, int]:
        """The gate's port by family."""
        return {family: one.getsockname()[1] for family, one in self._sockets.items()}

    def open(self) -> None:
        for one in self._sockets.values():
            one.listen(BACKLOG)
            self._accepting.append(asyncio.create_task(self._accept(one)))

    async def close(self) -> None:
        """Stop listening. Existing connections stay."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        if self._accepting:
            for one in self._sockets.values():
                one.shutdown(socket.SHUT_RD)
        self._accepting.clear()

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError:  # too many open files, or the client has disconnected; others wait in the backlog
                await asyncio.sleep(PAUSE_AFTER_TROUBLE)
                continue
            self._take(client, self)


def transparent_sockets() -> dict[str, socket.socket]:
    """One socket per family, all at one port, not listening yet. Raises OSError."""
    for port in random.sample(PORTS, 100):
        bound: dict[str, socket.socket] = {}
        try:
            for name, family in FAMILIES.items():
                with contextlib.suppress(_NoSuchFamily):
                    bound[name] = transparent_socket(family, port)
            return bound
        except OSError as trouble:
            for one in bound.values():
                one.close()
            if trouble.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"no port of {PORTS.start} to {PORTS.stop} was free in 100 tries")


class _NoSuchFamily(Exception):
    """This host has no IPv6."""


def transparent_socket(family: int, port: int) -> socket.socket:
    try:
        one = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        raise _NoSuchFamily from None
    try:
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.setsockopt(socket.IPPROTO_IPV6, _IPV6_TRANSPARENT, 1)
        else:
            one.setsockopt(socket.IPPROTO_IP, _IP_TRANSPARENT, 1)
        mark(one)
        one.bind(("", port))
    except OSError as trouble:
        one.close()
        if family == socket.AF_INET6 and trouble.errno == errno.EADDRNOTAVAIL:
            raise _NoSuchFamily from None
        raise
    return one

"""Limit the connections that a node accepts: in all and per address (`max.connections`, `max.connections.per.ip`).

Connections exhaust descriptors before anything else, so a node accepts no more than `most_connections`, even if its
settings allow more. A connection above the limit is closed at once on a listener of the brokers. On a listener of the
controllers it replaces the connection that has been silent for longest, on any listener: peers send several times a
second, so a peer always gets in, however many idle connections are open (CL-24).
"""

from __future__ import annotations

import resource
from collections.abc import Iterable

DESCRIPTORS_MAX = 1 << 20
"""The limit set for a process without any limit."""
FEWEST_DESCRIPTORS = 64


def raise_descriptor_limit() -> int:
    """Raise the process's limit of descriptors as far as allowed. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft
    return wanted


def most_connections(descriptors: int) -> int:
    """The most connections to accept: half of the descriptors."""
    return max(descriptors, FEWEST_DESCRIPTORS) // 2


def most_open_files(descriptors: int) -> int:
    """The most files of logs to keep open: a quarter of the descriptors. The rest is for files opened briefly."""
    return max(descriptors, FEWEST_DESCRIPTORS) // 4


class ConnectionLimits:
    """Counts accepted connections by address; a connection is identified by the shell's number."""

    def __init__(self, most: int, most_per_address: int, privileged: Iterable[str] = ()) -> None:
        """`privileged` are the names of the controllers' listeners."""
        self._most = most
        self._most_per_address = most_per_address
        self._privileged = frozenset(privileged)
        self._addresses: dict[int, str] = {}
        self._by_address: dict[str, int] = {}
        self.refused = 0

    def __len__(self) -> int:
        return len(self._addresses)

    def refusal(self, listener: str, address: str) -> str | None:
        """Why no further connection is accepted; None if it is accepted."""
        if self._by_address.get(address, 0) >= self._most_per_address:
            return f"max.connections.per.ip={self._most_per_address} are open from {address}"
        if len(self._addresses) >= self._most and listener not in self._privileged:
            return f"{self._most} connections are open, as many as max.connections or the descriptors allow"
        return None

    @property
    def is_overfull(self) -> bool:
        """Whether a connection must be closed, since a privileged one was accepted above the limit."""
        return len(self._addresses) > self._most

    def add(self, connection: int, address: str) -> None:
        self._addresses[connection] = address
        self._by_address[address] = self._by_address.get(address, 0) + 1

    def remove(self, connection: int) -> None:
        address = self._addresses.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

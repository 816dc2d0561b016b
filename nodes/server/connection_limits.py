"""How many connections a node accepts: in all, and from one address (`max.connections`, `max.connections.per.ip`).

Descriptors are what connections use up first, so a node takes no more connections than `most_connections` leaves room
for, whatever the settings say. A connection too many on a listener of the brokers is closed at once. On a listener of
the controllers it takes the place of the one that has been silent for longest, on any listener: peers speak several
times a second, so however many idle connections somebody opens, a peer gets in (CL-24).
"""

from __future__ import annotations

import resource
from collections.abc import Iterable

DESCRIPTORS_MAX = 1 << 20
"""What a process without any limit is content with."""
FEWEST_DESCRIPTORS = 64


def raise_descriptor_limit() -> int:
    """Let the process have as many descriptors as it may; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft
    return wanted


def most_connections(descriptors: int) -> int:
    """Half of the descriptors are for connections."""
    return max(descriptors, FEWEST_DESCRIPTORS) // 2


def most_open_files(descriptors: int) -> int:
    """A quarter is for the files of logs that are kept open; the rest is for what is opened for a moment."""
    return max(descriptors, FEWEST_DESCRIPTORS) // 4


class ConnectionLimits:
    """Counts accepted connections by address, each known by the shell's number for it."""

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
        """Why no further connection is accepted; None if it is."""
        if self._by_address.get(address, 0) >= self._most_per_address:
            return f"max.connections.per.ip={self._most_per_address} are open from {address}"
        if len(self._addresses) >= self._most and listener not in self._privileged:
            return f"{self._most} connections are open, as many as max.connections or the descriptors allow"
        return None

    @property
    def is_overfull(self) -> bool:
        """Whether one must go, since a privileged one has come."""
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

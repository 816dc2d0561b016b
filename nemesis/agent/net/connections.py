"""`probe.connections`: the established TCP connections of this host at some ports, read from /proc/net.

Each is identified by its ends and its inode, which no later connection has: a connection that was there before and is
missing now has ended, even if its ports are in use again. A connection that the node has not accepted yet has the inode
0. This evidence is independent of the kernel's socket monitor, which resets connections (`tcp_sockets.py`).
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import required

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
ESTABLISHED = "01"


def address_in(text: str) -> tuple[str, int]:
    """Parse `0100007F:1F90` as address and port. The words of an address are in the machine's byte order."""
    words, _, port = text.partition(":")
    raw = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    address = ipaddress.ip_address(socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address), int(port, 16)


def established(table: str, ports: set[int]) -> Iterator[dict[str, Any]]:
    """Connections in a table of /proc/net that have one of the ports at either end and lead to another host."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if fields[3] != ESTABLISHED:
            continue
        (here, port), (peer, peer_port) = address_in(fields[1]), address_in(fields[2])
        if here != peer and (port in ports or peer_port in ports):
            yield {"port": port, "peer": peer, "peer_port": peer_port, "inode": int(fields[9])}


def probe_connections(arguments: dict[str, Any]) -> dict[str, Any]:
    """The verb."""
    ports = set(required(arguments, "ports", list, "a list of port numbers"))
    tables = [path.read_text() for path in TABLES if path.exists()]
    return {"connections": [one for table in tables for one in established(table, ports)]}

"""Lists and resets the kernel's TCP connections by its socket monitor, as `ss` and `ss -K` do.

It finds for a port whether a process listens there, and which connections bypass the proxy. The proxy's sockets carry a
mark, which the kernel reports. Resetting a connection sends a reset to its peer and an error to its process. The kernel
needs CONFIG_INET_DIAG_DESTROY for it, which `can_destroy` tries on a connection of this process.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from squall.nemesis.agent.net.addresses import Address, address_of

MARK = 0x53515C
"""Marks the proxy's sockets."""

ANY_PORT = 0

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _SOCK_DESTROY = 20, 21
_REQUEST, _ACKNOWLEDGE, _DUMP = 0x1, 0x4, 0x300
_ERROR, _DONE = 2, 3
_INET_DIAG_MARK = 15
_SO_MARK = 36

_MESSAGE = struct.Struct("=IHHII")
_QUERY = struct.Struct("=BBBxI")
_SOCKET_ID = struct.Struct(">HH16s16s12s")
_ANSWER = struct.Struct("=BBBB48s20x")
_ATTRIBUTE = struct.Struct("=HH")

_ESTABLISHED, _SYN_RECEIVED, _CLOSE_WAIT, _LISTEN = 1, 3, 8, 10
_CONNECTED = 1 << _ESTABLISHED | 1 << _SYN_RECEIVED | 1 << _CLOSE_WAIT
_ADDRESS_BYTES = {socket.AF_INET: 4, socket.AF_INET6: 16}


@dataclass(frozen=True)
class Connection:
    """One socket of the kernel's table; `key` is the kernel's id of it."""

    family: int
    key: bytes
    local: Address
    peer: Address
    mark: int
    local_port: int
    peer_port: int


def mark(one: socket.socket) -> None:
    """Mark the socket, and all connections it accepts, as the proxy's. Needs CAP_NET_ADMIN."""
    one.setsockopt(socket.SOL_SOCKET, _SO_MARK, MARK)


def listens(port: int) -> bool:
    """Whether a process other than the proxy accepts connections there."""
    return any(found.mark != MARK for found in _find(port, 1 << _LISTEN))


def connected() -> Iterator[Connection]:
    """All connections of this host."""
    return _find(ANY_PORT, _CONNECTED)


def passing_by(port: int) -> list[Connection]:
    """Connections to that port that come from other hosts and bypass the proxy."""
    return [
        found
        for found in _find(port, _CONNECTED)
        if found.mark != MARK and found.peer != found.local and not found.peer.is_loopback
    ]


def destroy(connection: Connection) -> None:
    """Reset the connection. Harmless if it no longer exists. Raises OSError where the kernel cannot."""
    query = _QUERY.pack(connection.family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + connection.key
    try:
        for _ in _ask(_SOCK_DESTROY, _REQUEST | _ACKNOWLEDGE, query):
            pass
    except OSError as trouble:
        if trouble.errno != errno.ENOENT:
            raise


def can_destroy() -> bool:
    """Whether this kernel allows it, tried on a connection within this process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), server.accept()[0]:
            try:
                for own in _find(port, 1 << _ESTABLISHED):
                    destroy(own)
            except OSError:
                return False
            return not list(_find(port, 1 << _ESTABLISHED))


def _find(port: int, states: int) -> Iterator[Connection]:
    for family, size in _ADDRESS_BYTES.items():
        key = _SOCKET_ID.pack(port, 0, bytes(16), bytes(16), bytes(12))
        query = _QUERY.pack(family, socket.IPPROTO_TCP, 0, states) + key
        try:
            for answer in _ask(_SOCK_DIAG_BY_FAMILY, _REQUEST | _DUMP, query):
                yield _connection(answer, size)
        except FileNotFoundError:  # a kernel without IPv6
            continue


def _connection(answer: bytes, size: int) -> Connection:
    family, _, _, _, key = _ANSWER.unpack_from(answer)
    local_port, peer_port, local, peer, _ = _SOCKET_ID.unpack(key)
    return Connection(
        family=family,
        key=key,
        local=address_of(socket.inet_ntop(family, local[:size])),
        peer=address_of(socket.inet_ntop(family, peer[:size])),
        mark=_mark_in(answer[_ANSWER.size :]),
        local_port=local_port,
        peer_port=peer_port,
    )


def _mark_in(attributes: bytes) -> int:
    """The mark, which the kernel leaves out if it is 0."""
    position = 0
    while position + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, position)
        if kind == _INET_DIAG_MARK:
            (found,) = struct.unpack_from("=I", attributes, position + _ATTRIBUTE.size)
            return int(found)
        position += max(_ATTRIBUTE.size, (length + 3) & ~3)
    return 0


def _ask(kind: int, flags: int, query: bytes) -> Iterator[bytes]:
    """The kernel's responses to one request. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as channel:
        channel.settimeout(5)
        channel.send(_MESSAGE.pack(_MESSAGE.size + len(query), kind, flags, 1, 0) + query)
        while True:
            packet, position = channel.recv(1 << 18), 0
            while position + _MESSAGE.size <= len(packet):
                length, answered, _, _, _ = _MESSAGE.unpack_from(packet, position)
                body = packet[position + _MESSAGE.size : position + length]
                if answered == _DONE:
                    return
                if answered == _ERROR:
                    (number,) = struct.unpack_from("=i", body)
                    if number:
                        raise OSError(-number, os.strerror(-number))
                    return
                yield body
                position += (length + 3) & ~3

"""Room for packets that a socket has not read yet."""

from __future__ import annotations

import socket

SO_RCVBUFFORCE = 33
RECEIVE_BUFFER = 32 << 20


def ask_for_room(one: socket.socket) -> None:
    """Enlarge the receive buffer. A process that is root only in a user namespace gets at most the machine's usual
    limit.
    """
    try:
        one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
    except PermissionError:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)

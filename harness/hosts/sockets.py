"""Provide sockets of a lab's network to a user who cannot enter it, from a process inside it.

With root a thread enters the network namespace for a moment (`network.py`). Without root, the way into it leads through
the lab's user namespace, which only a single-threaded process may enter. So a process in the lab listens on a UNIX
socket in the lab's directory, which only the user may read, and sends a new socket (SCM_RIGHTS) over each connection. A
socket belongs to the network in which it was made, whichever process uses it. Standard library only: the supervisor
forks this process.
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import NoReturn

PATIENCE_SECONDS = 10.0


def listener_at(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(128)
    return listener


def give_sockets(listener: socket.socket) -> NoReturn:
    """Send one socket over each connection, forever."""
    while True:
        asking, _ = listener.accept()
        with asking, contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
            socket.send_fds(asking, [b"+"], [made.fileno()])


def ask_for_socket(path: Path) -> socket.socket:
    """Return a new TCP socket of the network whose provider listens at `path`. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(PATIENCE_SECONDS)
        asking.connect(str(path))
        _, given, _, _ = socket.recv_fds(asking, 1, 1)
    if not given:
        raise ConnectionError(f"the lab gave no socket at {path}")
    return socket.socket(fileno=given[0])

"""Ask a server over HTTP for JSON, through the network in which the hosts are."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable
from typing import Any, Final

SocketMaker = Callable[[], socket.socket]
TROUBLES: Final = (OSError, http.client.HTTPException, ValueError)
"""What a request may end with; then its outcome is unknown."""


class Refused(ValueError):
    """The server has answered with an error."""


def ask(
    address: tuple[str, int],
    path: str,
    seconds: float,
    *,
    content: object = None,
    sockets: SocketMaker | None = None,
) -> dict[str, Any]:
    """Return the answer to a GET, or to a POST with `content`; blocking. Raises one of `TROUBLES`.

    `sockets` makes the socket, in another network than this program's.
    """
    connection = http.client.HTTPConnection(*address, timeout=seconds)
    try:
        if sockets is not None:
            connection.sock = _connected(sockets(), address, seconds)
        if content is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(content))
        response = connection.getresponse()
        answered = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise Refused(f"{response.status}: {answered.decode(errors='replace')[:200]}")
    found: dict[str, Any] = json.loads(answered)
    return found


def _connected(made: socket.socket, address: tuple[str, int], seconds: float) -> socket.socket:
    made.settimeout(seconds)
    try:
        made.connect(address)
    except BaseException:
        made.close()
        raise
    return made

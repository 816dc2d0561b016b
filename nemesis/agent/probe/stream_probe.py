"""`probe.exchange`: connects to a node, sends requests, and reports how the connection ends.

The request is ApiVersions of version 0, which every node answers and which changes nothing. Of the responses only the
length is read. The result says how many bytes went each way, in how many pieces the responses came, how long it took,
and how the connection ended: it stayed open, was closed or reset. If it is still open, this side closes first, and the
result says how long the other side takes to close too.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from squall.nemesis.agent.core.arguments import number, required, text
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.probe.probes import family_of

_REQUEST = struct.Struct(">ihhih")
_LENGTH = struct.Struct(">i")
API_VERSIONS = 18
NO_CLIENT_ID = -1
CHUNK = 64 << 10
MOST_REQUESTS = 10_000


def request(correlation: int) -> bytes:
    return _REQUEST.pack(_REQUEST.size - _LENGTH.size, API_VERSIONS, 0, correlation, NO_CLIENT_ID)


@dataclass
class Exchange:
    """What happened to one connection."""

    connected: bool = False
    answered: int = 0
    sent: int = 0
    received: int = 0
    pieces: int = 0
    seconds: float = 0.0
    ended: str = "open"
    close_seconds: float | None = None


class _Conversation:
    """The connection while it lasts."""

    def __init__(self, deadline: float) -> None:
        self.told = Exchange()
        self._deadline = deadline
        self._kept = b""

    def hold(self, one: socket.socket, requests: int) -> None:
        """Send the requests one after the other, as far as the connection allows."""
        began = time.monotonic()
        self.told.connected = True
        for correlation in range(requests):
            one.sendall(request(correlation))
            self.told.sent += _REQUEST.size
            if not self._take_answer(one):
                break
            self.told.answered += 1
        self.told.seconds = time.monotonic() - began
        if self.told.ended == "open":
            self._close_first(one)

    def _take_answer(self, one: socket.socket) -> bool:
        while len(self._kept) < _LENGTH.size or len(self._kept) < _LENGTH.size + _LENGTH.unpack_from(self._kept)[0]:
            data = self._read(one)
            if not data:
                return False
            self.told.received += len(data)
            self.told.pieces += 1
            self._kept += data
        self._kept = self._kept[_LENGTH.size + _LENGTH.unpack_from(self._kept)[0] :]
        return True

    def _close_first(self, one: socket.socket) -> None:
        began = time.monotonic()
        one.shutdown(socket.SHUT_WR)
        while self._read(one):
            pass
        if self.told.ended != "silent":
            self.told.close_seconds = time.monotonic() - began
            self.told.ended = "open"

    def _read(self, one: socket.socket) -> bytes:
        """Receive the next bytes; empty if there are no more, or none in time."""
        left = self._deadline - time.monotonic()
        with silenced_as(self.told):
            one.settimeout(max(0.001, left))
            data = one.recv(CHUNK)
            if not data:
                self.told.ended = "closed"
            return data
        return b""


@contextlib.contextmanager
def silenced_as(told: Exchange) -> Iterator[None]:
    """Record how the connection ended, from the error that ended it."""
    try:
        yield
    except TimeoutError:
        told.ended = "silent"
    except OSError:
        told.ended = "reset"


def probe_exchange(arguments: dict[str, Any]) -> dict[str, Any]:
    """The verb."""
    told = {"requests": 1, "timeout": 3.0, **arguments}
    address, _, port = text(told, "target").rpartition(":")
    requests = required(told, "requests", int, "a whole number")
    if not 0 < requests <= MOST_REQUESTS:
        raise VerbError("bad_argument", f"requests: {requests} must be from 1 to {MOST_REQUESTS}")
    deadline = time.monotonic() + number(told, "timeout")
    conversation = _Conversation(deadline)
    with silenced_as(conversation.told), socket.socket(family_of(address.strip("[]")), socket.SOCK_STREAM) as one:
        one.settimeout(max(0.001, deadline - time.monotonic()))
        one.connect((address.strip("[]"), int(port)))
        conversation.hold(one, requests)
    return asdict(conversation.told)

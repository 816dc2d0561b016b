"""A session with a ZooKeeper ensemble, as experiments use it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from squall.nodes.server.clock import monotonic_us
from squall.nodes.server.zookeeper.session import WireSession
from squall.nodes.zookeeper.session import (
    Code,
    Create,
    Exists,
    Operation,
    SessionEvent,
    SessionRequest,
    SessionResponse,
)

SESSION_TIMEOUT_MS = 60_000
REQUEST_MAX = 100_000_000
"""`jute.maxbuffer` of everything here: the children of a large topic exceed ZooKeeper's default of a megabyte."""


class Client:
    """A session with the ensemble for coroutines: one coroutine waits for one response."""

    def __init__(self, servers: Sequence[tuple[str, int]], timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        self._session = WireSession(servers, timeout_ms, self._deliver, monotonic_us, max_request=REQUEST_MAX)

    def _deliver(self) -> None:
        self._session.deliver(monotonic_us(), self._event)

    def _event(self, now: int, event: SessionEvent) -> None:
        """Changes of the session's state show as failed requests."""

    async def do(self, operation: Operation, *accepted: Code) -> SessionResponse:
        """Return the response. Raises AssertionError for a code that is not OK and not accepted."""
        found: asyncio.Future[SessionResponse] = asyncio.get_running_loop().create_future()
        self._session.submit(monotonic_us(), SessionRequest(operation, lambda now, one: found.set_result(one)))
        response = await found
        assert response.ok or response.code in accepted, f"{operation}: {response.code.name}"[:300]
        return response

    async def make(self, path: str) -> None:
        """Create a znode and its parents, as far as they do not exist."""
        parts = path.strip("/").split("/")
        for end in range(1, len(parts) + 1):
            await self.do(Create("/" + "/".join(parts[:end])), Code.NODE_EXISTS)

    async def round_trips(self, number: int) -> list[float]:
        """Send so many small requests, one after the other. Returns how long each took, in seconds."""
        found = []
        for _ in range(number):
            began = time.monotonic()
            await self.do(Exists("/"))
            found.append(time.monotonic() - began)
        return found

    def close(self) -> None:
        self._session.close(monotonic_us())

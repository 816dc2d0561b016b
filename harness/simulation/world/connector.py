"""Open client connections in simulation: `workloads.ports.Connector` over the simulated network.

A client has its own host address, so that network faults between clients and brokers are distinct from faults among
brokers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from squall.harness.simulation.world.network import ConnectionEnd, SimNetwork


class SimStream:
    """One end of a simulated connection as a client coroutine sees it; see `workloads.ports.Stream`."""

    def __init__(self, network: SimNetwork) -> None:
        self._network = network
        self._end: ConnectionEnd | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._frames: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self._received: Callable[[bytes], None] | None = None
        self._lost: Callable[[str], None] | None = None

    # -- the network's side -----------------------------------------------------------------------------------

    def connected(self, end: ConnectionEnd) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    def delivered(self, end: ConnectionEnd, frame: bytes) -> None:
        if self._received is not None:
            self._received(frame)
            return
        self._frames.append(frame)
        self._notify()

    def disconnected(self, end: ConnectionEnd) -> None:
        self._closed = True
        if not self._opened.done():
            self._opened.set_exception(ConnectionRefusedError(f"no answer from {end.peer_address}:{end.port}"))
        if self._lost is not None:
            self._lost("the connection is gone")
        self._notify()

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- the client's side ------------------------------------------------------------------------------------

    async def open(self, source: str, address: str, port: int) -> None:
        self._end = self._network.connect(source, address, port, self)
        try:
            await self._opened
        except asyncio.CancelledError:
            self.close()
            raise

    async def send(self, frame: bytes) -> None:
        if self._closed or self._end is None:
            raise ConnectionResetError("the connection is gone")
        self._network.send(self._end, frame)

    def listen(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """Pass every frame on in the event that delivers it."""
        self._received, self._lost = received, lost
        while self._frames:
            received(self._frames.popleft())
        if self._closed:
            lost("the connection is gone")

    async def receive(self) -> bytes:
        """Return the next frame, for a caller that reads frames one by one instead of listening."""
        while not self._frames:
            if self._closed:
                raise ConnectionResetError("the connection is gone")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._frames.popleft()

    def close(self) -> None:
        self._closed = True
        if self._end is not None:
            self._network.close(self._end)
        self._notify()

    def abort(self) -> None:
        """Close. What was sent is already in the network, so an abort cannot discard it."""
        self.close()


class SimConnector:
    """Opens connections from one client address."""

    def __init__(self, network: SimNetwork, source: str) -> None:
        self._network = network
        self._source = source

    async def connect(self, host: str, port: int) -> SimStream:
        """Raises ConnectionRefusedError if no process listens, or no response arrives in time."""
        stream = SimStream(self._network)
        await stream.open(self._source, host, port)
        return stream

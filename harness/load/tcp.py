"""Connections of the native client to real hosts: Kafka frames over TCP, from the hosts' network."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Protocol

CONNECT_SECONDS = 3.0
LARGEST_FRAME = 128 << 20
LENGTH_BYTES = 4


class Sockets(Protocol):
    """Makes sockets towards the cluster: a `harness.hosts.network.Network` is one."""

    def socket(self) -> socket.socket: ...


class SocketsHere:
    """Makes sockets of the network that this program is in."""

    def socket(self) -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)


class TcpStream:
    """One connection that carries frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.listening: asyncio.Task[None] | None = None

    async def send(self, frame: bytes) -> None:
        self.writer.write(len(frame).to_bytes(LENGTH_BYTES, "big") + frame)
        await self.writer.drain()

    def listen(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        self.listening = asyncio.get_running_loop().create_task(self._read(received, lost))

    async def _read(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        try:
            while True:
                length = int.from_bytes(await self.reader.readexactly(LENGTH_BYTES), "big", signed=True)
                if not 0 <= length <= LARGEST_FRAME:
                    raise ConnectionError(f"the peer announced a frame of {length} bytes")
                received(await self.reader.readexactly(length))
        except asyncio.IncompleteReadError:
            lost("the peer closed the connection")
        except OSError as trouble:
            lost(str(trouble) or type(trouble).__name__)

    def close(self) -> None:
        self._stop_listening()
        with contextlib.suppress(RuntimeError, OSError):
            self.writer.close()

    def abort(self) -> None:
        self._stop_listening()
        self.writer.transport.abort()

    def _stop_listening(self) -> None:
        if self.listening is not None and self.listening is not asyncio.current_task():
            self.listening.cancel()


class TcpConnector:
    """Implements `workloads.ports.Connector`."""

    def __init__(self, network: Sockets) -> None:
        self.network = network

    async def connect(self, host: str, port: int) -> TcpStream:
        """Open a connection. Raises OSError if no response arrives in time."""
        made = await asyncio.to_thread(self.network.socket)
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(made, (host, port))
        except BaseException:
            made.close()
            raise
        reader, writer = await asyncio.open_connection(sock=made)
        return TcpStream(reader, writer)

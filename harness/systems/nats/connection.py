"""Connections of nats-py through the network in which the hosts are.

nats-py opens its own sockets; hosts of a lab are in a network that this process does not enter. So its transport gets
sockets that belong to that network (`hosts/network.py`).
"""

from __future__ import annotations

import asyncio
from urllib.parse import ParseResult

from nats.aio.client import Client
from nats.aio.transport import TcpTransport

from squall.harness.load.tcp import Sockets

CONNECT_SECONDS = 1


class NetworkTransport(TcpTransport):
    """TCP by sockets of a network."""

    def __init__(self, sockets: Sockets) -> None:
        super().__init__()
        self._sockets = sockets

    def __bool__(self) -> bool:
        """True from the beginning: nats-py would replace a transport that is not."""
        return True

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        made = await asyncio.to_thread(self._sockets.socket)
        made.setblocking(False)
        try:
            async with asyncio.timeout(connect_timeout):
                await asyncio.get_running_loop().sock_connect(made, (uri.hostname, uri.port))
        except BaseException:
            made.close()
            raise
        reader, writer = await asyncio.open_connection(sock=made, limit=buffer_size)
        self._bare_io_reader = self._io_reader = reader
        self._bare_io_writer = self._io_writer = writer


async def connected(sockets: Sockets, address: tuple[str, int]) -> Client:
    """Return a connection to one server, which ends when the server does. Raises nats.errors.Error or OSError."""
    client = Client()
    client._transport = NetworkTransport(sockets)
    host, port = address
    # nats-py counts attempts from 1 on; without a number it would go on for ever.
    await client.connect(
        f"nats://{host}:{port}",
        allow_reconnect=False,
        max_reconnect_attempts=1,
        reconnect_time_wait=0,
        connect_timeout=CONNECT_SECONDS,
        error_cb=_ignored,
    )
    return client


async def _ignored(_: Exception) -> None:
    """Errors of a connection come with the answer to the question as well."""

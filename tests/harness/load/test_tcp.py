"""Connections of the native client over TCP."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from squall.harness.load.tcp import SocketsHere, TcpConnector, TcpStream
from tests.waiting import soon

LARGE = bytes(64 << 20)


async def received_of(end: str) -> int:
    """How many bytes of a large frame arrive if the connection ends while its reader has not read them yet."""
    counted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        count = 0
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(1 << 20):
                count += len(chunk)
        writer.close()
        counted.set_result(count)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        stream = await TcpConnector(SocketsHere()).connect(*server.sockets[0].getsockname())
        assert isinstance(stream, TcpStream)
        stream.listen(lambda frame: None, lambda reason: None)
        sending = asyncio.ensure_future(stream.send(LARGE))
        unsent = stream.writer.transport.get_write_buffer_size
        await soon(lambda: 0 < unsent() < len(LARGE), "a part of the frame is sent")
        getattr(stream, end)()
        ended.set()
        await asyncio.wait_for(sending, 10)
        return await asyncio.wait_for(counted, 10)


@pytest.mark.parametrize(("end", "arrives"), [("close", True), ("abort", False)])
def test_what_is_closed_is_flushed_and_what_is_aborted_is_not(end: str, arrives: bool) -> None:
    assert (asyncio.run(received_of(end)) == len(LARGE) + 4) is arrives

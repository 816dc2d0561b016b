"""A running client program: a child process that answers lines of JSON with lines of JSON.

    program = await Program.start(["java", "Registers.java"])
    answer = await program.ask(Request(1, "read", register="r1"))      # any number at once
    await program.close()

A program ends in one of three ways: it was closed; it ended by itself; it was killed, because it wrote what is no
answer, did not answer in time, or was abandoned. Whatever waits for an answer then raises `ProgramEnded`, with the
reason. What the program writes to standard error goes to that of this process, so it is in the worker's log.

A program is told to end by the end of its input. So it also ends if this process dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from typing import Final

import msgspec

from squall.workloads.clients.programs.lines import Answer, BadLine, OpenRequest, Request, decoded

LONGEST_LINE: Final = 16 << 20
CLOSE_SECONDS: Final = 5.0
CLOSED: Final = "closed"


class ProgramEnded(Exception):
    """The program has ended, and with it every open request; the message says how."""


class Program:
    """One running program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._open: dict[int, asyncio.Future[Answer]] = {}
        self._ended: str | None = None
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, command: Sequence[str]) -> Program:
        """Start a program. Raises OSError if there is no such program."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
            start_new_session=True,  # so that a launcher and what it has started are killed together
        )
        return cls(process)

    @property
    def ended(self) -> str | None:
        """How the program has ended; None while it runs."""
        return self._ended

    async def ask(self, request: Request | OpenRequest) -> Answer:
        """Write a request and wait for its answer. Raises ProgramEnded."""
        if self._ended is not None:
            raise ProgramEnded(self._ended)
        assert self._process.stdin is not None
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[request.id] = answer
        self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        with contextlib.suppress(ConnectionError):  # the reader sees the end, and knows how the program ended
            await self._process.stdin.drain()
        return await answer

    def kill(self, reason: str) -> None:
        """End the program at once. What is open raises ProgramEnded with the reason."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._finish(reason)

    async def over(self) -> None:
        """Wait until the program has ended, and nothing of it is left here."""
        await self._reader

    async def close(self) -> None:
        """End the program's input, wait until it has ended, and kill it if that takes long."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._reader), CLOSE_SECONDS)
        except TimeoutError:
            self.kill(CLOSED)
        await self.over()

    async def _read(self) -> None:
        """Take answers until the program ends."""
        assert self._process.stdout is not None
        number = 0
        try:
            while line := await self._process.stdout.readline():
                number += 1
                self._take(decoded(line, number))
        except BadLine as wrong:
            self.kill(f"it wrote what is no answer: {wrong}")
        except ValueError:  # from readline
            self.kill(f"it wrote a line of more than {LONGEST_LINE >> 20} MiB")
        self._finish(_how(await self._process.wait()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # what a launcher may have left

    def _take(self, answer: Answer) -> None:
        waiting = self._open.pop(answer.id, None)
        if waiting is None:
            raise BadLine(f"answer {answer.id}: no request with this id is open; each is answered once")
        if not waiting.done():  # it was cancelled at the end of a load
            waiting.set_result(answer)

    def _finish(self, reason: str) -> None:
        if self._ended is None:
            self._ended = reason
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(ProgramEnded(self._ended))
                waiting.exception()  # marked as retrieved: it may be that no task awaits it
        self._open.clear()


def _how(status: int) -> str:
    return f"it was killed by signal {-status}" if status < 0 else f"it ended with exit status {status}"


def unavailable(command: Sequence[str], trouble: object) -> str:
    """Return why a program cannot be started, with its command."""
    return f"client program {' '.join(command)}: {trouble}"

"""Call the nemesis's verbs on a host, over one persistent SSH channel to its agent.

    host = AgentHost(remote, agent_command(place))
    await host.call("proc.start", name="node")        # {"pid": 4711}
    await host.close()

A call is one line of JSON out and one back: `{"op": n, "verb": …, "args": {…}}` and `{"op": n, "ok": true, "result":
{…}}` or `{"op": n, "ok": false, "kind": …, "error": …}`. Responses may come in any order. A warm call costs 0.2–0.3 ms.

Every call has a deadline. When the link is lost during a call, it is unknown whether the verb was carried out. All
verbs are idempotent for the same `id`, so the call is retried over a new link, with back-off, until its deadline; only
then it raises `HostUnreachable`. Connecting, sending and reading are blocking work of paramiko and happen in threads;
the callers' event loop never waits on a socket. Every host has separate threads: with shared threads, a few unreachable
hosts would delay the healing of all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import secrets
import threading
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

from squall.harness.hosts.ssh import LineChannel, Remote
from squall.harness.hosts.ssh_access import ConnectionLost, SshError, Unreachable
from squall.nemesis.core.ports import HostUnreachable, VerbFailed

CALL_SECONDS = 15.0
FIRST_BACK_OFF = 0.05
LONGEST_BACK_OFF = 1.0


class AgentHost:
    """Implements `nemesis.ports.Host`. Used from one event loop."""

    def __init__(
        self,
        remote: Remote,
        command: Sequence[str],
        *,
        sudo: bool = True,
        call_seconds: float = CALL_SECONDS,
        probe_key: str | None = None,
    ) -> None:
        """`probe_key` is the key that hosts share to receive each other's probes (`new_probe_key`)."""
        self.remote = remote
        self._command = tuple(command)
        self._sudo = sudo
        self._call_seconds = call_seconds
        self._probe_key = probe_key
        self._link: _Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(2, thread_name_prefix=f"link-{remote.name}")
        self._operations = itertools.count(1)
        self._address = remote.address()

    @property
    def name(self) -> str:
        return self.remote.name

    @property
    def address(self) -> str:
        return self._address

    async def call(self, verb: str, **arguments: object) -> dict[str, object]:
        """Carry out `verb` on the host. Raises VerbFailed, or HostUnreachable once the deadline has passed.

        The deadline of a verb with a `timeout` argument is that much later.
        """
        longer = arguments.get("timeout", 0.0)
        seconds = self._call_seconds + (float(longer) if isinstance(longer, (int, float)) else 0.0)
        attempts = _Attempts()
        try:
            async with asyncio.timeout(seconds):
                return await self._until_answered(verb, arguments, attempts)
        except TimeoutError:
            reason = attempts.last or f"no answer to {verb} within {seconds:g} s"
            raise HostUnreachable(self.name, reason) from None

    async def connect(self) -> None:
        """Start the agent now rather than at the first call. Raises SshError."""
        if self._link is not None and self._link.lost is None:
            return
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._open())
            self._connecting.add_done_callback(_seen)
        await asyncio.shield(self._connecting)  # a caller that stops waiting leaves the attempt to the next one

    async def close(self) -> None:
        """Close the channel. The processes that the agent started and its keeper continue."""
        if self._connecting is not None:
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._link is not None:
            self._link.close()
            self._link = None

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        opened = partial(_Link, self.remote, self._command, self._sudo, self._threads, loop, self._probe_key)
        try:
            self._link = await loop.run_in_executor(self._threads, opened)
        finally:
            self._connecting = None

    async def _until_answered(self, verb: str, arguments: dict[str, object], attempts: _Attempts) -> dict[str, object]:
        pause = FIRST_BACK_OFF
        while True:
            try:
                await self.connect()
                assert self._link is not None
                return await self._ask(self._link, verb, arguments)
            except (ConnectionLost, Unreachable) as trouble:
                attempts.last = trouble.problem
            except SshError as trouble:  # a changed key or refused login does not recover without help
                raise HostUnreachable(self.name, trouble.problem) from None
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_BACK_OFF)

    async def _ask(self, link: _Link, verb: str, arguments: dict[str, object]) -> dict[str, object]:
        operation = next(self._operations)
        answer = await link.exchange(operation, {"op": operation, "verb": verb, "args": arguments})
        if answer.get("ok"):
            result: dict[str, object] = answer.get("result") or {}
            return result
        raise VerbFailed(self.name, verb, str(answer.get("kind", "failed")), str(answer.get("error", "no reason")))


def new_probe_key() -> str:
    """Return a new key that seals datagrams between hosts (agent/probe/probe_auth.py); one for all hosts of a run."""
    return secrets.token_hex(32)


def _seen(task: asyncio.Task[None]) -> None:
    """Mark a task's exception as retrieved, so that asyncio does not report it; awaiting callers still receive it."""
    if not task.cancelled():
        task.exception()


class _Attempts:
    """Why the latest attempt failed, for the error that ends all attempts."""

    last: str | None = None


class _Link:
    """One channel to one agent process, and the calls that wait for its responses."""

    def __init__(
        self,
        remote: Remote,
        command: Sequence[str],
        sudo: bool,
        threads: Executor,
        loop: asyncio.AbstractEventLoop,
        probe_key: str | None,
    ) -> None:
        self.lost: ConnectionLost | None = None
        self._loop = loop
        self._threads = threads
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._channel: LineChannel = remote.open_channel(command, sudo=sudo)
        self._sending = threading.Lock()
        if probe_key is not None:  # its response is ignored: without room for the key only probes fail, and report it
            self._send(json.dumps({"op": 0, "verb": "probe.key", "args": {"key": probe_key}}).encode())
        threading.Thread(target=self._read, name=f"agent-{remote.name}", daemon=True).start()

    async def exchange(self, operation: int, request: dict[str, object]) -> dict[str, Any]:
        if self.lost is not None:
            raise self.lost
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._waiting[operation] = future
        try:
            await self._loop.run_in_executor(self._threads, self._send, json.dumps(request).encode())
            return await future
        finally:
            del self._waiting[operation]
            if not future.cancel() and not future.cancelled():
                future.exception()  # marked as retrieved: the link may be lost while sending and while waiting

    def close(self) -> None:
        self._channel.close()

    def _send(self, line: bytes) -> None:
        with self._sending:
            self._channel.send_line(line)

    def _read(self) -> None:
        """In a thread: pass every response to the call that waits for it, until the channel ends."""
        try:
            while True:
                answer = json.loads(self._channel.receive_line(timeout=None))
                self._loop.call_soon_threadsafe(self._deliver, answer)
        except (ConnectionLost, ValueError) as trouble:
            lost = trouble if isinstance(trouble, ConnectionLost) else self._babble(trouble)
        with contextlib.suppress(RuntimeError):  # if the loop is closed, no call waits any more
            self._loop.call_soon_threadsafe(self._give_up, lost)

    def _babble(self, trouble: ValueError) -> ConnectionLost:
        self._channel.close()
        return self._channel.lost(f"the agent said something that is not JSON ({trouble})")

    def _deliver(self, answer: dict[str, Any]) -> None:
        future = self._waiting.get(answer.get("op", 0))
        if future is not None and not future.done():
            future.set_result(answer)

    def _give_up(self, trouble: ConnectionLost) -> None:
        self.lost = trouble
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(trouble)

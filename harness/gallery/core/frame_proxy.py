"""A proxy in front of one broker on this machine that takes single messages out of their connections.

    proxy = FrameProxy(port, node_port, directory)
    proxy.hold(HoldRule("a1", "Produce", count=1, pass_others=True))
    proxy.effect("a1").met                     # 1 as soon as a message is held
    proxy.release("a1")

It is the proxy of `rpc-hold` (nemesis/agent/rpc), without its firewall: clients connect to its port because the broker
advertises it. So it needs no root. It runs in a thread of its own, and each call returns when it is in force.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from squall.nemesis.agent.net.addresses import address_of
from squall.nemesis.agent.rpc.rpc_relay import Relay, connected
from squall.nemesis.agent.rpc.rpc_rules import EVERYONE, Effect, Effects, Rules, RuleSpec
from squall.nemesis.core.apis import API_KEYS

LONGEST_HOLD_S: Final = 600.0
CALL_SECONDS: Final = 10.0

Result = TypeVar("Result")


@dataclass(frozen=True)
class HoldRule:
    """Which messages are held, and how; the words are those of `rpc-hold`. `until` is (API, direction, messages)."""

    name: str
    api: str
    direction: str = "request"
    count: int | None = None
    pass_others: bool = False
    outlive: bool = False
    until: tuple[str, str, int] | None = None

    def spec(self, now: float) -> RuleSpec:
        until = None
        if self.until is not None:
            api, direction, messages = self.until
            until = {"api_key": API_KEYS[api], "responses": direction == "response", "messages": messages}
        return RuleSpec(
            self.name,
            API_KEYS[self.api],
            self.direction == "response",
            (EVERYONE,),
            None,
            now + LONGEST_HOLD_S,
            count=self.count,
            pass_others=self.pass_others,
            outlive=self.outlive,
            until=until,
        )


class FrameProxy:
    """Listens at `port` of the loopback interface, forwards to `node_port`. Use as a context.

    `receive_buffer` is the size in bytes of the buffer in which the kernel keeps what a client has sent and the proxy
    has not read; a small one makes a held request stop its sender in the middle of it.
    """

    def __init__(self, port: int, node_port: int, directory: Path, *, receive_buffer: int | None = None) -> None:
        self.port = port
        self.node_port = node_port
        self._effects = Effects(directory)
        self._rules = Rules(self._effects)
        self._specs: dict[str, RuleSpec] = {}
        self._relays: dict[Relay, asyncio.Task[None]] = {}
        self._arriving: set[asyncio.Task[None]] = set()
        self._listener = self._listening(receive_buffer)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"frame-proxy-{port}", daemon=True)
        self._thread.start()
        self._accepting = self._call(self._started())

    def __enter__(self) -> FrameProxy:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- rules -------------------------------------------------------------------------------------------------

    def hold(self, rule: HoldRule) -> None:
        """Hold such messages from now on."""
        self._specs[rule.name] = rule.spec(time.monotonic())
        self._become()

    def release(self, name: str) -> None:
        """End the rule: what it holds is delivered, where its connection or `outlive` still allows."""
        self._specs.pop(name, None)
        self._become()

    def effect(self, name: str) -> Effect:
        """What the rule has done so far; it is kept after its end."""
        return self._effects.of(name)

    def waiting(self, name: str) -> int:
        """How many messages the rule holds now."""

        async def count() -> int:
            return sum(rule.waiting for rule in self._rules if rule.spec.id == name)

        return self._call(count())

    def close(self) -> None:
        """End all connections and the thread. Idempotent."""
        if self._loop.is_closed():
            return
        self._call(self._ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)
        self._loop.close()
        self._listener.close()

    def _become(self) -> None:
        async def become() -> None:
            self._rules.become(list(self._specs.values()))

        self._call(become())

    # --- connections -------------------------------------------------------------------------------------------

    def _listening(self, receive_buffer: int | None) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)  # connections inherit it
        listener.setblocking(False)
        listener.bind(("127.0.0.1", self.port))
        listener.listen()
        return listener

    async def _started(self) -> asyncio.Task[None]:
        return asyncio.create_task(self._accept())

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(self._listener)
            client.setblocking(False)
            task = asyncio.create_task(self._relay(client))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    async def _relay(self, client: socket.socket) -> None:
        node = await connected(client, ("127.0.0.1", self.node_port))
        if node is None:
            return
        relay = Relay(client, node, address_of("127.0.0.1"), self._rules)
        task = asyncio.create_task(relay.run())
        self._relays[relay] = task
        task.add_done_callback(lambda _: self._relays.pop(relay, None))

    async def _ended(self) -> None:
        self._accepting.cancel()
        for task in self._arriving:
            task.cancel()
        for relay in list(self._relays):
            relay.reset()
        tasks = [self._accepting, *self._arriving, *self._relays.values()]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _call(self, what: Coroutine[Any, Any, Result]) -> Result:
        """Run in the proxy's thread, and return when it is done."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(CALL_SECONDS)

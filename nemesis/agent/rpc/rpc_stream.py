"""Slices, drops or cuts the bytes of a connection through the proxy, or delays its end.

* `slice`: each message continues in pieces of `size` bytes with a `gap` between them, each in a separate segment.
* `black-hole`: bytes are dropped, both ways; `delay` seconds after the first the connection is closed.
* `cut`: the connection is closed once `limit` bytes have passed, both ways together.
* `slow-close`: when one side closes, the other side sees it `delay` seconds later.

The meaning of the bytes does not matter. The oldest such rule that concerns a connection treats it. When the rule is
over, sliced messages continue at once, a delayed end is passed on, and a connection in a black hole is reset, because
its lost bytes cannot be restored.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from squall.nemesis.agent.net.addresses import Address
from squall.nemesis.agent.rpc.rpc_rules import Rule, Rules

End = Callable[[bool], None]
"""Ends the connection on both sides: with a reset (True) or with an ordinary end."""


class Stream:
    """The bytes of one connection, both ways."""

    def __init__(self, source: Address, rules: Rules, end: End) -> None:
        self._source = source
        self._rules = rules
        self._end = end
        self._met: set[str] = set()
        self._passed = 0
        self._swallowed: asyncio.Task[None] | None = None

    async def send(self, sink: socket.socket, data: bytes) -> None:
        """Send bytes to the other side, as far as the rules allow."""
        if self._swallowed is not None:
            return
        rule = self._rules.treating(self._source)
        kind = rule.spec.treatment["kind"] if rule is not None and rule.spec.treatment else None
        if rule is None or kind not in ("slice", "black-hole", "cut"):
            await asyncio.get_running_loop().sock_sendall(sink, data)
            return
        self._count(rule)
        if kind == "slice":
            await self._slice(rule, sink, data)
        elif kind == "cut":
            await self._send_up_to_limit(rule, sink, data)
        else:
            self._swallowed = asyncio.create_task(self._close_later(rule))

    async def before_end(self) -> None:
        """Delay the end, if a rule says so, before the other side sees it."""
        rule = self._rules.treating(self._source)
        if rule is not None and rule.spec.treatment and rule.spec.treatment["kind"] == "slow-close":
            self._count(rule)
            await over_or_later(rule, rule.spec.treatment["delay"])

    def close(self) -> None:
        """The connection has ended."""
        if self._swallowed is not None:
            self._swallowed.cancel()

    async def _slice(self, rule: Rule, sink: socket.socket, data: bytes) -> None:
        assert rule.spec.treatment is not None
        size, gap, position = rule.spec.treatment["size"], rule.spec.treatment["gap"], 0
        while position < len(data) and not rule.over.is_set():
            await asyncio.get_running_loop().sock_sendall(sink, data[position : position + size])
            position += size
            await over_or_later(rule, gap)
        await asyncio.get_running_loop().sock_sendall(sink, data[position:])

    async def _send_up_to_limit(self, rule: Rule, sink: socket.socket, data: bytes) -> None:
        assert rule.spec.treatment is not None
        left = rule.spec.treatment["limit"] - self._passed
        self._passed += len(data)
        await asyncio.get_running_loop().sock_sendall(sink, data[: max(0, left)])
        if len(data) >= left:
            self._end(False)

    async def _close_later(self, rule: Rule) -> None:
        assert rule.spec.treatment is not None
        self._end(await over_or_later(rule, rule.spec.treatment["delay"]))

    def _count(self, rule: Rule) -> None:
        """Count each connection once."""
        if rule.spec.id not in self._met:
            self._met.add(rule.spec.id)
            rule.has_treated(1)


async def over_or_later(rule: Rule, seconds: float) -> bool:
    """Wait until `seconds` have passed or the rule is over. Returns whether it is over."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(rule.over.wait(), seconds)
    return rule.over.is_set()

"""Messages taken out of their connection: later ones pass, and each is delivered when its rule releases it.

This models a frame that is still in the network, or in one of the broker's request threads, while its sender goes on.
With `outlive`, a request is delivered even though its sender has closed the connection meanwhile: the node's side of
the connection stays open until the request has been answered or the node ends it. Any other message is dropped with
its connection. A response cannot outlive its receiver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from squall.nemesis.agent.rpc.rpc_frames import Header
from squall.nemesis.agent.rpc.rpc_rules import Rule


@dataclass(eq=False)
class Held:
    """One message that was taken out, with the rule that holds it. `data` grows until the message is complete."""

    rule: Rule
    header: Header
    response: bool
    data: bytearray = field(default_factory=bytearray)

    @property
    def outlives(self) -> bool:
        return self.rule.spec.outlive and not self.response


class Aside:
    """The messages taken out of one connection.

    `deliver` writes one to the side that it was for; `then` is called when one is no longer held.
    """

    def __init__(self, deliver: Callable[[Held], Awaitable[None]], then: Callable[[], None]) -> None:
        self._deliver = deliver
        self._then = then
        self._waiting: dict[Held, asyncio.Task[None]] = {}
        self._unanswered: dict[int, Held] = {}
        self._settled = asyncio.Event()
        self._settled.set()
        self.sender_is_gone = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def outliving(self) -> bool:
        """Whether a request waits that must still arrive, or one has arrived late and is not answered."""
        return any(held.outlives for held in self._waiting) or bool(self._unanswered)

    def keep(self, held: Held) -> None:
        """Keep a complete message until its rule releases it."""
        self._settled.clear()
        held.rule.waiting += 1  # at once: the event that releases it may come before the task's first step
        task = self._waiting[held] = asyncio.create_task(self._until_released(held))
        task.add_done_callback(lambda _: held.rule.wait_ended())

    def sender_left(self) -> None:
        """The client has ended the connection: what cannot outlive it is dropped."""
        self.sender_is_gone = True
        for held, task in list(self._waiting.items()):
            if not held.outlives:
                task.cancel()

    def answered(self, correlation: int) -> None:
        """The node has answered a request."""
        held = self._unanswered.pop(correlation, None)
        if held is not None:
            held.rule.note_answered()
            self._settle()

    async def settled(self) -> None:
        """Wait until no message outlives its sender any more."""
        while self.outliving:
            self._settled.clear()
            await self._settled.wait()

    async def close(self) -> None:
        """The connection has ended on both sides: what is still held is dropped."""
        tasks = list(self._waiting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._unanswered.clear()

    async def _until_released(self, held: Held) -> None:
        try:
            await held.rule.released.wait()
            if not held.response:
                self._unanswered[held.header.correlation] = held  # first: the answer may come at once
            await self._deliver(held)
        except (OSError, asyncio.CancelledError):
            self._unanswered.pop(held.header.correlation, None)
            held.rule.note_dropped()
        else:
            held.rule.note_delivered(late=self.sender_is_gone)
        finally:
            del self._waiting[held]
            self._settle()
            self._then()

    def _settle(self) -> None:
        self._settled.set()

"""One producer of a real library, shared by many processes: what the adapters of real libraries have in common.

Records are handed over in the order of calls, and the number of the call, the send *sequence*, is recorded: with
idempotence on, acknowledged records must lie in that order (S3 of the checkers). An instance that is dead is replaced
under a new client number, and its numbers begin anew: order is promised within an instance only. So is one that a
reopen abandons, as if it had crashed, with whatever is under way in it. Instances end in the background, and closing
the client waits for what is left of them.

Under acks=all an acknowledgement has an offset. One without it answers DUPLICATE_SEQUENCE_NUMBER, which a leader says
of a batch that it has appended and that need not be replicated yet: nobody can tell.

The library may go on under a new producer epoch and send again what it has no answer for; a broker cannot know the
second attempt from a new record. It does so when a record fails, and some for other reasons too, of which they
tell (`renumberings`). Whatever was under way in that instance at that time is recorded as outside the promise of
idempotence, and only what is sent later is within it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import msgspec

from squall.workloads.clients import errors
from squall.workloads.clients.client import GENERATION_STRIDE, ClientPlan
from squall.workloads.clients.payload import encode_value
from squall.workloads.operation import FAIL, INFO, MARKER, OK, REOPEN, SEND, Completion, CompletionType, Operation


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """What became of a record: its offset, or an error and what that means.

    `refused` says that the library was never given it, or turned it away at its door.
    """

    offset: int | None = None
    error: str | None = None
    meaning: CompletionType = INFO
    refused: bool = False


class Instance(Protocol):
    """A producer of the library and whatever serves it."""

    dead: bool
    renumberings: int
    """How often it has said that it goes on under a new producer epoch; of reports that come together none is told
    before this is counted."""

    async def send(self, topic: str, partition: int, payload: bytes) -> Delivered: ...

    def retire(self) -> None: ...

    def abandon(self) -> None:
        """Retire without a flush: what was not transmitted is not any more, and nobody waits for deliveries."""
        ...

    def gone(self) -> bool:
        """Whether nothing of a retired instance is left."""
        ...

    async def ended(self) -> None:
        """Until nothing of a retired instance is left."""
        ...


@dataclass
class Life:
    """One instance under its client number, and how far it has come.

    `in_doubt_to` is the last sequence that was under way when some record failed.
    """

    instance: Instance
    client: int
    sequence: int = 0
    in_doubt_to: int = 0


class SharedProducer(ABC):
    """A client whose sends all go through one instance at a time."""

    def __init__(self, plan: ClientPlan) -> None:
        self.plan = plan
        self.life: Life | None = None
        self.replaced: list[Instance] = []
        self.closed = False

    @abstractmethod
    def start(self, loop: asyncio.AbstractEventLoop) -> Instance:
        """A new instance, at once: it may connect later."""

    async def open(self) -> None:
        self.life = Life(self.start(asyncio.get_running_loop()), self.plan.client)

    async def setup(self) -> None:
        return None

    async def invoke(self, operation: Operation) -> Completion:
        assert self.life is not None, "open comes before invoke"
        if self.closed:
            return errors.refused("closed")
        if operation.f == REOPEN:
            self.life.instance.abandon()
            self.life = self._next(self.life)
            return Completion(OK, client=self.life.client)
        if operation.f not in (SEND, MARKER):
            return errors.refused("not_offered")
        assert operation.topic is not None and operation.partition is not None and operation.value is not None
        if self.life.instance.dead:
            self.life.instance.retire()
            self.life = self._next(self.life)
        life = self.life
        life.sequence += 1
        sequence = life.sequence
        renumberings = life.instance.renumberings
        payload = encode_value(operation.value, self.plan.record_size)
        delivered = await life.instance.send(operation.topic, operation.partition, payload)
        if delivered.error is not None:
            if delivered.refused:
                return Completion(FAIL, error=delivered.error, client=life.client)
            life.in_doubt_to = life.sequence
        elif delivered.offset is None and self.plan.acks == "all":
            delivered = Delivered(error="acknowledged_without_offset")
        return Completion(
            OK if delivered.error is None else delivered.meaning,
            offset=delivered.offset,
            error=delivered.error,
            client=life.client,
            sequence=sequence,
            idempotent=None if sequence > life.in_doubt_to and life.instance.renumberings == renumberings else False,
        )

    def _next(self, old: Life) -> Life:
        """A new instance for one that ends, whose open deliveries still get their reports."""
        self.replaced = [one for one in (*self.replaced, old.instance) if not one.gone()]
        return Life(self.start(asyncio.get_running_loop()), old.client + GENERATION_STRIDE)

    async def teardown(self) -> None:
        return None

    async def close(self) -> None:
        self.closed = True
        if self.life is not None:
            self.life.instance.retire()
            await asyncio.gather(*(one.ended() for one in (*self.replaced, self.life.instance)))

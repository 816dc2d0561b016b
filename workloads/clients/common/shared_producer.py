"""One producer of a real library, shared by many processes: the common part of the adapters of real libraries.

Records are handed over in the order of calls, and the number of the call, the send *sequence*, is recorded: with
idempotence on, acknowledged records must lie in that order. A dead instance is replaced under a new client number, and
its sequence starts again: order is promised within an instance only. A reopen replaces an instance in the same way, as
if it had crashed, with everything in flight. Instances end in the background, and closing the client waits for those
that remain.

Under acks=all an acknowledgement has an offset. One without it stems from DUPLICATE_SEQUENCE_NUMBER, which a leader
returns for a batch that it has appended and that need not be replicated yet: the outcome is unknown.

The library may take a new producer epoch and send again everything without a response; a broker cannot distinguish the
second attempt from a new record. It does so when a record fails, and some libraries for other reasons too, which they
report (`renumberings`). Everything in flight in that instance at that time is recorded as outside the promise of
idempotence; only what is sent later is within it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import msgspec

from squall.workloads.clients.common import errors
from squall.workloads.clients.common.client import GENERATION_STRIDE, ClientPlan
from squall.workloads.clients.common.payload import encode_value
from squall.workloads.core.operation import FAIL, INFO, MARKER, OK, REOPEN, SEND, Completion, CompletionType, Operation


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a record: its offset, or an error and its meaning.

    `refused`: the library never received it, or rejected it at once.
    """

    offset: int | None = None
    error: str | None = None
    meaning: CompletionType = INFO
    refused: bool = False


class Instance(Protocol):
    """A producer of the library and what serves it."""

    dead: bool
    renumberings: int
    """How often it has reported a new producer epoch.

    Of reports that arrive together none is delivered before this is counted.
    """

    async def send(self, topic: str, partition: int, payload: bytes) -> Delivered: ...

    def retire(self) -> None: ...

    def abandon(self) -> None:
        """Retire without a flush: untransmitted records are dropped, and deliveries are not awaited."""
        ...

    def gone(self) -> bool:
        """Whether a retired instance has ended completely."""
        ...

    async def ended(self) -> None:
        """Wait until a retired instance has ended completely."""
        ...


@dataclass
class Life:
    """One instance under its client number, and its sequence.

    `in_doubt_to` is the last sequence in flight when a record failed.
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
        """Return a new instance without waiting: it may connect later."""

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
        """A new instance in place of one that ends; the old one's open deliveries still get their reports."""
        self.replaced = [one for one in (*self.replaced, old.instance) if not one.gone()]
        return Life(self.start(asyncio.get_running_loop()), old.client + GENERATION_STRIDE)

    async def teardown(self) -> None:
        return None

    async def close(self) -> None:
        self.closed = True
        if self.life is not None:
            self.life.instance.retire()
            await asyncio.gather(*(one.ended() for one in (*self.replaced, self.life.instance)))

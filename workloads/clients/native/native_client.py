"""The common part of native clients: an instance that does the work, and a successor when it is abandoned.

An instance owns all state of a client, its view of the cluster and its connections included. To reopen a client
(REOPEN) is to drop one instance as if its program had crashed and to begin the next under a new number: only the count
of sessions carries over.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from squall.workloads.clients.common.client import GENERATION_STRIDE
from squall.workloads.core.operation import OK, REOPEN, Completion, Operation


class Instance(Protocol):
    """One life of a native client."""

    async def invoke(self, operation: Operation) -> Completion: ...

    def end(self, *, abandoned: bool) -> None:
        """End all open operations, and start nothing more."""
        ...

    def successor(self, client: int) -> Instance:
        """A new instance of the same plan, under its own number, without the old one's state."""
        ...


class NativeClient:
    """A client with one live instance at a time; `number` is that instance's."""

    def __init__(self, instance: Instance, number: int) -> None:
        self.instance = instance
        self.number = number

    async def open(self) -> None:
        return None

    async def setup(self) -> None:
        return None

    async def invoke(self, operation: Operation) -> Completion:
        if operation.f == REOPEN:
            return self._reopen()
        number = self.number
        completion = await self.instance.invoke(operation)
        return completion if number == operation.client else msgspec.structs.replace(completion, client=number)

    def _reopen(self) -> Completion:
        self.instance.end(abandoned=True)
        self.number += GENERATION_STRIDE
        self.instance = self.instance.successor(self.number)
        return Completion(OK, client=self.number)

    async def teardown(self) -> None:
        return None

    async def close(self) -> None:
        self.instance.end(abandoned=False)

"""What is common to native clients: an instance that does the work, and another in its place when it is abandoned.

All that a client knows and has under way is the instance's, its view of the cluster and its connections too. To open a
client anew (REOPEN) is to drop one instance as if its program had crashed and to begin the next under a number of its
own: nothing is carried over but how the numbers of sessions go on.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from squall.workloads.clients.client import GENERATION_STRIDE
from squall.workloads.operation import OK, REOPEN, Completion, Operation


class Instance(Protocol):
    """One life of a native client."""

    async def invoke(self, operation: Operation) -> Completion: ...

    def end(self, *, abandoned: bool) -> None:
        """End whatever is under way, and start nothing more."""
        ...

    def successor(self, client: int) -> Instance:
        """Another of the same plan, under its own number, that knows nothing yet."""
        ...


class NativeClient:
    """A client of which one instance at a time is alive; `number` is that instance's."""

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

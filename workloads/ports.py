"""What workloads ask of their world: connections and a clock. Hosts and the simulation each bring their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Stream(Protocol):
    """One connection that carries frames: Kafka messages without their four-byte length."""

    async def send(self, frame: bytes) -> None:
        """Hand a frame over. Raises ConnectionError if the connection is known to be gone."""
        ...

    def listen(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """Have `received` called with every frame that comes, and `lost` once, with a reason, when none will come."""
        ...

    def close(self) -> None: ...

    def abort(self) -> None:
        """Close as if the program had crashed: what it has not passed on to the system yet is gone."""
        ...


class Connector(Protocol):
    """How the native client opens connections."""

    async def connect(self, host: str, port: int) -> Stream:
        """Raises OSError (ConnectionError, TimeoutError) if there is no answer."""
        ...


class Clock(Protocol):
    """Monotonic nanoseconds, the history's time, and waiting in that time."""

    def now_ns(self) -> int: ...

    async def sleep(self, seconds: float) -> None: ...

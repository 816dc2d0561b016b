"""What workloads need from their world: connections and a clock. Hosts and the simulation implement these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Stream(Protocol):
    """One connection that carries frames: Kafka messages without their four-byte length."""

    async def send(self, frame: bytes) -> None:
        """Send a frame. Raises ConnectionError if the connection is known to be closed."""
        ...

    def listen(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """Register `received` for every frame, and `lost` for the end: called once, with a reason, when no more will
        come.
        """
        ...

    def close(self) -> None: ...

    def abort(self) -> None:
        """Close as if the program had crashed: data not yet passed to the system is lost."""
        ...


class Connector(Protocol):
    """How the native client opens connections."""

    async def connect(self, host: str, port: int) -> Stream:
        """Open a connection. Raises OSError (ConnectionError, TimeoutError) if there is no response."""
        ...


class Clock(Protocol):
    """Monotonic nanoseconds, the history's time, and a sleep in that time."""

    def now_ns(self) -> int: ...

    async def sleep(self, seconds: float) -> None: ...


class Plugins(Protocol):
    """What installed packages add here, by name."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all plugins, whether or not they can be loaded."""
        ...

    def load(self, name: str) -> Any:
        """Import a plugin. Raises ValueError, which names its package and says what would be right."""
        ...


class NoPlugins:
    """No package adds anything."""

    names: tuple[str, ...] = ()

    def load(self, name: str) -> Any:
        raise ValueError(f"no installed package provides {name}")

"""Common part of most faults: they affect the hosts of one selector, and are healed there by `heal`.

Subclasses define how the fault is injected, what is observed, and how two observations are judged (fault.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from squall.nemesis.core.evidence import Facts, all_of
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge
from squall.nemesis.core.selector import Target


class AimedOptions(Protocol):
    """Options of a fault with a target."""

    @property
    def fault(self) -> str: ...

    @property
    def target(self) -> str: ...


class AimedFault(ABC):
    """A fault on the hosts of one selector. `_targets` are known after `aim`."""

    waits_to_show = False

    def __init__(self, options: AimedOptions, context: FaultContext) -> None:
        self.kind = options.fault
        self._selector = options.target
        self._context = context
        self._targets: tuple[str, ...] = ()

    async def aim(self) -> Target:
        target = await self._context.resolve(self._selector)
        self._targets = target.hosts
        return target

    @abstractmethod
    async def observe(self) -> Facts: ...

    @abstractmethod
    async def inject(self, ttl: float) -> None: ...

    async def heal(self) -> None:
        await self._ask("heal", id=self._context.id)

    async def _ask(self, verb: str, **arguments: object) -> list[dict[str, Any]]:
        """The responses of all targets to the same request, in their order. Raises VerbFailed or HostUnreachable."""
        return await all_of(self._context.hosts[name].call(verb, **arguments) for name in self._targets)

    @abstractmethod
    def check_effect(self, before: Facts, during: Facts) -> str | None: ...

    @abstractmethod
    def shows_end(self, before: Facts, after: Facts) -> str | None: ...

    @abstractmethod
    def told(self, during: Facts) -> str: ...

    def cuts(self) -> Grudge:
        return {}

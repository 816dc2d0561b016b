"""What a fault is: aim, observe, inject, observe, heal, observe.

A fault object lives for one occurrence. `aim` resolves the selector and remembers whom it chose; `observe` tells
what can be seen of it now (evidence.py); `shows_hold` and `shows_end` judge two observations and answer with the
reason why they do not prove it, or None. The runner does the rest: times, retries, records.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from squall.nemesis.evidence import Facts
from squall.nemesis.grudge import Grudge
from squall.nemesis.ports import NODE_PROCESS, ClusterOperator, ClusterView, Host, Knock, LoadHost, NowNs, Sleep
from squall.nemesis.selector import Earlier, Target, nobody_yet, parse_selector, resolve


def no_cuts() -> Grudge:
    return {}


@dataclass(frozen=True)
class FaultContext:
    """All that a fault may use. `rng` is its own; `cuts_by_others` are what other open faults cut right now."""

    id: str
    hosts: Mapping[str, Host]
    cluster: ClusterView
    now_ns: NowNs
    sleep: Sleep
    rng: random.Random
    process: str = NODE_PROCESS
    ports: Mapping[str, int] = field(default_factory=dict)
    cuts_by_others: Callable[[], Grudge] = no_cuts
    earlier: Earlier = nobody_yet
    operator: ClusterOperator | None = None
    believes_answers: bool = False
    """Whether an operation counts by its answer alone: a swarm asks for nothing that it has not drawn."""
    moving: set[tuple[str, int]] = field(default_factory=set)
    """Topic-partitions of which a move is being asked for and not seen yet, whoever asks: the next waits for that."""
    loads: Mapping[str, LoadHost] = field(default_factory=dict)
    """Client hosts whose load workers faults may be aimed at."""
    knock: Knock | None = None
    length_s: float = 0.0
    """How long the fault is to last, for one that nobody can heal from outside; 0 if that is not known."""

    async def resolve(self, selector: str) -> Target:
        """Whom a selector of the suite means now. Raises NoTarget."""
        return await resolve(parse_selector(selector), self.cluster, self.rng, self.earlier)


@runtime_checkable
class ActsByItself(Protocol):
    """A fault that goes on doing things between `inject` and `heal`, such as killing again and again."""

    async def stand_down(self) -> None:
        """Once this has returned, it does nothing more; asked before all hosts are healed. Raises nothing."""
        ...


@runtime_checkable
class ShowsLate(Protocol):
    """A fault that may show only after its window, because somebody else carries it out, or his successor does.

    Its proof is still waited for `evidence_lag` seconds after the end of its window, and it goes on until it shows.
    """

    evidence_lag: float


class Fault(Protocol):
    """One occurrence of a fault.

    `waits_to_show` says that its effect shows only once something else happens (a message passes, a file is
    written), so that its proof may come at any time of its window.
    """

    kind: str
    waits_to_show: bool

    async def aim(self) -> Target:
        """Whom it will hit; changes nothing. Raises NoTarget. Called once, before all else."""
        ...

    async def observe(self) -> Facts:
        """What can be seen now. Raises VerbFailed or HostUnreachable."""
        ...

    async def inject(self, ttl: float) -> None:
        """Every host involved ends it by itself `ttl` seconds later, if nobody else does."""
        ...

    async def heal(self) -> None:
        """Ends it everywhere; harmless if it has ended."""
        ...

    def shows_hold(self, before: Facts, during: Facts) -> str | None:
        """Why these observations do not prove that it took hold; None if they do."""
        ...

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        """Why these observations do not prove that it is over; None if they do."""
        ...

    def told(self, during: Facts) -> str:
        """The proof in a few words, such as `deaf to 5 of 5`."""
        ...

    def cuts(self) -> Grudge:
        """Whom it keeps from hearing whom while it is open."""
        ...

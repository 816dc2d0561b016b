"""The interface of a fault: aim, observe, inject, observe, heal, observe.

A fault object is one occurrence. `aim` resolves the selector and keeps the result; `observe` returns what is seen of
the fault now (evidence.py); `check_effect` and `shows_end` compare two observations and return the reason why these do
not prove it, or None. The runner does the rest: times, retries, records.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from squall.nemesis.core.evidence import Facts
from squall.nemesis.core.grudge import Grudge
from squall.nemesis.core.ports import NODE_PROCESS, ClusterOperator, ClusterView, Host, Knock, LoadHost, NowNs, Sleep
from squall.nemesis.core.selector import Earlier, Target, nobody_yet, parse_selector, resolve


def no_cuts() -> Grudge:
    return {}


@dataclass(frozen=True)
class FaultContext:
    """Everything that a fault may use. `rng` belongs to this fault; `cuts_by_others` are the present cuts of other open
    faults.
    """

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
    """Whether the response alone proves an operation: a swarm makes no request that it has not drawn."""
    moving: set[tuple[str, int]] = field(default_factory=set)
    """Topic-partitions with a requested move that is not visible yet, by any fault: the next move waits for it."""
    loads: Mapping[str, LoadHost] = field(default_factory=dict)
    """Client hosts whose load workers may be targets."""
    knock: Knock | None = None
    length_s: float = 0.0
    """How long the fault will last, for faults that cannot be healed from outside; 0 if unknown."""

    async def resolve(self, selector: str) -> Target:
        """The hosts to which a selector of the suite refers now. Raises NoTarget."""
        return await resolve(parse_selector(selector), self.cluster, self.rng, self.earlier)


@runtime_checkable
class ActsByItself(Protocol):
    """A fault that keeps acting between `inject` and `heal`, such as killing repeatedly."""

    async def stand_down(self) -> None:
        """Stop acting before returning; called before all hosts are healed. Raises nothing."""
        ...


@runtime_checkable
class DelayedEvidence(Protocol):
    """A fault whose evidence may arrive only after the window, because the active controller or its successor carries
    it out.

    The runner waits for its proof up to `evidence_lag` seconds after the end of its window, and the fault stays open
    until then.
    """

    evidence_lag: float


class Fault(Protocol):
    """One occurrence of a fault.

    `waits_to_show` means that its effect shows only after another event (a message passes, a file is written), so that
    its proof may come at any time of its window.
    """

    kind: str
    waits_to_show: bool

    async def aim(self) -> Target:
        """Choose the hosts it will affect; changes nothing. Raises NoTarget. Called once, before everything else."""
        ...

    async def observe(self) -> Facts:
        """Observe the present state. Raises VerbFailed or HostUnreachable."""
        ...

    async def inject(self, ttl: float) -> None:
        """Inject it on every host involved. Each host reverts it after `ttl` seconds if it is not healed before."""
        ...

    async def heal(self) -> None:
        """Heal it on every host; harmless if it has ended."""
        ...

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        """Why these observations do not prove that it took hold; None if they do."""
        ...

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        """Why these observations do not prove that it is over; None if they do."""
        ...

    def told(self, during: Facts) -> str:
        """The proof in a few words, such as `deaf to 5 of 5`."""
        ...

    def cuts(self) -> Grudge:
        """The grudge it imposes while it is open."""
        ...

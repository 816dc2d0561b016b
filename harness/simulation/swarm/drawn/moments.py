"""Moments of a run: a node traces an event, and a fault strikes at once.

A fault drawn at a random time rarely meets the few microseconds between two steps of a protocol: between a vote and its
response, between the first record of an epoch and its replication, inside recovery, at a roll of segments. Nodes trace
those steps. A watch waits for the n-th event of one name on one of its hosts, and calls back inside the node's turn,
before the disk calls that follow and before the messages of that turn leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from squall.nodes.ports import Trace


@dataclass(frozen=True)
class Moment:
    """The `occurrence`-th event (from 1) after the fault's time, awaited for `within` seconds."""

    event: str
    occurrence: int
    within: float

    def __str__(self) -> str:
        return f"at the next {self.event}" if self.occurrence == 1 else f"at {self.event} no. {self.occurrence}"


@dataclass(eq=False)
class Watch:
    """One moment that is waited for. `reached` is called once, with the host, inside the turn that traced the event."""

    event: str
    hosts: frozenset[str]
    reached: Callable[[str], None]
    remaining: int


@dataclass(frozen=True)
class Moments:
    """All watches of a run, asked with every event that a node traces."""

    _watches: dict[str, list[Watch]] = field(default_factory=dict)

    def beside(self, host: str, trace: Trace) -> Trace:
        """Return the trace of one host: it passes everything on, and then asks the watches."""
        return _Watched(host, trace, self)

    def watch(self, moment: Moment, hosts: tuple[str, ...], reached: Callable[[str], None]) -> Watch:
        watch = Watch(moment.event, frozenset(hosts), reached, moment.occurrence)
        self._watches.setdefault(moment.event, []).append(watch)
        return watch

    def forget(self, watch: Watch) -> None:
        """End a watch; one that has been reached has ended already."""
        waiting = self._watches.get(watch.event, [])
        if watch in waiting:
            waiting.remove(watch)

    def happened(self, host: str, event: str) -> None:
        for watch in [one for one in self._watches.get(event, ()) if host in one.hosts]:
            watch.remaining -= 1
            if not watch.remaining:
                self.forget(watch)
                watch.reached(host)


class _Watched:
    def __init__(self, host: str, trace: Trace, moments: Moments) -> None:
        self._host = host
        self._trace = trace
        self._moments = moments

    def event(self, name: str, **fields: object) -> None:
        self._trace.event(name, **fields)
        self._moments.happened(self._host, name)

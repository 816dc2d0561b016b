"""One fault of a swarm: data that a failing seed prints, and that suites can state (`SwarmFault.written`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from squall.harness.simulation.swarm.drawn.kinds import SWITCHES
from squall.harness.simulation.swarm.drawn.moments import Moment

_STRIKES = {"power-loss-at-moment": "power-loss", "pause-at-moment": "pause", "isolate-at-moment": "isolate"}


@dataclass(frozen=True)
class SwarmFault:
    """One fault of a swarm: `kind` at `at` seconds for `duration` seconds, on the hosts named.

    `words` is the fault as an entry of a suite, without its times; empty if suites have no word for it.
    """

    at: float
    kind: str
    hosts: tuple[str, ...]
    duration: float
    amount: float = 0.0
    words: Mapping[str, object] = field(default_factory=dict)
    moment: Moment | None = None
    """What the fault waits for, from `at` on, on the first of `hosts` that traces it."""
    succession: tuple[int, tuple[str, ...]] | None = None
    """The number of the succession that the fault is part of, and its three drawn hosts; see `successions.py`."""

    @property
    def latest_end(self) -> float:
        """The time, in seconds, at which the fault is over however late it strikes."""
        return self.at + self.duration + (0.0 if self.moment is None else self.moment.within)

    def written(self) -> dict[str, object]:
        """Return the fault as an entry of `nemesis:`; a fault without its own word becomes its closest equivalent."""
        first, last = self.hosts[0], self.hosts[-1]
        if self.words:
            return dict(self.words)
        if self.kind == "reset":
            return {"fault": "rpc-cut", "api": "Fetch", "from": first, "to": last, "messages": 0}
        if self.kind == "cut-clients":
            return {"fault": "isolate", "target": first, "from": "everyone"}
        if self.kind in SWITCHES:
            return {"fault": "elect-leaders"}
        if self.kind in _STRIKES:
            return {"fault": _STRIKES[self.kind], "target": first}
        return {"fault": "kill", "target": first}

    def __str__(self) -> str:
        more = ", ".join(f"{key} {value}" for key, value in self.words.items() if key not in ("fault", "target"))
        told = f"{self.at:7.3f} s  {self.kind:22} {', '.join(self.hosts):12} for {self.duration:.3f} s"
        more = ", ".join(one for one in (str(self.moment or ""), more) if one)
        return f"{told}  {more}" if more else told

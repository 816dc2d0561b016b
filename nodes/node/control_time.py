"""The time for quorum and controller: monotonic, as everything in a node (FD-05, X32).

Mutant `timers-on-wall-clock`: the wall clock instead, for the timers of the quorum and for brokers' sessions. Setting
that clock then makes leaders resign, followers stand, and fences brokers.
"""

from __future__ import annotations

from squall.nodes.mutants import Mutants
from squall.nodes.ports import WallClock
from squall.nodes.protocol.requests.session import Complete
from squall.nodes.protocol.schema import Message

NEVER = 2**63 - 1


class ControlTime:
    """Converts the node's `now` to that of the control plane, and its deadlines back."""

    def __init__(self, wall: WallClock, mutants: Mutants) -> None:
        self._wall = wall if mutants.has("timers-on-wall-clock") else None
        self._ahead = 0
        """The control plane's `now` less the node's, at the last call."""

    def __call__(self, now: int) -> int:
        if self._wall is None:
            return now
        control_now = self._wall.now_ms() * 1000
        self._ahead = control_now - now
        return control_now

    def deadline(self, nearest: int) -> int:
        return nearest if nearest == NEVER else nearest - self._ahead

    def completing(self, complete: Complete) -> Complete:
        """Wrap the completion of a request of the control plane."""
        if self._wall is None:
            return complete

        def completed(now: int, response: Message | None) -> None:
            complete(self(now), response)

        return completed

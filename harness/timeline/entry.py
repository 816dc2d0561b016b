"""One line of a timeline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """Something that happened at a time.

    `source` is its origin: `fault`, `cluster`, `clients`, or the host whose log has it; `hosts` are those it concerns.
    `time` is on the history's clock, and not `certain` if it had to be inferred.
    """

    time: int
    source: str
    text: str
    hosts: frozenset[str]
    certain: bool = True

    def line(self, begins: int, width: int = 7) -> str:
        """Format ` 12.481 s b2 node 2 leads events-3`, counted from `begins`."""
        mark = " " if self.certain else "≈"
        return f"{mark}{(self.time - begins) / 1e9:10.3f} s  {self.source:<{width}}  {self.text}"

"""Rules of nftables that the kernel itself ends: they match only while an element of a set has not timed out.

A set of address families holds both, each with a timeout; a rule that looks for the packet's family in it matches until
then. So a rule of any shape ends in time though every process of ours be dead or stopped. An empty rule that is left
does nothing, and goes when somebody heals. Rules of iptables have no such thing.
"""

from __future__ import annotations

import time
from typing import Protocol

LEAST_SECONDS = 0.001


class Ending(Protocol):
    """Of an entry of the journal, what is needed here."""

    @property
    def deadline(self) -> float: ...


def seconds_left(entry: Ending) -> float:
    """Until the end of its time to live; never less than a moment, as no timeout would mean for ever."""
    return max(LEAST_SECONDS, entry.deadline - time.monotonic())


def expiring_set(name: str, seconds: float) -> list[str]:
    """The lines of a table that define such a set."""
    timeout = f"timeout {max(1, round(seconds * 1000))}ms"
    elements = f"elements = {{ ipv4 {timeout}, ipv6 {timeout} }}"
    return [f"  set {name} {{ typeof meta nfproto; flags timeout; {elements}; }}"]


def while_in(name: str) -> str:
    """The beginning of a rule that matches as long as the set holds."""
    return f"meta nfproto @{name} "

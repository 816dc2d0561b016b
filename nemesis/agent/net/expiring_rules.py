"""nftables rules that the kernel ends: they match only while an element of a set has not timed out.

A set of address families holds both families, each with a timeout. A rule that looks up the packet's family in it
matches until then. So any rule ends in time even if every process of the agent is dead or stopped. A rule that is left
behind does nothing, and healing removes it. iptables has no such rules.
"""

from __future__ import annotations

import time
from typing import Protocol

LEAST_SECONDS = 0.001


class Ending(Protocol):
    """The part of a journal entry that is needed here."""

    @property
    def deadline(self) -> float: ...


def seconds_left(entry: Ending) -> float:
    """Seconds until the end of the time to live; at least `LEAST_SECONDS`, because a zero timeout would mean
    for ever.
    """
    return max(LEAST_SECONDS, entry.deadline - time.monotonic())


def expiring_set(name: str, seconds: float) -> list[str]:
    """The lines of a table that define such a set."""
    timeout = f"timeout {max(1, round(seconds * 1000))}ms"
    elements = f"elements = {{ ipv4 {timeout}, ipv6 {timeout} }}"
    return [f"  set {name} {{ typeof meta nfproto; flags timeout; {elements}; }}"]


def while_in(name: str) -> str:
    """The beginning of a rule that matches as long as the set holds."""
    return f"meta nfproto @{name} "

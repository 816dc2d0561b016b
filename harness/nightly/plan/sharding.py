"""Distribute items over shards and clusters, the longest first to where the least is to do so far. Pure.

Longest processing time first is at most a third worse than the best distribution (Graham 1969). Equal items are
ordered by name, so that every machine that knows the same durations computes the same shards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from squall.harness.errors import UsageError


def distributed(seconds: Mapping[str, float], parts: int) -> list[list[str]]:
    """Return the names in each of so many parts."""
    shares: list[list[str]] = [[] for _ in range(parts)]
    loads = [0.0] * parts
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        least = min(range(parts), key=lambda part: (loads[part], part))
        shares[least].append(name)
        loads[least] += seconds[name]
    return shares


def makespan(seconds: Sequence[float], parts: int) -> float:
    """Return how long all of it takes on so many clusters at once."""
    loads = [0.0] * parts
    for one in sorted(seconds, reverse=True):
        least = loads.index(min(loads))
        loads[least] += one
    return max(loads)


def parse_shard(text: str) -> tuple[int, int]:
    """Parse `2/3`: the second of three. Raises UsageError."""
    number, _, total = text.partition("/")
    if not (number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total)):
        raise UsageError(f"--shard {text}: is not a shard", remedy="write 2/3 for the second of three")
    return int(number), int(total)


def fingerprint_of(shares: Sequence[Sequence[str]]) -> str:
    """Return a short hash of a distribution: machines that print another one have distributed otherwise."""
    return hashlib.sha256(repr([list(one) for one in shares]).encode()).hexdigest()[:8]

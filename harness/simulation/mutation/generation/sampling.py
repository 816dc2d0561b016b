"""Order mutants so that every prefix is a sample, stratified by package and operator.

Within its stratum a mutant's place is drawn by a hash of the seed and its id, so that an edit of the nodes changes the
sample only where it changes mutants. Strata are interleaved in proportion to their size: systematic sampling. Samples
are nested: the first 60 of a sample of 400 are the sample of 60, and a ledger can be extended.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable

from squall.harness.simulation.mutation.generation.mutation import Mutation


def in_order(mutations: Iterable[Mutation], seed: int) -> list[Mutation]:
    """Return all mutants in the order in which a sample takes them."""
    strata: dict[tuple[str, str], list[Mutation]] = defaultdict(list)
    for one in mutations:
        strata[one.package, one.operator].append(one)
    placed: list[tuple[float, str, Mutation]] = []
    for (package, operator), members in strata.items():
        members.sort(key=lambda one: _drawn(seed, one.id))
        start = _drawn(seed, f"{package}/{operator}")
        placed += [((rank + start) / len(members), one.id, one) for rank, one in enumerate(members)]
    return [one for _, _, one in sorted(placed, key=lambda entry: entry[:2])]


def sample(mutations: Iterable[Mutation], size: int, seed: int) -> list[Mutation]:
    """Return a stratified sample."""
    return in_order(mutations, seed)[:size]


def _drawn(seed: int, name: str) -> float:
    """Return a number from 0 to 1 that depends on nothing but the seed and the name."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:6], "big") / (1 << 48)

"""Sample two systems in alternation, each of them warm.

A virtual machine compiles while it works, and a cold sample flatters its rival. So each system repeats a sample until
its cost is steady: the last three costs lie within a tenth of their median. What a system costs here is processor time
per unit of work, which depends less on other load of the machine than elapsed time. Then the systems take turns, in the
order A B, B A, A B, …, so that a drift of the machine meets both alike.

`spread` is the run-to-run spread of samples: the distance between the quartiles over the median.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Sample = TypeVar("Sample")

STEADY_SAMPLES: Final = 3
STEADY_WITHIN: Final = 0.1
MOST_WARM_UPS: Final = 15
PAIRS: Final = 6


@dataclass(frozen=True)
class Side(Generic[Sample]):
    """One of the two systems: how it is sampled, and what a sample costs."""

    take: Callable[[], Sample]
    cost: Callable[[Sample], float]


@dataclass(frozen=True)
class Sampled(Generic[Sample]):
    """The samples that count, how many warmed the system up before them, and whether its cost became steady."""

    samples: tuple[Sample, ...]
    warm_ups: int
    steady: bool


def alternated(
    first: Side[Sample], second: Side[Sample], *, pairs: int = PAIRS, most_warm_ups: int = MOST_WARM_UPS
) -> tuple[Sampled[Sample], Sampled[Sample]]:
    """Warm both systems up, then take `pairs` samples of each, by turns."""
    warmed = warm(first, most_warm_ups), warm(second, most_warm_ups)
    taken = by_turns(first.take, second.take, pairs)
    sampled = [Sampled(tuple(some), *how) for some, how in zip(taken, warmed, strict=True)]
    return sampled[0], sampled[1]


def by_turns(
    first: Callable[[], Sample], second: Callable[[], Sample], pairs: int
) -> tuple[list[Sample], list[Sample]]:
    """Take `pairs` samples of each system in the order A B, B A, A B, …, without a warm-up."""
    taken: tuple[list[Sample], list[Sample]] = ([], [])
    for pair in range(pairs):
        for index in (0, 1) if pair % 2 == 0 else (1, 0):
            taken[index].append((first, second)[index]())
    return taken


def warm(side: Side[Sample], most: int = MOST_WARM_UPS) -> tuple[int, bool]:
    """Sample a system until its cost is steady. Return how many samples that took, and whether it became steady."""
    costs: list[float] = []
    while len(costs) < most:
        costs.append(side.cost(side.take()))
        if is_steady(costs):
            return len(costs), True
    return len(costs), False


def is_steady(costs: Sequence[float]) -> bool:
    """Whether the last three costs lie within a tenth of their median."""
    last = costs[-STEADY_SAMPLES:]
    if len(last) < STEADY_SAMPLES:
        return False
    middle = statistics.median(last)
    return all(abs(one - middle) <= STEADY_WITHIN * middle for one in last)


def spread(values: Sequence[float]) -> float:
    """The distance between the quartiles over the median; at least two values."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle

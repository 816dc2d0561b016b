"""Estimate how many features no run has shown yet (Chao1), from how many only one run or only two have shown.

If many features were seen in a single run, there are many more unseen; if every feature was seen in several, few are
left. With S seen, f1 of them in one run and f2 in two, at least S + f1²/(2·f2) exist (Chao 1984, bias-corrected where
f2 is 0). The interval is the log-normal one of Chao 1987, 95 %. It assumes runs drawn alike, which seeds of
one scenario are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log, sqrt

Z = 1.959964
"""The quantile of a 95 % interval."""


@dataclass(frozen=True)
class Richness:
    """How many features there are: seen, estimated, and the interval of the estimate."""

    seen: int
    estimated: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.seen:,} seen, Chao1 {self.estimated:,.0f} ({self.low:,.0f}–{self.high:,.0f})"


def chao1(counts: Iterable[int]) -> Richness:
    """Estimate from the number of runs that showed each feature."""
    positive = [count for count in counts if count > 0]
    seen, once, twice = len(positive), positive.count(1), positive.count(2)
    if once == 0:
        return Richness(seen, seen, seen, seen)
    if twice == 0:
        unseen = once * (once - 1) / 2
        variance = unseen + once * (2 * once - 1) ** 2 / 4 - once**4 / (4 * (seen + unseen))
    else:
        ratio = once / twice
        unseen = once * ratio / 2
        variance = twice * (ratio**2 / 2 + ratio**3 + ratio**4 / 4)
    if unseen == 0:
        return Richness(seen, seen, seen, seen)
    spread = exp(Z * sqrt(log(1 + max(variance, 0.0) / unseen**2)))
    return Richness(seen, seen + unseen, seen + unseen / spread, seen + unseen * spread)


@dataclass(frozen=True)
class Accumulated:
    """A point of the accumulation curve: features seen after so many runs and processor seconds."""

    runs: int
    processor_s: float
    features: int

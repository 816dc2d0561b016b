"""How many clean runs it takes until a finding may be believed to be fixed.

A finding was seen in k of n runs. If it is still there, c clean runs in a row have a probability that depends on how
often it shows; if it is fixed, they are certain. Before any clean run both are taken to be equally probable.

How often it shows is not known from a few sightings: after one sighting in 60 runs the rate may well be one in 300.
So the probability of clean runs is the mean over Beta(1/2 + k, 1/2 + n - k), and not that at one estimate, which would
declare a rare finding resolved much too early. `still_there_at` has the simple formula, for a rate that is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, inf, lgamma, log, log1p

BELIEVED = 0.95
"""A fix is believed if the finding is still there with a probability of at most one twentieth."""
PRIOR = 0.5
"""The probability that a finding is still there after a claimed fix, before any run."""


@dataclass(frozen=True)
class Findability:
    """What is known of how often a finding shows: in `seen` of `runs`, before the clean runs. Raises ValueError."""

    seen: int
    runs: int

    def __post_init__(self) -> None:
        if not 1 <= self.seen <= self.runs:
            raise ValueError(
                f"a finding was seen in at least one run and at most all, not in {self.seen} of {self.runs}"
            )

    @property
    def rate(self) -> float:
        """The estimate of how often it shows."""
        return (self.seen + 0.5) / (self.runs + 1)

    def unseen(self, clean_runs: int) -> float:
        """The probability that so many runs are clean although the finding is still there."""
        a, b = self.seen + 0.5, self.runs - self.seen + 0.5
        return exp(lgamma(b + clean_runs) - lgamma(b) + lgamma(a + b) - lgamma(a + b + clean_runs))

    def still_there(self, clean_runs: int) -> float:
        """The probability that the finding is still there after so many clean runs."""
        return _after(self.unseen(clean_runs))

    def clean_runs_needed(self) -> int:
        """The fewest clean runs after which a fix may be believed."""
        enough = 1
        while self.still_there(enough) > 1 - BELIEVED:
            enough *= 2
        low, high = enough // 2, enough
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.still_there(middle) <= 1 - BELIEVED else (middle, high)
        return high

    def clean_runs_still_needed(self, clean_runs: int) -> int:
        return max(0, self.clean_runs_needed() - clean_runs)


def still_there_at(rate: float, clean_runs: int) -> float:
    """The probability that a finding is still there which shows at a known rate, after so many clean runs."""
    _check_rate(rate)
    return _after(exp(clean_runs * log1p(-rate)) if rate < 1 else float(clean_runs == 0))


def clean_runs_needed_at(rate: float) -> float:
    """The fewest clean runs at a known rate; infinite at rate 0."""
    _check_rate(rate)
    if rate in (0, 1):
        return inf if rate == 0 else 1
    odds = (1 - BELIEVED) / BELIEVED * (1 - PRIOR) / PRIOR
    return ceil(log(odds) / log1p(-rate))


def _after(unseen: float) -> float:
    return unseen * PRIOR / (unseen * PRIOR + 1 - PRIOR)


def _check_rate(rate: float) -> None:
    if not 0 <= rate <= 1:
        raise ValueError("a rate lies between 0 and 1")

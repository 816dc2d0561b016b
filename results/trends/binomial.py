"""Intervals and an exact test for the probability of an event that k of n runs showed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, fsum, inf, lgamma, log, log1p, sqrt
from statistics import NormalDist

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """The ends of an interval of a probability."""

    low: float
    high: float


def wilson_interval(events: int, runs: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval, which never leaves 0 to 1. Raises ValueError for impossible counts."""
    _check(events, runs)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = events / runs
    middle = share + z * z / (2 * runs)
    half = z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    scale = 1 + z * z / runs
    low = 0.0 if events == 0 else (middle - half) / scale
    high = 1.0 if events == runs else (middle + half) / scale
    return Interval(low, high)


def beta_interval(events: int, runs: int, confidence: float = CONFIDENCE) -> Interval:
    """Jeffreys' interval: quantiles of Beta(1/2 + k, 1/2 + n - k), with 0 and 1 as ends where k is 0 or n."""
    _check(events, runs)
    a, b = events + 0.5, runs - events + 0.5
    low = 0.0 if events == 0 else beta_quantile((1 - confidence) / 2, a, b)
    high = 1.0 if events == runs else beta_quantile((1 + confidence) / 2, a, b)
    return Interval(low, high)


def probability_of_at_least(events: int, runs: int, probability: float) -> float:
    """The probability of so many events or more in independent runs, exactly: a one-sided binomial test."""
    _check(events, runs)
    if not 0 <= probability <= 1:
        raise ValueError("a probability lies between 0 and 1")
    if events == 0 or probability == 1:
        return 1.0
    if probability == 0:
        return 0.0
    return min(1.0, fsum(exp(_log_binomial(k, runs, probability)) for k in range(events, runs + 1)))


def _log_binomial(events: int, runs: int, probability: float) -> float:
    ways = lgamma(runs + 1) - lgamma(events + 1) - lgamma(runs - events + 1)
    return ways + events * log(probability) + (runs - events) * log1p(-probability)


@lru_cache(maxsize=4096)
def beta_quantile(share: float, a: float, b: float) -> float:
    """The value below which the Beta distribution with these parameters has this share, by bisection."""
    low, high = 0.0, 1.0
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if beta_below(middle, a, b) < share:
            low = middle
        else:
            high = middle


def beta_below(value: float, a: float, b: float) -> float:
    """The share of the Beta distribution below a value: the regularized incomplete beta function."""
    if value <= 0 or value >= 1:
        return 0.0 if value <= 0 else 1.0
    front = lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(value) + b * log1p(-value)
    if value < (a + 1) / (a + b + 2):
        return exp(front) * _continued_fraction(value, a, b) / a
    return 1 - exp(front) * _continued_fraction(1 - value, b, a) / b


def _continued_fraction(value: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by the modified method of Lentz."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * value / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    result, change, step = d, inf, 0
    while abs(change - 1) > 1e-15 and step < 10_000:
        step += 1
        even = step * (b - step) * value / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * value / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            d = 1 + term * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + term / c
            c = c if abs(c) > tiny else tiny
            change = c * d
            result *= change
    return result


def _check(events: int, runs: int) -> None:
    if runs < 1 or not 0 <= events <= runs:
        raise ValueError(f"{events} of {runs} runs is no count")

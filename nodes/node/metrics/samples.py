"""Metric samples, and summaries of recent times.

A collection is a generator: a sample, or None where its host may let the node do other work (`metrics.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from squall.nodes.node.metrics.metric_names import Metric
from squall.nodes.node.timings import quantile

QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
"""As in Kafka's histograms; 1 is the largest."""
BREATH = 5_000
"""Topic-partitions after which the host may do other work."""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One line. `suffix` is `_sum` or `_count` of a summary, else empty."""

    metric: Metric
    value: float
    labels: Labels = ()
    suffix: str = ""


Collected = Iterator[Sample | None]


def summary(metric: Metric, labels: Labels, ascending: Sequence[int], count: int, total: int) -> Collected:
    """Quantiles of microseconds in milliseconds, with their number and sum."""
    for of in QUANTILES:
        yield Sample(metric, quantile(ascending, of) / 1000, (*labels, ("quantile", f"{of:g}")))
    yield Sample(metric, total / 1000, labels, "_sum")
    yield Sample(metric, count, labels, "_count")

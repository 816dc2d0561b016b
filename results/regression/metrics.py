"""The figures of a run that are compared between runs and followed over nights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Metric:
    """A figure with one value a run.

    `share` is set for a quantile of the latency of sends. A gate passes only if a figure that is `required` is shown to
    be within the margin; any figure can fail it.
    """

    name: str
    title: str
    unit: str
    higher_is_better: bool = False
    share: float | None = None
    required: bool = False


_METRICS: Final = (
    Metric("p50", "median latency of sends", "ms", share=0.5, required=True),
    Metric("p99", "99th percentile of the latency of sends", "ms", share=0.99, required=True),
    Metric("p99.9", "99.9th percentile of the latency of sends", "ms", share=0.999),
    Metric("throughput", "acknowledged sends a second", "/s", higher_is_better=True, required=True),
    Metric("longest-outage", "longest time without an acknowledged send on a topic-partition", "s"),
    Metric("recovery", "longest time from a fault until sends were acknowledged again", "s"),
    Metric("check", "time of the check", "s"),
)

METRICS: Final[Mapping[str, Metric]] = {one.name: one for one in _METRICS}

"""What *Compare* says beforehand: the last seven nights beside the twenty-eight before, by scenario and metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from squall.results.dashboard.levels import Metric
from squall.results.dashboard.overview import Overview
from squall.results.trends.comparison import Comparison, compare_all

CANDIDATE_NIGHTS: Final = 7
BASELINE_NIGHTS: Final = 28
CERTAIN: Final = 0.05
"""Adjusted p-values up to this are shown as a difference: at most one in twenty of those shown is none."""
COMPARED: Final = ("p50", "p99", "p999", "outage")


@dataclass(frozen=True)
class Difference:
    """A metric of a scenario: the last nights beside those before."""

    scenario: str
    metric: Metric
    comparison: Comparison

    @property
    def certain(self) -> bool:
        return self.comparison.adjusted_p <= CERTAIN


def differences(overview: Overview) -> list[Difference]:
    """Compare all metrics of all scenarios together, the surest difference first."""
    samples, found = {}, {}
    for scenario, levels in overview.levels.items():
        for level in levels:
            if level.metric.name not in COMPARED:
                continue
            after = [one for one in level.values[-CANDIDATE_NIGHTS:] if one is not None]
            before = [
                one for one in level.values[-CANDIDATE_NIGHTS - BASELINE_NIGHTS : -CANDIDATE_NIGHTS] if one is not None
            ]
            if after and before:
                name = f"{level.metric.name}\n{scenario}"
                samples[name], found[name] = (before, after), (scenario, level.metric)
    compared = compare_all(samples) if samples else {}
    rows = [Difference(*found[name], one) for name, one in compared.items()]
    return sorted(rows, key=lambda one: (one.comparison.adjusted_p, -abs(one.comparison.relative), one.scenario))

"""Samples of forged runs with figures that a test chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from squall.results.regression.measured_run import MeasuredRun
from squall.results.regression.sample import Sample


def run(key: str = "run", **changes: Any) -> MeasuredRun:
    """A valid run without figures."""
    facts: dict[str, Any] = {
        "key": key, "date": "2026-11-24", "night": "2026-11-24", "started": "2026-11-24T01:00:00+00:00",
        "scenario": "kills", "scenario_hash": "s1", "schedule_hash": "p1", "verdict": "valid", "as_expected": True,
        "reasons": (), "anomalies": (), "commit": "abcdef0123", "dirty": False, "machine": "m1",
        "machine_name": "Linux", "acknowledged": 1000, "load_s": 60.0, "figures": {}, "canaries": {},
    }  # fmt: skip
    return MeasuredRun(**{**facts, **changes})


def sample(name: str, figures: Sequence[dict[str, float]], **changes: Any) -> Sample:
    """A run for each set of figures."""
    return Sample.of_runs(name, [run(f"{name}-{at}", figures=one, **changes) for at, one in enumerate(figures)])


def violated(key: str = "broken", **changes: Any) -> MeasuredRun:
    return run(key, **{"verdict": "invalid", "as_expected": False, "anomalies": ("lost_write",), **changes})


def unknown(key: str = "unsure", **changes: Any) -> MeasuredRun:
    return run(key, **{"verdict": "unknown", "as_expected": False, "reasons": ("no evidence",), **changes})

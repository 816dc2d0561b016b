"""One run as far as it is compared: its verdict, its figures, and how fast the machine was meanwhile.

Made of rows of the lake, whether they come from a lake or from a run's directory. A figure that a run does not have is
left out; nothing stands for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

import numpy as np

from squall.results.checkers.kernels.series import class_nanoseconds
from squall.results.history.manifest import CANARIES
from squall.results.lake.histogram import quantile_seconds
from squall.results.regression.metrics import METRICS
from squall.results.trends.quantile_difference import Histogram

Row = Mapping[str, Any]
TABLES: Final = ("runs", "latency", "faults", "partitions", "machines")
"""The tables of the lake that figures are read from."""


@dataclass(frozen=True)
class MeasuredRun:
    """A run. `classes` counts its acknowledged sends by class of latency."""

    key: str
    date: str
    night: str
    started: str
    scenario: str
    scenario_hash: str
    schedule_hash: str
    verdict: str
    as_expected: bool
    reasons: tuple[str, ...]
    anomalies: tuple[str, ...]
    commit: str
    dirty: bool
    machine: str
    machine_name: str
    acknowledged: int
    load_s: float
    figures: Mapping[str, float]
    canaries: Mapping[str, float]
    classes: Mapping[int, int] = field(default_factory=dict)
    mutants: tuple[str, ...] = ()

    @property
    def histogram(self) -> Histogram | None:
        """The latencies in milliseconds; None if none were counted."""
        if not self.classes:
            return None
        values = np.array([class_nanoseconds(one) / 1e6 for one in sorted(self.classes)])
        return Histogram(values, np.array([self.classes[one] for one in sorted(self.classes)], dtype=np.int64))

    @property
    def ending(self) -> str:
        """`as expected`, `violated` (another verdict than the scenario expects), or `unknown`."""
        if self.as_expected:
            return "as expected"
        return "violated" if self.verdict in ("valid", "invalid") else "unknown"


def measured_runs(tables: Mapping[str, Sequence[Row]]) -> list[MeasuredRun]:
    """Return the runs of some rows, the oldest first."""
    of_run = {name: _by_key(tables.get(name, ())) for name in TABLES[1:]}
    found = [_measured(row, {name: rows[row["key"]] for name, rows in of_run.items()}) for row in tables["runs"]]
    return sorted(found, key=lambda one: (one.started, one.key))


def scenario_of(row: Row) -> str:
    """Return the name under which a run is compared: virtual time has figures of its own."""
    scenario = row["scenario"] or ""
    return f"{scenario} (simulation)" if row["world"] == "simulation" else scenario


def _by_key(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["key"]].append(row)
    return found


def _measured(row: Row, rows: Mapping[str, list[Row]]) -> MeasuredRun:
    classes = {
        number: count
        for one in rows["latency"]
        for number, count in zip(one["classes"] or (), one["counts"] or (), strict=True)
        if count > 0
    }
    machine: Row = rows["machines"][0] if rows["machines"] else {}
    return MeasuredRun(
        key=row["key"],
        date=row["date"],
        night=row["night"] or "",
        started=row["started"] or "",
        scenario=scenario_of(row),
        scenario_hash=row["scenario_hash"] or "",
        schedule_hash=row["schedule_hash"] or "",
        verdict=row["verdict"],
        as_expected=bool(row["as_expected"]),
        reasons=tuple(row["reasons"] or ()),
        anomalies=tuple(row["anomalies"] or ()),
        commit=row["commit"] or "",
        dirty=bool(row["dirty"]),
        machine=row["machine"] or "",
        machine_name=machine.get("name") or "",
        acknowledged=row["acknowledged"] or 0,
        load_s=row["load_s"] or 0.0,
        figures=_figures(row, rows, classes),
        canaries={name: float(machine[name]) for name in CANARIES if _is_figure(machine.get(name))},
        classes=classes,
        mutants=tuple(row["mutants"] or ()),
    )


def _figures(row: Row, rows: Mapping[str, list[Row]], classes: Mapping[int, int]) -> dict[str, float]:
    found: dict[str, float | None] = {"check": row["check_s"]}
    for name, metric in METRICS.items():
        if metric.share is not None:
            found[name] = quantile_ms(classes, metric.share)
    if row["load_s"] and row["acknowledged"] is not None:
        found["throughput"] = row["acknowledged"] / row["load_s"]
    outages = [one["longest_outage_s"] for one in rows["partitions"] if one["longest_outage_s"] is not None]
    found["longest-outage"] = max(outages, default=row["longest_outage_s"])
    found["recovery"] = _recovery(rows)
    return {name: float(value) for name, value in found.items() if value is not None and _is_figure(value)}


def _recovery(rows: Mapping[str, list[Row]]) -> float | None:
    """Return the longest recovery; 0 if faults were injected and no outage began while one of them held."""
    recovered = [one["recovered_s"] for one in rows["faults"] if one["recovered_s"] is not None]
    injected = any(one["injected_s"] is not None for one in rows["faults"])
    return max(recovered, default=0.0 if injected and rows["partitions"] else None)


def quantile_ms(classes: Mapping[int, int], share: float) -> float | None:
    """Return a quantile of a histogram; None of an empty one."""
    seconds = quantile_seconds(Counter(classes), share)
    return None if seconds is None else seconds * 1e3


def _is_figure(value: Any) -> bool:
    return value is not None and isfinite(value) and value >= 0

"""Read from a lake what the dashboard needs of each run: one record a run, with its anomalies, faults and latencies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from squall.results.history.manifest import CANARIES
from squall.results.lake.store import Lake
from squall.results.lake.triage import Triage, decisions
from squall.results.regression.measured_run import MeasuredRun, measured_runs, scenario_of

Row = Mapping[str, Any]
UNJUDGED: Final = "none"
LATENCY_COLUMNS: Final = ("key", "p50_s", "p99_s", "p999_s")


@dataclass(frozen=True)
class Anomaly:
    """An anomaly of a run, with its first witness in one line."""

    name: str
    meaning: str
    occurrences: int
    places: tuple[str, ...]
    fingerprint: str
    witness: str
    faults: tuple[str, ...]


@dataclass(frozen=True)
class FaultFacts:
    """A fault of a run: what it struck, in which state of the cluster, and how long it was felt."""

    id: str
    kind: str
    targets: tuple[str, ...]
    role: str
    proven: bool
    evidence: str
    trouble: str
    injected_s: float | None
    healed_s: float | None
    silence_s: float | None
    recovered_s: float | None
    isr: int | None
    elections: int | None


@dataclass(frozen=True)
class Latency:
    """The latencies of acknowledged sends: a histogram that can be added up, and three quantiles of it, in seconds."""

    classes: Sequence[int]
    counts: Sequence[int]
    p50: float | None
    p99: float | None
    p999: float | None


@dataclass(frozen=True)
class MachineSample:
    """What the control node was during a run, and how fast and how quiet."""

    machine: str
    name: str
    processors: int | None
    memory: str
    loop_ms: float | None
    loop_noise: float | None
    sync_ms: float | None
    round_trip_ms: float | None

    @property
    def canaries(self) -> dict[str, float | None]:
        return {name: getattr(self, name) for name in CANARIES}


@dataclass(frozen=True)
class Run:
    """A run. `row` is its row of the table `runs`."""

    row: Row
    anomalies: tuple[Anomaly, ...] = ()
    faults: tuple[FaultFacts, ...] = ()
    latency: Latency | None = None
    machine: MachineSample | None = None

    @property
    def key(self) -> str:
        return str(self.row["key"])

    @property
    def date(self) -> str:
        return str(self.row["date"])

    @property
    def started(self) -> str:
        return self.row["started"] or self.date

    @property
    def scenario(self) -> str:
        return scenario_of(self.row) or "(unnamed)"

    @cached_property
    def measured(self) -> MeasuredRun:
        """The figures by which it is compared, except recovery, which needs its topic-partitions."""
        key, latency, machine = self.row["key"], self.latency, self.machine
        tables: dict[str, list[Row]] = {"runs": [self.row]}
        if latency is not None:
            tables["latency"] = [{"key": key, "classes": latency.classes, "counts": latency.counts}]
        if machine is not None:
            tables["machines"] = [{"key": key, "name": machine.name, **machine.canaries}]
        return measured_runs(tables)[0]

    @property
    def verdict(self) -> str:
        return self.row["verdict"] or UNJUDGED

    @property
    def as_expected(self) -> bool:
        return bool(self.row["as_expected"])

    @property
    def commit(self) -> str:
        return (self.row["commit"] or "") + ("+" if self.row["dirty"] else "")

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self.row["hosts"] or ())

    @property
    def outage_s(self) -> float | None:
        value = self.row["longest_outage_s"]
        return None if value is None else float(value)

    @property
    def seconds(self) -> float:
        """The time of load and check, as far as it is known."""
        return float(self.row["load_s"] or 0) + float(self.row["check_s"] or 0)


@dataclass(frozen=True)
class HostMetric:
    """The samples of a metric of a host, over all runs of a day."""

    date: str
    host: str
    metric: str
    samples: int
    mean: float
    greatest: float


@dataclass(frozen=True)
class LakeFacts:
    """Everything that the dashboard needs of a lake. `runs` are in order of their beginnings."""

    runs: tuple[Run, ...] = ()
    campaigns: tuple[Row, ...] = ()
    benchmarks: tuple[Row, ...] = ()
    host_metrics: tuple[HostMetric, ...] = ()
    nights: tuple[Row, ...] = ()
    mutants: tuple[Row, ...] = ()
    machines: Mapping[str, Row] = field(default_factory=dict)
    """Rows of the table `machines` of benchmarks, by key."""
    decisions: tuple[Triage, ...] = ()
    """What people have decided about change points, the oldest first."""


def read_lake(lake: Lake) -> LakeFacts:
    """Read a lake. Raises LakeTrouble."""
    anomalies = _by_key(lake, "anomalies")
    faults = _by_key(lake, "faults")
    latencies = _latencies(lake)
    machines = _by_key(lake, "machines")
    runs = []
    for row in lake.table("runs").to_pylist():
        key = row["key"]
        runs.append(
            Run(
                row,
                tuple(_anomaly(one) for one in anomalies[key]),
                tuple(_fault(one) for one in faults[key]),
                latencies.get(key),
                next((_machine(one) for one in machines[key]), None),
            )
        )
    benchmarks = _dated(lake, "benchmarks")
    return LakeFacts(
        runs=tuple(sorted(runs, key=lambda one: (one.started, one.key))),
        campaigns=_dated(lake, "campaigns"),
        benchmarks=benchmarks,
        machines={key: machines[key][0] for key in {one["key"] for one in benchmarks} if machines[key]},
        host_metrics=_host_metrics(lake),
        nights=_dated(lake, "nights"),
        mutants=_dated(lake, "mutants"),
        decisions=tuple(decisions(lake.root, lake.say)),
    )


def _by_key(lake: Lake, name: str) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in lake.table(name).to_pylist():
        found[row["key"]].append(row)
    return found


def _dated(lake: Lake, name: str) -> tuple[Row, ...]:
    return tuple(sorted(lake.table(name).to_pylist(), key=lambda row: (row["date"] or "", row["key"])))


def _host_metrics(lake: Lake) -> tuple[HostMetric, ...]:
    table = lake.table("host_samples", columns=["date", "host", "metric", "value"])
    grouped = table.group_by(["date", "host", "metric"]).aggregate(
        [("value", "count"), ("value", "mean"), ("value", "max")]
    )
    rows = sorted(grouped.to_pylist(), key=lambda row: (row["date"], row["host"] or "", row["metric"] or ""))
    return tuple(
        HostMetric(
            row["date"], row["host"] or "", row["metric"] or "", row["value_count"], row["value_mean"], row["value_max"]
        )
        for row in rows
        if row["value_count"]
    )


def _anomaly(row: Row) -> Anomaly:
    return Anomaly(
        name=row["anomaly"] or "",
        meaning=row["meaning"] or "",
        occurrences=row["occurrences"] or 0,
        places=tuple(row["places"] or ()),
        fingerprint=row["fingerprint"] or "",
        witness=row["witness"] or "",
        faults=tuple(row["faults"] or ()),
    )


def _fault(row: Row) -> FaultFacts:
    return FaultFacts(
        id=row["id"] or "",
        kind=row["fault"] or "",
        targets=tuple(row["targets"] or ()),
        role=row["role"] or "",
        proven=bool(row["proven"]),
        evidence=row["evidence"] or "",
        trouble=row["trouble"] or "",
        **{name: row[name] for name in ("injected_s", "healed_s", "silence_s", "recovered_s", "isr", "elections")},
    )


def _latencies(lake: Lake) -> dict[str, Latency]:
    table = lake.table("latency", columns=[*LATENCY_COLUMNS, "operation", "classes", "counts"])
    table = table.filter(pc.equal(table["operation"], "send"))
    keys, *quantiles = (table[name].to_pylist() for name in LATENCY_COLUMNS)
    lists = zip(_lists(table["classes"]), _lists(table["counts"]), *quantiles, strict=True)
    return {key: Latency(*facts) for key, facts in zip(reversed(keys), reversed(list(lists)), strict=True)}


def _lists(column: pa.ChunkedArray) -> list[list[int]]:
    """Return a column of lists, empty where there is none. Converting each number by itself takes ten times as long."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_pylist()
    numbers = pc.list_flatten(column).to_numpy().tolist()
    return [numbers[end - length : end] for length, end in zip(lengths, accumulate(lengths), strict=True)]


def _machine(row: Row) -> MachineSample:
    return MachineSample(
        machine=row["machine"] or "",
        name=row["name"] or "",
        memory=row["memory"] or "",
        **{name: row[name] for name in ("processors", "loop_ms", "loop_noise", "sync_ms", "round_trip_ms")},
    )

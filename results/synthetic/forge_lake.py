"""Forge the rows of thousands of runs: nights of many scenarios, with findings, flakes, trends and regressions.

For tests of everything that works on many runs, and to try dashboards without a cluster. The rows have the form of real
ones; what they claim to be is `forged`. The forge says what it has put in (`Planted`), so that a test can look for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import log
from random import Random
from typing import Any, Final

from squall.results.checkers.kernels.series import CLASS_RATIO, SMALLEST_NS
from squall.results.lake.entry import Entry
from squall.results.lake.histogram import added, quantile_seconds
from squall.results.lake.of_run import fingerprint

SUBJECTS: Final = (
    "leader",
    "follower",
    "controller",
    "broker",
    "quorum",
    "replica",
    "client",
    "disk",
    "clock",
    "network",
)
FAULTS: Final = ("kill", "pause", "isolate", "slow-disk", "clock-skew")
ANOMALIES: Final = {
    "lost_write": "an acknowledged record is in no log",
    "duplicate": "a record stands twice in a log",
    "nonmonotonic_poll": "a consumer was given an earlier record after a later one",
}
LATENCY_CLASSES: Final = 60
SECONDS_OF_LOAD: Final = 60
RUNS_A_NIGHT: Final = 60


@dataclass(frozen=True)
class Planted:
    """What the forge puts into the nights, by night number: 0 is the first."""

    flaky: str = "pause-clock"
    """Unknown in every tenth run, or so, on unchanged code."""
    broken: str = "kill-leader"
    broken_since: int = 20
    mended: str = "isolate-quorum"
    """Invalid until a night, and valid since."""
    mended_since: int = 15
    slower: str = "slow-disk-broker"
    slower_since: int = 25
    slower_by: float = 1.3


@dataclass(frozen=True)
class Night:
    """One night: its number, its day, and the commit that ran in it."""

    number: int
    started: datetime
    commit: str


def scenario_names(number: int) -> list[str]:
    """Return so many names of scenarios, the planted ones among them."""
    names = [f"{fault}-{subject}" for fault in FAULTS for subject in SUBJECTS]
    return [names[one % len(names)] + (f"-{one // len(names)}" if one >= len(names) else "") for one in range(number)]


def forge_runs(
    runs: int,
    *,
    seed: int = 1,
    per_night: int = RUNS_A_NIGHT,
    scenarios: int = 50,
    last: datetime | None = None,
    planted: Planted = Planted(),
) -> Iterator[Entry]:
    """Forge so many runs in nights that end with `last`. Equal arguments give equal rows."""
    last = last or datetime(2026, 11, 24, 1, 0, tzinfo=UTC)
    nights = -(-runs // per_night)
    names = scenario_names(scenarios)
    for number in range(runs):
        night = number // per_night
        started = last - timedelta(days=nights - 1 - night) + timedelta(minutes=number % per_night)
        commit = hashlib.sha1(f"{seed}/{night // 2}".encode(), usedforsecurity=False).hexdigest()
        scenario = names[number % len(names)]
        yield _run(Random(f"{seed}/{number}"), number, scenario, Night(night, started, commit), planted)


def _run(rng: Random, number: int, scenario: str, night: Night, planted: Planted) -> Entry:
    key = f"forged-{number:06}"
    verdict, anomaly, reasons = _verdict(rng, scenario, night.number, planted)
    kinds = [next(fault for fault in FAULTS if scenario.startswith(fault))]
    acknowledged = rng.randint(20_000, 60_000)
    latency = _latency(rng, scenario, night.number, planted)
    faults = [_fault(rng, kinds[0], one) for one in range(rng.randint(1, 4))]
    recorded = (night.started + timedelta(minutes=1)).isoformat(timespec="seconds")
    run = {
        "kind": "forged",
        "started": night.started.isoformat(timespec="seconds"),
        "suite": "suites/nightly.yaml",
        "scenario": scenario,
        "scenario_hash": hashlib.sha256(scenario.encode()).hexdigest(),
        "seed": number,
        "schedule_hash": hashlib.sha256(f"{scenario}/schedule".encode()).hexdigest(),
        "verdict": verdict,
        "expected": "valid",
        "as_expected": verdict == "valid",
        "reasons": reasons,
        "anomalies": [anomaly] if anomaly else [],
        "world": "hosts",
        "commit": night.commit,
        "dirty": False,
        "version": "0.1.0",
        "system": "squall",
        "mutants": [],
        "machine": "f0f0f0f0f0f0",
        "hosts": ["c1", "c2", "c3", "b1", "b2", "b3"],
        "directory": f"/forged/{scenario}/{number}",
        "command": f"squall run suites/nightly.yaml --only {scenario} --seed {number}",
        "load_s": float(SECONDS_OF_LOAD),
        "check_s": round(rng.uniform(0.5, 2.0), 3),
        "acknowledged": acknowledged,
        "sends_info": rng.randint(0, 50),
        "sends_fail": rng.randint(0, 20),
        "polls": acknowledged // 10,
        "records": acknowledged,
        "faults": len(faults),
        "faults_proven": sum(bool(one["proven"]) for one in faults),
        "leader_changes": rng.randint(0, 9),
        "elections": rng.randint(0, 3),
        "longest_outage_s": round(rng.lognormvariate(1.0, 0.4), 3),
        "night": night.started.date().isoformat(),
        "recorded": recorded,
    }
    rows: dict[str, Any] = {
        "runs": [run],
        "anomalies": [_anomaly(scenario, anomaly, kinds, rng)] if anomaly else [],
        "faults": faults,
        "latency": [latency],
        "throughput": _throughput(rng, acknowledged),
        "machines": [_machine(rng)],
    }
    return Entry.of(key, night.started.date().isoformat(), recorded, rows)


def _verdict(rng: Random, scenario: str, night: int, planted: Planted) -> tuple[str, str, list[str]]:
    """Return verdict, anomaly and reasons."""
    if scenario == planted.broken and night >= planted.broken_since:
        return "invalid", "lost_write", []
    if scenario == planted.mended and night < planted.mended_since:
        return "invalid", "duplicate", []
    if scenario == planted.flaky and rng.random() < 0.1:
        return "unknown", "", ["fault pause-1 left no evidence that it took effect"]
    if rng.random() < 0.001:
        return "unknown", "", ["the final read of events-3 did not reach its marker"]
    return "valid", "", []


def _anomaly(scenario: str, anomaly: str, kinds: list[str], rng: Random) -> dict[str, Any]:
    return {
        "anomaly": anomaly,
        "meaning": ANOMALIES[anomaly],
        "occurrences": rng.randint(1, 12),
        "places": [f"events-{rng.randint(0, 7)}"],
        "fingerprint": fingerprint(scenario, anomaly, kinds),
        "witness": f"{anomaly}: value 4·{rng.randint(1, 9999)} at offset {rng.randint(1, 60000)} of events-3",
        "faults": kinds,
    }


def _latency(rng: Random, scenario: str, night: int, planted: Planted) -> dict[str, Any]:
    """Forge latencies around a median of the scenario's own, with noise from night to night."""
    own = Random(scenario)
    median_ns = own.uniform(1e6, 5e6) * rng.lognormvariate(0.0, 0.03)
    if scenario == planted.slower and night >= planted.slower_since:
        median_ns *= planted.slower_by
    middle = int(log(median_ns / SMALLEST_NS) / log(CLASS_RATIO))
    classes = [middle + 4 * one for one in range(-LATENCY_CLASSES // 4, LATENCY_CLASSES * 3 // 4)]
    counts = [max(1, int(8_000 * 0.87 ** abs(one - LATENCY_CLASSES // 4))) for one in range(LATENCY_CLASSES)]
    histogram = added([(classes, counts)])
    shares = {"p50_s": 0.5, "p99_s": 0.99, "p999_s": 0.999, "max_s": 1.0}
    return {
        "operation": "send",
        "operations": sum(counts),
        "classes": classes,
        "counts": counts,
        **{name: quantile_seconds(histogram, share) for name, share in shares.items()},
    }


def _fault(rng: Random, kind: str, number: int) -> dict[str, Any]:
    began = round(5 + 13 * number + rng.random(), 3)
    silence = round(rng.lognormvariate(0.5, 0.5), 3)
    role = rng.choice(("broker", "broker", "controller"))
    return {
        "id": f"{kind}-{number + 1}",
        "fault": kind,
        "targets": [f"{role[0]}{rng.randint(1, 3)}"],
        "role": role,
        "injected_s": began,
        "healed_s": round(began + rng.uniform(2, 8), 3),
        "proven": rng.random() > 0.002,
        "evidence": "forged",
        "silence_s": silence,
        "recovered_s": round(silence + 0.1, 3),
        "isr": rng.choice((1, 2, 2, 3)),
        "elections": rng.choice((0, 1, 1, 2)),
    }


def _throughput(rng: Random, acknowledged: int) -> list[dict[str, Any]]:
    rate = acknowledged // SECONDS_OF_LOAD
    return [
        {"second": float(second), "operation": "send", "outcome": "ok", "operations": int(rate * rng.uniform(0.8, 1.2))}
        for second in range(SECONDS_OF_LOAD)
    ]


def _machine(rng: Random) -> dict[str, Any]:
    return {
        "machine": "f0f0f0f0f0f0",
        "name": "Linux forged x86_64",
        "processors": 2,
        "memory": "23.5 GiB",
        "loop_ms": round(rng.lognormvariate(2.3, 0.03), 3),
        "loop_noise": round(rng.uniform(0.0, 0.1), 3),
        "sync_ms": round(rng.lognormvariate(0.7, 0.1), 3),
        "round_trip_ms": round(rng.lognormvariate(-3.5, 0.1), 4),
    }

"""Forge what a night adds beside its runs: its own row, benchmarks, a campaign, mutants, samples of hosts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from squall.results.lake.entry import Entry

HOSTS: Final = ("c1", "c2", "c3", "b1", "b2", "b3")
SAMPLES_A_HOST: Final = 4
FIGURES: Final = (
    ("broker", "produce, one topic-partition", "MB/s", "higher", 118.0, 90.0, 140.0, 55.0),
    ("broker", "requests of one record", "/s", "higher", 5_600.0, 5_000.0, 9_000.0, 5_300.0),
    ("controller", "failover of 2 000 topic-partitions", "s", "lower", 0.42, 1.0, 0.3, None),
)
MUTANTS: Final = {
    "ack-before-replication": ("leader-kill-lagging", "ACK"),
    "truncate-to-hw": ("two-hop-failover", "LOG"),
    "stale-fetch-appended": ("swarm", "LOG"),
    "vote-twice": ("swarm", "ELECT"),
}
BEHAVIOURS: Final = 1_400


def forge_nights(nights: int, *, seed: int = 1, last: datetime | None = None) -> Iterator[Entry]:
    """Forge so many nights that end with `last`: those of `forge_runs` of the same seed."""
    last = last or datetime(2026, 11, 24, 1, 0, tzinfo=UTC)
    known = 0
    for number in range(nights):
        began = last - timedelta(days=nights - 1 - number)
        rng = Random(f"{seed}/night/{number}")
        commit = hashlib.sha1(f"{seed}/{number // 2}".encode(), usedforsecurity=False).hexdigest()
        new = round((BEHAVIOURS - known) * rng.uniform(0.02, 0.05))
        known += new
        yield _night(rng, number, began, commit, known, new)


def _night(rng: Random, number: int, began: datetime, commit: str, known: int, new: int) -> Entry:
    day = began.date().isoformat()
    started = began.isoformat(timespec="seconds")
    seconds = rng.uniform(4_300, 4_900)
    left_out = [("kitchen-sink-30m", "it does not fit the budget of 90 min")] if number % 3 else []
    common = {"started": started, "commit": commit, "dirty": False, "machine": "f0f0f0f0f0f0", "recorded": started}
    night = {
        "night": day,
        "began": started,
        "seconds": seconds,
        "cost": round(seconds / 3600 * 0.84, 2),
        "currency": "EUR",
        "left_out": [name for name, _ in left_out],
        "left_out_why": [why for _, why in left_out],
    }
    rows: dict[str, list[Any]] = {
        "nights": [night],
        "benchmarks": [_figure(rng, number, *figure) | common | {"ended": True} for figure in FIGURES],
        "campaigns": [_campaign(rng, number, known, new) | common | {"ended": True}],
        "mutants": [_mutant(rng, name, commit) for name in MUTANTS],
        "host_samples": list(_samples(rng)),
    }
    return Entry.of(f"forged-night-{day}", day, started, rows)


def _figure(
    rng: Random,
    number: int,
    benchmark: str,
    figure: str,
    unit: str,
    better: str,
    level: float,
    must: float,
    far: float,
    peer: float | None,
) -> dict[str, Any]:
    level *= 1.12 if number >= 90 and benchmark == "controller" else 1.0
    samples = [level * rng.lognormvariate(0.0, 0.02) for _ in range(5)]
    value = sorted(samples)[2]
    return {
        "benchmark": benchmark,
        "figure": figure,
        "unit": unit,
        "better": better,
        "value": value,
        "samples": samples,
        "must": must,
        "stretch": far,
        "passed": value >= must if better == "higher" else value <= must,
        "command": f"squall bench {benchmark}",
        "peer": None if peer is None else "Another log",
        "peer_value": peer,
    }


def _campaign(rng: Random, number: int, known: int, new: int) -> dict[str, Any]:
    seconds = rng.uniform(580, 620)
    seeds = int(seconds / 60 * rng.uniform(150, 170))
    failed = [number * 10_000 + rng.randrange(seeds)] if rng.random() < 0.03 else []
    return {
        "kind": "simulate",
        "scenario": "swarm",
        "first_seed": number * 10_000,
        "seeds": seeds,
        "valid": seeds - len(failed),
        "invalid": len(failed),
        "unknown": 0,
        "failed_seeds": failed,
        "seconds": seconds,
        "processor_s": seconds * 1.9,
        "simulated_s": seeds * 60.0,
        "behaviours": known,
        "new_behaviours": new,
        "estimated_behaviours": known + (BEHAVIOURS - known) * rng.uniform(0.5, 1.0),
        "command": f"squall simulate swarm --seed {number * 10_000} --seeds {seeds}",
    }


def _mutant(rng: Random, name: str, commit: str) -> dict[str, Any]:
    scenario, invariant = MUTANTS[name]
    caught = 5 if name != "vote-twice" else rng.randint(3, 5)
    return {
        "kind": "documented",
        "mutant": name,
        "scenario": scenario,
        "mode": "simulation",
        "seeds": 5,
        "caught": caught,
        "by": [invariant],
        "twin_valid": 5,
        "passed": caught > 3,
        "commit": commit,
    }


def _samples(rng: Random) -> Iterator[dict[str, Any]]:
    for host in HOSTS:
        busy = 0.45 if host.startswith("b") else 0.08
        for at in range(SAMPLES_A_HOST):
            for metric, value in (
                ("cpu_share", busy * rng.lognormvariate(0.0, 0.1)),
                ("memory_bytes", 3.1e8 * rng.lognormvariate(0.0, 0.03)),
            ):
                yield {"host": host, "second": at * 15.0, "metric": metric, "value": value}

"""Hosts and machines: how often runs on them fail, how fast and how quiet they are, and whether that changed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from squall.results.dashboard.lake_facts import LakeFacts, MachineSample, Run
from squall.results.dashboard.levels import CANARIES, NIGHTS_MAX, canary_of
from squall.results.dashboard.nights import Nights, Outcome, outcome_of
from squall.results.dashboard.series_cache import SeriesCache
from squall.results.trends.alarms import Alarm
from squall.results.trends.binomial import Interval, wilson_interval
from squall.results.trends.change_points import ChangePoint

NIGHTS_SHOWN: Final = 30
NOISY: Final = 0.25
"""From this spread of the canary loop on a machine counts as noisy: slowest over fastest repetition, less 1."""


@dataclass(frozen=True)
class HostFailures:
    """The runs of the last nights that a host took part in, and how they ended."""

    host: str
    runs: int
    outcomes: dict[Outcome, int]
    failures: Interval
    worst_run: Run | None


@dataclass(frozen=True)
class MachineFacts:
    """A machine: its newest sample, and medians over the last nights."""

    sample: MachineSample
    runs: int
    last_seen: str
    loop_ms: float | None
    noise: float | None
    sync_ms: float | None
    round_trip_ms: float | None


@dataclass(frozen=True)
class Canary:
    """A figure that measures the machine and not the system, over nights."""

    name: str
    title: str
    days: tuple[str, ...]
    values: tuple[float | None, ...]
    changes: tuple[ChangePoint, ...]
    alarm: Alarm | None


@dataclass(frozen=True)
class HostSeries:
    """A metric of the hosts, by day: mean of the samples, for each host."""

    metric: str
    days: tuple[str, ...]
    hosts: dict[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class Fleet:
    """Hosts and machines of the last nights."""

    hosts: tuple[HostFailures, ...]
    machines: tuple[MachineFacts, ...]
    canaries: tuple[Canary, ...]
    noise_tonight: float | None
    series: tuple[HostSeries, ...]

    @property
    def alarms(self) -> tuple[Canary, ...]:
        return tuple(one for one in self.canaries if one.alarm is not None)

    @property
    def noisy(self) -> bool:
        return self.noise_tonight is not None and self.noise_tonight >= NOISY


def fleet_of(facts: LakeFacts, nights: Nights, cache: SeriesCache) -> Fleet:
    """Return what is known of hosts and machines."""
    shown = set(nights.last(NIGHTS_SHOWN))
    runs = [one for one in facts.runs if nights.day_of[one.key] in shown]
    tonight = [one for one in runs if nights.day_of[one.key] == nights.tonight]
    return Fleet(
        hosts=_hosts(runs),
        machines=_machines(runs),
        canaries=tuple(_canary(name, title, nights, cache) for name, title in CANARIES.items()),
        noise_tonight=_median(tonight, "loop_noise"),
        series=_series(facts),
    )


def _hosts(runs: Sequence[Run]) -> tuple[HostFailures, ...]:
    by_host: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        for host in run.hosts:
            by_host[host].append(run)
    found = []
    for host, some in by_host.items():
        outcomes: dict[Outcome, int] = {}
        for run in some:
            outcomes[outcome_of(run)] = outcomes.get(outcome_of(run), 0) + 1
        failed = [run for run in some if outcome_of(run) in ("invalid", "unknown")]
        found.append(
            HostFailures(
                host, len(some), outcomes, wilson_interval(len(failed), len(some)), failed[-1] if failed else None
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.failures.low, one.host)))


def _machines(runs: Sequence[Run]) -> tuple[MachineFacts, ...]:
    by_machine: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.machine is not None and run.machine.machine:
            by_machine[run.machine.machine].append(run)
    found = []
    for some in by_machine.values():
        newest = some[-1].machine
        assert newest is not None
        found.append(
            MachineFacts(
                sample=newest,
                runs=len(some),
                last_seen=some[-1].date,
                loop_ms=_median(some, "loop_ms"),
                noise=_median(some, "loop_noise"),
                sync_ms=_median(some, "sync_ms"),
                round_trip_ms=_median(some, "round_trip_ms"),
            )
        )
    return tuple(sorted(found, key=lambda one: one.sample.machine))


def _median(runs: Sequence[Run], name: str) -> float | None:
    values = [
        getattr(one.machine, name) for one in runs if one.machine is not None and getattr(one.machine, name) is not None
    ]
    return median(values) if values else None


def _canary(name: str, title: str, nights: Nights, cache: SeriesCache) -> Canary:
    days = nights.last(NIGHTS_MAX)
    values = canary_of(nights, days, name)
    measured = sum(not math.isnan(one) for one in values)
    known = measured > 1
    return Canary(
        name,
        title,
        days,
        tuple(None if math.isnan(one) else one for one in values),
        cache.change_points(values) if known else (),
        cache.alarm_of_the_last_night(values) if known and not math.isnan(values[-1]) else None,
    )


def _series(facts: LakeFacts) -> tuple[HostSeries, ...]:
    days = sorted({one.date for one in facts.host_metrics})[-NIGHTS_SHOWN:]
    by_metric: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for one in facts.host_metrics:
        by_metric[one.metric][one.host][one.date] = one.mean
    return tuple(
        HostSeries(
            metric, tuple(days), {host: tuple(at.get(day) for day in days) for host, at in sorted(hosts.items())}
        )
        for metric, hosts in sorted(by_metric.items())
    )

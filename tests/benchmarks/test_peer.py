"""Comparing with Apache Kafka: ratios are taken the right way round, and both systems have all figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from squall.benchmarks import peer
from squall.benchmarks.parts.alternation import Sampled
from squall.benchmarks.parts.measurement import Measurement
from squall.benchmarks.parts.producing import LatencySample, Sample
from squall.benchmarks.parts.recovery import KINDS, Recovery


def by_name(figures: list[Measurement]) -> dict[str, Measurement]:
    return {one.name.strip(): one for one in figures}


@pytest.mark.parametrize(
    ("ours", "theirs", "higher", "passed", "stretched"),
    [
        (95.0, 100.0, True, True, True),
        (40.0, 100.0, True, False, False),
        (1.9, 1.0, False, True, False),
        (2.1, 1.0, False, False, False),
    ],
)
def test_our_share_of_kafkas_median_decides(
    ours: float, theirs: float, higher: bool, passed: bool, stretched: bool
) -> None:
    bars = peer.Bars(0.5, 0.9) if higher else peer.Bars(2, 1.2)
    mine = [ours, ours, 1000.0]
    figures = by_name(peer.compared("speed", "x", mine, [theirs, theirs, 0.0001], bars, higher=higher))
    ratio = figures["ours / Kafka"]
    assert ratio.measured == pytest.approx(ours / theirs)
    assert (ratio.passed, ratio.stretched) == (passed, stretched)
    found = figures["speed"]
    assert (found.measured, found.samples, found.higher_is_better) == (ours, tuple(mine), higher)
    assert found.peer is not None and (found.peer.name, found.peer.value) == (peer.KAFKA, theirs)
    assert figures[peer.KAFKA].samples == (theirs, theirs, 0.0001)


def test_speed_stands_beside_processor_time_spread_and_warm_ups() -> None:
    mine = Sampled((Sample(300, 300_000, 4), Sample(200, 200_000, 5), Sample(100, 100_000, 6)), 4, steady=True)
    other = Sampled((Sample(50, 50_000, 20),) * 3, 15, steady=False)
    figures = by_name(peer.filled_figures(peer.FILLED[0], mine, other))
    assert figures["produce, one replica"].measured == 200
    assert figures["ours / Kafka"].measured == 4
    cost = figures["processor time of the three brokers, each GB"]
    assert (cost.measured, cost.peer and cost.peer.value, cost.unit) == (5, 20, "s/GB")
    assert figures["processor time, ours / Kafka"].measured == 0.25
    assert figures["run-to-run spread, ours"].measured == pytest.approx(50)
    assert figures["run-to-run spread, Kafka"].measured == 0
    assert figures["samples to warm up, ours"].measured == 4
    assert figures["samples to warm up, Kafka, never steady"].measured == 15


def test_tails_are_those_of_all_samples_together() -> None:
    mine = Sampled((LatencySample((1.0,) * 499 + (90.0,), 0.1), LatencySample((2.0,) * 500, 0.1)), 3, steady=True)
    other = Sampled((LatencySample((4.0,) * 500, 0.2),) * 2, 3, steady=True)
    figures = by_name(peer.latency_figures("one replica", mine, other))
    at = "single records at 100/s, one replica"
    assert [figures[f"{at}, {name}"].measured for name in ("p50", "p99", "p99.9")] == [1.5, 2.0, 2.0]
    assert figures["ours / Kafka"].measured == pytest.approx(1.5 / 4)
    worse = Sampled((LatencySample((1.0,) * 498 + (90.0,) * 2, 0.1),) * 2, 3, steady=True)
    assert by_name(peer.latency_figures("x", worse, other))["single records at 100/s, x, p99.9"].measured == 90.0


def test_of_each_fault_the_median_of_gap_outage_and_recovery_is_compared() -> None:
    mine = [Recovery(1, 2, 3), Recovery(9, 9, 9), Recovery(2, 3, 4)]
    figures = peer.recovery_figures(KINDS[0], mine, [Recovery(5, 6, 7)] * 3)
    assert [(one.name.partition(", ")[2], one.measured, one.peer and one.peer.value) for one in figures] == [
        ("failover", 2, 5),
        ("longest outage", 3, 6),
        ("recovery", 4, 7),
    ]


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_figures_of_both_systems_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    small = [replace(row, records=2000) for row in peer.FILLED]
    monkeypatch.setattr(peer, "FILLED", tuple(small))
    monkeypatch.setattr(peer, "SINGLE_RECORDS", 50)
    monkeypatch.setattr(peer, "FAULTS", 1)
    figures = [one for one in peer.run() if one.peer is not None]
    assert all(one.measured > 0 and one.peer is not None and one.peer.value > 0 for one in figures)
    names = [one.name for one in figures]
    for row in peer.FILLED:
        assert row.name in names
    for kind in KINDS:
        assert {f"{kind}, {part}" for part in ("failover", "longest outage", "recovery")} <= set(names)

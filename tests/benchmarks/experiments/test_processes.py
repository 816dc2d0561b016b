"""Experiments on processes: what observers note of a commit, and how restarts are compared (HX-14, SN-07, HX-16)."""

from __future__ import annotations

import asyncio
from xml.etree import ElementTree

import pytest

from squall.benchmarks.experiments import brokers, restart
from squall.benchmarks.experiments.brokers import FanOut, figures, growth
from squall.benchmarks.experiments.parts.observers import Observers
from squall.benchmarks.experiments.restart import Restarts, compared
from squall.harness.loopback.loopback import Cluster


def test_observers_hear_of_each_commit_once_it_is_committed() -> None:
    """HX-14: each of them, every time, and none before the write was sent."""

    async def course(cluster: Cluster) -> tuple[list[FanOut], Observers]:
        scene = brokers.Scene(cluster)
        try:
            await scene.start()
            found = [await scene.measure(number, 2) for number in (3, 10)]
            assert scene.observers is not None
            return found, scene.observers
        finally:
            await scene.close()

    with Cluster(brokers=0, controllers=1, properties=brokers.QUIET) as cluster:
        (few, many), observers = asyncio.run(course(cluster))
    assert (len(few.lags), len(many.lags)) == (6, 20)
    assert all(lag > 0 for lag in few.lags + many.lags)
    assert observers.have_heard and observers.are_even


def test_the_last_observer_decides_and_the_chart_has_a_line_for_each_number() -> None:
    late = FanOut(5_000, answered=[0.1], lags=[0.5, 1.0, 9.5], last=[9.5])
    found = list(figures(late))
    assert [one.name for one in found if not one.passed] == ["5000 observers: heard by the last"]
    drawn = ElementTree.fromstring(brokers.pictures(found)["brokers"])
    assert "5000 observers" in "".join(drawn.itertext())


def test_the_fan_out_may_grow_with_the_number_of_observers_and_not_faster() -> None:
    """HX-14."""
    few = FanOut(1_000, last=[1.0, 1.2, 9.0])
    assert growth(few, FanOut(5_000, last=[6.0])).measured == pytest.approx(1)
    assert growth(few, FanOut(5_000, last=[8.9])).passed
    assert not growth(few, FanOut(5_000, last=[9.1])).passed


def restarts(*seconds: float) -> Restarts:
    return Restarts([1, 2], {role: list(seconds) for role in restart.ROLES})


def test_snapshots_have_to_shorten_the_restart_with_the_longest_log() -> None:
    """SN-07."""
    assert all(one.passed for one in compared(restarts(1.0, 5.0), restarts(1.0, 1.2), enforced=True))
    missed = [one.name for one in compared(restarts(1.0, 5.0), restarts(1.0, 5.5), enforced=True) if not one.passed]
    assert len(missed) == len(restart.ROLES) + 1
    assert all(one.passed for one in compared(restarts(1.0, 5.0), restarts(1.0, 5.5), enforced=False))


@pytest.mark.full
@pytest.mark.parametrize("module", [brokers, restart], ids=lambda one: one.__name__.rsplit(".")[-1])
def test_the_short_form_measures_everything(module: object) -> None:
    found = list(module.run(short=True))  # type: ignore[attr-defined]
    assert all(one.passed for one in found), [one for one in found if not one.passed]
    assert module.pictures(found)  # type: ignore[attr-defined]

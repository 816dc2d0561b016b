"""PP-01: the pull strategy reconciles in fewer rounds than push, which steps back record by record."""

from __future__ import annotations

from xml.etree import ElementTree

from squall.benchmarks.experiments.reconciliation import ARMS, DIVERGENCES, pictures, random_histories, reconciled
from squall.benchmarks.parts.measurement import Measurement


def test_round_trips_are_those_expected_of_each_strategy() -> None:
    for divergence in DIVERGENCES:
        if divergence.expected[0] <= 101:
            counted = tuple(reconciled(divergence, variant).round_trips for variant in ARMS.values())
            assert counted == divergence.expected, divergence.name


def test_pull_pays_one_announcement_that_push_does_not() -> None:
    """PP-03: push announces its leader by the first AppendEntries."""
    assert [reconciled(DIVERGENCES[1], variant).announcements for variant in ARMS.values()] == [0, 0, 1]


def test_random_histories_reconcile_and_pull_needs_the_fewest_rounds() -> None:
    found = {one.name: one for one in random_histories(8)}
    assert found["pull over push with a hint, random histories"].passed
    assert found["push over pull, random histories"].passed


def test_the_chart_is_an_svg_with_bars_for_each_strategy() -> None:
    figures = [Measurement(f"{one.name}: {arm}", 3.0, "") for one in DIVERGENCES for arm in ARMS]
    drawn = ElementTree.fromstring(pictures(figures)["reconciliation"])
    assert len([one for one in drawn.iter() if "chart-bar" in one.get("class", "")]) == len(ARMS)

"""The jitter of a shaped link: its distributions mean what they mean on hosts, and its draws stay what they were."""

from __future__ import annotations

from random import Random
from statistics import mean

import pytest

from squall.harness.simulation.world.links import Shape, ShapedLink

JITTER = 50_000


def late(shape: Shape, count: int = 20_000) -> list[int]:
    """By how much each of so many messages is late."""
    link, rng = ShapedLink(), Random(1)
    link.add("f1", shape)
    return [link.passing(0, 100, rng) for _ in range(count)]


@pytest.mark.parametrize(
    ("distribution", "most"), [("uniform", JITTER), ("normal", 3 * JITTER), ("pareto", 10 * JITTER)]
)
def test_jitter_is_half_of_it_in_the_mean_whatever_its_distribution(distribution: str, most: int) -> None:
    drawn = late(Shape(delay=1_000, jitter=JITTER, distribution=distribution))
    assert mean(drawn) == pytest.approx(1_000 + JITTER / 2, rel=0.15)
    assert min(drawn) >= 1_000 and max(drawn) <= 1_000 + most


def test_uniform_jitter_draws_what_it_always_drew() -> None:
    rng = Random(1)
    assert late(Shape(jitter=JITTER), 5) == [int(rng.random() * JITTER) for _ in range(5)]


def test_what_is_printed_of_a_shape_is_what_kept_digests_have_of_it() -> None:
    assert str(Shape(1, 2, 0.5, 3)) == "Shape(delay=1, jitter=2, loss=0.5, rate=3)"

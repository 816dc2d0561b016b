"""What `squall simulate` tells while it runs where no bar can be drawn."""

from __future__ import annotations

from squall.harness.simulation.command import tenths


def test_a_long_simulation_tells_every_tenth_of_its_seeds_and_a_short_one_nothing() -> None:
    assert tenths(2000) == {200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800}
    assert tenths(20) == set()

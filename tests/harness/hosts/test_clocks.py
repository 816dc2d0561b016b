"""Readings of another machine's clock: the truth always lies within them."""

from __future__ import annotations

import random

from squall.harness.hosts.clocks import LARGEST_DRIFT, ClockReading

SECOND = 1_000_000_000


def contains(reading: ClockReading, offset: float) -> bool:
    return abs(reading.offset - offset) <= reading.error


def test_an_offset_lies_within_its_error_wherever_in_the_exchange() -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for _ in range(500):
        offset, asked = chance.randint(-SECOND, SECOND), chance.randint(0, SECOND)
        answered = asked + chance.randint(0, 1000)
        theirs = chance.randint(asked, answered) - offset
        assert contains(ClockReading.of_exchange(asked, theirs, answered), offset), f"seed {seed}"


def test_a_quick_exchange_tells_more_than_a_slow_one() -> None:
    quick, slow = ClockReading.of_exchange(0, 0, 100), ClockReading.of_exchange(0, 0, 1000)
    assert quick.error < slow.error


def test_two_readings_together_hold_for_all_that_lies_between_them() -> None:
    before, after = ClockReading(100, 5, 0), ClockReading(140, 7, 60 * SECOND)
    both = before.and_later(after)
    assert all(contains(both, offset) for offset in (95, 105, 120, 133, 147))
    assert both.error <= 27 and both.taken == after.taken


def test_a_reading_is_trusted_less_the_longer_ago_it_was() -> None:
    reading = ClockReading(100, 5, 10 * SECOND)
    assert reading.until(10 * SECOND) == reading
    assert reading.until(12 * SECOND).error == 5 + 2 * SECOND * LARGEST_DRIFT

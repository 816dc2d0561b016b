"""Times of requests and idleness: rings of what came last, sums of everything."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from squall.nodes.node.timings import IDLE_WINDOW, KEPT, ApiTimes, IdleMeter, Recent, api_name, quantile
from squall.nodes.protocol.messages import ApiKey

SECOND = 1_000_000


@given(st.lists(st.integers(0, 10**9), max_size=3 * KEPT))
def test_a_ring_keeps_what_came_last_and_counts_all(values: list[int]) -> None:
    recent = Recent()
    for value in values:
        recent.add(value)
    assert recent.values() == sorted(values[-KEPT:])
    assert (recent.count, recent.total) == (len(values), sum(values))


def test_the_times_of_an_api_are_sorted_each_for_itself() -> None:
    times = ApiTimes()
    times.add(5, 10, 0, 15)
    times.add(1, 20, 100, 121)
    assert times.values() == ([1, 5], [10, 20], [0, 100], [15, 121])
    assert (times.count, times.queue, times.local, times.remote, times.total) == (2, 6, 30, 100, 136)


def test_a_quantile_is_a_value_that_was_measured() -> None:
    assert quantile(range(1, 101), 0.99) == 99
    assert quantile(range(1, 101), 1) == 100
    assert quantile([7], 0.5) == 7
    assert math.isnan(quantile([], 0.5))


def test_idleness_is_the_share_not_worked_since_the_start() -> None:
    meter = IdleMeter(0, 0)
    assert meter.read(4 * SECOND, SECOND) == 0.75


def test_idleness_forgets_what_is_longer_ago_than_its_window() -> None:
    """A busy start, then rest: a minute later only the rest is told of."""
    meter = IdleMeter(0, 0)
    busy = 10 * SECOND
    for now in range(10 * SECOND, IDLE_WINDOW + 20 * SECOND, 5 * SECOND):
        meter.read(now, busy)
    assert meter.read(IDLE_WINDOW + 20 * SECOND, busy) == 1.0


def test_idleness_is_a_share_even_if_clocks_disagree() -> None:
    meter = IdleMeter(0, 0)
    assert meter.read(SECOND, 2 * SECOND) == 0.0
    assert IdleMeter(5, 0).read(5, 0) == 1.0


def test_apis_have_the_names_of_kafka() -> None:
    assert api_name(ApiKey.BROKER_HEARTBEAT) == "BrokerHeartbeat"
    assert api_name(ApiKey.PRODUCE) == "Produce"

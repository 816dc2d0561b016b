"""The benchmark of transactions, small: what it forges is judged, and what it tells has its bar."""

from __future__ import annotations

from squall.benchmarks.transactions import MUST_PER_S, OPEN_AT_ONCE, per_second, run
from squall.results.synthetic.forge_transactions import healthy_table


def test_every_run_is_told_in_both_kinds_of_time() -> None:
    rates, processor = per_second(healthy_table(1, 2_000), runs=3)
    assert len(rates) == len(processor) == 3
    assert all(rate > 0 for rate in (*rates, *processor))


def test_only_the_time_that_passed_has_a_bar() -> None:
    found = list(run(1_000))
    assert len(found) == 2 * len(OPEN_AT_ONCE)
    assert [one.must for one in found] == [MUST_PER_S, None] * len(OPEN_AT_ONCE)

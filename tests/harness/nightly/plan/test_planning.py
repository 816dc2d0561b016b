"""What a night chooses, what it leaves out and why, and how it is distributed."""

from __future__ import annotations

import pytest

from squall.harness.errors import UsageError
from squall.harness.nightly.plan.planning import Budget, Candidate, Past, choose, value_of
from squall.harness.nightly.plan.sharding import distributed, fingerprint_of, makespan, parse_shard
from tests.harness.nightly.nights import item

KNOWN = Past(runs=5, days=1, seconds=60)


def candidate(name: str, past: Past = KNOWN) -> Candidate:
    return Candidate(item(name), past)


def test_never_run_comes_before_failed_before_long_ago_before_yesterday() -> None:
    candidates = [
        candidate("yesterday"),
        candidate("long ago", Past(runs=5, days=20, seconds=60)),
        candidate("failed", Past(runs=5, days=1, failed=True, findings=1, seconds=60)),
        candidate("new", Past()),
    ]
    plan = choose(candidates, Budget())
    assert [one.item.id for one in plan.chosen] == ["failed", "new", "long ago", "yesterday"]
    assert plan.chosen[0].why == "last run not as expected, an open finding, last run 1 days ago"


def test_of_two_equal_ones_the_cheaper_comes_first() -> None:
    cheap, dear = candidate("z", Past(runs=1, days=1, seconds=5)), candidate("a", Past(runs=1, days=1, seconds=500))
    assert [one.item.id for one in choose([dear, cheap], Budget()).chosen] == ["z", "a"]


def test_what_does_not_fit_is_left_out_with_its_reason_and_cheaper_ones_still_fit() -> None:
    candidates = [
        candidate("big", Past(runs=1, days=1, failed=True, seconds=900)),
        candidate("small", Past(runs=1, days=1, seconds=100)),
        candidate("mid", Past(runs=1, days=1, seconds=150)),
    ]
    plan = choose(candidates, Budget(seconds=1200, reserve_s=100))
    assert [one.item.id for one in plan.chosen] == ["big", "small"]
    (left,) = plan.left_out
    assert left.item.id == "mid" and left.why == "takes about 150 s, 100 s of 1200 s were left; last run 1 days ago"
    assert plan.seconds == 1100


def test_money_limits_the_time_by_the_price_of_an_hour() -> None:
    budget = Budget(seconds=36_000, money=1.0, price_per_hour=10.0)
    assert budget.limit_s == 360 and budget.cost(360) == 1.0
    assert Budget(money=1.0).limit_s is None
    assert [one.item.id for one in choose([candidate("a", Past(seconds=400))], budget).left_out] == ["a"]


def test_two_clusters_have_room_for_twice_as_much() -> None:
    candidates = [candidate(name, Past(runs=1, seconds=60)) for name in "abcd"]
    assert len(choose(candidates, Budget(seconds=125), 1).chosen) == 2
    assert len(choose(candidates, Budget(seconds=125), 2).chosen) == 4


def test_the_value_of_an_item_does_not_grow_for_ever() -> None:
    old, older = Past(runs=1, days=30, seconds=60), Past(runs=1, days=300, seconds=60)
    assert value_of(candidate("a", old))[0] == value_of(candidate("a", older))[0]


def test_the_longest_go_first_to_where_the_least_is_to_do() -> None:
    seconds = {"a": 10.0, "b": 9.0, "c": 8.0, "d": 7.0, "e": 2.0}
    assert distributed(seconds, 2) == [["a", "d", "e"], ["b", "c"]]
    assert makespan(list(seconds.values()), 2) == 19


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_shards_are_disjoint_and_complete_in_whatever_order_items_come(parts: int) -> None:
    seconds = {f"s{number}": float(number % 5) for number in range(20)}
    shares = distributed(seconds, parts)
    assert sorted(name for share in shares for name in share) == sorted(seconds)
    assert fingerprint_of(distributed(dict(reversed(seconds.items())), parts)) == fingerprint_of(shares)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "-1/2", "1/0"])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write 2/3"):
        parse_shard(text)


def test_a_shard_is_a_number_of_a_total() -> None:
    assert parse_shard("2/3") == (2, 3)

"""How tasks are shared out: all of them, the large ones first, and small neighbours together."""

from __future__ import annotations

from squall.results.checkers.engine.schedule import TASK_ROWS, bundles

LARGE = 100 * TASK_ROWS


def test_each_task_is_in_one_bundle_and_they_are_not_many() -> None:
    sizes = [(7 * number) % 50 * TASK_ROWS for number in range(1_000)]
    shares = bundles(sizes, [False] * 1_000, 32)
    assert sorted(one for share in shares for one in share) == list(range(1_000))
    assert 32 <= len(shares) <= 65
    assert bundles([], [], 32) == []


def test_what_is_large_is_begun_first_and_by_itself() -> None:
    sizes = [0] * 50 + [LARGE] + [0] * 50 + [2 * LARGE]
    first, second, *others = bundles(sizes, [False] * len(sizes), 8)
    assert (first, second) == ([101], [50])
    assert others == [list(range(50)), list(range(51, 101))]


def test_what_must_be_known_before_anything_counts_is_begun_before_all_else() -> None:
    sizes = [LARGE, 0, 2 * LARGE, LARGE]
    hurried = [False, False, False, True]
    assert bundles(sizes, hurried, 8)[0] == [3]
    assert bundles(sizes, [False] * 4, 8)[0] == [2]

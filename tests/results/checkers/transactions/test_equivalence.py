"""The graph of dependencies against a search through all serial orders: they must agree on every small history."""

from __future__ import annotations

import random

import pytest

from squall.results.checkers.transactions.list_append import check_list_append, verdict_of
from squall.results.synthetic.forge_transactions import table_of
from tests.results.checkers.transactions.oracle import MODELS, random_history, serializable

A_FEW = 800
MANY = 100_000


def agree(seeds: range) -> dict[bool, int]:
    """Compare all models on a history per seed; how many were strictly serializable and how many not."""
    seen = {True: 0, False: 0}
    for seed in seeds:
        history = random_history(random.Random(seed))
        result = check_list_append(table_of(history))
        rushed = check_list_append(table_of(history), seconds=-1.0)
        for model, before in MODELS.items():
            expected = serializable(history, before)
            found = verdict_of(result, model)
            assert (found != "invalid") == expected, (
                f"seed {seed}: the search says {model}: {expected}, the check {result.anomalies}: {history}"
            )
            assert verdict_of(rushed, model) != ("valid" if not expected else "invalid"), (
                f"seed {seed}: without time the check says of {model} what is wrong: {rushed.anomalies}: {history}"
            )
        seen[expected] += 1
    return seen


def test_the_graph_agrees_with_a_search_through_all_serial_orders() -> None:
    seen = agree(range(A_FEW))
    assert min(seen.values()) > A_FEW // 5, f"{seen}: too lopsided to mean much"


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(10))
def test_the_graph_agrees_with_the_search_on_many_histories(part: int) -> None:
    size = MANY // 10
    first = A_FEW + part * size
    assert min(agree(range(first, first + size)).values()) > size // 5

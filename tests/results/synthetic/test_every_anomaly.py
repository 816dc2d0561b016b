"""Every anomaly that can be forged, in many healthy histories, is found by its name; clean and nearly bad ones are not.

One row per injection. The full table (60 seeds each, 1 000 clean runs of each kind) is printed by
`squall forge --verify`, and by

    pytest -s -m full tests/results/synthetic/test_every_anomaly.py
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.synthetic.forge_catalogue import FAMILIES, Case, Found
from squall.results.synthetic.forge_verify import Question, answered, questions, verified

A_FEW, MANY = 3, 60
CLEAN, MANY_CLEAN = 20, 1_000

EACH = [(kind, one.name) for kind, family in FAMILIES.items() for one in family.injections]
EACH_NEAR_MISS = [(kind, one.name) for kind, family in FAMILIES.items() for one in family.near_misses]


def test_every_anomaly_of_the_registry_can_be_forged() -> None:
    forged = {one.anomaly for family in FAMILIES.values() for one in family.injections}
    assert forged == set(ANOMALIES)
    assert len(forged) >= 24


@pytest.mark.parametrize(("kind", "name"), EACH)
def test_an_injected_anomaly_is_found_by_its_name(kind: str, name: str) -> None:
    row = answered(Question(kind, name, A_FEW))
    assert row.is_right, row


@pytest.mark.parametrize(("kind", "name"), EACH_NEAR_MISS)
def test_a_near_miss_raises_nothing(kind: str, name: str) -> None:
    row = answered(Question(kind, name, A_FEW))
    assert row.is_right, row


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_clean_history_raises_nothing(kind: str) -> None:
    row = answered(Question(kind, None, CLEAN))
    assert row.is_right, row


@pytest.mark.parametrize(
    ("case", "found"),
    [
        (Case("lost", "lost_write", lambda seed: seed, lambda seed, _: seed), {}),
        (Case("lost", "lost_write", lambda seed: seed, lambda seed, _: seed), {"phantom": 1}),
        (Case("lost", "lost_write", lambda seed: seed, lambda seed, _: seed), {"lost_write": 1, "phantom": 1}),
        (Case("near", None, lambda seed: seed, lambda seed, _: seed), {"lost_write": 1}),
    ],
)
def test_a_check_that_misses_or_cries_wolf_fails_its_row(
    monkeypatch: pytest.MonkeyPatch, case: Case, found: Found
) -> None:
    """The table can fail: the anomaly is missed, taken for another, or something is flagged besides."""
    look: Callable[[Any], Found] = lambda history: found if history == 1 else {"lost_write": 1} if case.anomaly else {}  # noqa: E731
    monkeypatch.setitem(FAMILIES, "log", replace(FAMILIES["log"], cases=(case,), found=look, exact=True))  # type: ignore[arg-type]
    row = answered(Question("log", case.name, 3))
    assert (row.right, row.first_wrong, row.is_right) == (2, 1, False)
    assert row.said.total() == 1


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_full_table() -> None:
    wrong = []
    for row in verified(questions(MANY, MANY_CLEAN), os.cpu_count() or 1):
        print(f"{row.kind:18} {row.case:66} {row.expected or 'nothing':26} {row.right:4} of {row.seeds} right")
        if not row.is_right:
            wrong.append(row)
    assert not wrong

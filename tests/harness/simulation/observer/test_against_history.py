"""The page that holds the observer against the history knows every invariant and names anomalies that exist (HX-06)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.results.checkers.anomalies import ANOMALIES

ROOT = Path(__file__).resolve().parents[4]
OBSERVER = ROOT / "harness" / "simulation" / "observer"
PAGE = ROOT / "docs" / "observer-and-history.md"
LAWS = ROOT / "results" / "checkers" / "replicas" / "metadata_laws.py"
"""Laws that the observer and the history's checks share."""
INVARIANTS = ROOT / "docs" / "simulation.md"


RAISED = ("InvariantBroken", "Breach")


def names_in(source: str) -> Iterator[str]:
    """The invariants whose breach this source raises: the first argument of each `InvariantBroken` or `Breach`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RAISED:
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


BROKEN = sorted(
    {name for path in (*OBSERVER.rglob("*.py"), LAWS) for name in names_in(path.read_text(encoding="utf-8"))}
)
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| Invariant")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}


def test_the_observer_raises_the_invariants_that_one_expects() -> None:
    assert {"ACK", "ELECT", "DP-05", "DP-13", "SN-03"} <= set(BROKEN)


@pytest.mark.parametrize("name", BROKEN)
def test_every_invariant_has_a_row_and_stands_among_what_is_asserted(name: str) -> None:
    assert name in ROWS
    assert f"\n| {name} | " in INVARIANTS.read_text(encoding="utf-8")


def test_no_row_is_about_an_invariant_that_there_is_not() -> None:
    assert set(ROWS) == set(BROKEN)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_names_anomalies_that_exist_or_says_why_there_are_none(name: str) -> None:
    anomalies, why = ROWS[name]
    named = re.findall(r"`([^`]+)`", anomalies)
    assert set(named) <= set(ANOMALIES)
    assert named or len(why) > 40

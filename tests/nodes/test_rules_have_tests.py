"""Every rule of the data plane and of its elections is quoted by a test of its own.

The rules are the numbered ones that docstrings throughout `nodes` refer to ("rule 13"), here in a line each. A test
quotes a rule in its own docstring or in that of its class; a module that names a range of rules proves nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent

RULES = {
    1: "what a batch must be to be taken",
    2: "acks=all needs min ISR, before the append and after",
    3: "acks=all completes at the high watermark; answers in request order; acks=0 has none",
    4: "a leader stamps its epoch; every epoch seen enters the epoch cache",
    5: "a batch sent again is answered with the offset it has",
    6: "producer epochs and sequences",
    7: "a duplicate waits too; producer state follows the log",
    8: "producer ids are globally unique",
    9: "a new leader records its epoch first; older partition epochs are ignored",
    10: "a fetch at an offset proves what is below it; the high watermark, and its freeze below min ISR",
    11: "followers' high watermark; a new leader does not tell the end before it knows it",
    12: "every request is fenced by leader epoch",
    13: "divergence is found by epochs and cut in rounds",
    14: "truncation removes epochs, even where it cuts nothing",
    15: "a follower out of range cuts to the leader's end, or begins at its start",
    16: "what ends a long poll",
    17: "recovery after an unclean stop",
    18: "reading from followers",
    19: "who joins the ISR and who leaves it",
    20: "one ISR change at a time, counted whichever way it ends",
    21: "what the controller's answers to an ISR change mean",
    22: "what the controller checks of an ISR change, in order",
    23: "partition epochs and leader epochs",
    27: "who is elected",
    28: "eligible leader replicas",
    29: "reassignment",
    31: "a broker that is cut off keeps serving, and harms nobody",
}

_QUOTE = re.compile(r"\brules? (\d+(?:(?:, | and | to |, and )\d+)*)", re.IGNORECASE)


def quoted(text: str) -> set[int]:
    """The rules a text names: `rule 3`, `rules 1, 2 and 5`, `rules 10 to 16`."""
    found: set[int] = set()
    for match in _QUOTE.finditer(text):
        numbers = [int(number) for number in re.findall(r"\d+", match[1])]
        found.update(numbers)
        if " to " in match[1]:
            found.update(range(numbers[-2], numbers[-1]))
    return found


def documented(body: list[ast.stmt], above: str = "") -> Iterator[tuple[str, str]]:
    """(name, docstring with that of its class) of every test."""
    for item in body:
        if isinstance(item, ast.ClassDef):
            yield from documented(item.body, ast.get_docstring(item) or "")
        elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name.startswith("test_"):
            yield item.name, f"{above}\n{ast.get_docstring(item) or ''}"


@pytest.fixture(scope="module")
def tests_by_rule() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if path == Path(__file__).resolve():
            continue
        for name, text in documented(ast.parse(path.read_text()).body):
            for rule in sorted(quoted(text)):
                found.setdefault(rule, []).append(f"{path.relative_to(TESTS)}::{name}")
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"rule {rule}")
def test_a_rule_is_quoted_by_a_test(tests_by_rule: dict[int, list[str]], rule: int) -> None:
    assert tests_by_rule.get(rule), f"no test quotes rule {rule}: {RULES[rule]}"


def test_quotations_are_understood() -> None:
    assert quoted("DP-06, rule 3.") == {3}
    assert quoted("Rules 1, 2 and 5; rules 10 to 13") == {1, 2, 5, 10, 11, 12, 13}
    assert quoted("a ruler 7, no rule") == set()

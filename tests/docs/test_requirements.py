"""docs/requirements.md says of each id what there is of it; what it calls built is quoted in a test."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "requirements.md"
PREFIXES = "DP|QC|SN|MD|BL|FD|CS|IS|EP|RA|EL|CL|ZK|FM|PP|DA|HX"
ID = re.compile(rf"\b(?:{PREFIXES})-\d\d\b")
ROW = re.compile(rf"^\| ((?:{PREFIXES})-\d\d) \| (.+) \| (built|partly: .+|not: .+) \|$", re.MULTILINE)
LISTED = re.compile(rf"^\| ((?:{PREFIXES})-\d\d) \|", re.MULTILINE)
RANGE = re.compile(rf"\b({PREFIXES})-(\d\d) to (?:{PREFIXES})-(\d\d)\b")
CODE = ("nodes", "harness", "nemesis", "workloads", "results", "benchmarks", "tests")


def quoted_in(text: str) -> set[str]:
    """Ids that a text names, by themselves or within `CS-01 to CS-06`."""
    found = set(ID.findall(text))
    for prefix, first, last in RANGE.findall(text):
        found |= {f"{prefix}-{number:02d}" for number in range(int(first), int(last) + 1)}
    return found


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def sources(*rooms: str) -> str:
    """All Python of some rooms, but for this file."""
    found = (path for room in rooms for path in sorted((ROOT / room).rglob("*.py")))
    return "\n".join(path.read_text(encoding="utf-8") for path in found if path != Path(__file__).resolve())


def test_every_requirement_is_there_once_with_its_state(page: str) -> None:
    rows = [one[0] for one in ROW.findall(page)]
    assert rows == LISTED.findall(page), "a row without a state: built, or `partly: why`, or `not: why`"
    assert [one for one, count in Counter(rows).items() if count > 1] == []
    assert len(rows) == 177


def test_what_is_built_is_quoted_in_a_test(page: str) -> None:
    quoted = quoted_in(sources("tests"))
    assert [one for one, _, state in ROW.findall(page) if state == "built" and one not in quoted] == []


def test_what_is_said_to_be_unquoted_is_quoted_nowhere(page: str) -> None:
    """Whoever writes that test moves the id on."""
    quoted = quoted_in(sources("tests"))
    stale = [one for one, _, state in ROW.findall(page) if "no test quotes it" in state and one in quoted]
    assert stale == [], "a test quotes it now: say `built` there if nothing else is missing"


def test_every_id_rule_and_reading_that_code_quotes_is_defined(page: str) -> None:
    text = sources(*CODE)
    ids = set(LISTED.findall(page))
    assert sorted(quoted_in(text) - ids) == []
    rules = {int(one) for one in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert {int(one) for one in re.findall(r"\brules? (\d+)\b", text)} <= rules
    readings = set(re.findall(r"^\| (X\d\d) \|", page, re.MULTILINE))
    assert set(re.findall(r"\bX[0-3]\d\b", text)) <= readings

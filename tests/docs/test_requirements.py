"""docs/requirements.md says of each id what there is of it; what it calls built is quoted in a test."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "requirements.md"
PREFIXES = "DP|QC|SN|MD|BL|FD|CS|IS|EP|RA|EL|CL|ZK|FM|PP|DA|HX"
ID = re.compile(rf"\b(?:{PREFIXES})-\d\d\b")
ROW = re.compile(rf"^\| ((?:{PREFIXES})-\d\d) \| (.+) \| (built(?:: .+)?|partly: .+|not: .+) \|$", re.MULTILINE)
LISTED = re.compile(rf"^\| ((?:{PREFIXES})-\d\d) \|", re.MULTILINE)
RANGE = re.compile(rf"\b({PREFIXES})-(\d\d) to (?:{PREFIXES})-(\d\d)\b")
MADE_UP = {"N00"}
"""Used by a test as the id of a trial that does not exist."""
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


@cache
def functions_that_test() -> dict[str, str]:
    """The text of every test with its decorators and what its file says of it, by its name; of one name, all."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        lines, module = text.splitlines(), ast.parse(text)
        about = ast.get_docstring(module) or ""
        for one in ast.walk(module):
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"):
                first = min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)])
                found[one.name] = "\n".join([found.get(one.name, ""), about, *lines[first - 1 : one.end_lineno]])
    return found


def quoting_files() -> list[Path]:
    """All that may refer to this page, but for this file."""
    found = [path for room in CODE for path in sorted((ROOT / room).rglob("*.py")) if path != Path(__file__).resolve()]
    found += sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "suites").rglob("*.yaml"))
    return [*found, ROOT / "README.md"]


def test_every_requirement_is_there_once_with_its_state(page: str) -> None:
    rows = [one[0] for one in ROW.findall(page)]
    assert rows == LISTED.findall(page), "a row without a state: built, or `partly: why`, or `not: why`"
    assert [one for one, count in Counter(rows).items() if count > 1] == []
    assert len(rows) == 183


def test_what_is_built_is_quoted_in_a_test(page: str) -> None:
    quoted = quoted_in(sources("tests"))
    assert [one for one, _, state in ROW.findall(page) if state.startswith("built") and one not in quoted] == []


def test_what_is_built_names_a_test_that_quotes_it(page: str) -> None:
    """A function that quotes the id, or whose file does so at its head; or a file of such tests."""
    functions = functions_that_test()
    wrong = []
    for one, _, state in ROW.findall(page):
        named = re.findall(r"`(test_\w+|tests/[\w/]+\.py)`", state) if state.startswith("built") else []
        texts = [functions.get(name, "") if name.startswith("test_") else (ROOT / name).read_text() for name in named]
        if state.startswith("built") and not any(one in quoted_in(text) for text in texts):
            wrong.append(one)
    assert wrong == []


def test_tests_that_a_row_names_exist(page: str) -> None:
    named = [name for _, _, state in ROW.findall(page) for name in re.findall(r"`(test_\w+)`", state)]
    defined = functions_that_test()
    assert named and [one for one in named if one not in defined] == []


def test_what_is_said_to_be_unquoted_is_quoted_nowhere(page: str) -> None:
    """Whoever writes that test moves the id on."""
    quoted = quoted_in(sources("tests"))
    stale = [one for one, _, state in ROW.findall(page) if "no test quotes it" in state and one in quoted]
    assert stale == [], "a test quotes it now: say `built` there if nothing else is missing"


def numbers_in(listed: str) -> set[int]:
    """What `7`, `1, 2 and 5`, `10 to 16` and `32..38` name."""
    found = {int(one) for one in re.findall(r"\d+", listed)}
    for first, last in re.findall(r"(\d+)(?: to |\.\.|-)(\d+)", listed):
        found |= set(range(int(first), int(last) + 1))
    return found


def test_every_reference_is_defined(page: str) -> None:
    """Ids of requirements, scenarios, rules and readings, wherever they are quoted. Any `AB-12` is such an id."""
    defined = set(re.findall(r"^\| ((?:[A-Z]{2}-|[PNX])\d\d) \|", page, re.MULTILINE))
    rules = {int(one) for one in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    unknown = []
    for path in quoting_files():
        text = path.read_text(encoding="utf-8")
        quoted = quoted_in(text) | set(re.findall(r"(?<![\w-])(?:[A-Z]{2}-\d\d|[PNX][0-3]\d)(?![\w.-])", text))
        unknown += [f"{path.relative_to(ROOT)}: {one}" for one in sorted(quoted - defined - MADE_UP)]
        for listed in re.findall(r"\b[Rr]ules? (\d+(?:(?:, | and | to |, and |\.\.|-)\d+)*)", text):
            unknown += [f"{path.relative_to(ROOT)}: rule {one}" for one in sorted(numbers_in(listed) - rules)]
    assert unknown == []


def test_nothing_refers_to_what_is_not_here() -> None:
    """Issues of a tracker, steps of a demonstration, sections of documents that are not in the repository."""
    elsewhere = re.compile(r"\b(?:[Ii]ssue #?\d+|[Ss]how \d{1,2})\b(?![.\d])|§ ?\d")
    found = [
        f"{path.relative_to(ROOT)}: {one}"
        for path in quoting_files()
        for one in elsewhere.findall(path.read_text(encoding="utf-8"))
    ]
    assert found == []

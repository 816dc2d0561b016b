"""EDN is read as the standard says, with the line of each form, and what is not EDN is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.results.importing.edn import Keyword, Symbol, forms, shown
from squall.results.importing.trouble import ForeignTrouble

FILE = Path("history.edn")


def read(text: str) -> list[object]:
    return [form for _, form in forms(text, FILE)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("false", False),
        ("-7", -7),
        ("12345678901234567890N", 12345678901234567890),
        ("1.5e3", 1500.0),
        ("2.5M", 2.5),
        ("1/4", 0.25),
        (":f", Keyword("f")),
        (":a.b/c", Keyword("a.b/c")),
        ("sym", Symbol("sym")),
        (r'"a\n\"b\""', 'a\n"b"'),
        ('"two\nlines"', "two\nlines"),
        (r"\newline", "\n"),
        (r"\a", "a"),
        ('#inst "2020"', "2020"),
        ("#jepsen.history.Op{:f :read}", {"f": "read"}),
        ("#{1 2}", frozenset((1, 2))),
        ("{:a [1 (2 nil)], :b {}}", {"a": (1, (2, None)), "b": {}}),
        ("#_ ignored 5", 5),
        ("; a comment\n5", 5),
    ],
)
def test_each_kind_of_form(text: str, value: object) -> None:
    (found,) = read(f"x {text}")[1:]
    assert found == value and type(found) is type(value) if not isinstance(value, dict) else found == value


def test_forms_have_the_line_on_which_they_begin() -> None:
    assert [line for line, _ in forms("{:a 1}\n\n{:b\n 2}\n{:c 3}", FILE)] == [1, 3, 5]
    assert [line for line, _ in forms("[{:a 1},\n {:b 2}]", FILE)] == [1, 2], "all in one vector"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{:a 1}\n{:b", r"history.edn:2: the file ends before the '}' of what begins on line 2"),
        ("{:a 1}\n}", r"history.edn:2: '}' closes nothing"),
        ("{:a}", r"history.edn:1: a map has a key without a value: :a"),
        ('{:a "x', r"history.edn:1: a string does not end"),
        ("[{:a 1}", r"history.edn:1: the file ends within the \["),
        ("{" * 5 + "[" * 300, r"history.edn:1: is nested more than 200 levels deep"),
        ("{{:a 1} 2}", r"history.edn:1: a map has a map as its key"),
    ],
)
def test_what_is_no_edn_is_named_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(ForeignTrouble, match=problem):
        read(text)


LEAVES = st.none() | st.booleans() | st.integers() | st.text() | st.from_regex(r"\A[a-z][a-z-]{0,8}\Z").map(Keyword)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.integers(), inner))


@given(VALUES)
def test_what_is_written_is_read_again(value: object) -> None:
    assert read(f"x {shown(value)}")[1:] == [value]

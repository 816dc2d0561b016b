"""How a shown output is compared with a real one: strict in words, lenient in figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.transcripts import blocks_of, commands_of, is_shown_by


@pytest.mark.parametrize(
    ("shown", "output"),
    [
        (("seeds  2: 2 valid",), "seeds      10: 10 valid\n"),
        (("check  90 008 sends",), "check  412 sends\n"),
        (("trace  7f0f042d6fee4b8899fbc4ce71ee11ca",), "trace  00112233445566778899aabbccddeeff\n"),
        (("first", "…", "last"), "first\nsecond\nthird\nlast\n"),
        (("1 500 op/s   p99 121 ms",), "985 op/s   p99 34 ms\n"),
        (("first", "…", "last"), "first\nlast\n"),
        (("healed 15 s …",), "healed 3.5 s and well\n"),
        (("", "a", ""), "\n\na\n"),
    ],
)
def test_figures_blanks_and_what_is_left_out_may_differ(shown: tuple[str, ...], output: str) -> None:
    assert is_shown_by(output, tuple(line for line in shown if line))


@pytest.mark.parametrize(
    ("shown", "output"),
    [
        (("VALID  3 records",), "INVALID  3 records\n"),
        (("first", "last"), "first\nsecond\nlast\n"),
        (("first",), "first\nand more\n"),
        (("3 records",), "some records\n"),
    ],
)
def test_words_and_lines_may_not(shown: tuple[str, ...], output: str) -> None:
    assert not is_shown_by(output, shown)


def test_a_block_is_taken_apart_into_commands_and_what_they_print(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text\n\n```console lab\n$ one --flag\nout\n\nmore\n$ two\n```\n\n```\n$ not this\n```\n")
    (block,) = blocks_of(page, "console")
    assert (block.line, block.needs) == (3, ("lab",))
    assert [(one.text, one.shown) for one in commands_of(block)] == [("one --flag", ("out", "", "more")), ("two", ())]

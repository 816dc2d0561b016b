"""The commands of docs/dashboards.md do what it says, and its pictures are those that the tests make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_readme import ROOT, assert_does_what_it_says, place
from tests.docs.transcripts import Block, blocks_of
from tests.harness.dashboard.test_browser import PICTURES

__all__ = ["place"]

PAGE = ROOT / "docs" / "dashboards.md"


def commands() -> Iterator[object]:
    for block in blocks_of(PAGE, "console"):
        marks = [pytest.mark.full, pytest.mark.timeout(600)] if "full" in block.needs else []
        yield pytest.param(block, marks=marks, id=block.name)


@pytest.mark.parametrize("block", list(commands()))
def test_a_command_of_the_page_does_what_it_says(block: Block, place: Path) -> None:
    assert_does_what_it_says(block, place)


def test_pictures_of_the_page_are_those_that_tests_make() -> None:
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", PAGE.read_text())
    assert sorted(shown) == sorted(PICTURES)
    assert all((ROOT / "docs" / name).is_file() for name in shown)

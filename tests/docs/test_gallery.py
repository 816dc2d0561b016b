"""docs/gallery.md: its transcripts are real, and it states every entry, field and step of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from squall.harness.gallery.cells import cells_of
from squall.harness.gallery.core.entry import Entry
from squall.harness.gallery.core.steps import Await, Hold, HoldWrites, Node, Reassign, Transaction, WriteRegister
from squall.harness.gallery.entries import chosen, entries
from tests.docs.test_readme import ROOT, assert_does_what_it_says, place
from tests.docs.transcripts import Block, blocks_of

__all__ = ["place"]

PAGE = ROOT / "docs" / "gallery.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("entry", entries(Path("nowhere")), ids=lambda entry: entry.name)
def test_the_page_states_each_entry_as_its_file_does(entry: Entry) -> None:
    (row,) = [line for line in TEXT.splitlines() if line.startswith(f"| {entry.name} |")]
    assert f"`{entry.anomaly}`" in row and entry.rate.words in row and ("live" in row) == entry.is_live
    assert re.search(rf"^\*\*[^*]*\b{entry.name}\b[^*]*\*\*", TEXT, re.MULTILINE), "what happens, in words"


WITH_CELLS = ("T1a", "T1b", "T2", "T3")
"""The columns of the table of versions."""
ROW = re.compile(r"^\| (\d\.\d\.\d) \| (\S.*?) \| V[12] \| (.*) \|$", re.MULTILINE)


def test_each_cell_of_the_table_of_versions_is_that_of_its_entry() -> None:
    stated = {
        (arm.system.version, arm.client.words, arm.entry.name): f"{cell.expects}, {cell.rate.words}"
        for arm, cell in cells_of(chosen(list(WITH_CELLS), Path("nowhere")))
    }
    told = {
        (version, client, name): text
        for version, client, cells in ROW.findall(TEXT)
        for name, text in zip(WITH_CELLS, cells.replace("**", "").split(" | "), strict=True)
    }
    assert told == stated


def test_the_page_states_every_field_and_step() -> None:
    fields = [name for name in Entry.model_fields if f"`{name}`" not in TEXT]
    words = [
        word
        for step in (Node, Transaction, HoldWrites, WriteRegister, Reassign)
        for word in get_args(step.model_fields["do"].annotation)
    ]
    words += [*Await.model_fields, *Hold.model_fields]
    unsaid = [word for word in words if word not in TEXT and word not in ("do", "label")]
    assert (fields, unsaid) == ([], [])


def commands() -> Iterator[object]:
    for block in blocks_of(PAGE, "console"):
        marks = [pytest.mark.full, pytest.mark.timeout(600)] if "full" in block.needs else []
        yield pytest.param(block, marks=marks, id=block.name)


@pytest.mark.parametrize("block", list(commands()))
def test_a_command_does_what_the_page_says(block: Block, place: Path) -> None:
    assert_does_what_it_says(block, place)

"""The guides' examples are code that runs: Python blocks of a page, one after the other, and its quick commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.test_readme import ROOT, assert_does_what_it_says, place
from tests.docs.transcripts import Block, blocks_of

__all__ = ["place"]

NAMES = (
    "simulation.md",
    "writing-a-workload.md",
    "writing-a-check.md",
    "writing-a-fault.md",
    "writing-a-system.md",
    "checking-transactions.md",
    "exploring-a-run.md",
    "lake.md",
    "trends.md",
    "comparing-runs.md",
)
GUIDES = tuple(ROOT / "docs" / name for name in NAMES)


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """A module to run a page in: dataclasses look their own one up."""
    made = ModuleType("page_of_the_guides")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_the_python_of_a_guide_runs(page: Path, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = list(blocks_of(page, "python"))
    assert blocks, f"{page.name} has no example"
    for block in blocks:
        padding = "\n" * block.line  # so that a traceback names the line of the page
        exec(compile(padding + block.text, str(page), "exec"), module.__dict__)


def commands() -> Iterator[object]:
    """Every transcript; those that take long, and say so, for `make test-full`."""
    for page in GUIDES:
        for block in blocks_of(page, "console"):
            marks = [pytest.mark.full, pytest.mark.timeout(600)] if "full" in block.needs else []
            yield pytest.param(block, marks=marks, id=block.name)


@pytest.mark.parametrize("block", list(commands()))
def test_a_command_of_a_guide_does_what_it_says(block: Block, place: Path) -> None:
    assert_does_what_it_says(block, place)

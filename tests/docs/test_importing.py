"""The example of the page on importing is imported and judged as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_readme import ROOT, assert_does_what_it_says
from tests.docs.transcripts import Block, blocks_of

PAGE = ROOT / "docs" / "importing.md"


@pytest.mark.parametrize("block", list(blocks_of(PAGE, "console")), ids=lambda block: block.name)
def test_the_example_is_judged_as_the_page_says(block: Block, tmp_path: Path) -> None:
    (history,) = blocks_of(PAGE, "edn")
    (tmp_path / "history.edn").write_text(history.text)
    assert_does_what_it_says(block, tmp_path)

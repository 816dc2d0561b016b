"""docs/faults.md says what the registry and the catalogue say, because its tables are made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.catalogue.markdown import tables, update, updated
from squall.harness.errors import UsageError
from squall.nemesis.catalogue import ROWS
from squall.nemesis.registry import FAULT_NAMES

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "faults.md"


def test_the_guide_is_up_to_date() -> None:
    """If not: squall faults --markdown docs/faults.md"""
    text = GUIDE.read_text()
    assert updated(text) == text


def test_the_guide_has_every_table() -> None:
    text = GUIDE.read_text()
    assert all(f"<!-- faults: {name} -->\n{table}<!-- end -->" in text for name, table in tables().items())


def test_every_fault_and_every_row_is_in_the_tables() -> None:
    made = tables()
    for name in FAULT_NAMES:
        assert f"| `{name}` |" in made["kinds"] and f"| `{name}` |" in made["options"]
    for row in ROWS:
        assert f"| {row.number} | {row.name} |" in made["rows"]


def test_a_table_stays_a_table_whatever_stands_in_it() -> None:
    for table in tables().values():
        lines = table.splitlines()
        assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


def test_what_is_old_is_replaced_and_all_else_stays(tmp_path: Path) -> None:
    file = tmp_path / "guide.md"
    file.write_text("before\n<!-- faults: rows -->\nold\n<!-- end -->\nafter\n")
    assert update(file)
    assert file.read_text() == f"before\n<!-- faults: rows -->\n{tables()['rows']}<!-- end -->\nafter\n"
    assert not update(file)


@pytest.mark.parametrize(
    ("text", "told"), [("no marker", "has no marker"), ("<!-- faults: x -->\n<!-- end -->", "'x'")]
)
def test_a_file_that_has_no_place_for_tables_is_told(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "guide.md"
    file.write_text(text)
    with pytest.raises(UsageError, match=told):
        update(file)

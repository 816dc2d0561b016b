"""The field's catalogue: every row has a trial that a suite could hold, or the reason why not."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from squall.nemesis.catalogue import ROWS, CatalogueRow
from squall.nemesis.entries import NemesisEntry

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


def test_no_row_of_the_field_is_passed_over() -> None:
    assert [row.number for row in ROWS] == list(range(1, 59))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_has_a_trial_or_a_reason(row: CatalogueRow) -> None:
    assert [bool(row.trial), bool(row.why_not), bool(row.in_every_run)].count(True) == 1
    if row.trial:
        ENTRY.validate_python({"at": 1, **row.trial})

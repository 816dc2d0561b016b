"""A quarantine list is read from its own file or from that of a night; what is wrong is named with its line."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.scenario.quarantine import load_quarantine

ENTRY = "{scenario: pause-clock, owner: ann, reason: clock of b3, until: 2026-12-24}"


def written(path: Path, text: str) -> Path:
    (file := path / "quarantine.yaml").write_text(text)
    return file


def test_entries_are_read_beside_other_parts_of_a_night(tmp_path: Path) -> None:
    (one,) = load_quarantine(written(tmp_path, f"night: nightly\nquarantine:\n  - {ENTRY}\n"))
    assert (one.scenario, one.owner, one.reason, one.until) == (
        "pause-clock",
        "ann",
        "clock of b3",
        date(2026, 12, 24),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("suites: [a]", "quarantine.yaml:1: has no list `quarantine`"),
        ("quarantine:\n  - {scenario: a, owner: b, reason: c}", "quarantine.yaml:2: quarantine[0].until: missing"),
        ("quarantine:\n  - {scenario: a, owner: b, reason: c, until: soon}", "quarantine.yaml:2: quarantine[0].until"),
        ("quarantine:\n  - {scenario: a, ownr: b, reason: c, until: 2026-12-24}", "did you mean `owner`?"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_quarantine(written(tmp_path, text))
    assert problem in str(refused.value)

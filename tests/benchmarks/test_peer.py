"""Comparing with Apache Kafka: ratios are taken the right way round, and what is missing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.benchmarks.parts.kafka import VERSION, fetched_jars
from squall.benchmarks.peer import ROWS, figures
from squall.harness.errors import UsageError


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "passed", "stretched"),
    [
        ("produce, one replica", 95.0, 100.0, True, True),
        ("produce, one replica", 40.0, 100.0, False, False),
        ("single records at 100/s, one replica, p50", 1.9, 1.0, True, False),
        ("single records at 100/s, one replica, p50", 2.1, 1.0, False, False),
    ],
)
def test_our_share_of_kafkas_figure_decides(
    name: str, ours: float, theirs: float, passed: bool, stretched: bool
) -> None:
    row = next(row for row in ROWS if row.name == name)
    mine, ratio, other = figures(row, [ours, ours, 1000.0], [theirs, theirs, 0.0001])
    assert ratio.measured == pytest.approx(ours / theirs)
    assert (ratio.passed, ratio.stretched) == (passed, stretched)
    assert (mine.measured, other.measured) == (ours, theirs) and VERSION in other.name
    assert mine.peer is not None and (mine.peer.value, mine.higher_is_better) == (theirs, "p50" not in name)


def test_without_maven_or_java_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"mvn.*install maven"):
        fetched_jars()

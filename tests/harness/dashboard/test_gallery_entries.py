"""What the dashboard is given about the gallery: every entry, with the scenarios under which the lake has its runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.dashboard.gallery_entries import gallery_entries
from squall.harness.gallery.core.entry import BROKEN, TWIN
from squall.harness.gallery.entries import chosen
from squall.harness.gallery.history import write_minimal
from squall.results.history.manifest import Manifest
from tests.harness.gallery.editing import edited


def test_every_entry_is_on_the_page_with_both_arms() -> None:
    found = {one.name: one for one in gallery_entries(pytest.fail)}
    assert {"D1", "E1", "J1", "L1", "N1", "T2"} <= set(found)
    assert [arm.expects for arm in found["T2"].arms] == ["invalid", "valid"]
    assert (found["J1"].fixed is None, found["T2"].fixed, len(found["T2"].cells)) == (False, None, 12)


@pytest.mark.parametrize("at", [0, 1])
def test_an_arm_is_found_by_the_scenario_that_its_run_states(at: int, tmp_path: Path) -> None:
    (entry,) = chosen(["T2"])
    write_minimal(tmp_path, entry, (BROKEN, TWIN)[at])  # type: ignore[arg-type]
    shown = next(one for one in gallery_entries(pytest.fail) if one.name == "T2")
    assert shown.arms[at].scenario == Manifest.load(tmp_path).scenario


def test_a_wrong_file_of_ones_own_leaves_the_page_without_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "suites" / "gallery").mkdir(parents=True)
    edited("D1", tmp_path / "suites" / "gallery", anomaly="dupicate")
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    assert gallery_entries(said.append) == []
    assert "D1.yaml" in said[0] and "dupicate" in said[0]

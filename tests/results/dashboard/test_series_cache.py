"""What a build keeps of series: equal pages with and without, only changed series are new, and damage is no trouble."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from squall.results.dashboard import series_cache
from squall.results.dashboard.build import SERIES, build
from squall.results.dashboard.lake_facts import read_lake
from squall.results.dashboard.overview import overview_of
from squall.results.dashboard.series_cache import SeriesCache, load_cache, save_cache
from squall.results.lake.entry import Entry
from squall.results.lake.store import Lake
from squall.results.synthetic.forge_lake import Planted, forge_runs
from squall.results.trends.alarms import alarm_of_the_last_night
from squall.results.trends.change_points import change_points

PLANTED = Planted(broken_since=29, slower="kill-broker", slower_since=27, slower_by=2.0)
STEP = [*(100.0 + 0.1 * (night % 7) for night in range(30)), 130.0, 131.0, 132.0]
CALM = [100.0 + 0.1 * (night % 7) for night in range(30)]


def said(line: str) -> None:
    return None


def pages_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.html")}


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Path, list[Entry]]:
    """Twenty-nine nights with their pages, and the entries of the thirtieth, which makes a step certain."""
    place = tmp_path_factory.mktemp("nights")
    entries = list(forge_runs(240, per_night=8, scenarios=4, planted=PLANTED))
    last = max(one.date for one in entries)
    lake = Lake(place / "lake")
    lake.rebuild(one for one in entries if one.date != last)
    build(lake, place / "pages", said)
    return lake, place / "pages", [one for one in entries if one.date == last]


def test_pages_are_the_same_with_and_without_what_was_kept(nights: tuple[Lake, Path, list[Entry]]) -> None:
    lake, pages, entries = nights
    for at, entry in enumerate(entries):
        lake.add(entry)
        if at in (0, len(entries) - 1):
            build(lake, pages, said)
    build(lake, pages.with_name("anew"), said)
    assert pages_of(pages) == pages_of(pages.with_name("anew"))
    assert "provisional" in (pages / "scenarios" / "kill-broker.html").read_text(), "there is something to keep"


def test_one_more_run_segments_only_the_series_of_its_scenario(nights: tuple[Lake, Path, list[Entry]]) -> None:
    lake, pages, entries = nights
    for entry in entries[:-1]:
        lake.add(entry)
    build(lake, pages, said)
    (scenario,) = entries[-1].tables["runs"]["scenario"]
    kept = load_cache(pages / SERIES)
    overview_of(read_lake(lake), kept)
    assert kept.known and kept.computed == 0
    lake.add(Entry(key="more", date=entries[-1].date, recorded=entries[-1].recorded, tables={
        name: {**columns, "key": ["more"] * len(columns["key"])} for name, columns in entries[-1].tables.items()
    }))  # fmt: skip
    again = load_cache(pages / SERIES)
    found = overview_of(read_lake(lake), again)
    canaries, of_scenario = 2 * len(found.fleet.canaries), 2 * len(found.levels[scenario])
    assert 0 < again.computed <= canaries + of_scenario < len(again.used)


@pytest.mark.parametrize("canary", [None, CALM + [200.0] * 3], ids=["alone", "with a canary"])
def test_what_is_kept_is_what_is_worked_out(canary: list[float] | None, tmp_path: Path) -> None:
    first = SeriesCache()
    for kept in (first, SeriesCache(known=first.used)):
        assert kept.change_points(STEP, canary) == change_points(STEP, canary) != ()
        assert kept.alarm_of_the_last_night(STEP, canary) == alarm_of_the_last_night(STEP, canary) is not None
    assert kept.computed == 0
    save_cache(tmp_path / SERIES, first)
    assert load_cache(tmp_path / SERIES).known == first.used


def test_a_level_that_rose_from_zero_is_kept_as_well(tmp_path: Path) -> None:
    kept = SeriesCache()
    values = [0.0] * 12 + [1.0] * 12
    assert kept.change_points(values)[0].shift == float("inf")
    save_cache(tmp_path / SERIES, kept)
    assert load_cache(tmp_path / SERIES).change_points(values) == change_points(values)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
        lambda content: b"",
        lambda content: b"\xc1" * 64,
    ],
)
def test_after_any_damage_everything_is_worked_out_again(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    kept = SeriesCache()
    kept.change_points(STEP)
    save_cache(tmp_path / SERIES, kept)
    path = tmp_path / SERIES
    path.write_bytes(damage(path.read_bytes()))
    assert load_cache(path) == SeriesCache() == load_cache(tmp_path / "none")


def test_other_code_or_rules_keep_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = SeriesCache()
    kept.change_points(STEP)
    save_cache(tmp_path / SERIES, kept)
    monkeypatch.setattr(series_cache, "_code", lambda: b"another version")
    assert load_cache(tmp_path / SERIES) == SeriesCache()


def test_series_that_no_build_needs_any_more_are_forgotten(tmp_path: Path) -> None:
    kept = SeriesCache()
    kept.change_points(CALM)
    save_cache(tmp_path / SERIES, kept)
    later = load_cache(tmp_path / SERIES)
    later.change_points(STEP)
    save_cache(tmp_path / SERIES, later)
    assert len(load_cache(tmp_path / SERIES).known) == 1

"""The page about the gallery: entries as they are stated, the runs of both arms, and cells with their newest run."""

from __future__ import annotations

from pathlib import Path

from squall.results.dashboard.build import build
from squall.results.dashboard.gallery import GalleryArm, GalleryCell, GalleryEntry, shown_entries
from squall.results.dashboard.lake_facts import read_lake
from squall.results.dashboard.nights import nights_of
from squall.results.lake.store import Lake
from squall.results.synthetic.forge_lake import Planted, forge_runs

HOSTILE = "</script><script>window.broken = 1</script>"
BROKEN, TWIN, CELL = "kill-leader", "kill-follower", "kill-broker"
"""Scenarios of the forged lake, which stand for those of the gallery."""


def entry(**changes: object) -> GalleryEntry:
    facts: dict[str, object] = {
        "name": "T2", "title": "a late marker", "system": "Apache Kafka 4.4.0", "broken": "all", "fixed": None,
        "anomaly": "aborted_read", "mechanism": "It is late.", "references": ("https://example.org/1", "by letter"),
        "seen": 2, "of": 3, "reproduced": "2026-11-26",
        "arms": (GalleryArm("broken", "librdkafka", "invalid", BROKEN), GalleryArm("twin", "Java", "valid", TWIN)),
        "cells": (GalleryCell("Apache Kafka 4.1.2", "Java", "bug", 1, 1, CELL),
                  GalleryCell("Apache Kafka 4.2.0", "Java", "ok", 1, 1, "never run")),
    }  # fmt: skip
    return GalleryEntry(**{**facts, **changes})  # type: ignore[arg-type]


def lake_of(root: Path) -> Lake:
    lake = Lake(root)
    lake.rebuild(forge_runs(40, per_night=8, scenarios=8, planted=Planted(broken_since=3)))
    return lake


def page_of(tmp_path: Path, *entries: GalleryEntry) -> str:
    build(lake_of(tmp_path / "lake"), tmp_path / "out", lambda line: None, entries)
    return (tmp_path / "out" / "gallery.html").read_text()


def test_an_entry_has_the_runs_of_its_arms_by_night(tmp_path: Path) -> None:
    facts = read_lake(lake_of(tmp_path / "lake"))
    nights = nights_of(facts.runs)
    (shown,) = shown_entries([entry()], nights, nights.last(30))
    broken, twin = shown.arms
    assert broken.runs == sum(one.scenario == BROKEN for one in facts.runs) > 0
    assert [day for day, _ in broken.nights] == list(nights.days) and twin.runs > 0
    assert shown.newest == nights.days[-1]
    ran, never = shown.cells
    assert ran.text.startswith(nights.days[-1]) and ran.outcome == "valid"
    assert (never.text, never.outcome) == ("", "")


def test_an_entry_that_never_ran_has_no_newest_run(tmp_path: Path) -> None:
    nights = nights_of(read_lake(lake_of(tmp_path / "lake")).runs)
    (shown,) = shown_entries([entry(arms=(GalleryArm("broken", "x", "invalid", "gallery-T2-broken"),))], nights, ())
    assert (shown.newest, shown.arms[0].runs) == ("", 0)


def test_the_page_states_what_the_entry_does_and_links_to_its_references(tmp_path: Path) -> None:
    page = page_of(tmp_path, entry(), entry(name="J1", fixed="4.1.2"))
    for words in ("T2", "Apache Kafka 4.4.0", "aborted_read", "2 of 3 runs, last on 2026-11-26", "no release: live"):
        assert words in page
    assert "2 published bugs" in page and "1 of them live" in page and "<dd>4.1.2</dd>" in page
    assert '<a href="https://example.org/1" rel="noopener noreferrer">' in page and "by letter" in page
    assert f'href="scenarios/{BROKEN}.html' in page


def test_text_of_an_entry_cannot_end_an_element_and_only_https_becomes_a_link(tmp_path: Path) -> None:
    page = page_of(tmp_path, entry(title=HOSTILE, references=("javascript:broken()", HOSTILE), mechanism=HOSTILE))
    assert "<script>window" not in page and 'href="javascript' not in page


def test_a_changed_entry_builds_the_page_again(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake")
    assert not build(lake, tmp_path / "out", lambda line: None, [entry()]).unchanged
    assert build(lake, tmp_path / "out", lambda line: None, [entry()]).unchanged
    assert build(lake, tmp_path / "out", lambda line: None, [entry(seen=3)]).written == 1


def test_without_entries_the_page_says_where_they_are(tmp_path: Path) -> None:
    assert "suites/gallery" in page_of(tmp_path)

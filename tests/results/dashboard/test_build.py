"""Building the folder: incremental, atomic, one build at a time, only in folders of a dashboard, everything escaped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from squall.results.dashboard.build import LOCK, RECORD, Built, NotOurs, build
from squall.results.lake.entry import Entry
from squall.results.lake.store import Lake
from squall.results.synthetic.forge_lake import Planted, forge_runs
from squall.results.synthetic.forge_nights import forge_nights

PLANTED = Planted(broken_since=3)
HOSTILE = "</script><script>window.broken = 1</script><img src=x onerror=broken()>"


def said(line: str) -> None:
    return None


def small_lake(root: Path, runs: int = 40) -> Lake:
    lake = Lake(root)
    lake.rebuild([*forge_runs(runs, per_night=8, scenarios=8, planted=PLANTED), *forge_nights(runs // 8)])
    return lake


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*.html")
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dashboard with a run whose every text is hostile."""
    place = tmp_path_factory.mktemp("built")
    lake = small_lake(place / "lake")
    (entry,) = forge_runs(1, per_night=1, scenarios=1, planted=Planted(broken="kill-leader", broken_since=0))
    rows = entry.tables
    rows["runs"] |= {"scenario": [HOSTILE], "command": [HOSTILE], "directory": [HOSTILE], "commit": [HOSTILE],
                     "hosts": [[HOSTILE]], "reasons": [[HOSTILE]], "verdict": ["invalid"], "as_expected": [False],
                     "anomalies": [[HOSTILE]], "system": [HOSTILE], "suite": [HOSTILE]}  # fmt: skip
    rows["anomalies"] = {
        "key": [entry.key], "date": [entry.date], "anomaly": [HOSTILE], "meaning": [HOSTILE], "occurrences": [1],
        "places": [[HOSTILE]], "fingerprint": [HOSTILE], "witness": [HOSTILE], "faults": [[HOSTILE]],
    }  # fmt: skip
    for name in ("fault", "id", "role", "trouble"):
        rows["faults"][name] = [HOSTILE] * len(rows["faults"]["key"])
    lake.add(Entry(key="hostile", date=entry.date, recorded=entry.recorded, tables={
        name: {**columns, "key": ["hostile"] * len(columns["key"])} for name, columns in rows.items()
    }))  # fmt: skip
    build(lake, place / "out", said)
    return place / "out"


class Seen(HTMLParser):
    """Collects what a page loads, and the elements that a text must not be able to make."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script" and given.get("type") != "application/json":
            self.loads.append(given.get("src") or "inline")
        if tag == "link":
            self.loads.append(given.get("href") or "")
        if tag == "a":
            self.links.append(given.get("href") or "")
        if tag == "img" or any(name.startswith("on") for name, _ in attrs):
            self.foreign.append(tag)


def test_pages_load_nothing_but_files_beside_them(built: Path) -> None:
    for page in built.rglob("*.html"):
        seen = Seen()
        seen.feed(page.read_text())
        up = "../" if page.parent.name == "scenarios" else ""
        names = ["assets/dashboard.css", "assets/charts.css", "assets/dashboard.js", "assets/charts.js"]
        assert seen.loads == ["data:,", *(up + name for name in names)], page
        assert not seen.foreign, page


def test_text_of_a_run_cannot_end_an_element(built: Path) -> None:
    shown = [page for page in built.rglob("*.html") if "window.broken" in page.read_text()]
    assert {page.name for page in shown} >= {"index.html", "runs.html", "compare.html", "coverage.html"}
    for page in shown:
        assert "<script>window" not in page.read_text() and "<img" not in page.read_text()


def test_every_link_to_a_page_leads_to_one(built: Path) -> None:
    for page in built.rglob("*.html"):
        seen = Seen()
        seen.feed(page.read_text())
        for link in seen.links:
            path = link.partition("#")[0]
            assert not path or path.startswith("https://") or (page.parent / path).is_file(), f"{page.name}: {link}"


def test_pages_are_small(built: Path) -> None:
    assert max(page.stat().st_size for page in built.rglob("*.html")) < 2_000_000


def test_a_build_without_news_works_nothing_out(tmp_path: Path) -> None:
    lake = small_lake(tmp_path / "lake")
    first = build(lake, tmp_path / "out", said)
    before = contents(tmp_path / "out")
    assert build(lake, tmp_path / "out", said) == Built(pages=first.pages, unchanged=True)
    assert contents(tmp_path / "out") == before


def test_a_run_rewrites_only_the_pages_that_show_it(tmp_path: Path) -> None:
    lake = small_lake(tmp_path / "lake")
    build(lake, tmp_path / "out", said)
    before = contents(tmp_path / "out")
    one = next(iter(forge_runs(1, per_night=1, scenarios=1, last=datetime(2026, 11, 24, 9, tzinfo=UTC))))
    lake.add(Entry(key="later", date=one.date, recorded=one.recorded, tables={
        name: {**columns, "key": ["later"] * len(columns["key"])} for name, columns in one.tables.items()
        if name != "machines"
    }))  # fmt: skip
    assert not build(lake, tmp_path / "out", said).unchanged
    after = contents(tmp_path / "out")
    changed = {name for name in after if after[name][1] != before[name][1]}
    (scenario,) = one.tables["runs"]["scenario"]
    assert f"scenarios/{scenario}.html" in changed and "runs.html" in changed and "index.html" in changed
    assert not {"benchmarks.html", "simulation.html"} & changed


def test_pages_of_scenarios_that_are_gone_are_removed(tmp_path: Path) -> None:
    small_lake(tmp_path / "lake", 40)
    build(Lake(tmp_path / "lake"), tmp_path / "out", said)
    other = Lake(tmp_path / "other")
    other.rebuild(forge_runs(8, per_night=4, scenarios=4))
    removed = build(other, tmp_path / "out", said).removed
    assert removed == 4 == 8 - len(list((tmp_path / "out" / "scenarios").iterdir()))


def test_equal_lakes_give_equal_pages(tmp_path: Path) -> None:
    for name in ("a", "b"):
        build(small_lake(tmp_path / name, 16), tmp_path / f"{name}-out", said)
    pages = [{name: text for name, (text, _) in contents(tmp_path / f"{one}-out").items()} for one in "ab"]
    assert pages[0] == pages[1]


def test_a_folder_with_other_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.html").write_text("mine")
    with pytest.raises(NotOurs, match="has other files"):
        build(small_lake(tmp_path / "lake", 8), tmp_path, said)
    assert not (tmp_path / RECORD).exists() and not (tmp_path / LOCK).exists()


BUILD = """
import sys
from pathlib import Path
from squall.results.dashboard.build import build
from squall.results.lake.store import Lake
build(Lake(Path(sys.argv[1])), Path(sys.argv[2]), print)
"""


def test_two_builds_at_once_and_one_killed_leave_whole_pages(tmp_path: Path) -> None:
    lake = small_lake(tmp_path / "lake", 24)
    build(lake, tmp_path / "expected", said)
    command = [sys.executable, "-c", BUILD, str(tmp_path / "lake"), str(tmp_path / "out")]
    first = subprocess.Popen(command)
    while not list((tmp_path / "out").glob("scenarios/*.html")):
        assert first.poll() is None
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    half = {name: text for name, (text, _) in contents(tmp_path / "out").items()}
    whole = {name: text for name, (text, _) in contents(tmp_path / "expected").items()}
    assert all(whole[name] == text for name, text in half.items() if not name.split("/")[-1].startswith("."))
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    assert {name: text for name, (text, _) in contents(tmp_path / "out").items()} == whole
    assert not list((tmp_path / "out").rglob(".*.new"))


def test_reports_of_failed_runs_are_published_with_the_pages(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    entries = list(forge_runs(8, per_night=8, scenarios=8, planted=Planted(broken_since=0)))
    broken = next(one for one in entries if one.tables["runs"]["verdict"] == ["invalid"])
    directory = tmp_path / "runs" / "broken"
    directory.mkdir(parents=True)
    (directory / "report.html").write_text("<h1>witness</h1>")
    broken.tables["runs"]["directory"] = [str(directory)]
    lake.rebuild(entries)
    build(lake, tmp_path / "out", said)
    assert (tmp_path / "out" / "reports" / f"{broken.key}.html").read_text() == "<h1>witness</h1>"
    page = (tmp_path / "out" / "scenarios" / "kill-leader.html").read_text()
    assert re.search(rf'"report":"reports/{broken.key}\.html"', page)
    (directory / "report.html").unlink()
    (tmp_path / "out" / RECORD).unlink()
    build(lake, tmp_path / "out", said)
    assert (tmp_path / "out" / "reports" / f"{broken.key}.html").is_file()

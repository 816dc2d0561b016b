"""What people have decided about change points is on the pages: by whom and why; hidden points are folded away."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from squall.results.dashboard.build import build
from squall.results.dashboard.lake_facts import read_lake
from squall.results.dashboard.levels import METRICS, Basis
from squall.results.dashboard.nights import Nights
from squall.results.dashboard.overview import overview_of
from squall.results.dashboard.series_cache import SeriesCache
from squall.results.dashboard.tonight import tonight_of
from squall.results.lake.store import Lake
from squall.results.lake.triage import TRIAGE_FILE, State, Triage, append
from squall.results.synthetic.forge_lake import Planted, forge_runs

SLOW = "kill-broker"
PLANTED = Planted(broken_since=99, mended="", slower=SLOW, slower_since=27, slower_by=2.0)


def said(line: str) -> None:
    return None


@pytest.fixture(scope="module")
def thirty_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of thirty nights; the latency of one scenario has doubled three nights ago."""
    root = tmp_path_factory.mktemp("forged") / "lake"
    Lake(root).rebuild(forge_runs(240, per_night=8, scenarios=4, planted=PLANTED))
    return root


@pytest.fixture
def lake(thirty_nights: Path, tmp_path: Path) -> Lake:
    return Lake(Path(shutil.copytree(thirty_nights, tmp_path / "lake")))


def decide(lake: Lake, state: State, metric: str = "p99", night: str = "2026-11-22", note: str = "wanted") -> None:
    at = "2026-11-25T08:00:00+00:00"
    append(lake.root, Triage(
        point="5f0c1a2b", scenario=SLOW, metric=metric, night=night, state=state, note=note, who="ann", at=at,
    ))  # fmt: skip


def page(lake: Lake, name: str = f"scenarios/{SLOW}.html") -> str:
    build(lake, lake.root.with_name("pages"), said)
    return (lake.root.with_name("pages") / name).read_text()


def folded(text: str) -> str:
    return "".join(re.findall(r'<details class="hidden-changes">.*?</details>', text, re.DOTALL))


def test_a_decision_appears_with_who_and_why(lake: Lake) -> None:
    assert "by ann" not in page(lake)
    decide(lake, "acknowledged", note="<b>the new flush order</b>")
    for name in (f"scenarios/{SLOW}.html", "index.html"):
        shown = page(lake, name)
        assert "acknowledged by ann: &lt;b&gt;the new flush order&lt;/b&gt;" in shown
        assert not folded(shown)


def test_hidden_points_are_folded_away_and_not_drawn(lake: Lake) -> None:
    before = page(lake)
    marks = before.count("p99 latency +")
    decide(lake, "hidden")
    after = page(lake)
    assert "hidden by ann: wanted" in folded(after) and "1 hidden change point" in folded(after)
    assert after.count("p99 latency +") < marks
    decide(lake, "open")
    assert not folded(page(lake)) and "open by ann" in page(lake)


def test_a_decision_is_about_one_metric_and_one_change(lake: Lake) -> None:
    decide(lake, "fixed", metric="p99.9")
    decide(lake, "acknowledged", night="2026-11-10")
    changes = {one.metric.name: one.changes for one in overview_of(read_lake(lake)).levels[SLOW]}
    assert [one.state for one in changes["p999"]] == ["fixed"] and [one.state for one in changes["p99"]] == ["open"]


def test_alarms_follow_the_decision_about_their_change(lake: Lake) -> None:
    def system() -> tuple[str, str]:
        tile = tonight_of(overview_of(read_lake(lake))).tiles[0]
        return tile.condition, " | ".join(one.text for one in tile.lines)

    condition, lines = system()
    assert condition == "doubt" and "p99 latency of kill-broker" in lines
    for metric in ("p50", "p99", "p99.9"):
        decide(lake, "acknowledged", metric)
    condition, lines = system()
    assert condition == "good" and "acknowledged by ann" in lines
    decide(lake, "hidden", "p99")
    assert "p99 latency of kill-broker" not in system()[1]


def test_a_decision_about_a_named_night_holds_on_the_day_it_began() -> None:
    nights = Nights(("2026-11-22",), {}, {}, {"nightly-20261122-3f": "2026-11-22"})
    decision = Triage(point="1", scenario=SLOW, metric="p99.9", night="nightly-20261122-3f", state="fixed", note="",
                      who="ann", at="2026-11-25T08:00:00+00:00")  # fmt: skip
    basis = Basis(nights, (), SeriesCache(), [decision])
    found = {one.name: basis.decision(SLOW, one, "2026-11-22") for one in METRICS}
    assert found.pop("p999") is not None and set(found.values()) == {None}


def test_a_line_that_is_no_decision_is_named_and_the_pages_are_built(lake: Lake) -> None:
    lines: list[str] = []
    lake.say = lines.append
    (lake.root / TRIAGE_FILE).write_text('{"point": "5f0c1a2b"}\n')
    assert "Change points" in page(lake)
    assert any("triage.jsonl:1: left out" in one for one in lines)

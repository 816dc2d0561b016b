"""From a night to its page: what `squall nightly` runs, finds, spends and leaves out is on *Tonight*."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from squall.harness.cli.main import status_of
from squall.results.dashboard.words import scenario_link
from squall.results.lake.store import Lake
from tests.harness.nightly.nights import the_night

LOSSY = """
scenario: lossy
cluster:
  topics: {events: {partitions: 2, replication_factor: 3, min_insync_replicas: 2}}
  mutants: [ack-before-replication]
workload: {name: log, producers: 2, consumers: 1, rate: 40/s, acks: all}
nemesis: [{fault: kill, target: leader of events/*, at: 2s, for: 2s}]
time: {load: 6s, settle: 10s}
"""
COMMAND = ("nightly", "night.yaml", "--simulate", "--seed", "1", "--budget", "3.5s", "--price-per-hour", "3600")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "lossy.yaml").write_text(LOSSY)
    (tmp_path / "omitted.yaml").write_text(LOSSY.replace("lossy", "omitted"))
    (tmp_path / "night.yaml").write_text("night: small\nsuites: [lossy.yaml, omitted.yaml]\n")
    return tmp_path


def text_of(page: str) -> str:
    """Return what a reader sees of *Tonight*."""
    inert = re.sub(r"<(script|svg)\b.*?</\1>", " ", page[page.index("<main") :], flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", inert)).split())


@pytest.mark.timeout(120)
def test_a_failing_scenario_of_a_night_is_a_new_finding_with_its_witness(place: Path) -> None:
    assert status_of(list(COMMAND)) == 1
    assert status_of(["dashboard", "build", "pages"]) == 0
    page = (place / "pages" / "index.html").read_text()
    (run,) = Lake(place / "runs" / "lake").table("runs").to_pylist()
    (night,) = Lake(place / "runs" / "lake").table("nights").to_pylist()
    (anomaly, *_) = Lake(place / "runs" / "lake").table("anomalies").to_pylist()
    assert run["night"] == night["night"] == the_night(place).name and run["scenario"] == "lossy"
    shown = text_of(page)
    assert f"Night of {night['date']} 0 of 1 run ended as expected, 1 did not; " in shown
    assert re.search(rf"System .* new: {anomaly['anomaly']} in lossy \(simulation\)", shown)
    assert f"new {anomaly['anomaly']} in lossy (simulation) 1 of 1 run, first {run['date']}" in shown
    assert anomaly["witness"] in shown
    there = scenario_link("lossy (simulation)")
    assert f'href="{there}#run={run["key"]}"' in page
    assert f"{night['cost']:.2f}." in shown and "for the whole night" in shown and night["seconds"] > 0
    (reason,) = night["left_out_why"]
    assert f"Not run omitted: {reason}" in shown and "takes about" in reason
    report = f"reports/{run['key']}.html"
    assert (place / "pages" / report).is_file() and report in (place / "pages" / there).read_text()


def test_a_night_that_was_interrupted_before_its_first_run_is_on_the_page(place: Path) -> None:
    """Yesterday's runs must not pass for tonight's."""
    from datetime import UTC, datetime

    from squall.results.lake.entry import Entry
    from squall.results.synthetic.forge_lake import forge_runs

    lake = Lake(place / "runs" / "lake")
    lake.rebuild(forge_runs(4, per_night=4, scenarios=4, last=datetime(2026, 11, 23, 1, tzinfo=UTC)))
    row = {"night": "small-2026-11-24", "began": "2026-11-24T01:00:00+00:00", "seconds": 2.0, "cost": None,
           "currency": "", "left_out": ["lossy"], "left_out_why": ["the night was interrupted before"]}  # fmt: skip
    lake.add(Entry.of("night-small-2026-11-24", "2026-11-24", "2026-11-24T01:00:02+00:00", {"nights": [row]}))
    assert status_of(["dashboard", "build", "pages"]) == 0
    shown = text_of((place / "pages" / "index.html").read_text())
    assert "Night of 2026-11-24 Nothing was run; " in shown
    assert "lossy: the night was interrupted before" in shown

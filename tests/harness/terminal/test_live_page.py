"""The page about the run that is under way: what it shows, that it ends, and that a run goes on without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from squall.harness.load.load import LoadTotals
from squall.harness.terminal.live_page import LIVE_FILE, LiveDisplay
from squall.results.history.segments import FaultWindow


class Clock:
    """Moves two seconds with each look, so that every change is written."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 2
        return self.now


@pytest.fixture
def display() -> LiveDisplay:
    return LiveDisplay(Console(quiet=True), Clock())


def page(directory: Path) -> str:
    return (directory / LIVE_FILE).read_text()


def test_the_page_refreshes_itself_until_the_run_is_judged(display: LiveDisplay, tmp_path: Path) -> None:
    display.follow(tmp_path, "kills, seed 7")
    display.stage("cluster", "ready in 3.1 s", "8 topic-partitions")
    assert 'http-equiv="refresh"' in page(tmp_path) and "under way · kills, seed 7" in page(tmp_path)
    assert "ready in 3.1 s" in page(tmp_path)
    display.judged("invalid")
    assert 'http-equiv="refresh"' not in page(tmp_path)
    assert "invalid · kills, seed 7" in page(tmp_path) and 'href="report.html"' in page(tmp_path)


def test_faults_and_progress_are_shown_and_escaped(display: LiveDisplay, tmp_path: Path) -> None:
    display.follow(tmp_path, "<b>kills</b>")
    for elapsed in (10, 20, 30):
        display.load_progress(elapsed, 60, LoadTotals(), 0.0)
    window = FaultWindow(id="kill-1", fault="kill", targets=("<i>b1</i>",), summary="<i>b1</i>", injected=5_000_000_000)
    display.fault(window, 0)
    text = page(tmp_path)
    assert 'value="0.5000"' in text and "<svg" in text
    assert "&lt;i&gt;b1" in text and "<i>" not in text and "<b>kills" not in text


def test_a_run_goes_on_if_its_page_cannot_be_written(display: LiveDisplay, tmp_path: Path) -> None:
    display.follow(tmp_path / "gone", "kills")
    display.say("load begins")
    display.judged("valid")
    assert not (tmp_path / "gone").exists()


def test_a_page_is_not_written_more_than_once_a_second(tmp_path: Path) -> None:
    display = LiveDisplay(Console(quiet=True), lambda: 100.0)
    display.follow(tmp_path, "kills")
    before = page(tmp_path)
    display.say("something")
    assert page(tmp_path) == before

"""Charts in a real browser: hover, zoom, legend, keyboard, phone, dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.keys import Keys

from squall.results.charts.chart import Axis, Band, Chart, Mark, Series, Span
from squall.results.charts.figure import figure, script, style
from tests.browser import await_charts, browser, complaints, needs_browser, open_page, prefer, resize

pytestmark = [needs_browser, pytest.mark.xdist_group("browser")]

SECONDS = [float(second) for second in range(601)]
AXIS = Axis("time", "time", origin=1_764_088_742.0)
BANDS = (Band(100, 200, "isolate b1"),)
CHARTS = {
    "rate": Chart(
        "Throughput",
        AXIS,
        Axis("rate", unit="/s"),
        (Series("sends", SECONDS, [1000 + s for s in SECONDS]), Series("polls", SECONDS, [100.0] * 601)),
        BANDS,
        (Mark(300.0, "lost_write: events-0", "#witness", "anomaly"),),
    ),
    "latency": Chart("Latency", AXIS, Axis("p99", unit="s", log=True), (Series("p99", SECONDS, [0.01] * 601),), BANDS),
    "leaders": Chart(
        "Leaders",
        AXIS,
        Axis(""),
        rows=("events-0", "events-1"),
        spans=(Span("events-0", 0, 600, "b1"), Span("events-1", 0, 300, "b2"), Span("events-1", 300, 600, "b3")),
    ),
    "alone": Chart("Nights", Axis("night", "category"), Axis("runs"), (Series("a", ["m", "t"], [1.0, 2.0], "bars"),)),
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    groups = {name: "" if name == "alone" else "run" for name in CHARTS}
    figures = "".join(figure(chart, name, group=groups[name]) for name, chart in CHARTS.items())
    path = Path(tmp_path_factory.mktemp("charts")) / "page.html"
    path.write_text(
        '<!DOCTYPE html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<style>{style()}</style>{figures}<p id=witness>proof</p><script>{script()}</script>"
    )
    with browser() as one:
        open_page(one, path)
        await_charts(one)
        yield one


@pytest.fixture(autouse=True)
def all_shown(page: Chrome) -> None:
    """Each test begins with everything shown, and no crosshair."""
    for name in ("rate", "alone"):
        page.execute_script("document.querySelector(arguments[0]).focus()", f"#{name} .chart-plot")
        ActionChains(page).send_keys(Keys.ESCAPE).perform()


def ticks(page: Chrome, name: str) -> list[str]:
    found: list[str] = page.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)",
        f"#{name} .chart-svg .chart-tick:not(.chart-clock)",
    )
    return found


def readout(page: Chrome, name: str) -> str:
    text: str = page.execute_script(
        "const one = document.querySelector(arguments[0]); return one.hidden ? '' : one.innerText",
        f"#{name} .chart-readout",
    )
    return text


def pointed(page: Chrome, name: str, across: int, down: int = 0) -> str:
    plot = page.find_element("css selector", f"#{name} .chart-svg")
    ActionChains(page, duration=0).move_to_element_with_offset(plot, across, down).perform()
    return readout(page, name)


def drag(page: Chrome, name: str, start: int, end: int) -> None:
    plot = page.find_element("css selector", f"#{name} .chart-svg")
    moves = ActionChains(page, duration=0).move_to_element_with_offset(plot, start, 0).click_and_hold()
    moves.move_by_offset((end - start) // 2, 0).move_by_offset((end - start) // 2, 0).release().perform()


def test_pointing_shows_all_values_the_time_of_day_and_the_fault(page: Chrome) -> None:
    text = pointed(page, "rate", -290)
    assert "sends" in text and "polls" in text and "100 /s" in text
    assert "UTC" in text and "isolate b1" in text
    assert "isolate b1" not in pointed(page, "rate", 100)
    assert complaints(page) == []


def test_a_drag_zooms_all_charts_of_the_group_and_no_other(page: Chrome) -> None:
    before = {name: ticks(page, name) for name in CHARTS}
    drag(page, "rate", -200, 0)
    zoomed = {name: ticks(page, name) for name in CHARTS}
    assert [name for name in CHARTS if zoomed[name] != before[name]] == ["rate", "latency", "leaders"]
    plot = page.find_element("css selector", "#latency .chart-svg")
    ActionChains(page, duration=0).double_click(plot).perform()
    assert {name: ticks(page, name) for name in CHARTS} == before


def test_the_keyboard_moves_the_crosshair_zooms_and_shows_all(page: Chrome) -> None:
    before = ticks(page, "rate")
    page.execute_script("document.querySelector('#rate .chart-plot').focus()")
    keys = page.switch_to.active_element
    keys.send_keys(Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert "1\u202f002 /s" in readout(page, "rate")
    keys.send_keys("++")
    assert ticks(page, "rate") != before
    keys.send_keys(Keys.ESCAPE)
    assert ticks(page, "rate") == before and readout(page, "rate") == ""


def test_a_click_in_the_legend_hides_a_series_and_its_scale(page: Chrome) -> None:
    button = page.find_element("css selector", "#rate .chart-entry")
    before = ticks(page, "rate")
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-pressed") == "false"
    assert ticks(page, "rate") != before
    assert "sends" not in pointed(page, "rate", 0)
    button.send_keys(Keys.ENTER)
    assert ticks(page, "rate") == before


def test_a_row_under_the_pointer_says_who_led(page: Chrome) -> None:
    assert "b3" in pointed(page, "leaders", 200, 8)
    assert "b2" in pointed(page, "leaders", -200, 8)


def test_a_mark_leads_to_its_witness(page: Chrome) -> None:
    link = page.find_element("css selector", "#rate .chart-svg a")
    ActionChains(page, duration=0).move_to_element(link.find_element("css selector", ".chart-target")).click().perform()
    assert page.current_url.endswith("#witness")


def test_a_phone_needs_no_sideways_scrolling_and_dark_is_dark(page: Chrome) -> None:
    resize(page, 390)
    prefer(page, "dark")
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= 390
        tone = "return getComputedStyle(document.querySelector('#rate .chart-line')).stroke"
        dark = page.execute_script(tone)
        page.execute_script("document.documentElement.dataset.theme = 'light'")
        assert page.execute_script(tone) != dark
    finally:
        page.execute_script("delete document.documentElement.dataset.theme")
        prefer(page, "light")
        resize(page, 1280)

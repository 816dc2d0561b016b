"""A chart in a page: its data, its static picture, and what it must never let through."""

from __future__ import annotations

import json
import re

import pytest

from squall.results.charts.chart import Axis, Band, Chart, Heat, Mark, Series, Span
from squall.results.charts.figure import chart_data, figure, script, style

EVIL = "</script><img src=x onerror=alert(1)>"
SECONDS = Axis("time", "time")
RATE = Axis("rate", unit="/s")


def of(*series: Series, x: Axis = SECONDS, y: Axis = RATE, **more: object) -> Chart:
    return Chart("Throughput", x, y, series, **more)  # type: ignore[arg-type]


def data_in(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, object] = json.loads(found[1])
    return data


def test_names_from_a_run_cannot_end_the_data_or_become_elements() -> None:
    chart = of(
        Series(EVIL, [0.0, 1.0], [1.0, 2.0], labels=[EVIL, ""]),
        bands=(Band(0, 1, EVIL),),
        marks=(Mark(0.5, EVIL, "#witness-1", "anomaly"),),
    )
    page = figure(chart, "c")
    assert "<img" not in page
    assert page.count("</script>") == 1
    assert data_in(page)["bands"] == [[0, 1, EVIL, "fault"]]


@pytest.mark.parametrize("href", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd"])
def test_a_link_may_not_run_anything(href: str) -> None:
    with pytest.raises(ValueError, match="expected an anchor, a relative path, or http"):
        Mark(1.0, "x", href)
    with pytest.raises(ValueError, match="expected an anchor"):
        Series("p99", [1.0], [1.0], hrefs=[href])


def test_series_of_unequal_lengths_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="series 'p99': 2 positions, but 1 of 'y'"):
        Series("p99", [1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="a span of the row 'b'"):
        of(rows=("a",), spans=(Span("b", 0, 1, "b1"),))


def test_evenly_spaced_positions_are_stored_once_and_short() -> None:
    seconds = [number * 0.5 for number in range(3600)]
    data = chart_data(of(Series("a", seconds, seconds), Series("b", seconds, seconds)))
    assert data["xs"] == [{"from": 0, "step": 0.5, "count": 3600}]


def test_gaps_and_what_json_cannot_say_become_null() -> None:
    data = chart_data(of(Series("a", [0.0, 1.0, 2.0], [None, float("nan"), 1.0 / 3])))
    assert data["series"][0]["y"] == [None, None, 0.33333]


def test_the_static_picture_names_series_faults_and_units() -> None:
    chart = of(Series("sends", [0.0, 60.0], [0.0, 3000.0]), bands=(Band(10, 20, "isolate b1"),))
    picture = re.sub(r"<script.*", "", figure(chart, "c"), flags=re.DOTALL)
    for text in ("sends", "isolate b1", "1 000 /s", "60 s"):
        assert text in picture


def test_a_long_series_is_thinned_in_the_picture_but_keeps_its_extremes() -> None:
    values = [0.0] * 20_000
    values[12_345] = 1000.0
    page = figure(of(Series("a", [float(at) for at in range(20_000)], values)), "c")
    picture = page[: page.index("<script")]
    assert len(picture) < 30_000
    top = min(float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", picture[picture.index("chart-d0") :]))
    assert top < 30


def test_every_kind_has_a_static_picture() -> None:
    heat = Heat(0, 1, [0.001, 0.01, 0.1], [0, 1], [0, 1], [5, 1])
    charts = [
        of(*(Series(kind, [0.0, 1.0, 2.0], [1.0, 2.0, 3.0], kind) for kind in ("line", "step", "points", "area"))),
        of(Series("p99", [1.7e9, 1.71e9], [1.0, 2.0], "whisker", low=[0.5, 1.5], high=[2.0, 3.0]), x=Axis("", "date")),
        of(Series("bars", ["a", "b"], [1.0, 2.0], "bars"), x=Axis("", "category")),
        of(Series("a", [0.0], [1.0], "bars"), Series("b", [0.0], [2.0], "bars"), stacked=True),
        of(y=Axis("latency", unit="s", log=True), heat=heat),
        of(rows=("events-0",), spans=(Span("events-0", 0, 1, "b1"), Span("events-0", 0, 1, "", "outage"))),
        of(),
    ]
    for number, chart in enumerate(charts):
        assert "nan" not in figure(chart, f"c{number}").lower()


def test_script_and_style_bring_everything_along() -> None:
    for asset in (script(), style()):
        assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttpRequest|import\(", asset)
    assert "</script" not in script()

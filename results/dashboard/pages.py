"""Render the pages: their paths within the dashboard's folder, and their contents.

Pages load nothing but the style sheets and scripts beside them; what scripts work on is JSON in inert elements. Every
text that comes from a run is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from squall.results.charts import figure as chart_figure
from squall.results.charts.figure import embedded, figure
from squall.results.checkers.common.text import grouped, several
from squall.results.dashboard import charts
from squall.results.dashboard.compare import BASELINE_NIGHTS, CANDIDATE_NIGHTS, differences
from squall.results.dashboard.coverage import ELECTION_CLASSES, ISR_CLASSES
from squall.results.dashboard.findings import STATES
from squall.results.dashboard.gallery import GalleryEntry, shown_entries
from squall.results.dashboard.lake_facts import Run
from squall.results.dashboard.levels import NIGHTS_MAX
from squall.results.dashboard.nights import OUTCOME_NAMES, Nights, outcome_text
from squall.results.dashboard.overview import FLAKE_NIGHTS, Overview
from squall.results.dashboard.run_data import run_columns, run_details
from squall.results.dashboard.simulation import Kill
from squall.results.dashboard.tonight import tonight_of
from squall.results.dashboard.words import (
    figure_text,
    file_name,
    night_link,
    percent,
    run_link,
    scenario_link,
    seconds,
    short_commit,
)

FOLDER: Final = Path(__file__).parent
INDEX: Final = "index.html"
COMPARED_NIGHTS: Final = 60
STRIP_NIGHTS: Final = 30
MENU: Final = (
    ("Tonight", INDEX),
    ("Runs", "runs.html"),
    ("Compare", "compare.html"),
    ("Benchmarks", "benchmarks.html"),
    ("Simulation", "simulation.html"),
    ("Coverage", "coverage.html"),
    ("Fleet", "fleet.html"),
    ("Gallery", "gallery.html"),
)
CHANGES_SHOWN: Final = 20

Page = tuple[str, str]


def assets() -> Iterator[Page]:
    """Yield the style sheets and scripts, which all pages share."""
    for name in ("dashboard.css", "dashboard.js"):
        yield f"assets/{name}", (FOLDER / "assets" / name).read_text("utf-8")
    yield "assets/charts.css", str(chart_figure.style())
    yield "assets/charts.js", str(chart_figure.script())


def pages(overview: Overview, reports: Mapping[str, str], gallery: Iterable[GalleryEntry] = ()) -> Iterator[Page]:
    """Yield all pages; the index is the last, so that it never links to a page that is not there.

    `reports` has the path of the report of each run that has one, from the top of the dashboard's folder. `gallery`
    are the entries of the gallery of real bugs.
    """
    for scenario in overview.nights.scenarios:
        yield scenario_link(scenario), _scenario(overview, scenario, reports)
    yield "runs.html", _render("runs.html", overview, data=_runs(overview))
    yield "compare.html", _compare(overview)
    yield "benchmarks.html", _benchmarks(overview)
    yield "simulation.html", _simulation(overview)
    yield "coverage.html", _render("coverage.html", overview, isr=ISR_CLASSES, elections=ELECTION_CLASSES)
    yield "fleet.html", _fleet(overview)
    yield "gallery.html", _gallery(overview, gallery)
    yield INDEX, _tonight(overview)


# -- pages ------------------------------------------------------------------------------------------------------------


def _tonight(overview: Overview) -> str:
    tonight = tonight_of(overview) if overview.nights.days else None
    time = charts.night_chart(overview.nights, overview.nights.last(STRIP_NIGHTS), dict(overview.recorded))
    return _render(
        "tonight.html",
        overview,
        tonight=tonight,
        recorded=overview.recorded.get(overview.nights.tonight),
        simulated=sum(one.seconds for one in overview.tonight if one.row["world"] == "simulation"),
        time=figure(time, "time") if tonight else "",
        changes=_recent_changes(overview),
        flake_nights=FLAKE_NIGHTS,
    )


def _recent_changes(overview: Overview) -> list[Any]:
    """Change points of the last nights, the newest first; hidden ones take no room from others."""
    recent = set(overview.nights.last(STRIP_NIGHTS))
    found = [
        (change, level)
        for levels in overview.levels.values()
        for level in levels
        for change in level.changes
        if change.day in recent
    ]
    found.sort(key=lambda one: (one[0].day, abs(one[0].point.shift)), reverse=True)
    hidden = [one for one in found if one[0].state == "hidden"]
    shown = [one for one in found if one[0].state != "hidden"]
    return [*shown[:CHANGES_SHOWN], *hidden[:CHANGES_SHOWN]]


def _scenario(overview: Overview, scenario: str, reports: Mapping[str, str]) -> str:
    nights, levels = overview.nights, overview.levels[scenario]
    cells = nights.cells[scenario]
    days = nights.last(NIGHTS_MAX)
    runs = [run for day in sorted(cells) for run in cells[day].runs]
    details, left = run_details(runs, nights, reports)
    by_name = {one.metric.name: one for one in levels}
    loop = overview.fleet.canaries[0]
    drawn = [
        charts.latency_chart(levels),
        charts.level_chart(by_name["outage"], "Longest time without an acknowledged send"),
        charts.level_chart(by_name["duration"], "Time of load and check"),
        charts.recovery_chart((day, run) for day in days if day in cells for run in cells[day].runs),
        charts.canary_chart(loop, "The machine meanwhile: " + loop.title),
    ]
    return _render(
        "scenario.html",
        overview,
        up="../",
        scenario=scenario,
        newest=runs[-1],
        strip=[(day, cells.get(day)) for day in days],
        findings=[one for one in overview.findings if one.scenario == scenario],
        changes=sorted(
            ((change, level) for level in levels for change in level.changes), key=lambda one: one[0].day, reverse=True
        ),
        flakes=next((one for one in overview.flakes if one.scenario == scenario), None),
        charts=[figure(one, f"chart-{at}", group="nights") for at, one in enumerate(drawn) if one and _has_points(one)],
        faults=_fault_kinds(runs),
        runs=len(runs),
        left=left,
        data=Markup(embedded({"runs": details})),
    )


def _has_points(chart: Any) -> bool:
    return any(any(value is not None for value in one.y) for one in chart.series)


def _fault_kinds(runs: list[Run]) -> list[dict[str, Any]]:
    """Each kind of fault of a scenario: how often it held, and how long it was felt: middle and longest."""
    kinds: dict[str, list[Any]] = {}
    for run in runs:
        for fault in run.faults:
            kinds.setdefault(fault.kind, []).append(fault)
    found = []
    for kind, some in sorted(kinds.items()):
        felt = sorted(one.recovered_s for one in some if one.recovered_s is not None)
        found.append(
            {
                "kind": kind,
                "planned": len(some),
                "proven": sum(one.proven for one in some),
                "felt": len(felt),
                "middle": felt[len(felt) // 2] if felt else None,
                "longest": felt[-1] if felt else None,
            }
        )
    return found


def _runs(overview: Overview) -> Markup:
    return Markup(embedded(run_columns(overview.facts.runs, overview.nights, figures=False)))


def _compare(overview: Overview) -> str:
    nights = overview.nights
    days = nights.last(COMPARED_NIGHTS)
    runs = [run for day in days for run in nights.runs_of(day)]
    rows = differences(overview)
    return _render(
        "compare.html",
        overview,
        certain=[one for one in rows if one.certain],
        compared=len(rows),
        candidate=CANDIDATE_NIGHTS,
        baseline=BASELINE_NIGHTS,
        nights_shown=len(days),
        data=Markup(embedded(run_columns(runs, nights, figures=True))),
    )


def _benchmarks(overview: Overview) -> str:
    groups: dict[str, list[Any]] = {}
    for number, one in enumerate(overview.benchmarks):
        groups.setdefault(one.benchmark, []).append((one, figure(charts.benchmark_chart(one), f"figure-{number}")))
    return _render("benchmarks.html", overview, groups=groups)


def _simulation(overview: Overview) -> str:
    found = overview.simulation
    drawn = charts.campaign_charts(found.days) if found.days else []
    return _render(
        "simulation.html",
        overview,
        found=found,
        charts=[figure(one, f"campaigns-{at}", group="campaigns") for at, one in enumerate(drawn)],
        mutants=sorted({one.mutant for one in found.kills}),
        kill_scenarios=sorted({one.scenario for one in found.kills}),
        kills=_by_mutant_and_scenario(found.kills),
    )


def _by_mutant_and_scenario(kills: Iterable[Kill]) -> dict[tuple[str, str], list[Kill]]:
    found: dict[tuple[str, str], list[Kill]] = {}
    for one in kills:
        found.setdefault((one.mutant, one.scenario), []).append(one)
    return found


def _fleet(overview: Overview) -> str:
    fleet = overview.fleet
    drawn = [charts.canary_chart(one) for one in fleet.canaries]
    return _render(
        "fleet.html",
        overview,
        canaries=[figure(one, f"canary-{at}", group="fleet") for at, one in enumerate(drawn) if _has_points(one)],
        hosts=[figure(charts.host_chart(one), f"hosts-{at}", group="hosts") for at, one in enumerate(fleet.series)],
    )


def _gallery(overview: Overview, gallery: Iterable[GalleryEntry]) -> str:
    entries = shown_entries(gallery, overview.nights, overview.nights.last(STRIP_NIGHTS))
    return _render("gallery.html", overview, entries=entries, live=sum(one.entry.fixed is None for one in entries))


# -- rendering --------------------------------------------------------------------------------------------------------


def _render(name: str, overview: Overview, **facts: Any) -> str:
    values: dict[str, Any] = {"up": "", "data": "", **facts}
    return (
        _environment()
        .get_template(name)
        .render(overview=overview, nights=overview.nights, menu=MENU, page=name, **values)
    )


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        grouped=grouped, percent=percent, seconds=seconds, commit=short_commit, figure=figure_text, file_name=file_name
    )
    environment.globals.update(
        several=several,
        run_link=run_link,
        night_link=night_link,
        scenario_link=scenario_link,
        outcome_names=OUTCOME_NAMES,
        outcome_text=outcome_text,
        cell_title=_cell_title,
        strip_of=_strip_of,
        states=STATES,
    )
    return environment


def _cell_title(day: str, cell: Any) -> str:
    if cell is None:
        return f"{day}: not run"
    text = outcome_text(cell.worst_run)
    return f"{day}: {text}" + (f", the worst of {several(len(cell.runs), 'run')}" if len(cell.runs) > 1 else "")


def _strip_of(nights: Nights, finding: Any) -> list[tuple[str, int | None]]:
    """On each of the last nights: in how many runs a finding was seen; None if its scenario was not run."""
    cells = nights.cells[finding.scenario]
    return [(day, finding.seen_by_day.get(day, 0) if day in cells else None) for day in nights.last(STRIP_NIGHTS)]

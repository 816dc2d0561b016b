"""Write `report.html`: one file that opens offline, in a browser or on paper.

It shows verdict and coverage; the timeline, with a mark for every witness; every witness with its picture and the rows
around it; the faults with their evidence and what they did to clients; topic-partitions; hosts, with what they used;
the last run of the same scenario; how to repeat the run. Nothing is loaded from elsewhere. A script of our own makes
the charts interactive; without it, and on paper, static pictures show the same. Colours are never the only sign.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
import msgspec
from markupsafe import Markup

from squall.results.charts.chart import Chart, Mark
from squall.results.charts.figure import figure, script, style
from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.common.text import clock, duration, grouped, several, value_name
from squall.results.checkers.kernels.series import Frame
from squall.results.history.host_samples import SAMPLES, HostSample, read_host_samples
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import Manifest
from squall.results.history.segments import ClusterObservation, FaultWindow
from squall.results.history.whole_file import write_whole
from squall.results.report.fault_effects import FaultEffect, beside_words, fault_effects
from squall.results.report.host_charts import host_charts
from squall.results.report.last_run import NO_SIGNIFICANCE, RunFacts
from squall.results.report.predecessor import last_run
from squall.results.report.render import MARKS, availability_text, summary
from squall.results.report.run_charts import run_charts, setting_of
from squall.results.report.run_files import run_files
from squall.results.report.tables import Series
from squall.results.verdict.further import ToldFurther
from squall.results.verdict.verdict import Verdict
from squall.results.witnesses.diagram import witness_diagram
from squall.results.witnesses.presentations import draw_facts
from squall.results.witnesses.witness import Surroundings, Witness

REPORT_FILE: Final = "report.html"
BENCH_FILE: Final = "bench.json"
TEMPLATES: Final = Path(__file__).with_name("templates")
MOST_WITNESSES: Final = 24
OPEN_WITNESSES: Final = 3
"""Further ones are folded on the screen; on paper all are open."""
RUN: Final = "run"
"""The group of the charts that zoom together: all of a report."""
OF_FAULTS: Final = ("under fault", "after fault", "faults")
"""Subjects of lines whose times are those of faults."""


def write_report(
    run_dir: Path, manifest: Manifest, verdict: Verdict, series: Series, around: Surroundings, frame: Frame
) -> Path:
    """Write the report of a run beside its verdict."""
    path = run_dir / REPORT_FILE
    write_whole(path, render_report(manifest, verdict, series, around, frame, run_dir=run_dir))
    return path


class BenchFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a workload that measures, as `bench.json` holds them; latencies in milliseconds by quantile."""

    intended_rate: float
    seconds: float
    due: int
    begun: int
    acknowledged: int
    never_begun: int
    latency_ms: dict[str, dict[str, float | None]]


def load_bench(run_dir: Path) -> BenchFacts | None:
    """Load the figures of a run of `produce-bench`; None for any other run, and if they cannot be read."""
    try:
        return msgspec.json.decode((run_dir / BENCH_FILE).read_bytes(), type=BenchFacts)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def render_report(
    manifest: Manifest,
    verdict: Verdict,
    series: Series,
    around: Surroundings,
    frame: Frame,
    *,
    run_dir: Path,
) -> str:
    """Render the report as HTML. `run_dir` may hold figures of a benchmark, samples of hosts, logs of nodes."""
    witnesses = [_witness_view(one, around, number) for number, one in enumerate(_shown(verdict.witnesses), 1)]
    further = [_further_view(one, around, number) for number, one in enumerate(_shown(verdict.further_witnesses), 1)]
    marks = [view["mark"] for view in (*witnesses, *further) if view["mark"] is not None]
    setting = setting_of(series, around.faults, frame, marks, _time_of_day(manifest))
    charts = run_charts(series, around.faults, manifest.topic_partitions, around.cluster, frame, setting)
    samples, samples_said = _host_samples(run_dir, manifest)
    effects = fault_effects(around.faults, series, frame)
    return _template().render(
        manifest=manifest,
        verdict=verdict,
        bench=load_bench(run_dir),
        charts=_figures(charts),
        host_charts=_figures(host_charts(samples, frame, setting)),
        samples=samples_said,
        shared=any(one.shared for one in samples),
        chart_style=style(),
        chart_script=script(),
        code=_code(manifest),
        began=_clock_words(manifest),
        rate=_rate(manifest, verdict),
        files=run_files(run_dir),
        last_run=last_run(run_dir, RunFacts(manifest, verdict, around.faults, effects)),
        no_significance=NO_SIGNIFICANCE,
        open_witnesses=OPEN_WITNESSES,
        summary=summary(verdict),
        marks=MARKS,
        availability=availability_text(verdict),
        several=several,
        anomalies=ANOMALIES,
        witnesses=witnesses,
        further_witnesses=further,
        more_witnesses=sum(max(0, len(one) - MOST_WITNESSES) for one in (verdict.witnesses, verdict.further_witnesses)),
        faults=[_fault_view(one, effect, around.origin) for one, effect in zip(around.faults, effects, strict=True)],
        partitions=series["partitions"].to_pylist(),
        latency=_latency_view(series),
        changes=_changes(around.cluster, around.origin),
        settings=_settings(manifest),
        load=_load_seconds(manifest),
    )


@cache
def _template() -> jinja2.Template:
    """Compile the template once: that takes a third of the time of the picture."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(grouped=grouped, duration=duration, value=value_name, seconds=_seconds)
    return environment.get_template(REPORT_FILE)


def _seconds(value: float) -> str:
    return duration(value * 1e9)


def _shown(witnesses: Sequence[Any]) -> Sequence[Any]:
    return witnesses[:MOST_WITNESSES]


def _witness_view(witness: Witness, around: Surroundings, number: int) -> dict[str, Any]:
    ends = [one.invoked if one.completed is None else one.completed for one in witness.facts.operations]
    moment = (max(ends) - around.origin) / 1e9 if ends else None
    return {
        "id": f"witness-{number}",
        "mark": _mark(moment, f"{witness.anomaly}: {witness.title}", f"#witness-{number}"),
        "witness": witness,
        "meaning": ANOMALIES[witness.anomaly].meaning,
        "diagram": Markup(witness_diagram(witness, around)),
        "neighbours": witness.facts.neighbours,
        "origin": around.origin,
        "times": {
            one.offset: ", ".join(clock(time, around.origin) for _, _, time in one.acknowledged)
            for one in witness.facts.neighbours
        },
    }


def _mark(moment: float | None, label: str, href: str) -> Mark | None:
    return None if moment is None else Mark(moment, label, href, "anomaly")


def _further_view(told: ToldFurther, around: Surroundings, number: int) -> dict[str, Any]:
    plugin = told.facts.plugin
    meaning = ANOMALIES[told.anomaly].meaning if plugin is None else plugin.meaning
    return {
        "id": f"proof-{number}",
        "mark": _mark(_last_moment(told), f"{told.anomaly}: {told.title}", f"#proof-{number}"),
        "told": told,
        "meaning": meaning,
        "diagram": Markup(draw_facts(told.facts, around)),
    }


def _last_moment(told: ToldFurther) -> float | None:
    """Return the last time that its lines state of an operation; checks differ in what their facts hold."""
    stated = [re.fullmatch(r"(-?\d+(?:\.\d+)?) s", one.time) for one in told.lines if one.subject not in OF_FAULTS]
    return max((float(one[1]) for one in stated if one is not None), default=None)


def _figures(charts: Mapping[str, Chart]) -> list[Markup]:
    return [figure(chart, f"chart-{name}", group=RUN) for name, chart in charts.items()]


def _host_samples(run_dir: Path, manifest: Manifest) -> tuple[list[HostSample], str]:
    """Return the samples, and what is to be said of them: what could not be sampled, or why there are none."""
    said = str(manifest.options.get(SAMPLES, ""))
    try:
        samples = read_host_samples(run_dir)
    except IllFormedHistory as trouble:
        return [], f"The samples of hosts cannot be read: {trouble}"
    if samples:
        return samples, said
    return [], said or "no samples of hosts were recorded"


def _time_of_day(manifest: Manifest) -> float | None:
    """Return second 0 of the report in seconds since 1970."""
    with suppress(ValueError):
        return datetime.fromisoformat(manifest.load_began).timestamp()
    return None


def _clock_words(manifest: Manifest) -> str:
    """`2026-11-24 14:03:11 to 14:33:11 UTC`, or nothing."""
    began = _time_of_day(manifest)
    if began is None or manifest.load_started is None:
        return ""
    first = datetime.fromtimestamp(began, UTC)
    if manifest.load_ended is None:
        return f"{first:%Y-%m-%d %H:%M:%S} UTC"
    last = datetime.fromtimestamp(began + (manifest.load_ended - manifest.load_started) / 1e9, UTC)
    return f"{first:%Y-%m-%d %H:%M:%S} to {last:%H:%M:%S} UTC"


def _code(manifest: Manifest) -> str:
    """`8bf7102f01, with changes that were not committed`; empty if the commit is unknown."""
    commit = manifest.versions.get("commit", "")
    dirty = ", with changes that were not committed" if manifest.versions.get("dirty") == "yes" else ""
    return f"{commit[:10]}{dirty}" if commit else ""


def _rate(manifest: Manifest, verdict: Verdict) -> str:
    """Return the acknowledged sends per second of the whole load."""
    if manifest.load_started is None or manifest.load_ended is None or manifest.load_ended <= manifest.load_started:
        return ""
    seconds = (manifest.load_ended - manifest.load_started) / 1e9
    return f"{grouped(round(verdict.coverage.acknowledged / seconds))}/s"


def _fault_view(fault: FaultWindow, effect: FaultEffect, origin: int) -> dict[str, Any]:
    return {
        "fault": fault,
        "effect": f"{MARKS[None]} {effect.told}" if effect.trouble is None else effect.told,
        "beside": beside_words(effect),
        "from": "never" if fault.injected is None else clock(fault.injected, origin, 1),
        "to": "not healed" if fault.healed is None else clock(fault.healed, origin, 1),
        "took": _sign(fault.took, "took hold", "no evidence", "not observed"),
        "undone": _sign(fault.undone, "undone", "end not proven", "not observed"),
    }


def _sign(fact: bool | None, yes: str, no: str, nobody: str) -> str:
    return f"{MARKS[fact]} {yes if fact else nobody if fact is None else no}"


def _latency_view(series: Series) -> dict[str, str]:
    """The worst bucket of each quantile: the median of the buckets' medians would flatter."""
    table = series["latency"]
    if table.num_rows == 0:
        return {}
    worst = {name: max(table[name].to_pylist()) for name in ("p50", "p99", "p999", "max")}
    return {name: _seconds(value) for name, value in worst.items()}


def _changes(cluster: Sequence[ClusterObservation], origin: int) -> list[dict[str, str]]:
    """Return which node led what from when: every change but the first observation of each."""
    seen: set[tuple[str, str | None, int | None]] = set()
    rows = []
    for one in cluster:
        what = (one.kind, one.topic, one.partition)
        first = what not in seen
        seen.add(what)
        if one.kind == "in_sync" or (first and one.kind != "unclean"):
            continue
        rows.append(
            {
                "time": clock(one.time, origin, 1),
                "what": _what_changed(one),
                "node": one.node or "none",
                "epoch": "" if one.epoch is None else str(one.epoch),
            }
        )
    return rows


def _what_changed(one: ClusterObservation) -> str:
    if one.kind == "controller":
        return "active controller"
    if one.kind == "unclean":
        return f"unclean election of {one.topic}-{one.partition}, another log from offset {one.offset} on"
    return f"leader of {one.topic}-{one.partition}"


def _settings(manifest: Manifest) -> list[tuple[str, dict[str, str]]]:
    """Return tables of names and values for the last section."""
    topics = {
        name: f"{several(facts.partitions, 'partition')}, RF {facts.replication_factor}, "
        f"min ISR {facts.min_insync_replicas}" + (f", id {facts.topic_id}" if facts.topic_id else "")
        for name, facts in manifest.topics.items()
    }
    tables = [
        ("Topics", topics),
        ("Workload", {name: str(value) for name, value in manifest.workload.items()}),
        ("Node configuration", manifest.node_config),
        ("Options", {name: str(value) for name, value in manifest.options.items()}),
        ("Versions", manifest.versions),
        ("Machine", manifest.machine),
    ]
    return [(name, table) for name, table in tables if table]


def _load_seconds(manifest: Manifest) -> str:
    if manifest.load_started is None or manifest.load_ended is None:
        return ""
    return duration(manifest.load_ended - manifest.load_started)

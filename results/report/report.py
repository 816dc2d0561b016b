"""Write `report.html`: one file that opens offline, in a browser or on paper.

It shows verdict and coverage; the timeline; every witness with its picture and the rows around it; the faults with
their evidence; topic-partitions; hosts; how to repeat the run. Nothing is loaded from elsewhere, and no script is
needed. Colours are never the only sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
import msgspec
from markupsafe import Markup

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.common.text import clock, duration, grouped, several, value_name
from squall.results.checkers.kernels.series import Frame
from squall.results.history.manifest import Manifest
from squall.results.history.segments import ClusterObservation, FaultWindow
from squall.results.history.whole_file import write_whole
from squall.results.report.plots import timeline
from squall.results.report.render import MARKS, availability_text, summary
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


def write_report(
    run_dir: Path, manifest: Manifest, verdict: Verdict, series: Series, around: Surroundings, frame: Frame
) -> Path:
    """Write the report of a run beside its verdict."""
    path = run_dir / REPORT_FILE
    write_whole(path, render_report(manifest, verdict, series, around, frame, bench=load_bench(run_dir)))
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
    bench: BenchFacts | None = None,
) -> str:
    """Render the report as HTML."""
    return _template().render(
        manifest=manifest,
        verdict=verdict,
        bench=bench,
        summary=summary(verdict),
        marks=MARKS,
        availability=availability_text(verdict),
        several=several,
        anomalies=ANOMALIES,
        timeline=Markup(timeline(series, manifest.topic_partitions, around.faults, around.cluster, frame)),
        witnesses=[_witness_view(one, around) for one in verdict.witnesses[:MOST_WITNESSES]],
        further_witnesses=[_further_view(one, around) for one in verdict.further_witnesses[:MOST_WITNESSES]],
        more_witnesses=sum(max(0, len(one) - MOST_WITNESSES) for one in (verdict.witnesses, verdict.further_witnesses)),
        faults=[_fault_view(one, around.origin) for one in around.faults],
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


def _witness_view(witness: Witness, around: Surroundings) -> dict[str, Any]:
    return {
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


def _further_view(told: ToldFurther, around: Surroundings) -> dict[str, Any]:
    plugin = told.facts.plugin
    meaning = ANOMALIES[told.anomaly].meaning if plugin is None else plugin.meaning
    return {"told": told, "meaning": meaning, "diagram": Markup(draw_facts(told.facts, around))}


def _fault_view(fault: FaultWindow, origin: int) -> dict[str, Any]:
    return {
        "fault": fault,
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

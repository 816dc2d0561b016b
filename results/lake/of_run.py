"""Make the rows of a run from its directory: manifest, verdict, faults, what was observed of the cluster, series.

Everything comes from files that the run wrote anyway, so that a lake can be made again from run directories. Files that
are missing or cannot be read leave their tables empty. A run that was never judged, or whose verdict cannot be read,
has the verdict `none`: it is never counted as valid. A run that does not state when it began is dated by the time of
its manifest's file, and that is said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from squall.results.history.history import read_cluster, read_faults
from squall.results.history.host_samples import read_host_samples, thinned
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import MANIFEST_FILE, HostFacts, Manifest
from squall.results.history.segments import ClusterObservation, FaultWindow
from squall.results.lake.entry import Entry
from squall.results.lake.histogram import added, quantile_seconds
from squall.results.report.tables import LATENCY_CLASSES, Series
from squall.results.trends import fingerprints
from squall.results.trends.fingerprints import Finding
from squall.results.verdict.verdict import Verdict

NOT_JUDGED: Final = "none"
LONGEST_TEXT: Final = 500
SAMPLE_NS: Final = 10_000_000_000
"""Samples of hosts are kept for stretches of ten seconds: a night of long runs would be mostly samples."""

Row = Mapping[str, Any]


def entry_of_run(
    directory: Path, *, night: str = "", now: datetime | None = None, say: Callable[[str], None] = lambda line: None
) -> Entry:
    """Make the entry of a run. Raises IllFormedHistory if it has no manifest that can be read.

    `say` gets a line if the run does not state when it began.
    """
    manifest = Manifest.load(directory)
    if date_of(manifest.started) is None:
        manifest = manifest.with_changes(started=_time_of_file(directory / MANIFEST_FILE))
        say(f"{directory}: does not state when it began: dated {manifest.started}, the time of its {MANIFEST_FILE}")
    verdict = _verdict_of(directory)
    faults, cluster = _observed(directory)
    series = _series_of(directory)
    origin = manifest.load_started or 0
    silences = _outages(series)
    machine = machine_row(manifest.machine)
    rows: dict[str, list[Row]] = {
        "runs": [_run(directory, manifest, verdict, faults, cluster, silences, machine["machine"], night, _text(now))],
        "anomalies": _anomalies(manifest, verdict, faults),
        "faults": [_fault(one, manifest.hosts, origin, silences, cluster) for one in faults],
        "partitions": _partitions(series),
        "latency": _latency(series),
        "throughput": _throughput(series),
        "outages": silences,
        "host_samples": _host_samples(directory, origin),
        "machines": [machine],
    }
    date = date_of(manifest.started)
    assert date is not None
    return Entry.of(manifest.run_id, date, _text(now), rows)


def date_of(started: str) -> str | None:
    """Return the UTC day of a time in ISO 8601; None for a text that is no time."""
    try:
        moment = datetime.fromisoformat(started)
    except ValueError:
        return None
    return (moment if moment.tzinfo is None else moment.astimezone(UTC)).date().isoformat()


def _time_of_file(path: Path) -> str:
    """Return when a file was written last. Raises IllFormedHistory if it has vanished."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    except OSError as trouble:
        raise IllFormedHistory(path, None, f"cannot be read: {trouble.strerror}") from trouble


def _text(now: datetime | None) -> str:
    return (now or datetime.now(UTC)).isoformat(timespec="seconds")


# -- reading ----------------------------------------------------------------------------------------------------------


def _verdict_of(directory: Path) -> Verdict | None:
    with suppress(FileNotFoundError, IllFormedHistory, OSError):
        return Verdict.load(directory)
    return None


def _observed(directory: Path) -> tuple[list[FaultWindow], list[ClusterObservation]]:
    with suppress(IllFormedHistory, OSError):
        return read_faults(directory), read_cluster(directory)
    return [], []


def _series_of(directory: Path) -> Mapping[str, pa.Table]:
    with suppress(pa.ArrowInvalid, OSError):
        return Series.load(directory).tables
    return {}


# -- rows -------------------------------------------------------------------------------------------------------------


def _run(
    directory: Path,
    manifest: Manifest,
    verdict: Verdict | None,
    faults: Sequence[FaultWindow],
    cluster: Sequence[ClusterObservation],
    silences: Sequence[Row],
    machine: str,
    night: str,
    recorded: str,
) -> Row:
    coverage = None if verdict is None else verdict.coverage
    kind = "imported" if manifest.imported else "simulation" if manifest.world == "simulation" else "run"
    row = {
        "kind": kind,
        "started": manifest.started,
        "suite": manifest.suite,
        "scenario": manifest.scenario,
        "scenario_hash": manifest.scenario_hash,
        "seed": manifest.seed,
        "schedule_hash": manifest.schedule_hash,
        "trace_hash": manifest.trace_hash,
        "verdict": NOT_JUDGED if verdict is None else verdict.verdict,
        "expected": manifest.expect.verdict,
        "as_expected": verdict is not None and verdict.as_expected,
        "reasons": [] if verdict is None else [_short(one) for one in verdict.reasons],
        "anomalies": [] if verdict is None else [one.name for one in verdict.anomalies],
        "world": manifest.world,
        "commit": manifest.versions.get("commit", ""),
        "dirty": manifest.versions.get("dirty", "") == "yes",
        "version": manifest.versions.get("squall", ""),
        "system": str(manifest.options.get("system", "squall")),
        "mutants": list(manifest.mutants),
        "machine": machine,
        "hosts": [one.name for one in manifest.hosts],
        "directory": str(directory.resolve()),
        "command": manifest.command,
        "load_s": _load_seconds(manifest),
        "faults": len(faults),
        "faults_proven": sum(bool(one.took and one.undone) for one in faults),
        "leader_changes": _number(manifest.options.get("leader_changes")),
        "elections": _number(manifest.options.get("controller_elections")),
        "longest_outage_s": max((one["end_s"] - one["start_s"] for one in silences), default=None),
        "night": night,
        "recorded": recorded,
    }
    if coverage is not None:
        row |= {
            "check_s": coverage.seconds,
            "acknowledged": coverage.acknowledged,
            "sends_info": coverage.sends_info,
            "sends_fail": coverage.sends_fail,
            "polls": coverage.polls,
            "records": coverage.records,
        }
    return row


def _anomalies(manifest: Manifest, verdict: Verdict | None, faults: Sequence[FaultWindow]) -> list[Row]:
    if verdict is None:
        return []
    lines = {one.anomaly: one.title for one in reversed(verdict.further_witnesses)}
    lines |= {one.anomaly: one.title for one in reversed(verdict.witnesses)}
    kinds = sorted({one.fault for one in faults})
    return [
        {
            "anomaly": one.name,
            "meaning": one.meaning,
            "occurrences": one.count,
            "places": sorted(one.where),
            "fingerprint": fingerprint(manifest.scenario, one.name, kinds, manifest.mutants),
            "witness": _short(lines.get(one.name, "")),
            "faults": kinds,
        }
        for one in verdict.anomalies
    ]


def fingerprint(scenario: str, anomaly: str, kinds: Iterable[str], mutants: Iterable[str] = ()) -> str:
    """Return what equal findings have in common: 16 hexadecimal digits. Offsets, times and seeds do not count."""
    return fingerprints.fingerprint(
        Finding(scenario, anomaly, suspect=", ".join(sorted(mutants)), faults=tuple(sorted(kinds)))
    )


def _fault(
    fault: FaultWindow,
    hosts: Sequence[HostFacts],
    origin: int,
    silences: Sequence[Row],
    cluster: Sequence[ClusterObservation],
) -> Row:
    roles = {one.name: "+".join(one.roles) for one in hosts}
    row: dict[str, Any] = {
        "id": fault.id,
        "fault": fault.fault,
        "targets": list(fault.targets),
        "role": next((roles[one] for one in fault.targets if one in roles), ""),
        "proven": bool(fault.took and fault.undone),
        "evidence": _short(fault.during),
        "trouble": _short(fault.trouble),
    }
    if fault.injected is None:
        return row
    began = (fault.injected - origin) / 1e9
    ended = None if fault.healed is None else (fault.healed - origin) / 1e9
    during = [one for one in silences if began <= one["start_s"] and (ended is None or one["start_s"] <= ended)]
    worst = max(during, key=lambda one: float(one["end_s"] - one["start_s"]), default=None)
    held = [one for one in cluster if fault.injected <= one.time and (fault.healed is None or one.time <= fault.healed)]
    return row | {
        "injected_s": began,
        "healed_s": ended,
        "silence_s": None if worst is None else worst["end_s"] - worst["start_s"],
        "recovered_s": None if worst is None else worst["end_s"] - began,
        "isr": min((len(one.nodes) for one in held if one.kind == "in_sync"), default=None),
        "elections": sum(one.kind in ("leader", "controller") for one in held),
    }


def _outages(series: Mapping[str, pa.Table]) -> list[Row]:
    return [
        {"topic": one["topic"], "partition": one["partition"], "start_s": one["start"], "end_s": one["end"]}
        for one in _rows(series, "outages")
    ]


def _partitions(series: Mapping[str, pa.Table]) -> list[Row]:
    names = ("topic", "partition", "acknowledged", "records", "anomalies", "final_read_complete")
    return [
        {name: one[name] for name in names} | {"longest_outage_s": one["longest_outage"]}
        for one in _rows(series, "partitions")
    ]


def _latency(series: Mapping[str, pa.Table]) -> list[Row]:
    rows = _rows(series, LATENCY_CLASSES)
    if not rows:
        return []
    classes, counts = [one["latency_class"] for one in rows], [one["sends"] for one in rows]
    histogram = added([(classes, counts)])
    shares = {"p50_s": 0.5, "p99_s": 0.99, "p999_s": 0.999, "max_s": 1.0}
    quantiles = {name: quantile_seconds(histogram, share) for name, share in shares.items()}
    return [{"operation": "send", "operations": sum(counts), "classes": classes, "counts": counts, **quantiles}]


def _throughput(series: Mapping[str, pa.Table]) -> list[Row]:
    return [
        {"second": one["second"], "operation": one["f"], "outcome": one["type"], "operations": one["operations"]}
        for one in _rows(series, "throughput")
    ]


def _host_samples(directory: Path, origin: int) -> list[Row]:
    with suppress(IllFormedHistory):
        rows = thinned(read_host_samples(directory), origin, SAMPLE_NS)
        return [
            {"host": host, "second": second, "metric": metric, "value": value} for host, second, metric, value in rows
        ]
    return []


def _rows(series: Mapping[str, pa.Table], name: str) -> list[dict[str, Any]]:
    return series[name].to_pylist() if name in series else []


def machine_row(facts: Mapping[str, str]) -> dict[str, Any]:
    """Return the row of a machine, from what a run states about it."""
    same = "\n".join(facts.get(name, "") for name in ("system", "processors", "memory"))
    return {
        "machine": hashlib.sha256(same.encode()).hexdigest()[:12] if facts else "",
        "name": facts.get("system", ""),
        "processors": _number(facts.get("processors")),
        "memory": facts.get("memory", ""),
        "loop_ms": _decimal(facts.get("loop_ms")),
        "loop_noise": _decimal(facts.get("loop_noise")),
        "sync_ms": _decimal(facts.get("sync_ms")),
        "round_trip_ms": _decimal(facts.get("round_trip_ms")),
    }


def _load_seconds(manifest: Manifest) -> float | None:
    if manifest.load_started is None or manifest.load_ended is None:
        return None
    return (manifest.load_ended - manifest.load_started) / 1e9


def _number(value: object) -> int | None:
    with suppress(TypeError, ValueError):
        return int(value)  # type: ignore[call-overload, no-any-return]
    return None


def _decimal(value: str | None) -> float | None:
    with suppress(TypeError, ValueError):
        return float(value)  # type: ignore[arg-type]
    return None


def _short(text: str) -> str:
    """Return the text in at most `LONGEST_TEXT` characters."""
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"

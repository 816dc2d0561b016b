"""Set a run beside the last one of the same scenario: verdict, figures, recovery from each kind of fault, machine.

Pure: what both runs wrote goes in, rows of words come out. One run on each side shows no significance, so a difference
is stated and never judged, and no verdict depends on it; `squall compare` judges several runs. A figure that a run does
not have is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Final

from squall.results.checkers.common.text import duration, grouped, listed
from squall.results.history.manifest import CANARIES, Manifest
from squall.results.history.segments import FaultWindow
from squall.results.report.fault_effects import FaultEffect
from squall.results.verdict.verdict import Verdict

NO_SIGNIFICANCE: Final = (
    "There is one run on each side, so nothing is known of how far such runs differ by chance: no difference here is "
    "shown to be significant, or to come from the system."
)
UNKNOWN: Final = "? unknown"
SAME_MACHINE: Final = ("system", "processors", "memory")
"""Facts of a machine that are the same for runs on the same one."""


@dataclass(frozen=True)
class RunFacts:
    """What a run wrote about itself, with the effect of each of its faults."""

    manifest: Manifest
    verdict: Verdict
    faults: Sequence[FaultWindow]
    effects: Sequence[FaultEffect]


@dataclass(frozen=True)
class Row:
    """A figure of both runs, in words. `difference` is empty if one of them is not a number."""

    name: str
    last: str
    this: str
    difference: str = ""


@dataclass(frozen=True)
class LastRun:
    """The comparison; without rows, `notes` say why there is none. `href` is empty if that run has no report.

    `href_from_latest` leads to the same report from a page that was opened as `runs/latest/report.html`.
    """

    name: str = ""
    href: str = ""
    href_from_latest: str = ""
    rows: tuple[Row, ...] = ()
    machine: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()


Figure = tuple[str, float | None]
"""A figure in words and as a number; None if it is none."""


def result_rows(last: RunFacts, this: RunFacts) -> tuple[Row, ...]:
    """Return verdict, figures and recoveries of two runs side by side."""
    return (
        Row("verdict", _verdict(last), _verdict(this)),
        *(_row(name, of(last), of(this)) for name, of in FIGURES.items()),
        *(_row(f"recovery from {kind}", _recovery(last, kind), _recovery(this, kind)) for kind in _kinds(last, this)),
    )


def machine_rows(last: Manifest, this: Manifest) -> tuple[Row, ...]:
    """Return the canaries of the machine that either run recorded."""
    rows = [_row(f"machine: {title}", _canary(last, name), _canary(this, name)) for name, title in CANARIES.items()]
    return tuple(one for one in rows if (one.last, one.this) != (UNKNOWN, UNKNOWN))


def circumstances(last: Manifest, this: Manifest) -> Iterator[str]:
    """Yield what else differs between two runs and may be why their figures do."""
    machines = [[one.machine.get(name, "") for name in SAME_MACHINE] for one in (last, this)]
    if not all(any(one) for one in machines):
        yield "Whether both ran on the same machine is unknown."
    elif machines[0] != machines[1]:
        yield "The machines are not the same: no difference can be ascribed to the system."
    if last.schedule_hash != this.schedule_hash:
        yield f"The schedules of faults differ (seed {last.seed}, now {this.seed})."
    commits = [_commit(one) for one in (last, this)]
    if not all(commits):
        yield "Whether both ran the same commit is unknown."
    elif commits[0] != commits[1]:
        yield f"The commits differ: {commits[0]}, now {commits[1]}."
    elif any(one.versions.get("dirty") == "yes" for one in (last, this)):
        yield f"Both ran commit {commits[0]}, at least one with changes that were not committed."
    if last.mutants != this.mutants:
        said = [", ".join(one.mutants) or "none" for one in (last, this)]
        yield f"The mutants differ: {said[0]}, now {said[1]}."


def _commit(manifest: Manifest) -> str:
    return manifest.versions.get("commit", "")[:10]


def _verdict(run: RunFacts) -> str:
    """`invalid: lost_write (1)`, `valid`."""
    anomalies = listed([f"{one.name} ({grouped(one.count)})" for one in run.verdict.anomalies], 4)
    said = f"{run.verdict.verdict}: {anomalies}" if anomalies else run.verdict.verdict
    return said if run.verdict.as_expected or said == "unknown" else f"{said}, not as expected"


def _row(name: str, last: Figure, this: Figure) -> Row:
    return Row(name, last[0], this[0], _difference(last[1], this[1]))


def _difference(last: float | None, this: float | None) -> str:
    """`+12.0 %`; beyond the double or the half, a factor says more: `×3.10`."""
    if last is None or this is None:
        return ""
    if last == this:
        return "none"
    if last <= 0 or this <= 0:
        return ""
    if not 0.5 <= this / last <= 2:
        return f"×{this / last:.3g}"
    share = 100 * (this / last - 1)
    return f"{share:+.1f} %" if abs(share) >= 0.05 else "below 0.1 %"


def _latency(name: str) -> Callable[[RunFacts], Figure]:
    def figure(run: RunFacts) -> Figure:
        latency = run.verdict.send_latency
        return _time(None if latency is None else getattr(latency, name) / 1e9)

    return figure


def _throughput(run: RunFacts) -> Figure:
    started, ended = run.manifest.load_started, run.manifest.load_ended
    if started is None or ended is None or ended <= started:
        return UNKNOWN, None
    rate = run.verdict.coverage.acknowledged / (ended - started) * 1e9
    return f"{grouped(round(rate))}/s", rate


def _outage(run: RunFacts) -> Figure:
    outage = run.verdict.longest_outage
    return _time(None if outage is None else outage.nanoseconds / 1e9)


def _time(seconds: float | None) -> Figure:
    return (UNKNOWN, None) if seconds is None else (duration(seconds * 1e9), seconds)


FIGURES: Final[dict[str, Callable[[RunFacts], Figure]]] = {
    "p50 of sends": _latency("p50_ns"),
    "p99 of sends": _latency("p99_ns"),
    "p99.9 of sends": _latency("p999_ns"),
    "sends acknowledged": _throughput,
    "longest outage": _outage,
}


def _kinds(last: RunFacts, this: RunFacts) -> list[str]:
    return sorted({one.fault for run in (last, this) for one in run.faults})


def _recovery(run: RunFacts, kind: str) -> Figure:
    """Return the longest trouble that a kind of fault made, from its beginning until it was over."""
    effects = [effect for fault, effect in zip(run.faults, run.effects, strict=True) if fault.fault == kind]
    if not effects:
        return "not injected", None
    if any(one.trouble and one.recovered is None for one in effects):
        return "not over when the load ended", None
    unknown = sum(one.trouble is None for one in effects)
    if unknown:
        return UNKNOWN if unknown == len(effects) else f"{UNKNOWN} for {unknown} of {len(effects)}", None
    lasted = [one.recovered - (one.began or 0.0) for one in effects if one.recovered is not None]
    return _time(max(lasted)) if lasted else ("no trouble seen", None)


def _canary(manifest: Manifest, name: str) -> Figure:
    with suppress(KeyError, ValueError):
        milliseconds = float(manifest.machine[name])
        if isfinite(milliseconds) and milliseconds >= 0:
            return _time(milliseconds / 1e3)
    return UNKNOWN, None

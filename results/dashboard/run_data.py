"""What pages embed of runs, as JSON: the details of a scenario's runs, and short columns of very many runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from squall.results.dashboard.lake_facts import Run
from squall.results.dashboard.nights import Nights, outcome_of, outcome_text
from squall.results.dashboard.words import file_name

PAGE_BYTES_MAX: Final = 1_400_000
"""Of embedded runs; a page stays below 2 MB."""
DIGITS: Final = 4


def run_details(runs: Sequence[Run], nights: Nights, reports: Mapping[str, str]) -> tuple[list[dict[str, Any]], int]:
    """Return the details of the newest runs, the newest first, as many as fit in a page, and how many are left out."""
    found, size = [], 0
    for run in reversed(runs):
        details = _details(run, nights.day_of[run.key], reports.get(run.key, ""))
        size += len(msgspec.json.encode(details))
        if size > PAGE_BYTES_MAX:
            break
        found.append(details)
    return found, len(runs) - len(found)


def _details(run: Run, day: str, report: str) -> dict[str, Any]:
    row = run.row
    facts = {
        "key": run.key,
        "day": day,
        "started": run.started,
        "outcome": outcome_of(run),
        "verdict": outcome_text(run),
        "reasons": list(row["reasons"] or ()),
        "seed": row["seed"],
        "commit": run.commit,
        "kind": row["kind"],
        "suite": row["suite"],
        "system": row["system"],
        "mutants": list(row["mutants"] or ()),
        "hosts": list(run.hosts),
        "load": _short(row["load_s"]),
        "check": _short(row["check_s"]),
        "sends": [row["acknowledged"], row["sends_info"], row["sends_fail"]],
        "records": row["records"],
        "proven": [row["faults_proven"], row["faults"]],
        "outage": _short(run.outage_s),
        "latency": None if run.latency is None else [_short(one) for one in _quantiles(run)],
        "machine": None if run.machine is None else [_short(run.machine.loop_ms), _short(run.machine.loop_noise)],
        "anomalies": [
            {
                "name": one.name,
                "meaning": one.meaning,
                "count": one.occurrences,
                "places": list(one.places[:20]),
                "witness": one.witness,
                "faults": list(one.faults),
                "fingerprint": one.fingerprint,
            }
            for one in run.anomalies
        ],
        "faults": [
            [
                one.id,
                one.kind,
                ", ".join(one.targets),
                one.role,
                one.proven,
                one.trouble or one.evidence,
                _short(one.injected_s),
                _short(one.healed_s),
                _short(one.recovered_s),
                one.isr,
                one.elections,
            ]
            for one in run.faults
        ],
        "directory": row["directory"],
        "command": row["command"],
        "report": report,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [])}


def run_columns(runs: Iterable[Run], nights: Nights, *, figures: bool) -> dict[str, Any]:
    """Return short columns of runs, the newest first, as many as fit in a page; names are places in lists."""
    some = sorted(runs, key=lambda one: (one.started, one.key), reverse=True)
    widest = 140 if figures else 75
    shown = some[: PAGE_BYTES_MAX // widest]
    names = _Names()
    columns: dict[str, list[Any]] = {
        "key": [one.key for one in shown],
        "scenario": [names.place("scenarios", one.scenario) for one in shown],
        "day": [names.place("days", nights.day_of[one.key]) for one in shown],
        "time": [one.started[11:16] for one in shown],
        "outcome": [names.place("outcomes", outcome_of(one)) for one in shown],
        "verdict": [names.place("verdicts", outcome_text(one)) for one in shown],
        "seed": [one.row["seed"] for one in shown],
        "commit": [names.place("commits", one.commit[:12]) for one in shown],
    }
    if figures:
        quantiles = [_quantiles(one) for one in shown]
        for place, name in enumerate(("p50", "p99", "p999")):
            columns[name] = [_short(one[place]) for one in quantiles]
        columns["outage"] = [_short(one.outage_s) for one in shown]
    files = [file_name(one) for one in names.lists.get("scenarios", ())]
    return {"columns": columns, "names": names.lists, "files": files, "left": len(some) - len(shown)}


class _Names:
    """Lists of distinct names, and the place of each."""

    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {}
        self._places: dict[tuple[str, str], int] = {}

    def place(self, what: str, name: str) -> int:
        names = self.lists.setdefault(what, [])
        found = self._places.get((what, name))
        if found is None:
            found = self._places[what, name] = len(names)
            names.append(name)
        return found


def _quantiles(run: Run) -> tuple[float | None, float | None, float | None]:
    one = run.latency
    return (None, None, None) if one is None else (one.p50, one.p99, one.p999)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")

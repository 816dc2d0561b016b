"""Rows of the lake about what a night simulates: a run for each simulated scenario, a campaign for many seeds."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from squall.harness.lake.adding import add_entry
from squall.harness.nightly.ledger.items import Outcome, Task
from squall.harness.provenance import versions
from squall.harness.run.run_manifest import scenario_hash
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.run import SimResult
from squall.results.checkers.anomalies import ANOMALIES
from squall.results.lake.entry import Entry
from squall.results.lake.of_run import fingerprint

LONGEST_TEXT = 500


def simulated_row(task: Task, scenario: Scenario, result: SimResult, outcome: Outcome, began: datetime) -> None:
    """Add the row of a simulated run, with its anomalies. Trouble is reported and changes no verdict."""
    item, known = task.item, versions()
    run: dict[str, object] = {
        "kind": "simulation",
        "started": began.isoformat(timespec="seconds"),
        "suite": item.suite,
        "scenario": scenario.scenario,
        "scenario_hash": scenario_hash(scenario),
        "seed": item.seed,
        "trace_hash": result.digest,
        "verdict": outcome.ending,
        "expected": item.expected,
        "as_expected": item.is_expected(outcome.ending, outcome.anomalies),
        "reasons": [_in_one_line(result.problem)] if result.problem else [],
        "anomalies": list(outcome.anomalies),
        "world": "simulation",
        "commit": known.get("commit", ""),
        "dirty": known.get("dirty", "") == "yes",
        "version": known.get("squall", ""),
        "system": "squall",
        "mutants": list(scenario.cluster.mutants),
        "directory": "" if outcome.ending == item.expected else outcome.directory,
        "command": item.repeat,
        "load_s": result.simulated_s,
        "acknowledged": result.counts.get("acknowledged"),
        "night": task.night,
        "recorded": began.isoformat(timespec="seconds"),
    }
    kinds = sorted(name.removeprefix("fault ") for name in result.counts if name.startswith("fault "))
    anomalies: list[dict[str, object]] = [
        {
            "anomaly": name,
            "meaning": ANOMALIES[name].meaning if name in ANOMALIES else "",
            "occurrences": 1,
            "places": [],
            "fingerprint": fingerprint(scenario.scenario, name, kinds, scenario.cluster.mutants),
            "witness": _in_one_line(result.problem),
            "faults": kinds,
        }
        for name in outcome.anomalies
    ]
    _add(task, {"runs": [run], "anomalies": anomalies}, began)


def _in_one_line(problem: str) -> str:
    return "; ".join(line.strip() for line in problem.splitlines() if line.strip())[:LONGEST_TEXT]


def campaign_row(task: Task, scenario: str, results: Sequence[SimResult], began: datetime) -> None:
    """Add the row of a campaign. Trouble is reported and changes no verdict."""
    counted = {name: sum(one.verdict == name for one in results) for name in ("valid", "invalid", "unknown")}
    row: dict[str, object] = {
        "kind": "simulate",
        "scenario": scenario,
        "commit": versions().get("commit", ""),
        "first_seed": task.item.seed,
        "seeds": len(results),
        **counted,
        "failed_seeds": [one.seed for one in results if one.verdict != "valid"],
        "seconds": (datetime.now(began.tzinfo) - began).total_seconds(),
        "processor_s": sum(one.processor_s for one in results),
        "simulated_s": sum(one.simulated_s for one in results),
    }
    _add(task, {"campaigns": [row]}, began)


def _add(task: Task, rows: dict[str, list[dict[str, object]]], began: datetime) -> None:
    assert task.lake is not None
    entry = Entry.of(
        f"{task.night}-{task.item.id}-{task.item.seed}",
        began.date().isoformat(),
        began.isoformat(timespec="seconds"),
        rows,  # type: ignore[arg-type]
    )
    add_entry(entry, Path(task.lake), functools.partial(print, flush=True))

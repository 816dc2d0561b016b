"""The process of an attempt that is simulated: it gets the task as JSON, and leaves the outcome as JSON.

    python -m squall.harness.nightly.simulated '{"item": …, "result": "FILE", …}'

What is carried out on hosts is a `squall run` of its own (`attempts.py`).
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from squall.harness.errors import UsageError, file_problem
from squall.harness.nightly.ledger.items import LONGEST_PROBLEM, Outcome, Task, cause_of
from squall.harness.nightly.simulated_rows import campaign_row, simulated_row
from squall.harness.simulation.run.parallel import simulate_many
from squall.harness.simulation.run.run import SimOptions, SimResult, seed_directory, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.results.history.whole_file import write_whole

SHOWN_FAILURES = 5


def main(text: str) -> int:
    """Carry the task out and write its outcome. Return 130 if interrupted: the night runs it again, from the start."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    task = msgspec.json.decode(text, type=Task)
    try:
        outcome = simulate_one(task) if task.item.kind == "simulation" else simulate_campaign(task)
    except KeyboardInterrupt:
        return 130
    except UsageError as refusal:
        outcome = Outcome(ending="refused", cause="refused", problem=str(refusal)[:LONGEST_PROBLEM])
    except OSError as trouble:
        if (problem := file_problem(trouble)) is None:
            raise
        outcome = Outcome(ending="error", cause="machine", problem=problem)
    write_whole(Path(task.result), msgspec.json.encode(outcome))
    return 0


def simulate_one(task: Task) -> Outcome:
    """Simulate a scenario with one seed, and add its row to the lake. Raises UsageError."""
    item, keep = task.item, Path(task.keep)
    scenario, said = find_scenario(item.suite, only=item.name)
    shutil.rmtree(keep, ignore_errors=True)  # what an interrupted attempt has left
    began = datetime.now(UTC)
    # anomalies that a scenario expects are those that a history shows, not the observer's invariants
    result = simulate(scenario, item.seed, SimOptions(keep=keep, said=said, observed=item.expected != "invalid"))
    _print(result)
    directory = seed_directory(keep, item.seed)
    outcome = Outcome(
        ending=result.verdict,  # type: ignore[arg-type]
        anomalies=result.broken if result.verdict == "invalid" else (),
        problem=result.problem[:LONGEST_PROBLEM],
        cause=cause_of(item, result.verdict),
        directory=str(directory) if directory.exists() else "",
    )
    if task.lake is not None:
        simulated_row(task, scenario, result, outcome, began)
    return outcome


def simulate_campaign(task: Task) -> Outcome:
    """Simulate many seeds of a scenario, and add their row to the lake. Raises UsageError."""
    item = task.item
    scenario, said = find_scenario(item.suite)
    began = datetime.now(UTC)
    results: list[SimResult] = []
    seeds = range(item.seed, item.seed + item.seeds)
    processes = task.processes or os.cpu_count() or 1
    for result in simulate_many(scenario, seeds, SimOptions(said=said), processes=processes):
        results.append(result)
        if result.verdict != "valid" and sum(one.verdict != "valid" for one in results) <= SHOWN_FAILURES:
            _print(result)
    print(f"{len(results)} seeds, {sum(one.verdict == 'valid' for one in results)} valid", flush=True)
    worst = next((name for name in ("invalid", "unknown") if any(one.verdict == name for one in results)), "valid")
    failed = [one for one in results if one.verdict == worst != "valid"]
    problem = "" if not failed else f"seed {failed[0].seed}: {failed[0].problem}"
    if len(failed) > 1:
        problem = f"{len(failed)} of {len(results)} seeds; {problem}"
    outcome = Outcome(
        ending=worst,  # type: ignore[arg-type]
        anomalies=tuple(sorted({name for one in failed for name in one.broken})) if worst == "invalid" else (),
        problem=problem[:LONGEST_PROBLEM],
        cause=cause_of(item, worst),
    )
    if task.lake is not None:
        campaign_row(task, scenario.scenario, results, began)
    return outcome


def _print(result: SimResult) -> None:
    print("\n".join(_lines(result)), flush=True)


def _lines(result: SimResult) -> Iterator[str]:
    yield f"{result.verdict.upper():<10}seed {result.seed}: {', '.join(result.broken) or 'nothing broken'}"
    if result.problem:
        yield f"  {result.problem}"
    yield from (f"    {line}" for line in result.witness)
    yield from (f"    {fault}" for fault in result.faults if result.verdict != "valid")
    yield f"trace     {result.digest}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

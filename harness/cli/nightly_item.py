"""The process of one attempt at an item of a night: it gets the task as JSON, and leaves the outcome as JSON.

python -m squall.harness.cli.nightly_item '{"item": …, "result": "FILE", …}'
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console

from squall.harness.cli.nightly_rows import campaign_row, simulated_row
from squall.harness.errors import UsageError, file_problem
from squall.harness.nightly.attempts import Task
from squall.harness.nightly.ledger.items import Item, Outcome
from squall.harness.terminal.console import console
from squall.results.history.whole_file import write_whole

LONGEST_PROBLEM = 500
Ending = {0: "valid", 1: "invalid", 2: "unknown"}


def main(text: str) -> int:
    """Carry the task out and write its outcome. Every way it can end has one, but for interruptions."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    task = msgspec.json.decode(text, type=Task)
    try:
        outcome = carry_out(task, console())
    except KeyboardInterrupt:
        return 130  # the night runs it again, from the start
    except UsageError as refusal:
        outcome = _refusal(refusal)
    except OSError as trouble:
        if (problem := file_problem(trouble)) is None:
            raise
        outcome = Outcome(ending="error", cause="machine", problem=problem)
    write_whole(Path(task.result), msgspec.json.encode(outcome))
    return 0


def carry_out(task: Task, out: Console) -> Outcome:
    """Carry out one item. Raises UsageError."""
    work = {
        "scenario": _scenario,
        "simulation": _simulation,
        "campaign": _campaign,
        "mutants": _mutants,
        "forge": _forge,
    }
    return work[task.item.kind](task, out)


def _refusal(refusal: UsageError) -> Outcome:
    """Hosts that cannot be reached or are in use are trouble of the machine, which may pass; all else is a refusal."""
    from squall.harness.hosts.host_locks import HostsInUse
    from squall.harness.hosts.ssh_access import SshError

    problem = str(refusal)[:LONGEST_PROBLEM]
    if isinstance(refusal, HostsInUse | SshError):
        return Outcome(ending="error", cause="machine", problem=problem)
    return Outcome(ending="refused", cause="refused", problem=problem)


def _scenario(task: Task, out: Console) -> Outcome:
    from squall.harness.cli.campaign import Campaign
    from squall.harness.scenario.inventory import load_inventory
    from squall.harness.scenario.suites import load_named

    item = task.item
    path = None if task.inventory is None else Path(task.inventory)
    campaign = Campaign(
        load_named(item.suite).only(item.name, item.seed),
        inventory=None if path is None else load_inventory(path),
        inventory_path=path,
        lab=task.lab,
        seed=item.seed,
        runs_directory=Path(task.runs),
        idle_nemesis=False,
        capture=False,
        spark_master=task.spark_master,
        in_process=task.in_process,
        console=out,
        lake=None if task.lake is None else Path(task.lake),
        wait=task.wait,
        night=task.night,
        report=Path(task.keep).with_suffix(".suite.json"),
    )
    campaign.run()
    (one,) = campaign.outcomes
    if one.verdict is None:
        return Outcome(ending="refused", cause="refused", problem=one.problem[:LONGEST_PROBLEM])
    verdict = one.verdict
    return Outcome(
        ending=verdict.verdict,
        anomalies=tuple(found.name for found in verdict.anomalies),
        problem=_problem(verdict.reasons, [witness.title for witness in verdict.witnesses]),
        cause=_cause(item, verdict.verdict),
        directory=one.directory,
    )


def _problem(reasons: Sequence[str], witnesses: Sequence[str]) -> str:
    return "; ".join([*witnesses[:1], *reasons])[:LONGEST_PROBLEM]


def _cause(item: Item, ending: str) -> str:
    if ending == item.expected:
        return ""
    return "evidence" if ending == "unknown" else "finding"


def _simulation(task: Task, out: Console) -> Outcome:
    from squall.harness.cli.simulate import summary, told
    from squall.harness.simulation.run.run import SimOptions, seed_directory, simulate
    from squall.harness.simulation.run.scenarios import find_scenario

    item, keep = task.item, Path(task.keep)
    scenario, said = find_scenario(item.suite, only=item.name)
    _remove(keep)
    # anomalies that a scenario expects are those that a history shows, not the observer's invariants
    options = SimOptions(keep=keep, said=said, observed=item.expected != "invalid")
    began = datetime.now(UTC)
    result = simulate(scenario, item.seed, options)
    if result.verdict != "valid":
        out.print(told(result, said, options), markup=False, highlight=False)
    out.print(summary([result]), markup=False, highlight=False)
    directory = seed_directory(keep, item.seed)
    outcome = Outcome(
        ending=result.verdict,  # type: ignore[arg-type]
        anomalies=result.broken if result.verdict == "invalid" else (),
        problem=result.problem[:LONGEST_PROBLEM],
        cause=_cause(item, result.verdict),
        directory=str(directory) if directory.exists() else "",
    )
    if task.lake is not None:
        simulated_row(task, scenario, result, outcome, began, out)
    return outcome


def _remove(keep: Path) -> None:
    """Remove what an interrupted attempt has left."""
    import shutil

    shutil.rmtree(keep, ignore_errors=True)


def _campaign(task: Task, out: Console) -> Outcome:
    from squall.harness.cli.simulate import SHOWN_FAILURES, summary, told
    from squall.harness.simulation.run.parallel import simulate_many
    from squall.harness.simulation.run.run import SimOptions
    from squall.harness.simulation.run.scenarios import find_scenario

    item = task.item
    scenario, said = find_scenario(item.suite)
    options = SimOptions(said=said)
    began = datetime.now(UTC)
    results = []
    seeds = range(item.seed, item.seed + item.seeds)
    for result in simulate_many(scenario, seeds, options, processes=task.processes or os.cpu_count() or 1):
        results.append(result)
        if result.verdict != "valid" and sum(one.verdict != "valid" for one in results) <= SHOWN_FAILURES:
            out.print(told(result, said, options), markup=False, highlight=False)
    out.print(summary(results), markup=False, highlight=False)
    worst = next((name for name in ("invalid", "unknown") if any(one.verdict == name for one in results)), "valid")
    failed = [one for one in results if one.verdict == worst and worst != "valid"]
    problem = "" if not failed else f"seed {failed[0].seed}: {failed[0].problem}"
    if len(failed) > 1:
        problem = f"{len(failed)} of {len(results)} seeds; {problem}"
    outcome = Outcome(
        ending=worst,  # type: ignore[arg-type]
        anomalies=tuple(sorted({name for one in failed for name in one.broken})) if worst == "invalid" else (),
        problem=problem[:LONGEST_PROBLEM],
        cause=_cause(item, worst),
    )
    if task.lake is not None:
        campaign_row(task, scenario.scenario, results, began, out)
    return outcome


def _mutants(task: Task, out: Console) -> Outcome:
    from squall.harness.simulation.run.matrix import verify

    status = verify(
        seeds=task.item.seeds, first_seed=task.item.seed, names=(), processes=task.processes or os.cpu_count() or 1,
        console=out,
    )  # fmt: skip
    return _of_status(task, status, "a documented bug was not caught as itself, or its healthy twin was not valid")


def _forge(task: Task, out: Console) -> Outcome:
    from squall.harness.cli.forge import verify

    item = task.item
    status = verify(
        seeds=item.seeds, clean=item.seeds, kind=None, processes=task.processes or os.cpu_count() or 1, console=out
    )
    return _of_status(task, status, "a check was wrong about a forged history")


def _of_status(task: Task, status: int, problem: str) -> Outcome:
    ending = Ending.get(status, "error")
    said = "" if ending == "valid" else f"{problem}: {Path(task.keep).with_suffix('.log')}"
    return Outcome(ending=ending, problem=said, cause=_cause(task.item, ending))  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

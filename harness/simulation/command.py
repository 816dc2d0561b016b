"""`squall simulate`: many seeds of a scenario, a progress bar, the first failures in words, and what took place."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from squall.harness.errors import UsageError
from squall.harness.simulation.run import SimOptions, SimResult, simulate_many
from squall.harness.suite import Scenario, load_suite
from squall.harness.yaml_source import suggestion

SHOWN_FAILURES = 5
EXIT = {"valid": 0, "invalid": 1, "unknown": 2}


def find_scenario(name: str, suites: Path = Path("suites")) -> tuple[Scenario, str]:
    """A scenario by suite file, or by its name among `suites/*.yaml`; and how to name it in a command.

    Raises UsageError.
    """
    if Path(name).suffix in (".yaml", ".yml"):
        suite = load_suite(name)
        return suite.scenarios[0], name
    known: dict[str, Scenario] = {}
    for path in sorted(suites.glob("*.yaml")):
        known |= {scenario.scenario: scenario for scenario in load_suite(path).scenarios}
    if name not in known:
        raise UsageError(f"there is no suite file and no scenario {name!r}{suggestion(name, known)}")
    return known[name], name


def simulate(
    name: str,
    *,
    seeds: int,
    first_seed: int | None,
    console: Console,
    mutants: tuple[str, ...] = (),
    swarm: bool = False,
    processes: int | None = None,
    keep: Path | None = None,
) -> int:
    """Run the seeds, from the scenario's own on unless it is said where to begin; the status of the worst verdict."""
    scenario, said = find_scenario(name)
    options = SimOptions(swarm=swarm, mutants=mutants, keep=keep, said=said)
    first = first_seed if first_seed is not None else (*scenario.seeds, 1)[0]
    wanted = range(first, first + seeds)
    results: list[SimResult] = []
    shown = 0
    with Progress(
        TextColumn("simulate"), BarColumn(), MofNCompleteColumn(), TextColumn("seeds"), TimeRemainingColumn(),
        console=console, disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task("simulate", total=len(wanted))
        for result in simulate_many(scenario, wanted, options, processes=processes or os.cpu_count() or 1):
            results.append(result)
            progress.advance(task)
            if result.verdict != "valid" and shown < SHOWN_FAILURES:
                shown += 1
                console.print(told(result, said, options), markup=False, highlight=False)
    console.print(summary(results), markup=False, highlight=False)
    return max((EXIT[result.verdict] for result in results), key=lambda status: (status == 1, status))


def told(result: SimResult, name: str, options: SimOptions) -> str:
    """One failing seed in words, with what repeats it."""
    words = [f"{result.verdict.upper()}  seed {result.seed}: {', '.join(result.broken)}", f"  {result.problem}"]
    words += [f"    {fault}" for fault in result.faults[-12:]]
    flags = "".join(f" --mutant {mutant}" for mutant in options.mutants) + (" --swarm" if options.swarm else "")
    words.append(f"  Repeat with: squall simulate {name} --seed {result.seed}{flags}")
    return "\n".join(words)


def summary(results: list[SimResult]) -> str:
    """How many seeds came out how, and what took place in all of them."""
    verdicts = Counter(result.verdict for result in results)
    broken = Counter(name for result in results for name in result.broken)
    totals: Counter[str] = Counter()
    for result in results:
        totals.update(result.counts)
    simulated = sum(result.simulated_s for result in results)
    wall = sum(result.wall_s for result in results)
    lines = [
        f"seeds      {len(results)}: " + ", ".join(f"{number} {name}" for name, number in sorted(verdicts.items())),
        f"time       {simulated:,.0f} simulated seconds, {simulated / max(wall, 1e-9):.1f} per second and core",
    ]
    if broken:
        lines.append("broken     " + ", ".join(f"{name} in {number}" for name, number in broken.most_common()))
    for key in sorted(key for key in totals if not key.startswith("fault ")):
        lines.append(f"{'':<11}{totals[key]:>12,} {key}")
    for key in sorted(key for key in totals if key.startswith("fault ")):
        lines.append(f"{'':<11}{totals[key]:>12,} {key}")
    if len(results) == 1:
        lines.append(f"trace      {results[0].digest}")
    return "\n".join(lines)

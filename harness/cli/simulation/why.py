"""`squall why`: say where in its run a failure was decided, by continuing the run from many instants with other seeds.

Exit status: 0 if the probability was estimated and the picture written, 1 if it was but the seed did not fail again in
the same way, 2 if there was nothing to explain, 254 for bad usage.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from squall.harness.cli.simulation.shrink import NOTHING_EXIT_STATUS
from squall.harness.errors import UsageError
from squall.harness.simulation.run.buggified import buggify_words, named_places
from squall.harness.simulation.run.recipe import parse_recipe
from squall.harness.simulation.run.run import SimOptions
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.why import account
from squall.harness.simulation.why.continuations import Continuations, NothingToExplain, Parent, find_parent
from squall.harness.simulation.why.events import events_during, trace_parent
from squall.harness.simulation.why.figure import Figure
from squall.harness.simulation.why.search import Search, decisive_change, other_changes
from squall.harness.terminal.known_mutants import refuse_unknown_mutants
from squall.harness.terminal.paths import free_name, shown_path
from squall.nemesis.core.durations import parse_duration
from squall.results.checkers.common.text import several


@dataclass(frozen=True)
class WhyOptions:
    """The arguments of `squall why`. `seed` may be a recipe."""

    seed: str
    suite: str
    mutants: tuple[str, ...] = ()
    swarm: bool = False
    buggify: str = ""
    continuations: int = 50
    instants: int = 20
    budget: str = "10m"
    out: Path | None = None
    processes: int = 1
    any_failure: bool = False


def why(asked: WhyOptions, console: Console) -> int:
    """Explain one seed, print it and draw it. Return the exit status.

    Interrupted, it explains what it found so far and raises KeyboardInterrupt.
    """
    refuse_unknown_mutants(asked.mutants)
    named_places(asked.buggify)
    seconds = _seconds(asked.budget)
    scenario, said = find_scenario(asked.suite, swarm=asked.swarm)
    recipe = parse_recipe(asked.suite, asked.seed)
    options = SimOptions(swarm=asked.swarm, mutants=asked.mutants, said=said, buggify=asked.buggify)
    began = time.monotonic()
    try:
        parent = find_parent(scenario, recipe, options, any_failure=asked.any_failure)
    except NothingToExplain as nothing:
        console.print(f"{'nothing':<11}{nothing}", markup=False)
        return NOTHING_EXIT_STATUS
    for label, words in (
        ("fails", f"seed {asked.seed}: {parent.problem.splitlines()[0]}"),
        ("at", f"{parent.shown(parent.ended):.3f} s; alike is {account.same_failure(parent)}"),
    ):
        console.print(f"{label:<11}{words}", markup=False, highlight=False)
    search = Search(parent.load_started, parent.ended, continuations=asked.continuations, instants=asked.instants)
    interrupted = _search(search, parent, asked.processes, began + seconds, console)
    found = _explained(parent, search)
    if found is None:
        console.print(f"{'ended':<11}before the first round of continuations; nothing is known", markup=False)
        if interrupted:
            raise KeyboardInterrupt
        return NOTHING_EXIT_STATUS
    runs = sum(instant.runs for instant in found.instants)
    early = "" if found.complete else ", ended early: intervals are wider than they could be"
    spent = f"{several(runs, 'run')} from {several(len(found.instants), 'instant')}"
    console.print(f"{'continued':<11}{spent}, {time.monotonic() - began:.0f} s{early}", markup=False, highlight=False)
    _print(found, asked, said, console)
    if interrupted:
        raise KeyboardInterrupt
    if found.trace.problem != parent.problem:
        console.print("the seed did not fail again in the same way: this is a bug in Squall", markup=False)
        return 1
    return 0


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as wrong:
        raise UsageError(f"--budget: {text!r} {wrong}", remedy="such as --budget 10m") from None
    assert isinstance(seconds, float)
    return seconds


def _search(search: Search, parent: Parent, processes: int, until: float, console: Console) -> bool:
    """Carry out rounds until the search or the budget ends. Return whether it was interrupted.

    A round that the budget cuts off is left out, so that what remains is what every machine would find up to there.
    """
    with (
        Progress(
            TextColumn("why       "), BarColumn(), MofNCompleteColumn(), TextColumn("runs, left:"),
            TimeRemainingColumn(), console=console, disable=not console.is_terminal,
        ) as progress,
        contextlib.suppress(KeyboardInterrupt),
        Continuations(parent, processes) as continuations,
    ):  # fmt: skip
        task, done = progress.add_task("why", total=search.still_planned()), 0
        while requests := search.next_round():
            outcomes = [False] * len(requests)
            for place, failed in continuations.outcomes(requests):
                outcomes[place] = failed
                done += 1
                progress.update(task, completed=done)
                if time.monotonic() >= until:
                    continuations.abandon()
                    return False
            search.record(requests, outcomes)
            progress.update(task, total=done + search.still_planned())
        return False
    return True


def _explained(parent: Parent, search: Search) -> account.Explanation | None:
    instants = search.results()
    if not instants:
        return None
    trace = trace_parent(parent)
    decisive = decisive_change(instants)
    events = () if decisive is None else tuple(events_during(decisive, parent, trace))
    others = tuple(other_changes(instants, decisive))
    return account.Explanation(parent, trace, instants, decisive, others, events, search.is_complete())


def _print(found: account.Explanation, asked: WhyOptions, said: str, console: Console) -> None:
    """Print and write what was found."""
    console.print()
    for line in account.table(found):
        console.print(line, markup=False, highlight=False)
    console.print()
    lines = [("baked in", account.sentence(found))]
    lines += [("", f"{event.at / 1e6:.6f} s  {event.text}") for event in found.events]
    lines += [("also", line) for line in account.other_lines(found)]
    lines.append(("findable", account.findability_of(found)))
    flags = "".join(f" --mutant {mutant}" for mutant in asked.mutants) + " --swarm" * asked.swarm
    for number, (recipe, outcome) in enumerate(account.examples(found)):
        words = f"squall simulate {said} --recipe {recipe}{flags}{buggify_words(asked.buggify)}"
        lines.append(("" if number else "compare", f"{words}   {outcome}"))
    path = asked.out.with_suffix(".svg") if asked.out is not None else free_name(_default_name(found))
    heading = (
        f"{found.parent.scenario.scenario}, seed {asked.seed}: when {' and '.join(found.parent.broken)} was decided"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(Figure(found, heading).text(), encoding="utf-8")
    path.with_suffix(".txt").write_text(account.account(found, (heading,)), encoding="utf-8")
    lines.append(("picture", f"{shown_path(path)}, in words {shown_path(path.with_suffix('.txt'))}"))
    for label, words in lines:
        console.print(f"{label:<11}{words}", markup=False, highlight=False)


def _default_name(found: account.Explanation) -> Path:
    return Path(f"why-{found.parent.scenario.scenario}-{found.parent.recipe.seed}.svg")

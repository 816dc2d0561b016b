"""Print a mutation score: tables on the terminal, Markdown or JSON in a file, and the trend over several ledgers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from squall.harness.errors import UsageError
from squall.harness.simulation.mutation.equivalents import load_equivalents
from squall.harness.simulation.mutation.generation.mutation import module_path
from squall.harness.simulation.mutation.judgement import HISTORY, SIMULATION
from squall.harness.simulation.mutation.ledger import Campaign, Entry, read_ledger
from squall.harness.simulation.mutation.score import Judged, Row, Score, score_of

HEADINGS = ("mutants", "unit", "simulation", "history", "anomaly", "nothing", "not reached")


def print_score(console: Console, campaign: Campaign, entries: list[Entry]) -> None:
    """Print the tables of one ledger, then its survivors."""
    score = score_of(entries, load_equivalents())
    table = Table(box=None, pad_edge=False)
    table.add_column("killed by")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for row in (score.total, *score.packages, *score.operators):
        table.add_row(row.name, *_cells(row))
    console.print(table)
    for line in _further(score, campaign):
        console.print(line, markup=False, highlight=False)
    for one in score.simulation_survivors:
        console.print(f"SURVIVES   {one.mutation.id}: {one.survival}", markup=False, highlight=False)
        console.print(f"  {_change(one)}", markup=False, highlight=False)


def write_score(path: Path, campaign: Campaign, entries: list[Entry]) -> None:
    """Write the score as JSON, or as Markdown with the diffs of all survivors, by the file's suffix."""
    score = score_of(entries, load_equivalents())
    if path.suffix == ".json":
        survivors = [{"id": one.mutation.id, "why": one.survival} for one in score.simulation_survivors]
        figures = {**asdict(score), "campaign": asdict(campaign), "simulation_survivors": survivors}
        path.write_text(json.dumps(figures, indent=2) + "\n")
    elif path.suffix == ".md":
        path.write_text("\n".join(_markdown(score, campaign)) + "\n")
    else:
        raise UsageError(f"--report {path}: not a format", remedy="a name that ends in .md or .json")


def print_ledgers(console: Console, ledgers: list[Path]) -> int:
    """Print the score of one ledger, or of several side by side."""
    if len(ledgers) > 1:
        return print_trend(console, ledgers)
    print_score(console, *read_ledger(ledgers[0]))
    return 0


def print_trend(console: Console, ledgers: list[Path]) -> int:
    """Print one line for each ledger, in the order given."""
    table = Table(box=None, pad_edge=False)
    for heading in ("ledger", "commit", "budget", *HEADINGS, "median", "90 %"):
        table.add_column(heading, justify="left" if heading in ("ledger", "commit") else "right")
    for path in ledgers:
        campaign, entries = read_ledger(path)
        score = score_of(entries, load_equivalents())
        times = score.times.get(SIMULATION)
        seconds = (f"{times.median:.0f} s", f"{times.ninetieth:.0f} s") if times else ("", "")
        table.add_row(path.name, campaign.commit[:8], f"{campaign.budget_s:g} s", *_cells(score.total), *seconds)
    console.print(table)
    return 0


def _cells(row: Row) -> list[str]:
    counts = (row.unit, row.simulation, row.history, row.anomalies, row.nothing, row.not_reached)
    return [str(row.mutants), *(f"{count} {share(count, row.mutants)}" for count in counts)]


def share(count: int, of: int) -> str:
    """Return a share in whole per cent, empty of nothing."""
    return f"({100 * count / of:.0f}%)" if of else ""


def _further(score: Score, campaign: Campaign) -> Iterator[str]:
    if score.equivalent:
        yield f"equivalent {score.equivalent} taken out"
    for mode in (SIMULATION, HISTORY):
        if times := score.times.get(mode):
            yield f"{mode:<11}processor time until the kill: median {times.median:.1f} s, 90 % {times.ninetieth:.1f} s"
        if killers := score.killers[mode]:
            yield f"{'':<11}" + ", ".join(f"{name} {count}" for name, count in killers.items())
    yield f"campaign   seed {campaign.seed}, {campaign.budget_s:g} s a mutant and mode, {', '.join(campaign.scenarios)}"
    yield f"{'':<11}commit {campaign.commit[:12] or 'unknown'}, code {campaign.fingerprint}"


def _change(one: Judged) -> str:
    place = one.mutation.module.removeprefix("squall.").replace(".", "/")
    original, replacement = (" ".join(text.split()) for text in (one.mutation.original, one.mutation.replacement))
    return f"{place}.py:{one.mutation.line}  {original}  →  {replacement}"


def _markdown(score: Score, campaign: Campaign) -> Iterator[str]:
    yield "# Mutation score"
    yield ""
    yield f"| killed by | {' | '.join(HEADINGS)} |"
    yield "|---|" + "--:|" * len(HEADINGS)
    for row in (score.total, *score.packages, *score.operators):
        yield f"| {row.name} | {' | '.join(_cells(row))} |"
    yield ""
    yield from ("    " + line for line in _further(score, campaign))
    yield ""
    yield "## What the simulation does not kill"
    for one in score.simulation_survivors:
        others = "unit tests kill it" if not one.survives else "nothing kills it"
        mark = " (perhaps equivalent)" if one.maybe_equivalent else ""
        yield from ("", f"### {one.mutation.id}", "", f"{one.survival}; {others}{mark}", "", "```diff")
        yield from _diff(one)
        yield "```"


def _diff(one: Judged) -> list[str]:
    try:
        return one.mutation.diff(module_path(one.mutation.module).read_text()).splitlines()
    except (OSError, ValueError):  # the code has changed since
        return [f"- {one.mutation.original}", f"+ {one.mutation.replacement}"]

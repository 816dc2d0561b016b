"""Show the results of trials: a line after each trial, a table at the end, and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from squall.harness.catalogue.trials import Result
from squall.harness.terminal.display import CHECK, CROSS
from squall.results.checkers.common.text import several

STYLES = {"verified": "green", "failed": "red", "skipped": "yellow"}
MARKS = {"verified": f"{CHECK} verified", "failed": f"{CROSS} failed", "skipped": "– skipped"}


def seconds(value: float | None) -> str:
    """Format a time, in milliseconds below a second."""
    if value is None:
        return ""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def result_line(result: Result, done: int, total: int) -> Text:
    """Return `trial 7/49 row 14 one-way partition ✔ verified deaf to 5 of 5`."""
    line = Text(f"trial  {done:>3}/{total:<3} row {result.number:<3} {result.row:<52.52} ")
    line.append(f"{MARKS[result.outcome]:<11}", style=STYLES[result.outcome])
    line.append(f" {result.during if result.outcome == 'verified' else result.reason}")
    return line


def print_results(out: Console, results: Sequence[Result]) -> None:
    """Print one row per row of the catalogue: fault, evidence before, during and after, how long it took."""
    table = Table(box=None, pad_edge=False)
    for heading in ("row", "trouble", "fault", "hosts", "before", "during", "after"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "row" else "left")
    for heading in ("inject", "heal"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("outcome", overflow="fold")
    done = [one for one in results if one.outcome != "skipped"]
    for one in done:
        outcome = Text(MARKS[one.outcome], style=STYLES[one.outcome])
        if one.reason:
            outcome.append(f": {one.reason}", style="default")
        during = one.during if one.outcome == "verified" else ""
        table.add_row(
            *(str(one.number), one.row, one.faults, one.targets, one.before, during, one.after),
            *(seconds(one.inject_s), seconds(one.heal_s), outcome),
        )
    if done:
        out.print(table)
        out.print()
    for one in results:
        if one.outcome == "skipped":
            out.print(f"{'skipped':<9}row {one.number:<3} {one.row}: {one.reason}", markup=False, soft_wrap=True)
    out.print(Text(summary(results)))


def summary(results: Sequence[Result]) -> str:
    counts = Counter(one.outcome for one in results)
    said = [f"{counts[outcome]} {outcome}" for outcome in ("verified", "failed", "skipped") if counts[outcome]]
    return f"{'rows':<7}{several(len(results), 'row')} of the catalogue: {', '.join(said)}"


def save_results(path: Path, results: Sequence[Result], source: str, seed: int, took_s: float) -> None:
    """Save everything as JSON, with the evidence as recorded."""
    content = {
        "hosts": source,
        "seed": seed,
        "seconds": round(took_s, 1),
        "counts": dict(Counter(one.outcome for one in results)),
        "rows": [one.to_json() for one in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")

"""`squall gallery`: list the gallery of real bugs, or reproduce them beside their twins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from squall.harness.errors import UsageError
from squall.harness.lake.options import AddToLakeOption, NoLakeOption, lake_for_rows
from squall.harness.terminal.console import console
from squall.harness.terminal.documents import JsonOption, print_document

if TYPE_CHECKING:
    from squall.harness.gallery.core.entry import Entry
    from squall.harness.gallery.verify import ArmResult

EXAMPLES = (
    "Examples: squall gallery · squall gallery D1 · squall gallery --verify D1 · squall gallery --verify · "
    "squall gallery --table · squall gallery --verify --table T2 --cell 'kafka-4.1.2-*'"
)


def gallery(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="entries, such as D1; all by default")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="run the broken version and its twin on this machine, and judge both")
    ] = False,
    table: Annotated[
        bool,
        typer.Option("--table", help="the cells of entries: other versions; with --verify, run them"),
    ] = False,
    cell: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="of --table, only cells of such names, such as 'kafka-4.1.2-*'"),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, max=100, help="verify each entry, or cell, so many times")] = 1,
    runs_dir: Annotated[Path, typer.Option(metavar="DIR", help="where runs are kept")] = Path("runs"),
    lake: AddToLakeOption = None,
    no_lake: NoLakeOption = False,
    as_json: JsonOption = False,
) -> int:
    """List real bugs of real systems, or reproduce them: the broken version must be INVALID, its twin VALID."""
    from squall.harness.gallery.entries import chosen

    if runs > 1 and not verify:
        raise UsageError("--runs repeats a verification; add --verify")
    if cell and not (table and verify):
        raise UsageError("--cell chooses among the cells that are run; add --verify --table")
    found = chosen(names or [])
    out = console(aside=as_json)
    if verify:
        how = _How(runs_dir, runs, lake_for_rows(lake, no_lake), out, as_json)
        return _verify_cells(found, cell or [], how) if table else _verify(found, how)
    if as_json:
        print_document({"entries": [entry.model_dump(mode="json", by_alias=True) for entry in found]})
    elif table:
        _print_cells(found, out)
    elif names:
        for entry in found:
            _describe(entry, out)
    else:
        out.print(_listed(found))
    return 0


@dataclass(frozen=True)
class _How:
    """Where and how often to verify, and where to say what came out."""

    runs_dir: Path
    runs: int
    lake: Path | None
    out: Console
    as_json: bool


def _verify(found: list[Entry], how: _How) -> int:
    from squall.harness.gallery.verify import table_of, verify

    return _sum_up(list(verify(found, how.runs_dir, how.out, runs=how.runs, lake=how.lake)), table_of, how)


def _verify_cells(found: list[Entry], patterns: list[str], how: _How) -> int:
    from squall.harness.gallery.cells import chosen_cells, found_table
    from squall.harness.gallery.verify import verify_arms

    arms = [arm for arm in chosen_cells(found, patterns) for _ in range(how.runs)]
    return _sum_up(list(verify_arms(arms, how.runs_dir, how.out, how.lake)), found_table, how)


def _sum_up(results: list[ArmResult], table_of: Callable[[list[ArmResult]], Table], how: _How) -> int:
    from squall.harness.gallery.verify import status_of

    status = status_of(results)
    if how.as_json:
        print_document({"arms": [one.data() for one in results], "exit_status": status})
        return status
    how.out.print()
    how.out.print(table_of(results))
    return status


def _print_cells(found: list[Entry], out: Console) -> None:
    from squall.harness.gallery.cells import chosen_cells, stated_table

    chosen_cells(found, [])
    out.print(stated_table(found))


def _listed(found: list[Entry]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column in ("entry", "bug", "broken", "fixed in", "anomaly", "seen", "on"):
        table.add_column(column, overflow="fold", no_wrap=column in ("entry", "seen", "on", "anomaly"))
    for entry in found:
        fixed = entry.fixed or "live"
        seen = entry.rate.words
        table.add_row(entry.name, entry.title, entry.broken, fixed, entry.anomaly, seen, entry.reproduced.isoformat())
    return table


def _describe(entry: Entry, out: Console) -> None:
    """Print what an entry states."""
    rows = [
        ("entry", f"{entry.name}   {entry.title}"),
        ("broken", entry.broken),
        ("fixed in", entry.fixed or "no release: live"),
        *(("reference", one) for one in entry.references),
        ("mechanism", entry.mechanism),
        ("runs", entry.arm("broken").words),
        ("anomaly", f"{entry.anomaly}, seen {entry.rate.words}, last on {entry.reproduced.isoformat()}"),
        ("twin", f"{entry.arm('twin').words}: {entry.twin.why}"),
        ("verify", f"squall gallery --verify {entry.name}"),
        *([("cells", f"{len(entry.cells)}: squall gallery --table {entry.name}")] if entry.cells else []),
    ]
    for label, text in rows:
        out.print(f"{label:<11}{text.strip()}", markup=False, highlight=False, soft_wrap=True)
    out.print()

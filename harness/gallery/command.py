"""`squall gallery`: list the gallery of real bugs, or reproduce them beside their twins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from squall.harness.errors import UsageError
from squall.harness.terminal.console import console
from squall.harness.terminal.documents import JsonOption, print_document

if TYPE_CHECKING:
    from squall.harness.gallery.core.entry import Entry

EXAMPLES = "Examples: squall gallery · squall gallery D1 · squall gallery --verify D1 · squall gallery --verify"


def gallery(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="entries, such as D1; all by default")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="run the broken version and its twin on this machine, and judge both")
    ] = False,
    runs: Annotated[int, typer.Option(min=1, max=100, help="verify each entry so many times")] = 1,
    runs_dir: Annotated[Path, typer.Option(metavar="DIR", help="where runs are kept")] = Path("runs"),
    as_json: JsonOption = False,
) -> int:
    """List real bugs of real systems, or reproduce them: the broken version must be INVALID, its twin VALID."""
    from squall.harness.gallery.entries import chosen

    if runs > 1 and not verify:
        raise UsageError("--runs repeats a verification; add --verify")
    found = chosen(names or [])
    out = console(aside=as_json)
    if verify:
        return _verify(found, runs_dir, runs, out, as_json=as_json)
    if as_json:
        print_document({"entries": [entry.model_dump(mode="json", by_alias=True) for entry in found]})
        return 0
    if names:
        for entry in found:
            _describe(entry, out)
    else:
        out.print(_listed(found))
    return 0


def _verify(found: list[Entry], runs_dir: Path, runs: int, out: Console, *, as_json: bool) -> int:
    from squall.harness.gallery.verify import status_of, table_of, verify

    results = list(verify(found, runs_dir, out, runs=runs))
    status = status_of(results)
    if as_json:
        print_document({"arms": [one.data() for one in results], "exit_status": status})
        return status
    out.print()
    out.print(table_of(results))
    return status


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
    ]
    for label, text in rows:
        out.print(f"{label:<11}{text.strip()}", markup=False, highlight=False, soft_wrap=True)
    out.print()

"""`--lake` and `--no-lake` of commands that add rows about a campaign or a benchmark.

Rows are added to the lake that `--lake` names, or to `runs/lake` if it is there already: only `squall run` makes one
unasked. `--no-lake`, or `SQUALL_NO_LAKE=1` in the environment, adds none; `--lake` prevails over both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squall.harness.errors import UsageError
from squall.harness.terminal.lake_options import DEFAULT_LAKE

AddToLakeOption = Annotated[
    Path | None,
    typer.Option("--lake", metavar="DIR", help="add rows to this lake; by default to runs/lake, if it exists"),
]
NoLakeOption = Annotated[bool, typer.Option("--no-lake", envvar="SQUALL_NO_LAKE", help="add no rows to a lake")]


def lake_for_rows(lake: Path | None, no_lake: bool) -> Path | None:
    """Return the lake that rows are added to; None for none. Raises UsageError for a lake that is no directory."""
    if lake is None and no_lake:
        return None
    if lake is None:
        from squall.results.lake.store import Lake  # takes long to import

        return DEFAULT_LAKE if Lake(DEFAULT_LAKE).exists else None
    if lake.exists() and not lake.is_dir():
        raise UsageError(f"--lake {lake}: is not a directory", remedy="name the lake's directory, or a new one")
    return lake

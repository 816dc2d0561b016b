"""Add the rows of a run to the lake, once it has ended and been judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console


def add_to_lake(run: Path, lake: Path, to: Console, *, night: str = "") -> None:
    """Add the rows of a run to the lake, or replace them. Trouble is reported and changes no verdict.

    A run that is in the lake as part of a night stays part of it.
    """
    from squall.results.history.ill_formed import IllFormedHistory
    from squall.results.lake.of_run import entry_of_run
    from squall.results.lake.store import Lake

    try:
        opened = Lake(lake)
        opened.add(entry_of_run(run, night=night or _night_of(run, opened)))
    except (OSError, IllFormedHistory) as trouble:
        to.print(
            f"{'lake':<11}no rows of this run were added to {lake}: {trouble}; later: squall lake rebuild {run}",
            markup=False,
            soft_wrap=True,
        )


def _night_of(run: Path, lake: Any) -> str:
    """Return the night that a run is part of, as far as the lake knows it."""
    from squall.results.history.manifest import Manifest
    from squall.results.lake.store import LakeTrouble

    key = Manifest.load(run).run_id
    try:
        known = {one["key"]: one["night"] for one in lake.table("runs", columns=["key", "night"]).to_pylist()}
    except LakeTrouble:
        return ""  # a damaged lake takes new entries nevertheless
    return known.get(key) or ""

"""Histories, checkers, verdicts, reports; `load` and `load_lake` open stored runs in a notebook. Needs no cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squall.results.lake.notebook import OpenLake
    from squall.results.notebook import Run

__all__ = ["load", "load_lake"]


def load(run: Path | str) -> Run:
    """Load a stored run as pandas tables; see docs/exploring-a-run.md."""
    from squall.results.notebook import Run  # imported here: load workers import this package and must not load pandas

    return Run.load(run)


def load_lake(root: Path | str = "runs/lake") -> OpenLake:
    """Open the lake of all runs; see docs/lake.md."""
    from squall.results.lake.notebook import open_lake

    return open_lake(root)

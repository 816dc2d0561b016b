"""Histories, checkers, verdicts and reports; `load` opens a stored run in a notebook. Needs no cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squall.results.notebook import Run

__all__ = ["load"]


def load(run: Path | str) -> Run:
    """Load a stored run as pandas tables; see docs/exploring-a-run.md."""
    from squall.results.notebook import Run  # imported here: load workers import this package and must not load pandas

    return Run.load(run)

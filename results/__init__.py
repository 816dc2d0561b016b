"""Histories, checks, verdicts and reports. Reads histories; never needs a cluster. `load` is for notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squall.results.exploring import Run

__all__ = ["load"]


def load(run: Path | str) -> Run:
    """A stored run as pandas tables; see docs/exploring-a-run.md."""
    from squall.results.exploring import Run  # load workers import this package, and must not load pandas

    return Run.load(run)

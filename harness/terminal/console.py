"""Return standard output, as every command prints to it."""

from __future__ import annotations

import sys

from rich.console import Console

FILE_COLUMNS = 160


def console() -> Console:
    """Return standard output: coloured on a terminal only; elsewhere wide enough that no table is squeezed."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, soft_wrap=True, width=FILE_COLUMNS, color_system=None)

"""Return standard output, as every command prints to it, or standard error for lines beside a JSON document."""

from __future__ import annotations

import sys

from rich.console import Console

FILE_COLUMNS = 160


def console(*, aside: bool = False) -> Console:
    """Return standard output: coloured on a terminal only; elsewhere wide enough that no table is squeezed.

    `aside` is standard error instead, because standard output is for a JSON document.
    """
    if (sys.stderr if aside else sys.stdout).isatty():
        return Console(highlight=False, stderr=aside)
    return Console(highlight=False, stderr=aside, soft_wrap=True, width=FILE_COLUMNS, color_system=None)

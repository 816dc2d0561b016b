"""Paths as commands print them, and names for files that a command writes where the user names none."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path


def shown_path(path: Path) -> str:
    """Return a path as one would type it from the current directory."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def free_name(wanted: Path) -> Path:
    """Create an empty file of this name, or of this name with a number if it exists, and return its path.

    The exclusive creation prevents a clash with other processes.
    """
    for number in itertools.count():
        path = wanted if number == 0 else wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}")
        with contextlib.suppress(FileExistsError):
            path.touch(exist_ok=False)
            return path
    raise AssertionError("numbers do not end")

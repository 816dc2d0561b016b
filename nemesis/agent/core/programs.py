"""Command lines of the agent's own programs, which `program.py` starts on a host."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

STARTER = Path(__file__).absolute().parents[1] / "program.py"


def command(module: str) -> list[str]:
    """Return the command line that starts a module of the agent, without its arguments."""
    return [sys.executable, "-u", str(STARTER), module]


def runs(words: Sequence[str], module: str) -> bool:
    """Whether this is the command line of a process that runs the module."""
    return any(Path(program).name == STARTER.name and started == module for program, started in pairwise(words[:4]))

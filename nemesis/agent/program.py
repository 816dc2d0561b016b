"""Run one module of the agent as a program of its own: `python3 -u program.py MODULE ARGUMENTS…`.

Programs are started by the path of this file, because on a host nothing is installed: it puts the directory that holds
`squall` first on the path and calls `main` of the module.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

PACKAGE = "squall.nemesis.agent"
STARTER = Path(__file__).absolute()


def command(module: str) -> list[str]:
    """The command line that starts a module of the agent, without its arguments."""
    return [sys.executable, "-u", str(STARTER), module]


def runs(words: Sequence[str], module: str) -> bool:
    """Whether this is the command line of a process that was started so."""
    return any(Path(word).name == STARTER.name and words[at + 1] == module for at, word in enumerate(words[:3]))


def main(argv: list[str]) -> int:
    module, *arguments = argv
    status: int = import_module(f"{PACKAGE}.{module}").main(arguments)
    return status


if __name__ == "__main__":
    sys.path[0] = str(STARTER.parents[3])
    raise SystemExit(main(sys.argv[1:]))

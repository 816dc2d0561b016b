"""Run one module of the agent as a program of its own: `python3 -u program.py MODULE ARGUMENTS…`.

Programs are started by the path of this file (`core/programs.py`), because on a host nothing is installed: it puts the
directory that holds `squall` first on the path and calls `main` of the module.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

PACKAGE = "squall.nemesis.agent"


def main(argv: list[str]) -> int:
    module, *arguments = argv
    status: int = import_module(f"{PACKAGE}.{module}").main(arguments)
    return status


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).absolute().parents[3])
    raise SystemExit(main(sys.argv[1:]))

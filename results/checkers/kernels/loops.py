"""Give access to the compiled loops of `passes.py`, importing numba at the first call and not before.

So a process that imports the rules without judging, such as a control process that only runs a load, need not wait.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Import a loop at its first use and keep it here."""
    loop = getattr(import_module("squall.results.checkers.kernels.passes"), name)
    globals()[name] = loop
    return loop

"""The way to the compiled loops of `passes.py`: numba is imported when the first of them is called for, not before.

So whoever imports the rules without judging anything, as a control process that only runs something, need not wait.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Asked for a loop once; from then on it is here."""
    loop = getattr(import_module("squall.results.checks.kernels.passes"), name)
    globals()[name] = loop
    return loop

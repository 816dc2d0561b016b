"""Choose the operations shown beside a proof: a few that began before the wrong one, and a few after it."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

import numpy as np

from squall.results.checkers.kernels.operations import Ints

AROUND: Final = 2
"""So many operations before the last of the proof, and after it."""


def witness_context(invoked: Ints, candidates: Ints, pivot: int, shown: Set[int]) -> tuple[list[int], list[int]]:
    """Return the last few candidate rows invoked before `pivot`, and the first few after it, in order of time.

    Rows in `shown` are left out.
    """
    rows = candidates[np.argsort(invoked[candidates], kind="stable")]
    at = int(np.searchsorted(invoked[rows], invoked[pivot]))
    before = [row for row in rows[:at][-AROUND - len(shown) :].tolist() if row not in shown]
    after = [row for row in rows[at:][: AROUND + len(shown)].tolist() if row not in shown]
    return before[-AROUND:], after[:AROUND]

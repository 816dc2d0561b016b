"""The level for each of many tests, so that all of them together have a false alarm at most at a stated rate.

Bonferroni's correction divides the level by the number of tests. Tarone's counts only those tests that could reach the
divided level at all: the others, with too few runs, cannot raise a false alarm (Biometrics 46, 1990).
"""

from __future__ import annotations

from collections.abc import Sequence


def level_of_each(alpha: float, smallest_ps: Sequence[float]) -> float:
    """Return the level of each test. `smallest_ps` are the smallest p-values that the tests can have.

    Raises ValueError for a level or a p-value outside 0 to 1.
    """
    if not 0 < alpha < 1 or not all(0 <= one <= 1 for one in smallest_ps):
        raise ValueError("a level and a p-value lie between 0 and 1")
    divisor = 1
    while sum(one <= alpha / divisor for one in smallest_ps) > divisor:
        divisor += 1
    return alpha / divisor

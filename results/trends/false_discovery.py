"""Adjust p-values of many tests by the procedure of Benjamini and Hochberg.

Of the tests with an adjusted p-value of at most q, at most a share q are expected to be false discoveries, if the
tests are independent or depend on each other positively.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def adjusted_p_values(p_values: Sequence[float]) -> tuple[float, ...]:
    """The adjusted p-values, in the order given. Raises ValueError for one outside 0 to 1."""
    given = np.asarray(p_values, dtype=np.float64)
    if not ((given >= 0) & (given <= 1)).all():
        raise ValueError("a p-value lies between 0 and 1")
    order = np.argsort(-given, kind="stable")
    scaled = given[order] * len(given) / np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum.accumulate(np.minimum(scaled, 1.0))
    return tuple(adjusted.tolist())

"""How tasks are shared out: what is large first and by itself, what is small in bundles.

Each bundle costs an engine something (Spark a few milliseconds), and so does each file that it opens; on the other hand
a bundle that is begun late is waited for by all. So neighbours, which lie in the same file, are bundled until they are
worth a fair share of the work, and the largest bundles are begun first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

TASK_ROWS: Final = 10_000
"""What a task costs beside its rows, in rows."""


def bundles(sizes: Sequence[int], first: Sequence[bool], most: int) -> list[list[int]]:
    """Numbers of tasks in some `most` bundles (up to twice as many), in the order in which they should be begun: those
    that hold one of the `first` before all others, then by size.
    """
    costs = [TASK_ROWS + size for size in sizes]
    fair = sum(costs) // most
    found: list[list[int]] = []
    held = 0
    for number, size in enumerate(costs):
        if not found or held + size > fair:
            found.append([])
            held = 0
        found[-1].append(number)
        held += size
    return sorted(found, key=lambda one: (not any(first[each] for each in one), -sum(costs[each] for each in one)))

"""Divide tasks into bundles: large tasks first and alone, small ones together.

Each bundle costs an engine something (Spark a few milliseconds), and so does each file that it opens; but a bundle that
is begun late delays the whole job. So neighbouring tasks, which lie in the same file, are bundled until they make up a
fair share of the work, and the largest bundles are begun first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

TASK_ROWS: Final = 10_000
"""What a task costs beside its rows, in rows."""


def bundles(sizes: Sequence[int], first: Sequence[bool], most: int) -> list[list[int]]:
    """Return the numbers of tasks in some `most` bundles (up to twice as many), in the order to begin them.

    Bundles with one of the `first` tasks come before all others, then the order is by size.
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

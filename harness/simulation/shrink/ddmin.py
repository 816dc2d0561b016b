"""Delta debugging: the fewest parts of something that still fails (Zeller and Hildebrandt's ddmin).

`ddmin(items, first_failing)` returns a sublist that fails and is *1-minimal*: without any one of its items it no longer
fails. This holds for every predicate that fails on the whole list, monotonic or not.

The predicate receives many candidates at once and returns the first of them that fails. The caller may therefore run
them in parallel, and the outcome does not depend on how many run at a time. Halves are tried before quarters, and so
on. Only *leaving out* a part is tried, never one part alone; with two parts these are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

Item = TypeVar("Item")
FirstFailing = Callable[[list[list[Item]]], int | None]
"""The index of the first candidate that fails, or None."""


def ddmin(items: Sequence[Item], first_failing: FirstFailing[Item]) -> list[Item]:
    """Return a 1-minimal failing sublist of `items`, which is known to fail; an empty list if that fails too."""
    left = list(items)
    if not left or first_failing([[]]) is not None:
        return []
    parts = 2
    while len(left) >= 2:
        candidates = _each_part_left_out(left, parts)
        failing = first_failing(candidates)
        if failing is not None:
            left, parts = candidates[failing], max(parts - 1, 2)
        elif parts >= len(left):
            break
        else:
            parts = min(len(left), parts * 2)
    return left


def _each_part_left_out(items: list[Item], parts: int) -> list[list[Item]]:
    """Yield the list without each of so many equal parts in turn.

    The last parts come first: what is late in a run is least likely to have caused its end.
    """
    bounds = [len(items) * part // parts for part in range(parts + 1)]
    return [items[:begin] + items[end:] for begin, end in reversed(list(pairwise(bounds)))]

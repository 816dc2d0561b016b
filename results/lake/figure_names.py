"""Give each figure of a benchmark a name of its own: an indented one belongs to the figure above it."""

from __future__ import annotations

from collections.abc import Sequence


def figure_names(names: Sequence[str]) -> list[str]:
    """Return the names in the same order; `    memory` below `one replica` becomes `one replica: memory`."""
    found: list[str] = []
    above = ""
    for one in names:
        name = one.strip()
        if one.startswith(" ") and above:
            name = f"{above}: {name}"
        else:
            above = name
        while name in found:
            name += "'"
        found.append(name)
    return found

"""The gallery of real bugs: what its entries state, and how their runs in the lake ended.

Entries lie in files that the lake does not have, so that the caller of `build` hands them over (`GalleryEntry`). A run
of an entry is found by its scenario's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from squall.results.dashboard.nights import Cell, Nights, outcome_of, outcome_text


@dataclass(frozen=True)
class GalleryArm:
    """One of the runs that an entry consists of: what runs, what is expected, and its scenario's name in the lake."""

    name: str
    words: str
    expects: str
    scenario: str


@dataclass(frozen=True)
class GalleryCell:
    """The same schedule over another version; `seen` of `of` runs had the expected outcome when it was measured."""

    system: str
    client: str
    expects: str
    """`bug` or `ok`."""
    seen: int
    of: int
    scenario: str


@dataclass(frozen=True)
class GalleryEntry:
    """What an entry's file states."""

    name: str
    title: str
    system: str
    broken: str
    fixed: str | None
    """The first version without the bug; None while it is live."""
    anomaly: str
    mechanism: str
    references: tuple[str, ...]
    seen: int
    of: int
    reproduced: str
    arms: tuple[GalleryArm, ...]
    cells: tuple[GalleryCell, ...] = ()


@dataclass(frozen=True)
class ShownArm:
    """An arm with its runs over the last nights; None on a night on which it was not run."""

    arm: GalleryArm
    nights: tuple[tuple[str, Cell | None], ...]

    @property
    def runs(self) -> int:
        return sum(len(cell.runs) for _, cell in self.nights if cell is not None)


@dataclass(frozen=True)
class ShownCell:
    """A cell with the newest run of it, in words and as a mark; both are empty if there is none."""

    cell: GalleryCell
    outcome: str = ""
    text: str = ""


@dataclass(frozen=True)
class ShownEntry:
    """An entry with its runs."""

    entry: GalleryEntry
    arms: tuple[ShownArm, ...]
    cells: tuple[ShownCell, ...]
    newest: str
    """The day of the newest run of either arm; empty if the lake has none."""

    @property
    def links(self) -> tuple[str, ...]:
        return tuple(one for one in self.entry.references if one.startswith("https://"))


def shown_entries(entries: Iterable[GalleryEntry], nights: Nights, days: Sequence[str]) -> list[ShownEntry]:
    """Return the entries with their runs of these days."""
    return [_shown(entry, nights, days) for entry in entries]


def _shown(entry: GalleryEntry, nights: Nights, days: Sequence[str]) -> ShownEntry:
    arms = []
    for arm in entry.arms:
        cells = nights.cells.get(arm.scenario, {})
        arms.append(ShownArm(arm, tuple((day, cells.get(day)) for day in days)))
    ran = [max(found) for arm in entry.arms if (found := nights.cells.get(arm.scenario))]
    return ShownEntry(
        entry, tuple(arms), tuple(_newest(cell, nights.cells) for cell in entry.cells), max(ran, default="")
    )


def _newest(cell: GalleryCell, by_scenario: Mapping[str, Mapping[str, Cell]]) -> ShownCell:
    found = by_scenario.get(cell.scenario)
    if not found:
        return ShownCell(cell)
    run = found[max(found)].runs[-1]
    return ShownCell(cell, outcome_of(run), f"{run.date}: {outcome_text(run)}")

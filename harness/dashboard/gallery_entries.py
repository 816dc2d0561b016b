"""What the dashboard's page about the gallery says of its entries, from their files."""

from __future__ import annotations

from collections.abc import Callable

from squall.harness.errors import UsageError
from squall.harness.gallery.core.entry import BROKEN, TWIN, Arm, Entry
from squall.harness.gallery.entries import entries
from squall.harness.gallery.history import scenario_of
from squall.results.dashboard.gallery import GalleryArm, GalleryCell, GalleryEntry


def gallery_entries(say: Callable[[str], None]) -> list[GalleryEntry]:
    """Return all entries; none, and a line that says why, if a file of one's own is wrong."""
    try:
        return [_stated(entry) for entry in entries()]
    except UsageError as trouble:
        say(f"no gallery: {trouble}")
        return []


def _stated(entry: Entry) -> GalleryEntry:
    return GalleryEntry(
        name=entry.name,
        title=entry.title,
        system=entry.system.words,
        broken=entry.broken,
        fixed=entry.fixed,
        anomaly=entry.anomaly,
        mechanism=entry.mechanism.strip(),
        references=entry.references,
        seen=entry.rate.seen,
        of=entry.rate.of,
        reproduced=entry.reproduced.isoformat(),
        arms=tuple(_arm(entry.arm(name)) for name in (BROKEN, TWIN)),
        cells=tuple(
            GalleryCell(
                arm.system.words,
                arm.client.words,
                cell.expects,
                cell.rate.seen,
                cell.rate.of,
                scenario_of(entry.name, arm.name),
            )
            for arm, cell in ((entry.cell_arm(cell), cell) for cell in entry.cells)
        ),
    )


def _arm(arm: Arm) -> GalleryArm:
    return GalleryArm(arm.name, arm.words, arm.expects, scenario_of(arm.entry.name, arm.name))

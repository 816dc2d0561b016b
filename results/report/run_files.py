"""List the files of a run that its report links to: those that exist when it is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from squall.results.history.host_samples import HOST_SAMPLES_FILE
from squall.results.history.manifest import MANIFEST_FILE
from squall.results.report.tables import TABLES_FOLDER

TABLES: Final = "Tables"
NODES: Final = "Nodes"
EVENTS: Final = "Events"
GROUPS: Final = {
    "Verdict": ("verdict.json", MANIFEST_FILE, "schedule.json"),
    EVENTS: ("timeline.txt", "clocks.json", "faults.jsonl", "cluster.jsonl", HOST_SAMPLES_FILE),
    TABLES: ("history.parquet", "replicas.parquet", "control-plane.parquet", "nemesis.parquet", "cluster.parquet"),
}


@dataclass(frozen=True)
class Link:
    """A file, and its address relative to the report."""

    name: str
    href: str


def run_files(run_dir: Path) -> dict[str, list[Link]]:
    """Return links by what they lead to. Groups without a file are left out."""
    found = {group: [one for one in names if (run_dir / one).is_file()] for group, names in GROUPS.items()}
    found[TABLES] += sorted(f"{TABLES_FOLDER}/{one.name}" for one in (run_dir / TABLES_FOLDER).glob("*.parquet"))
    found[NODES] = list(_of_nodes(run_dir))
    return {group: [Link(one, quote(one)) for one in names] for group, names in found.items() if names}


def _of_nodes(run_dir: Path) -> Iterator[str]:
    """Logs and configurations of nodes, and the output of load workers."""
    for path in sorted((run_dir / "nodes").glob("*/*")):
        if path.is_file() and path.suffix in (".log", ".properties", ".jsonl", ".pcap"):
            yield path.relative_to(run_dir).as_posix()
    yield from (path.name for path in sorted(run_dir.glob("worker-*.log")))

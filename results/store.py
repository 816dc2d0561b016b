"""Where runs lie: `runs/SCENARIO/TIME/`, and `runs/latest`, a link to the newest."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from squall.results.history import HISTORY_FILE
from squall.results.manifest import MANIFEST_FILE, Manifest
from squall.results.segments import SEGMENTS_FOLDER, IllFormedHistory

LATEST: Final = "latest"


class NoSuchRun(Exception):
    """There is no run of that name. The message lists what there is."""


def new_run(runs: Path, scenario: str, now: datetime | None = None) -> Path:
    """Make the directory of a new run, and point `latest` at it."""
    stamp = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H-%M-%S")
    for number in range(1000):
        directory = runs / scenario / (stamp if number == 0 else f"{stamp}-{number}")
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        point_latest(runs, directory)
        return directory
    raise FileExistsError(f"{runs / scenario / stamp}: too many runs within a second")


def point_latest(runs: Path, directory: Path) -> None:
    """Make `runs/latest` a link to a run, in one step."""
    draft = runs / f".{LATEST}-{os.getpid()}"
    draft.unlink(missing_ok=True)
    draft.symlink_to(directory.relative_to(runs))
    draft.replace(runs / LATEST)


def is_run(directory: Path) -> bool:
    """Whether a directory is a run: it has a manifest that can be read, or something of a history.

    Nothing is ever written into any other.
    """
    if (directory / HISTORY_FILE).exists() or any(directory.glob(f"{SEGMENTS_FOLDER}/segment-*.jsonl")):
        return True
    try:
        Manifest.load(directory)
    except IllFormedHistory:
        return False
    return True


def _is_of(run: Path, scenario: str) -> bool:
    try:
        return Manifest.load(run).scenario == scenario
    except IllFormedHistory:
        return False


def find_run(name: str | Path, runs: Path) -> Path:
    """The directory of a run given by its path, `latest`, `SCENARIO` (its newest) or `SCENARIO/TIME`. A directory with
    several runs that is no scenario's is refused: nobody can tell which is meant.

    Raises NoSuchRun.
    """
    for candidate in (Path(name), runs / name):
        if (candidate / MANIFEST_FILE).exists():
            return candidate.resolve()
        if candidate.is_dir():
            inside = sorted(path for path in candidate.iterdir() if (path / MANIFEST_FILE).exists())
            if len(inside) > 1 and not _is_of(inside[-1], candidate.resolve().name):
                raise NoSuchRun(f"{name}: holds {len(inside)} runs; name one, such as {inside[-1]}")
            if inside:
                return inside[-1].resolve()
    known = sorted(f"{path.parent.parent.name}/{path.parent.name}" for path in runs.glob(f"*/*/{MANIFEST_FILE}"))
    there = f"the newest are {', '.join(known[-3:])}" if known else f"{runs} holds no runs"
    raise NoSuchRun(f"{name}: no run with a {MANIFEST_FILE} is there; {there}")

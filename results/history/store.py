"""Locate runs: `runs/SCENARIO/TIME/`, and `runs/latest`, a link to the run whose load began last."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from squall.results.history.history import HISTORY_FILE
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import MANIFEST_FILE, Manifest
from squall.results.history.segments import SEGMENTS_FOLDER

LATEST: Final = "latest"


class NoSuchRun(Exception):
    """There is no run of that name. The message lists existing runs."""


def claim_run(wanted: Path) -> Path:
    """Make the directory of a new run, for this caller alone: `wanted`, or with a number appended if that exists.

    Any number of runs may claim one name at once; each gets a different directory.
    """
    for number in itertools.count():
        directory = wanted if number == 0 else wanted.with_name(f"{wanted.name}-{number}")
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        return directory
    raise AssertionError("numbers do not end")


def discard_run(directory: Path) -> None:
    """Remove a run that was claimed here and never began."""
    shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def checked_alone(runs: Sequence[Path], waiting: Callable[[Path], None]) -> Iterator[None]:
    """Hold a lock on these runs, so that no other process checks them: all checks of a run write the same files.

    `waiting` is called with a run that another process is checking, before waiting for it.
    """
    with contextlib.ExitStack() as stack:
        for run in sorted({run.resolve() for run in runs if run.is_dir()}):
            with contextlib.suppress(OSError):  # a file system without locks has one user at a time
                descriptor = os.open(run, os.O_RDONLY)
                stack.callback(os.close, descriptor)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    waiting(run)
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def point_latest(runs: Path, directory: Path) -> None:
    """Make `runs/latest` a link to a run, in one step."""
    draft = runs / f".{LATEST}-{secrets.token_hex(8)}"
    draft.symlink_to(directory.relative_to(runs))
    draft.replace(runs / LATEST)


def is_run(directory: Path) -> bool:
    """Whether a directory is a run: it has a readable manifest, a history or segments.

    Nothing is ever written into any other directory.
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
    """Return the directory of a run given by its path, `latest`, `SCENARIO` (its newest) or `SCENARIO/TIME`.

    A directory with several runs that is no scenario's is refused, since it is ambiguous. Raises NoSuchRun.
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
    there = f"the newest are {', '.join(known[-3:])}" if known else f"{runs} contains no runs"
    raise NoSuchRun(f"{name}: no run with a {MANIFEST_FILE} is there; {there}")

"""Write the dashboard into a folder: only the pages that changed, each whole or not at all.

    DIR/index.html, …          the pages
    DIR/scenarios/NAME.html    a page for each scenario
    DIR/reports/KEY.html       copies of reports of runs that were not as expected
    DIR/assets/…               style sheets and scripts
    DIR/.dashboard.json        what was written, and from what; the mark of a folder of ours
    DIR/.series                change points and alarms, for the next build
    DIR/.lock                  held while one process builds

Two builds at once take turns. A build that is killed leaves every page whole, old or new, and the next one goes on: a
page is written if its content differs from what lies there, whatever the record says. The index is written last, and
pages of scenarios that are gone are removed after it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from squall.results.dashboard.gallery import GalleryEntry
from squall.results.dashboard.lake_facts import Run, read_lake
from squall.results.dashboard.nights import outcome_of
from squall.results.dashboard.overview import overview_of
from squall.results.dashboard.pages import FOLDER, Page, assets, pages
from squall.results.dashboard.series_cache import load_cache, save_cache
from squall.results.dashboard.words import file_name
from squall.results.history.whole_file import write_whole
from squall.results.lake.store import Lake, LakeTrouble
from squall.results.lake.triage import TRIAGE_FILE

RECORD: Final = ".dashboard.json"
LOCK: Final = ".lock"
SERIES: Final = ".series"
REPORTS: Final = "reports"
REPORTS_MAX: Final = 200
REPORT_BYTES_MAX: Final = 20_000_000

Say = Callable[[str], None]


class NotOurs(Exception):
    """The folder has other files, and is not written to. The message names it."""


class _Record(msgspec.Struct, frozen=True):
    """`source` identifies lake and code of the last complete build, `files` are all that it left."""

    source: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Built:
    """What a build did. `unchanged`: lake and code were those of the last build, so nothing was worked out."""

    pages: int = 0
    written: int = 0
    removed: int = 0
    unchanged: bool = False


def build(lake: Lake, target: Path, say: Say, gallery: Sequence[GalleryEntry] = ()) -> Built:
    """Build the dashboard of a lake in a folder, with a page about these entries of the gallery of real bugs.

    Raises LakeTrouble, NotOurs and OSError.
    """
    require_ours(target)
    try:
        lake.compact()
    except LakeTrouble as trouble:
        say(f"{trouble}; entries that are not compacted are read as they are")
    target.mkdir(parents=True, exist_ok=True)
    with _locked(target, say):
        return _build(lake, target, gallery)


def require_ours(target: Path) -> None:
    """Raise NotOurs unless the folder is new, empty, or one that a build began."""
    if not target.exists():
        return
    if not target.is_dir():
        raise NotOurs(f"{target}: is not a directory")
    names = {path.name for path in target.iterdir()}
    if names and not names & {RECORD, LOCK}:
        raise NotOurs(f"{target}: has other files, and no dashboard")


def _build(lake: Lake, target: Path, gallery: Sequence[GalleryEntry]) -> Built:
    before = _record(target)
    arrived = lake.arrived("runs").num_rows  # only if the lake cannot be written
    source = _source(lake, gallery)
    if before.source == source and not arrived and all((target / one).is_file() for one in before.files):
        return Built(pages=len(before.files), unchanged=True)
    for draft in target.rglob(".*.new"):
        draft.unlink(missing_ok=True)  # of a build that was killed: only who holds the lock writes one
    series = load_cache(target / SERIES)
    overview = overview_of(read_lake(lake), series)
    reports = _copied_reports(overview.facts.runs, target)
    files, written = list(reports.values()), 0
    for path, content in _everything(pages(overview, reports, gallery)):
        files.append(path)
        written += _write(target / path, content.encode())
    save_cache(target / SERIES, series)
    removed = _remove(target, set(before.files) - set(files))
    write_whole(target / RECORD, msgspec.json.encode(_Record("" if arrived else source, tuple(sorted(files)))))
    return Built(len(files), written, removed)


def _everything(rendered: Iterable[Page]) -> Iterator[Page]:
    yield from assets()
    yield from rendered


def _record(target: Path) -> _Record:
    try:
        return msgspec.json.decode((target / RECORD).read_bytes(), type=_Record)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return _Record()


def _source(lake: Lake, gallery: Sequence[GalleryEntry]) -> str:
    """Identify the state of the lake, the gallery and the code that makes pages of it."""
    digest = blake2b(digest_size=16)
    digest.update(repr((str(lake.root.resolve()), sorted(lake.periods().items()), tuple(gallery))).encode())
    with contextlib.suppress(OSError):  # nobody has decided about a change point yet
        digest.update((lake.root / TRIAGE_FILE).read_bytes())
    for path in sorted((*FOLDER.rglob("*.*"), *FOLDER.with_name("charts").rglob("*.*"))):
        if path.suffix in (".py", ".html", ".css", ".js"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _write(path: Path, content: bytes) -> bool:
    """Write a page if it differs from what is there; return whether it did."""
    with contextlib.suppress(OSError):
        if path.stat().st_size == len(content) and path.read_bytes() == content:
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content, durably=False)  # it can be made again
    return True


def _copied_reports(runs: Iterable[Run], target: Path) -> dict[str, str]:
    """Copy the reports of the newest runs that were not as expected; return their paths in the folder by run.

    So the folder can be published, and a witness be read after its run was deleted.
    """
    found: dict[str, str] = {}
    for run in reversed(list(runs)):
        if len(found) == REPORTS_MAX:
            break
        if outcome_of(run) not in ("invalid", "unknown"):
            continue
        path = f"{REPORTS}/{file_name(run.key)}.html"
        with contextlib.suppress(OSError):
            source = Path(run.row["directory"] or "") / "report.html"
            if run.row["directory"] and source.is_file() and source.stat().st_size <= REPORT_BYTES_MAX:
                _write(target / path, source.read_bytes())
        if (target / path).is_file():
            found[run.key] = path
    return found


def _remove(target: Path, stale: Iterable[str]) -> int:
    number = 0
    for one in stale:
        path = (target / one).resolve()
        if path.is_relative_to(target.resolve()) and path.is_file():
            path.unlink(missing_ok=True)
            number += 1
    return number


@contextlib.contextmanager
def _locked(target: Path, say: Say) -> Iterator[None]:
    """Hold the folder's lock; the kernel frees it if this process dies."""
    descriptor = os.open(target / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{target}: waiting for another build")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

"""Find the last run of the same scenario beside a run, and compare with it.

    RUNS/SCENARIO/TIME     the runs of a scenario lie side by side

The predecessor is the run that began last before this one, with the same scenario and the same `scenario_hash`. One
that cannot be read, or that another version of Squall wrote, is passed over and named. Whatever is wrong there, this
run's verdict and report stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
import pyarrow as pa

from squall.results.checkers.common.text import listed
from squall.results.checkers.kernels.series import Frame
from squall.results.history.history import read_faults
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import MANIFEST_FILE, Manifest
from squall.results.report.fault_effects import fault_effects
from squall.results.report.last_run import LastRun, RunFacts, circumstances, machine_rows, result_rows
from squall.results.report.tables import Series, bucket_width
from squall.results.verdict.verdict import Verdict

REPORT: Final = "report.html"
MOST_SKIPPED: Final = 3
EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


class _Glance(msgspec.Struct, frozen=True):
    """The few facts of a manifest that decide whether it is of a predecessor: a scenario may have hundreds of runs."""

    run_id: str
    scenario: str
    scenario_hash: str = ""
    started: str = ""


class _Skipped(Exception):
    """A run cannot be compared with. The message says why."""


def last_run(run_dir: Path, this: RunFacts) -> LastRun | None:
    """Compare a run with its predecessor; None for a run of a simulation, where each seed is another run."""
    manifest = this.manifest
    if manifest.world == "simulation":
        return None
    began = _began(manifest.started)
    if not manifest.scenario_hash or began is None:
        lacks = "which scenario it is of" if not manifest.scenario_hash else "when it began"
        return LastRun(notes=(f"? This run does not state {lacks}, so its predecessor is unknown.",))
    here, skipped = run_dir.resolve(), list[str]()
    for directory, problem in _before(here, manifest, began):
        try:
            if problem:
                raise _Skipped(problem)
            last = _facts(directory)
        except _Skipped as one:
            skipped.append(f"{directory.name} ({one})")
            continue
        return _compared(directory, last, this, skipped)
    none = "No earlier run of this scenario, as it is stated now, is beside this one."
    return LastRun(notes=(none, *_skipped_words(skipped)))


def _compared(directory: Path, last: RunFacts, this: RunFacts, skipped: list[str]) -> LastRun:
    report = f"../{quote(directory.name)}/{REPORT}" if (directory / REPORT).is_file() else ""
    return LastRun(
        name=directory.name,
        href=report,
        href_from_latest=f"../{quote(directory.parent.name)}/{quote(directory.name)}/{REPORT}" if report else "",
        rows=result_rows(last, this),
        machine=machine_rows(last.manifest, this.manifest),
        notes=(*circumstances(last.manifest, this.manifest), *_skipped_words(skipped)),
    )


def _skipped_words(skipped: list[str]) -> list[str]:
    return [f"Passed over: {listed(skipped, MOST_SKIPPED)}."] if skipped else []


def _before(here: Path, manifest: Manifest, began: datetime) -> Iterator[tuple[Path, str]]:
    """Yield the earlier runs beside this one, the last first, and what is wrong with a manifest.

    A run whose manifest cannot be read has no time but the one in its directory's name: it is yielded at that place.
    """
    found: list[tuple[datetime, str, Path, str]] = []
    damaged: list[tuple[str, Path, str]] = []
    for path in _manifests_beside(here):
        try:
            one = msgspec.json.decode(path.read_bytes(), type=_Glance)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            damaged.append((path.parent.name, path.parent, f"its {MANIFEST_FILE} cannot be read"))
            continue
        when, name = _began(one.started), path.parent.name
        if _same_scenario(one, manifest) and when is not None and (when, name) < (began, here.name):
            found.append((when, name, path.parent, ""))
    found.sort(reverse=True)
    for name, directory, problem in sorted(damaged, reverse=True):
        if name < here.name:
            place = next((at for at, one in enumerate(found) if one[1] < name), len(found))
            found.insert(place, (EARLIEST, name, directory, problem))
    yield from ((directory, problem) for _, _, directory, problem in found)


def _same_scenario(one: _Glance, manifest: Manifest) -> bool:
    """Whether a run is another one of the same scenario; a copy of a run is not."""
    stated = (one.scenario, one.scenario_hash) == (manifest.scenario, manifest.scenario_hash)
    return stated and one.run_id != manifest.run_id


def _manifests_beside(here: Path) -> list[Path]:
    with suppress(OSError):
        return [path for path in here.parent.glob(f"*/{MANIFEST_FILE}") if path.parent.name != here.name]
    return []


def _facts(directory: Path) -> RunFacts:
    """Read a run. Raises _Skipped."""
    try:
        manifest, verdict, faults = Manifest.load(directory), Verdict.load(directory), read_faults(directory)
        series = Series.load(directory)
    except FileNotFoundError:
        raise _Skipped("it was never judged") from None
    except IllFormedHistory as trouble:
        raise _Skipped(f"its {Path(trouble.file).name} {trouble.problem.partition(': ')[0]}") from None
    except (OSError, pa.ArrowException):
        raise _Skipped("its tables cannot be read") from None
    if verdict.run_id != manifest.run_id:
        raise _Skipped("its verdict is of another run")
    try:
        effects = fault_effects(faults, series, _frame(manifest, series))
    except KeyError:  # a table or a column
        raise _Skipped("its tables are those of another version of Squall") from None
    return RunFacts(manifest, verdict, faults, effects)


def _frame(manifest: Manifest, series: Series) -> Frame:
    """Return the time axis of the tables of a run: its buckets are as wide as the narrowest gap between them."""
    start = manifest.load_started or 0
    end = start if manifest.load_ended is None else manifest.load_ended
    seconds = sorted(set(series["throughput"]["second"].to_pylist()))
    gaps = [round((later - earlier) * 1e9) for earlier, later in pairwise(seconds)]
    return Frame(start, min(gaps, default=bucket_width(end - start)), end)


def _began(started: str) -> datetime | None:
    with suppress(ValueError):
        moment = datetime.fromisoformat(started)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return None

"""The lake on disk: entries that arrive, and the Parquet parts they are compacted into.

    LAKE/v1/incoming/KEY.entry.json            rows about one thing, written whole by the command that made them
    LAKE/v1/TABLE/period=2026-11-24/part-G.parquet   the rows of a day, of all its entries; a month once it is old
    LAKE/v1/manifest.json                      which parts count, by table and period; replaced by a rename
    LAKE/v1/set-aside/                         files that could not be read, kept for a person
    LAKE/v1/lock                               held while one process compacts, prunes or rebuilds
    LAKE/kept/KEY.entry.json                   the entries that no run directory can make again

Laws:

* *Idempotent.* An entry replaces all rows of its key. Compacting the same entry twice changes nothing.
* *Atomic.* A reader sees the parts of one manifest. A writer that dies at any point leaves the old manifest, or the new
  one: entries are removed only after the manifest that covers them is in place, so nothing is lost or counted twice.
* *Concurrent.* Anyone may add entries at any time, without the lock. Parts that a new manifest replaces stay until the
  manifest after it, for readers that are still at work.
* *Shared.* An entry of a newer schema stays where it is, for the Squall that reads it, and a line counts such entries.
* *Self-repairing.* A part or entry that cannot be read is set aside and named; its rows come back with `rebuild`, as
  far as their run directories are there. Campaigns, benchmarks and nights have none: their entries are kept as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from squall.results.checkers.common.text import several
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.whole_file import write_whole
from squall.results.lake.entry import SUFFIX, Entry, NewerEntry, file_name
from squall.results.lake.schema import SCHEMA_VERSION, TABLES

MANIFEST: Final = "manifest.json"
INCOMING, SET_ASIDE, LOCK = "incoming", "set-aside", "lock"
KEPT: Final = "kept"
KEYED: Final = ("runs", "campaigns", "benchmarks", "nights")
"""Every entry has rows in one of these."""
MONTH_AFTER_DAYS: Final = 60
"""The days of a month are folded into one part when its last day is this long ago."""
DRAFT_SECONDS: Final = 3600.0
"""A draft of an entry that is older than this was left by a process that was killed."""
ATTEMPTS: Final = 5
"""How often a reader begins again because another process has replaced the parts meanwhile."""

Say = Callable[[str], None]


def _silent(line: str) -> None:
    return None


class LakeTrouble(Exception):
    """The lake cannot be used. The message names the file, what is wrong and what to do."""


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Which parts count: path by period, by table. `previous` are parts that older readers may still read."""

    schema: int = SCHEMA_VERSION
    generation: int = 0
    parts: dict[str, dict[str, str]] = {}
    previous: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compacted:
    """What a compaction did."""

    entries: int = 0
    periods: int = 0
    set_aside: tuple[str, ...] = ()


@dataclass
class Lake:
    """A lake in a directory of a file system of this machine.

    `say` gets a line about everything that is set aside, and about entries that only a newer Squall reads.
    """

    root: Path
    say: Say = _silent
    _folder: Path = field(init=False)
    _newer: Counter[int] = field(init=False, default_factory=Counter)
    """The entries of newer schemas that were counted last."""

    def __post_init__(self) -> None:
        self._folder = self.root / f"v{SCHEMA_VERSION}"

    @property
    def exists(self) -> bool:
        return self._folder.is_dir()

    # -- writing ------------------------------------------------------------------------------------------------------

    def add(self, entry: Entry, *, durably: bool = True, keep: bool = False) -> Path:
        """Add an entry; it replaces all rows of its key. Raises OSError.

        One that is not added `durably` may be lost with the power of this machine, until it is compacted. With `keep` a
        copy of its file stays, so that its rows can be made again although there is no run directory.
        """
        if keep:
            (self.root / KEPT).mkdir(parents=True, exist_ok=True)
            entry.save(self.root / KEPT, durably=durably)
        folder = self._folder / INCOMING
        folder.mkdir(parents=True, exist_ok=True)
        return entry.save(folder, durably=durably)

    def compact(self, *, today: date | None = None) -> Compacted:
        """Fold all entries into parts. Waits for another process that is compacting. Raises LakeTrouble."""
        with self._locked():
            return self._compact(today or datetime.now(UTC).date())

    def _compact(self, today: date) -> Compacted:
        for draft in self._folder.glob(f".{MANIFEST}.*"):
            draft.unlink(missing_ok=True)  # of a process that was killed: only who holds the lock writes one
        self._remove_old_drafts()
        manifest = self._manifest()
        entries, bad = self._entries()
        changed = self._periods_of(manifest, [entry for _, entry in entries])
        folded = _months_to_fold(manifest, today)
        if not entries and not folded:
            return Compacted(set_aside=tuple(bad))
        generation = manifest.generation + 1
        parts = {table: dict(periods) for table, periods in manifest.parts.items()}
        replaced = pa.array([entry.key for _, entry in entries], pa.string())
        for period, some in changed.items():
            self._write_period(parts, period, some, replaced, generation, bad)
        for month, days in folded.items():
            self._fold(parts, month, days, generation, bad)
        self._replace(manifest, parts, generation)
        for path, _ in entries:
            path.unlink(missing_ok=True)
        return Compacted(len(entries), len(changed), tuple(bad))

    def _remove_old_drafts(self) -> None:
        """Remove drafts of entries whose writers were killed."""
        for draft in (self._folder / INCOMING).glob(".*.new"):
            with contextlib.suppress(FileNotFoundError):  # it has just been completed
                if time.time() - draft.stat().st_mtime > DRAFT_SECONDS:
                    draft.unlink()

    def prune(self, *, before: date, keep_invalid: bool) -> int:
        """Remove the rows of everything that began before a day; return how many runs that were.

        With `keep_invalid` the rows of runs with another verdict than valid stay. Raises LakeTrouble.
        """
        with self._locked():
            self._compact(datetime.now(UTC).date())
            manifest = self._manifest()
            doomed = self._doomed(before, keep_invalid=keep_invalid)
            if not doomed:
                return 0
            generation = manifest.generation + 1
            parts = {table: dict(periods) for table, periods in manifest.parts.items()}
            first_kept = before.isoformat()
            for table, periods in parts.items():
                for period, path in list(periods.items()):
                    if period[:7] <= first_kept[:7]:
                        rows = pq.read_table(self._folder / path, schema=TABLES[table].schema)
                        kept = rows.filter(pc.invert(pc.is_in(rows["key"], pa.array(sorted(doomed)))))
                        if kept.num_rows == rows.num_rows:
                            continue
                        self._write_part(parts, table, period, kept, generation)
            self._replace(manifest, parts, generation)
            for key in doomed:
                (self.root / KEPT / file_name(key)).unlink(missing_ok=True)
            return len(doomed)

    def _doomed(self, before: date, *, keep_invalid: bool) -> set[str]:
        runs = self.table("runs", columns=["key", "date", "verdict"]).to_pylist()
        old = {one["key"] for one in runs if one["date"] < before.isoformat()}
        kept = {one["key"] for one in runs if keep_invalid and one["verdict"] != "valid"}
        others: set[str] = set()
        for name in KEYED[1:]:
            rows = self.table(name, columns=["key", "date"]).to_pylist()
            others |= {one["key"] for one in rows if one["date"] < before.isoformat()}
        return (old | others) - kept

    def rebuild(self, entries: Iterable[Entry]) -> int:
        """Add entries made again from run directories, and compact; return how many there were.

        Rows of other keys stay as they are. Raises LakeTrouble.
        """
        number = 0
        for entry in entries:
            self.add(entry, durably=False)  # it can be made again
            number += 1
        with self._locked():
            self._set_damaged_parts_aside()
            self._compact(datetime.now(UTC).date())
        return number

    def kept(self) -> Iterator[Entry]:
        """Yield the entries that were kept; `say` gets a line about one that cannot be read."""
        for path in sorted((self.root / KEPT).glob(f"*{SUFFIX}")):
            try:
                yield Entry.load(path)
            except (IllFormedHistory, NewerEntry) as trouble:
                self.say(f"{trouble}; its rows are not made again")

    def _set_damaged_parts_aside(self) -> None:
        manifest, bad = self._manifest(), list[str]()
        parts = {
            table: {period: path for period, path in periods.items() if self._part(table, path, bad) is not None}
            for table, periods in manifest.parts.items()
        }
        if bad:
            self._replace(manifest, parts, manifest.generation + 1)

    # -- reading ------------------------------------------------------------------------------------------------------

    def table(self, name: str, *, columns: Sequence[str] | None = None, since: str = "") -> pa.Table:
        """Return the rows of a table, of entries that are not compacted as well; `since` a day. Raises LakeTrouble."""
        schema = TABLES[name].schema
        wanted = list(columns or schema.names)
        for _ in range(ATTEMPTS):
            manifest = self._manifest()
            entries, _ = self._entries()
            replaced = pa.array([entry.key for _, entry in entries], pa.string())
            try:
                tables = [self._read(manifest, name, wanted, since, replaced)]
            except FileNotFoundError:
                continue  # another process has replaced the parts twice
            arrived = [entry.tables[name] for _, entry in entries if name in entry.tables and entry.date >= since]
            return pa.concat_tables([*tables, _joined(name, arrived).select(wanted)])
        raise LakeTrouble(f"{self._folder}: its parts are replaced faster than they can be read")

    def _read(self, manifest: _Manifest, name: str, wanted: Sequence[str], since: str, replaced: pa.Array) -> pa.Table:
        schema = TABLES[name].schema
        paths = [
            self._folder / path
            for period, path in sorted(manifest.parts.get(name, {}).items())
            if period >= since[: len(period)]
        ]
        fields = pa.schema([schema.field(one) for one in dict.fromkeys(("key", "date", *wanted))])
        tables = []
        for path in paths:
            try:
                tables.append(_read_part(path, fields))
            except pa.ArrowException as trouble:
                problem = str(trouble).splitlines()[0]
                raise LakeTrouble(
                    f"{path}: cannot be read: {problem}; its rows can be made again: squall lake rebuild"
                ) from trouble
        found = pa.concat_tables([fields.empty_table(), *tables], promote_options="default")
        if len(replaced):
            found = found.filter(pc.invert(pc.is_in(found["key"], replaced)))
        if since:
            found = found.filter(pc.greater_equal(found["date"], since))
        return found.select(list(wanted))

    def arrived(self, name: str) -> pa.Table:
        """Return the rows of entries that are not compacted."""
        return _joined(name, [entry.tables[name] for _, entry in self._entries()[0] if name in entry.tables])

    def parts(self) -> dict[str, list[Path]]:
        """Return the Parquet files of each table; entries that are not compacted are in none of them."""
        manifest = self._manifest()
        return {
            name: [self._folder / path for _, path in sorted(manifest.parts.get(name, {}).items())] for name in TABLES
        }

    def periods(self) -> dict[str, str]:
        """Return the generation that last changed each period: what is derived of a period is valid until then."""
        found: dict[str, str] = {}
        for periods in self._manifest().parts.values():
            for period, path in periods.items():
                found[period] = max(found.get(period, ""), Path(path).name)
        return found

    # -- parts --------------------------------------------------------------------------------------------------------

    def _periods_of(self, manifest: _Manifest, entries: Sequence[Entry]) -> dict[str, list[Entry]]:
        """Return the entries by period, also the periods without any in which one of their keys was before."""
        months = {period for periods in manifest.parts.values() for period in periods if len(period) == len("2026-11")}

        def period_of(day: str) -> str:
            return day[:7] if day[:7] in months else day

        found: dict[str, list[Entry]] = defaultdict(list)
        for entry in entries:
            found[period_of(entry.date)].append(entry)
        keys = {entry.key for entry in entries}
        for table in KEYED:
            for row in self._read(manifest, table, ["key", "date"], "", pa.array([], pa.string())).to_pylist():
                if row["key"] in keys:
                    found[period_of(row["date"])]  # an entry of another day replaces it
        return found

    def _write_period(
        self,
        parts: dict[str, dict[str, str]],
        period: str,
        entries: Sequence[Entry],
        replaced: pa.Array,
        generation: int,
        bad: list[str],
    ) -> None:
        for table in TABLES:
            new = [_joined(table, [entry.tables[table] for entry in entries if table in entry.tables])]
            path = parts.get(table, {}).get(period)
            old = None if path is None else self._part(table, path, bad)
            if old is not None:
                kept = old.filter(pc.invert(pc.is_in(old["key"], replaced)))
                if not new[0].num_rows and kept.num_rows == old.num_rows:
                    continue
                new.insert(0, kept)
            self._write_part(parts, table, period, pa.concat_tables(new), generation)

    def _fold(
        self, parts: dict[str, dict[str, str]], month: str, days: Sequence[str], generation: int, bad: list[str]
    ) -> None:
        for table, periods in parts.items():
            paths = [periods.pop(day) for day in (month, *days) if day in periods]
            found = [one for one in (self._part(table, path, bad) for path in paths) if one is not None]
            if found:
                self._write_part(parts, table, month, pa.concat_tables(found), generation)

    def _part(self, table: str, path: str, bad: list[str]) -> pa.Table | None:
        """Read a part; set it aside if it cannot be read."""
        schema = TABLES[table].schema
        try:
            found = _read_part(self._folder / path, schema)
        except (OSError, pa.ArrowException) as trouble:
            self._set_aside(self._folder / path, str(trouble).splitlines()[0], bad)
            return None
        return pa.concat_tables([schema.empty_table(), found], promote_options="default")

    def _write_part(
        self, parts: dict[str, dict[str, str]], table: str, period: str, rows: pa.Table, generation: int
    ) -> None:
        if rows.num_rows == 0:
            parts.setdefault(table, {}).pop(period, None)
            return
        path = f"{table}/period={period}/part-{generation:08d}.parquet"
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
        try:
            pq.write_table(rows.combine_chunks(), draft, compression="zstd")
            with draft.open("rb") as written:
                os.fsync(written.fileno())
            draft.replace(target)
        except OSError as trouble:
            draft.unlink(missing_ok=True)
            raise LakeTrouble(f"{target}: cannot be written: {trouble.strerror or trouble}") from trouble
        parts.setdefault(table, {})[period] = path

    def _replace(self, manifest: _Manifest, parts: dict[str, dict[str, str]], generation: int) -> None:
        """Make these parts count, and remove those that no reader needs any more."""
        now = {path for periods in parts.values() for path in periods.values()}
        before = {path for periods in manifest.parts.values() for path in periods.values()}
        new = _Manifest(generation=generation, parts=parts, previous=tuple(sorted(before - now)))
        try:
            write_whole(self._folder / MANIFEST, msgspec.json.encode(new))
        except OSError as trouble:
            raise LakeTrouble(f"{trouble.filename}: cannot be written: {trouble.strerror}") from trouble
        needed = {self._folder / path for path in now | set(new.previous)}
        for path in self._folder.glob("*/period=*/*"):
            if path not in needed:
                path.unlink(missing_ok=True)
        for folder in self._folder.glob("*/period=*"):
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()

    def _manifest(self) -> _Manifest:
        path = self._folder / MANIFEST
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
        except FileNotFoundError:
            return _Manifest()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as trouble:
            raise LakeTrouble(
                f"{path}: cannot be read ({trouble}); move it away and make the lake again from its runs: "
                f"squall lake rebuild"
            ) from trouble
        if manifest.schema != SCHEMA_VERSION:
            raise LakeTrouble(f"{path}: has schema {manifest.schema}, this Squall reads {SCHEMA_VERSION}")
        return manifest

    def _entries(self) -> tuple[list[tuple[Path, Entry]], list[str]]:
        """Return all entries that can be read; the others are set aside, but for those that a newer Squall reads."""
        found: list[tuple[Path, Entry]] = []
        bad: list[str] = []
        newer: Counter[int] = Counter()
        for path in sorted((self._folder / INCOMING).glob(f"*{SUFFIX}")):
            try:
                found.append((path, Entry.load(path)))
            except NewerEntry as entry:
                newer[entry.schema] += 1
            except IllFormedHistory as trouble:
                if path.exists():  # else another process has just compacted it
                    self._set_aside(path, trouble.problem, bad)
        if newer != self._newer:
            self._newer = newer
            for schema, number in sorted(newer.items()):
                self.say(_newer_words(schema, number))
        return found, bad

    def _set_aside(self, path: Path, problem: str, bad: list[str]) -> None:
        """Move a file that cannot be read out of the way, and say so."""
        folder = self._folder / SET_ASIDE
        name = f"{path.parent.name}-{path.name}-{secrets.token_hex(2)}"
        with contextlib.suppress(OSError):  # it has been removed, or the lake can only be read
            folder.mkdir(parents=True, exist_ok=True)
            shutil.move(path, folder / name)
        line = f"{path}: set aside, since it cannot be read: {problem}"
        bad.append(line)
        self.say(line)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lake's lock; the kernel frees it if this process dies."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as trouble:
            raise LakeTrouble(f"{self._folder}: cannot be written: {trouble.strerror}") from trouble
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
                self.say(f"{self._folder}: waiting for {holder or 'another process'}")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%SZ}".encode(), 0)
            yield
        finally:
            os.close(descriptor)


def _newer_words(schema: int, number: int) -> str:
    which = f"{several(number, 'entry is', 'entries are')} of schema {schema}: a newer Squall wrote "
    return which + ("it, and its rows are missing here" if number == 1 else "them, and their rows are missing here")


def _joined(name: str, entries: Sequence[Mapping[str, list[Any]]]) -> pa.Table:
    """Return the rows of several entries as one table with every column of the schema."""
    schema = TABLES[name].schema
    columns: dict[str, list[Any]] = {one: [] for one in schema.names}
    for entry in entries:
        length = len(entry["key"])
        for one, values in columns.items():
            values.extend(entry.get(one) or [None] * length)
    return pa.table([pa.array(columns[one.name], one.type) for one in schema], schema=schema)


def _read_part(path: Path, fields: pa.Schema) -> pa.Table:
    """Read those of the fields that a part has: older parts lack columns that were added since.

    The file is opened once; most parts are so small that threads would take longer to begin than to read.
    """
    with pq.ParquetFile(path) as part:
        there = set(part.schema_arrow.names)
        return part.read(columns=[one for one in fields.names if one in there], use_threads=False)


def _months_to_fold(manifest: _Manifest, today: date) -> dict[str, list[str]]:
    """Return the months that are long over and still have parts of single days, with those days."""
    days = sorted({period for periods in manifest.parts.values() for period in periods if len(period) == 10})
    found: dict[str, list[str]] = defaultdict(list)
    for day in days:
        if _last_day(day[:7]) + timedelta(days=MONTH_AFTER_DAYS) < today:
            found[day[:7]].append(day)
    return dict(found)


def _last_day(month: str) -> date:
    first = date.fromisoformat(f"{month}-01")
    return (first.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)

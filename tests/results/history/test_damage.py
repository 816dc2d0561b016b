"""Damaged histories are unknown or told of clearly; never valid unless the damage left what they hold as it was.

Each seed takes a healthy run, damages one of its files in one way, and judges it. The run must not crash, and its
verdict must be unknown, or valid with exactly the operations that were recorded. It must not be invalid either: the
system under test has done nothing wrong. Two hundred seeds here, ten thousand with `-m full`.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from squall.harness.cli.main import status_of
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.history import HISTORY_FILE, FaultWindow, History, close_history
from squall.results.history.manifest import MANIFEST_FILE, Manifest
from squall.results.history.operation_tables import KINDS, LIST_APPEND, REGISTERS
from squall.results.history.parquet_files import seal_path
from squall.results.history.rows import SegmentHeader
from squall.results.history.segments import (
    FAULTS_FILE,
    SEGMENTS_FOLDER,
    CompletionRow,
    HistoryWriter,
    InvocationRow,
    RegisterInvocation,
    segment_path,
)
from squall.results.synthetic.forge import MILLISECOND, ORIGIN, forge_run, healthy, rows_of
from squall.results.synthetic.forge_catalogue import FAMILIES
from squall.results.verdict.verdict import Verdict
from tests.results.test_further import WORKS

FEW, MANY = 200, 10_000
FAULT = FaultWindow(
    id="f1",
    fault="isolate",
    targets=("b2",),
    summary="b2",
    injected=ORIGIN + 5 * MILLISECOND,
    healed=ORIGIN + 20 * MILLISECOND,
    took=True,
    undone=True,
)

Damage = Callable[[bytes, random.Random], bytes]


# Ways to damage the bytes of a file -------------------------------------------------------------------------------


def flipped(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


def flipped_often(content: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randrange(2, 30)):
        content = flipped(content, rng)
    return content


def truncated(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def truncated_at_a_line(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(lines[: rng.randrange(len(lines))])


def half_written(content: bytes, rng: random.Random) -> bytes:
    """The size is right, but the end was never written."""
    cut = rng.randrange(len(content))
    return content[:cut] + bytes(len(content) - cut)


def zeroed(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content))
    stop = min(len(content), start + rng.randrange(1, 4096))
    return content[:start] + bytes(stop - start) + content[stop:]


def garbled(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content))
    return content[:start] + rng.randbytes(rng.randrange(1, 200)) + content[start + rng.randrange(0, 200) :]


def reordered(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def shuffled(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    rng.shuffle(lines)
    return b"".join(lines)


def without_lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    start = rng.randrange(len(lines))
    del lines[start : start + rng.randrange(1, 10)]
    return b"".join(lines)


def doubled_lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    start = rng.randrange(len(lines))
    stop = start + rng.randrange(1, 10)
    return b"".join([*lines[:stop], *lines[start:]])


def emptied(content: bytes, rng: random.Random) -> bytes:
    return b""


DAMAGES: tuple[Damage, ...] = (
    flipped,
    flipped_often,
    truncated,
    truncated_at_a_line,
    half_written,
    zeroed,
    garbled,
    reordered,
    shuffled,
    without_lines,
    doubled_lines,
    emptied,
)


# Runs to be damaged -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """A healthy run, what it holds, and which of its files are damaged."""

    run: Path
    log: pa.Table
    further: dict[str, pa.Table]
    files: tuple[str, ...]


def whole(run: Path, *files: str) -> Whole:
    assert check_run(run, InProcess(), report=False).verdict == "valid"
    history = History.load(run)
    return Whole(run, history.table, dict(history.further), files)


def recorded(run: Path) -> Path:
    """Operations on a log and on a register, under a fault, as two segments."""
    forge_run(run, healthy(3, 40), faults=(FAULT,), segments=2)
    with HistoryWriter(segment_path(run, 1), SegmentHeader("forged-1", 1)) as writer:
        for row in WORKS:
            if isinstance(row, RegisterInvocation):
                writer.invoke(row)
            else:
                writer.complete(row)
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Whole, ...]:
    """One that was never closed, one that was, one of which only the Parquet files are left, one of transactions."""
    folder = tmp_path_factory.mktemp("whole")
    segments = tuple(f"{SEGMENTS_FOLDER}/segment-{number:03d}.jsonl" for number in range(2))
    parquet = (HISTORY_FILE, KINDS[REGISTERS].file)
    seals = tuple(seal_path(Path(name)).name for name in parquet)
    never_closed = recorded(folder / "segments")
    closed = recorded(folder / "closed")
    alone = recorded(folder / "parquet")
    close_history(alone)
    shutil.rmtree(alone / SEGMENTS_FOLDER)
    transactions = folder / "transactions"
    FAMILIES[LIST_APPEND].write(transactions, 3, 60, None)
    made = whole(closed, *segments, *parquet, *seals)
    open_run = Whole(never_closed, made.log, made.further, (*segments, MANIFEST_FILE, FAULTS_FILE))
    return open_run, made, whole(alone, *parquet, *seals), whole(transactions, KINDS[LIST_APPEND].file, HISTORY_FILE)


def judged(seed: int, runs: tuple[Whole, ...], place: Path) -> tuple[str, Verdict]:
    """Damage one file of a copy of one run; what was done, and the verdict."""
    rng = random.Random(f"damage/{seed}")
    victim = rng.choice(runs)
    shutil.copytree(victim.run, place)
    name, damage = rng.choice(victim.files), rng.choice(DAMAGES)
    path = place / name
    before = path.read_bytes()
    path.write_bytes(damage(before, rng))
    told = f"seed {seed}: {name} of {victim.run.name} {damage.__name__}"
    verdict = check_run(place, InProcess(), report=False)
    assert verdict.verdict != "invalid", f"{told}: {verdict.anomalies}"
    if verdict.verdict == "valid":
        history = History.load(place)
        assert history.table.equals(victim.log), f"{told}: valid, but its operations are others"
        assert dict(history.further) == victim.further, f"{told}: valid, but its further operations are others"
    else:
        assert verdict.reasons, told
    return told, verdict


def all_judged(seeds: range, runs: tuple[Whole, ...], folder: Path) -> Counter[str]:
    said: Counter[str] = Counter()
    for seed in seeds:
        place = folder / "damaged"
        said[judged(seed, runs, place)[1].verdict] += 1
        shutil.rmtree(place)
    return said


def test_a_damaged_history_is_never_taken_for_valid(runs: tuple[Whole, ...], tmp_path: Path) -> None:
    said = all_judged(range(FEW), runs, tmp_path)
    assert said["unknown"] > FEW / 2, "most damage must show"


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_ten_thousand_damaged_histories(runs: tuple[Whole, ...], tmp_path: Path) -> None:
    said = all_judged(range(FEW, FEW + MANY), runs, tmp_path)
    print(dict(said))
    assert said.total() == MANY and said["unknown"] > MANY / 2


# Damage of which we know exactly what must be said of it ------------------------------------------------------------


@pytest.fixture
def run(runs: tuple[Whole, ...], tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "run"
    shutil.copytree(runs[0].run, place)
    yield place


def reason_of(run: Path) -> str:
    """Why nothing can be concluded, as the command line tells it: exit status 2."""
    assert status_of(["check", "--in-process", str(run)]) == 2
    return Verdict.load(run).reasons[0]


def test_a_segment_cut_off_between_two_lines_is_unknown_and_no_false_alarm(run: Path) -> None:
    """What is missing would look like phantoms and losses."""
    path = segment_path(run, 0)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))
    assert "1 segment of a run that ended in good order lack their end" in reason_of(run)


def test_a_segment_that_a_killed_writer_left_is_judged_for_what_it_holds(run: Path) -> None:
    """The near-miss: a run that did not end in good order says so itself, and what is certain stands."""
    path = segment_path(run, 0)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    Manifest.load(run).with_changes(completed=False).save(run)
    assert reason_of(run).startswith("the run was cut off before it ended")
    assert Verdict.load(run).coverage.acknowledged > 0


def test_a_segment_of_a_newer_schema_is_named(run: Path) -> None:
    path = segment_path(run, 0)
    first, _, rest = path.read_bytes().partition(b"\n")
    newer = SegmentHeader(*msgspec.json.decode(first)[1:8], schema=2).sealed()
    path.write_bytes(msgspec.json.encode(newer) + b"\n" + rest)
    assert "segment-000.jsonl:1: has schema 2; this version reads 1" in reason_of(run)


def test_a_parquet_file_of_a_newer_schema_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr("squall.results.history.history_file.SCHEMA_VERSION", 2)
        close_history(run)
    assert "history.parquet: has schema 2; this version reads 1" in reason_of(run)


@pytest.mark.parametrize("where", ["invocation", "completion"])
def test_a_clock_that_went_backwards_is_unknown(tmp_path: Path, where: str) -> None:
    """Recorded that way by its writer, so that no check sum shows it."""
    rows = rows_of(healthy(3, 40))
    again = next(
        place
        for place, row in enumerate(rows)
        if isinstance(row, InvocationRow) and any(one.process == row.process for one in rows[:place])
    )
    place = again if where == "invocation" else next(
        place for place, row in enumerate(rows) if isinstance(row, CompletionRow)
    )  # fmt: skip
    name = "invoked" if where == "invocation" else "completed"
    rows[place] = msgspec.structs.replace(rows[place], **{name: 1})
    run = forge_run(tmp_path / "run", [])
    path = segment_path(run, 0)
    path.unlink()
    with HistoryWriter(path, SegmentHeader("forged-1", 0)) as writer:
        for row in rows:
            writer.invoke(row) if isinstance(row, InvocationRow) else writer.complete(row)
    reason = reason_of(run)
    assert f"segment-000.jsonl:{place + 2}: time runs backwards within process" in reason


def test_lines_that_change_places_are_unknown_even_if_each_is_a_row(run: Path) -> None:
    path = segment_path(run, 0)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4], lines[5] = lines[5], lines[4]
    path.write_bytes(b"".join(lines))
    assert "segment-000.jsonl" in reason_of(run)


def test_a_damaged_parquet_file_is_named_with_its_remedy_which_works(run: Path) -> None:
    path = close_history(run)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(content)
    assert "history.parquet: cannot be read as Parquet" in reason_of(run)
    assert "delete it and its seal" in reason_of(run)
    path.unlink()
    seal_path(path).unlink()
    assert status_of(["check", "--in-process", str(run)]) == 0


def test_a_parquet_file_of_before_there_were_seals_is_read(run: Path) -> None:
    seal_path(close_history(run)).unlink()
    assert status_of(["check", "--in-process", str(run)]) == 0

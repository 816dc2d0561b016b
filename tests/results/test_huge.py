"""A huge topic-partition goes the whole way to a verdict in slices, and comes to the same as without them.

What is huge is a matter of definition: here, a thousand rows in row groups of a few dozen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from squall.results.check import check_run, check_runs
from squall.results.checkers.engine.engines import AnyTask, InProcess, Outcome, Unchecked
from squall.results.checkers.engine.spark import SparkEngine
from squall.results.checkers.kernels.series import Frame
from squall.results.checkers.log.figures import FiguresTask
from squall.results.checkers.log.partition import Task
from squall.results.checkers.log.slices import SliceTask
from squall.results.checkers.log.slicing import log_groups, sliced
from squall.results.history import history_file
from squall.results.history.history import close_history, layout
from squall.results.history.parquet_files import seal_path
from squall.results.synthetic.forge_catalogue import FAMILIES, LOG
from squall.results.verdict.verdict import Verdict

HUGE, GROUP_ROWS, OPERATIONS = 1_000, 40, 1_500


class Jobs(InProcess):
    """An engine that could do two things at once, and keeps what it was asked for."""

    at_once = 2

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[type[AnyTask]]] = []

    def check(self, tasks: Sequence[AnyTask], sizes: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
        self.asked.append([type(one) for one in tasks])
        return super().check(tasks, sizes)


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_file, "ROW_GROUP_ROWS", GROUP_ROWS)


def forged(run: Path, case: str | None = None, seed: int = 3) -> Path:
    family = FAMILIES[LOG]
    run.mkdir()
    family.write(run, seed, OPERATIONS, None if case is None else family.case(case))
    return run


def told(verdict: Verdict) -> tuple[object, ...]:
    """All of it that does not depend on who judged, and how long that took."""
    one = verdict
    coverage = msgspec.structs.replace(one.coverage, seconds=0, engine="")
    found = (one.verdict, one.reasons, one.anomalies, one.statements, coverage, one.witnesses)
    return *found, one.longest_outage, one.realtime_lag_p99, one.realtime_lag_max


def test_a_sound_log_is_settled_by_slices(tmp_path: Path) -> None:
    run, engine = forged(tmp_path / "run"), Jobs()
    verdict = check_run(run, engine, report=False, huge=HUGE)
    (asked,) = engine.asked
    assert asked.count(SliceTask) >= 4 and asked.count(FiguresTask) == 1 and Task not in asked
    assert verdict.verdict == "valid"
    tables = {path.name: pq.read_table(path) for path in (run / "tables").iterdir()}
    assert told(verdict) == told(check_run(run, InProcess(), report=False))
    for name, table in tables.items():
        whole = pq.read_table(run / "tables" / name)
        timed = [column for column in whole.column_names if column.endswith("_ms") or column == "check_ms"]
        assert table.drop_columns(timed).equals(whole.drop_columns(timed)), name


@pytest.mark.parametrize("case", ["lost", "phantom", "real-time swap", "duplicate"])
def test_a_log_with_an_anomaly_is_judged_as_a_whole_in_a_second_job(tmp_path: Path, case: str) -> None:
    run, engine = forged(tmp_path / "run", case), Jobs()
    verdict = check_run(run, engine, report=False, huge=HUGE)
    assert engine.asked[1:] == [[Task]]
    assert verdict.verdict == "invalid"
    assert told(verdict) == told(check_run(run, InProcess(), report=False))


def test_whoever_does_one_thing_at_a_time_looks_at_the_whole(tmp_path: Path) -> None:
    engine = Jobs()
    engine.at_once = 1
    check_run(forged(tmp_path / "run"), engine, report=False, huge=HUGE)
    (asked,) = engine.asked
    assert Task in asked and SliceTask not in asked


def test_a_slice_for_which_there_was_no_time_leaves_its_log_unchecked(tmp_path: Path) -> None:
    class Late(Jobs):
        def check(self, tasks: Sequence[AnyTask], sizes: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
            late = next(number for number, one in enumerate(tasks) if isinstance(one, SliceTask))
            for number, outcome in super().check(tasks, sizes):
                yield number, Unchecked(tasks[number].run, "events-0") if number == late else outcome

    engine = Late()
    verdict = check_run(forged(tmp_path / "run"), engine, report=False, huge=HUGE)
    assert len(engine.asked) == 1 and verdict.verdict == "unknown"
    assert "events-0" in " ".join(verdict.reasons)


def test_damage_in_any_column_is_met_by_some_task(tmp_path: Path) -> None:
    run = forged(tmp_path / "run")
    path = close_history(run)
    sound, group = path.read_bytes(), pq.ParquetFile(path).metadata.row_group(3)
    for number in range(group.num_columns):
        column, data = group.column(number), bytearray(sound)
        first = column.dictionary_page_offset or column.data_page_offset
        data[first + column.total_compressed_size - 1] ^= 0xFF
        path.write_bytes(data)
        verdict = check_run(run, Jobs(), report=False, huge=HUGE)
        assert (column.path_in_schema, verdict.verdict) == (column.path_in_schema, "unknown")
        assert path.name in " ".join(verdict.reasons)


def whole_of(run: Path, *, linearizable_reads: bool = False) -> tuple[Task, int]:
    path = close_history(run)
    (place,) = (one for one in layout(path) if one.partition >= 0)
    frame = Frame(0, 1, 1)
    task = Task(0, str(path), "events", 0, place.row_groups, frame.start, frame.width, frame.end, linearizable_reads)
    return task, place.rows


def test_slices_are_even_and_each_row_group_belongs_to_one(tmp_path: Path) -> None:
    whole, rows = whole_of(forged(tmp_path / "run"))
    parts = [one for one, _ in sliced(whole, rows, HUGE) if isinstance(one, SliceTask)]
    assert sorted(group for one in parts for group in one.belonging) == list(whole.row_groups)
    assert all(set(one.belonging) <= set(one.row_groups) for one in parts)
    assert [one.low for one in parts[1:]] == [one.high for one in parts[:-1]]
    sizes = [sum(one.rows) for one in parts]
    assert max(sizes) < 3 * min(sizes) and sum(sizes) < 2 * rows
    groups = log_groups(Path(whole.path), whole.row_groups)
    assert sum(one.rows for one in groups) == rows


def test_what_is_small_or_must_be_linearizable_is_not_cut(tmp_path: Path) -> None:
    run = forged(tmp_path / "run")
    whole, rows = whole_of(run)
    assert sliced(whole, rows, HUGE) and not sliced(whole, rows, rows + 1)
    assert not sliced(whole_of(run, linearizable_reads=True)[0], rows, HUGE)


def test_a_footer_without_statistics_is_a_reason_not_to_cut(tmp_path: Path) -> None:
    run = forged(tmp_path / "run")
    path = close_history(run)
    whole, rows = whole_of(run)
    table = pq.read_table(path)
    seal_path(path).unlink()
    pq.write_table(table, path, row_group_size=GROUP_ROWS, write_statistics=False)
    assert not sliced(whole, rows, HUGE)


def test_row_groups_of_a_large_log_have_few_rows_and_few_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the final read, a few polls have as many records as all else."""
    for name, value in (("LARGE_ROWS", HUGE), ("FEW_ROWS", 100), ("FEW_RECORDS", 150)):
        monkeypatch.setattr(history_file, name, value)
    run = forged(tmp_path / "run")
    path = close_history(run)
    footer, table = pq.ParquetFile(path).metadata, pq.read_table(path)
    begin = 0
    for number in range(footer.num_row_groups):
        rows = table.slice(begin, footer.row_group(number).num_rows)
        begin += rows.num_rows
        records = sum(map(len, rows["offsets"].to_pylist()))
        assert 0 < rows.num_rows <= 100 and (records <= 150 or rows.num_rows == 1)
    assert begin == table.num_rows and footer.num_row_groups > 1 + table.num_rows // 100
    assert [one.row_groups for one in layout(path)] == [tuple(range(footer.num_row_groups))]
    engine = Jobs()
    assert check_run(run, engine, report=False, huge=HUGE).verdict == "valid"
    assert len(engine.asked) == 1


@pytest.mark.xdist_group("spark")
def test_spark_settles_by_slices_too(tmp_path: Path, spark: SparkEngine) -> None:
    runs = [forged(tmp_path / "sound"), forged(tmp_path / "unsound", "lost")]
    verdicts = check_runs(runs, spark, report=False, huge=HUGE)
    assert [one.verdict for one in verdicts] == ["valid", "invalid"]
    assert [told(one) for one in verdicts] == [told(check_run(run, InProcess(), report=False)) for run in runs]

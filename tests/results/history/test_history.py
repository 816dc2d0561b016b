"""The history: joined from segments, closed into Parquet, and refused where it makes no sense."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from squall.results.history.history import (
    HISTORY_FILE,
    NEMESIS_FILE,
    SCHEMA,
    TYPES,
    CompletionRow,
    FaultWindow,
    History,
    HistoryWriter,
    InvocationRow,
    SegmentHeader,
    close_history,
    layout,
    read_topic_partition,
    segment_path,
)
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.synthetic.forge import Forged, forge_run, healthy, write_operations
from tests.facts import naming

Rows = list[InvocationRow | CompletionRow]


def begin(process: int, at: int, f: str = "send", value: int | None = 1, partition: int = 0) -> InvocationRow:
    return InvocationRow(f, process, 0, at, at, "events", partition, value)


def end(process: int, at: int, kind: str = "ok", **facts: object) -> CompletionRow:
    return CompletionRow(process, kind, at, **facts)  # type: ignore[arg-type]


def segment(run_dir: Path, rows: Rows, header: SegmentHeader | None = None) -> None:
    header = header or SegmentHeader("run", 0)
    with HistoryWriter(segment_path(run_dir, header.segment), header) as writer:
        for row in rows:
            if isinstance(row, InvocationRow):
                writer.invoke(row)
            else:
                writer.complete(row)


def test_an_operation_without_a_completion_is_open(tmp_path: Path) -> None:
    segment(tmp_path, [begin(1, 10), begin(2, 11, value=2), end(2, 20, offset=0)])
    rows = {row["process"]: row for row in History.load(tmp_path).table.to_pylist()}
    assert rows[1]["type"] == TYPES["info"]
    assert rows[1]["completed"] is None
    assert (rows[2]["type"], rows[2]["completed"], rows[2]["offset"]) == (TYPES["ok"], 20, 0)


def test_a_client_that_started_anew_is_the_completions(tmp_path: Path) -> None:
    segment(tmp_path, [begin(1, 10), end(1, 20, offset=0, client=10_000, sequence=1)])
    assert History.load(tmp_path).table["client"].to_pylist() == [10_000]


def test_a_completion_may_take_back_the_promise_of_idempotence(tmp_path: Path) -> None:
    segment(
        tmp_path, [begin(1, 10), begin(2, 11, value=2), end(1, 20, offset=0, idempotent=False), end(2, 21, offset=1)]
    )
    assert History.load(tmp_path).table["idempotent"].to_pylist() == [False, True]


def test_times_of_another_clock_are_shifted_and_its_error_is_kept(tmp_path: Path) -> None:
    header = SegmentHeader("run", 1, clock_id=4, clock_offset=1000, clock_error=7)
    segment(tmp_path, [begin(1, 10), end(1, 20)], header)
    (row,) = History.load(tmp_path).table.to_pylist()
    assert (row["invoked"], row["completed"], row["clock_id"], row["clock_error"]) == (1010, 1020, 4, 7)
    assert row["op_id"] == 1 << 40


def test_closing_lays_topic_partitions_out_in_row_groups_of_their_own(tmp_path: Path) -> None:
    run = forge_run(tmp_path, [one for number in range(3) for one in healthy(1, 50, number)])
    path = close_history(run)
    places = layout(path)
    assert [(one.topic, one.partition) for one in places] == [("events", 0), ("events", 1), ("events", 2)]
    for place in places:
        rows = read_topic_partition(path, place.row_groups)
        assert set(rows["partition"].to_pylist()) == {place.partition}
        assert rows.num_rows == place.rows
        invoked = rows["invoked"].to_pylist()
        assert invoked == sorted(invoked)


def test_a_history_reads_the_same_from_segments_and_from_parquet(tmp_path: Path) -> None:
    run = forge_run(tmp_path, healthy(2, 80) + healthy(2, 80, 1))
    before = History.load(run)
    close_history(run)
    after = History.load(run)
    assert after.source.name == HISTORY_FILE
    assert before.table.to_pylist() == after.table.to_pylist()
    assert after.table.schema.names == SCHEMA.names


def test_what_was_recorded_after_closing_is_not_forgotten(tmp_path: Path) -> None:
    """A worker may outlive the control process: it goes on flushing after somebody has checked the run."""
    segment(tmp_path, [begin(1, 10), end(1, 20)])
    path = close_history(tmp_path)
    segment(tmp_path, [begin(2, 30, value=2), end(2, 40)], SegmentHeader("run", 1))
    os.utime(segment_path(tmp_path, 1), ns=(0, path.stat().st_mtime_ns + 1))
    close_history(tmp_path)
    assert History.load(tmp_path).table.num_rows == 2


def test_several_segments_make_one_history(tmp_path: Path) -> None:
    write_operations(segment_path(tmp_path, 0), healthy(1, 40), SegmentHeader("run", 0))
    write_operations(segment_path(tmp_path, 1), healthy(1, 40, 1), SegmentHeader("run", 1))
    assert History.load(tmp_path).topic_partitions == [("events", 0), ("events", 1)]


def test_torn_lines_are_counted_and_kept_in_the_parquet_file(tmp_path: Path) -> None:
    segment(tmp_path, [begin(1, 10), end(1, 20)])
    with segment_path(tmp_path, 0).open("ab") as file:
        file.write(b'["i","send"')
    assert History.load(tmp_path).torn == 1
    close_history(tmp_path)
    assert History.load(tmp_path).torn == 1


def test_a_worker_that_died_before_its_header_tears_nothing_else(tmp_path: Path) -> None:
    segment(tmp_path, [begin(1, 10), end(1, 20)])
    segment_path(tmp_path, 1).touch()
    history = History.load(tmp_path)
    assert (history.table.num_rows, history.torn) == (1, 1)


def test_closing_writes_the_faults_as_a_table(tmp_path: Path) -> None:
    fault = FaultWindow(id="f", fault="isolate", targets=("b2",), summary="b2", injected=1, healed=2, took=True)
    close_history(forge_run(tmp_path, healthy(1, 20), faults=(fault,)))
    (row,) = pq.read_table(tmp_path / NEMESIS_FILE).to_pylist()
    assert (row["fault"], row["targets"], row["took"], row["undone"]) == ("isolate", ["b2"], True, None)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([end(1, 20)], ":2: a completion of process 1 without an invocation"),
        ([begin(1, 10), begin(1, 11)], ":3: process 1 has two outstanding operations"),
        ([begin(1, 10), end(1, 9)], ":3: time runs backwards within process 1"),
        ([begin(1, 10), end(1, 20), begin(1, 15)], ":4: time runs backwards within process 1"),
        ([begin(1, 10), end(1, 20, "info"), begin(1, 30)], ":4: process 1 went on after an operation of unknown"),
        ([begin(1, 10), end(1, 20, offsets=(1, 2), values=(1,))], ":3: 2 offsets but 1 values"),
        ([begin(1, 10, f="dance")], ":2: f 'dance' is not one of send, poll"),
        ([begin(1, 10, value=None)], ":2: a send without a value"),
        ([begin(1, 10, value=1 << 70)], "a number does not fit its column"),
    ],
)
def test_an_ill_formed_history_is_named_with_file_and_row(tmp_path: Path, rows: Rows, problem: str) -> None:
    segment(tmp_path, rows)
    with pytest.raises(IllFormedHistory) as raised:
        History.load(tmp_path)
    assert problem in str(raised.value)
    assert "segment-000.jsonl" in str(raised.value)


def test_a_process_in_two_segments_may_not_overlap_itself(tmp_path: Path) -> None:
    segment(tmp_path, [begin(1, 10), end(1, 20)], SegmentHeader("run", 0))
    segment(tmp_path, [begin(1, 15), end(1, 30)], SegmentHeader("run", 1))
    with pytest.raises(IllFormedHistory, match=naming("process 1", "outstanding")):
        History.load(tmp_path)


def test_segments_of_two_runs_are_not_mixed(tmp_path: Path) -> None:
    segment(tmp_path, [begin(1, 10), end(1, 20)], SegmentHeader("run", 0))
    segment(tmp_path, [begin(2, 10), end(2, 20)], SegmentHeader("other", 1))
    with pytest.raises(IllFormedHistory, match="mixes segments of the runs other, run"):
        History.load(tmp_path)


def test_two_segments_with_one_number_are_noticed(tmp_path: Path) -> None:
    segment(tmp_path, [begin(1, 10), end(1, 20)], SegmentHeader("run", 0))
    with HistoryWriter(segment_path(tmp_path, 1), SegmentHeader("run", 0)) as writer:
        writer.invoke(begin(2, 10))
    with pytest.raises(IllFormedHistory, match=naming("operation 0", "twice")):
        History.load(tmp_path)


def test_a_run_that_recorded_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(IllFormedHistory, match="has no segments"):
        History.load(tmp_path)


def test_a_broken_parquet_file_is_named(tmp_path: Path) -> None:
    path = close_history(forge_run(tmp_path, healthy(1, 30)))
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(IllFormedHistory, match=r"history\.parquet: cannot be read as Parquet"):
        History.load(tmp_path)


def test_rows_of_no_topic_partition_do_not_disturb(tmp_path: Path) -> None:
    segment(tmp_path, [InvocationRow("poll", 1, 0, 5, 5), end(1, 6), begin(2, 10, value=5), end(2, 20, offset=0)])
    assert History.load(tmp_path).topic_partitions == [("", -1), ("events", 0)]


def test_an_empty_topic_partition_has_no_rows(tmp_path: Path) -> None:
    write_operations(segment_path(tmp_path, 0), [Forged("send", 1, 1, 5, 6, value=1, offset=0)], SegmentHeader("r", 0))
    assert History.load(tmp_path).of("events", 5).num_rows == 0

"""Wide histories are healthy logs with something to be found in them: valid, and invalid with one row changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.history import FUNCTIONS, HISTORY_FILE, TYPES, History, layout
from squall.results.history.history_file import HistoryFile
from squall.results.synthetic.forge_catalogue import FAMILIES, LOG, WIDE_OPERATIONS
from squall.results.synthetic.forge_wide import CONSUMERS, TERMS, forge_wide, topic_name
from squall.results.verdict.verdict import Verdict

OPERATIONS, PARTITIONS, MOST = 8_000, 2, 5_000


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two topics of two topic-partitions."""
    forge_wide(tmp_path / "run", OPERATIONS, partitions=PARTITIONS, most=MOST)
    return tmp_path / "run"


def judged(run: Path) -> Verdict:
    return check_run(run, InProcess(), report=False)


def test_a_wide_history_is_valid_and_everything_in_it_is_checked(run: Path) -> None:
    verdict, rows = judged(run), History.load(run).table
    assert (verdict.verdict, verdict.reasons, verdict.anomalies) == ("valid", (), ())
    assert abs(rows.num_rows - OPERATIONS) < OPERATIONS / 20
    assert verdict.coverage.topic_partitions == 2 * PARTITIONS
    assert verdict.coverage.sends_ok + verdict.coverage.sends_info + verdict.coverage.sends_fail > 0.45 * OPERATIONS
    assert verdict.coverage.sends_info and verdict.coverage.sends_fail
    assert verdict.coverage.unseen == 0


def test_each_record_is_read_by_every_consumer_and_by_the_final_read(run: Path) -> None:
    for _, _, rows in History.load(run).parts():
        read = np.asarray(rows["offsets"].combine_chunks().flatten())
        _, times = np.unique(read, return_counts=True)
        assert set(times[:-1].tolist()) == {CONSUMERS + 1}
        assert times[-1] == 1, "the marker is a matter of the final read"


def test_operations_overlap_sessions_change_and_leaders_do(tmp_path: Path) -> None:
    forge_wide(tmp_path, 40_000, partitions=1)
    rows = History.load(tmp_path).of(topic_name(0), 0)
    f, kind = np.asarray(rows["f"]), np.asarray(rows["type"])
    sent = rows.filter(pa.array((f == FUNCTIONS["send"]) & (kind == TYPES["ok"])))
    invoked, completed = np.asarray(sent["invoked"]), np.asarray(sent["completed"])
    assert (invoked[1:] < completed[:-1]).mean() > 0.5
    assert len(set(rows["session"].drop_null().to_pylist())) > 1
    assert len(set(rows["leader_epoch"].drop_null().to_pylist())) >= TERMS
    assert (f == FUNCTIONS["list_offsets"]).any()


def test_the_same_seed_forges_the_same_history_and_another_another(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        forge_wide(tmp_path / name, 2_000, seed=seed, partitions=PARTITIONS)
    one, same, other = (History.load(tmp_path / name).table for name in ("one", "same", "other"))
    assert one.equals(same) and not one.equals(other)


def test_a_large_healthy_log_of_the_command_is_a_wide_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squall.results.synthetic.forge_catalogue.WIDE_OPERATIONS", 4_000)
    assert WIDE_OPERATIONS > 4_000
    FAMILIES[LOG].write(tmp_path / "wide", 1, 4_000, None)
    FAMILIES[LOG].write(tmp_path / "plain", 1, 3_999, None)
    assert (tmp_path / "wide" / HISTORY_FILE).exists() and not (tmp_path / "plain" / HISTORY_FILE).exists()
    assert judged(tmp_path / "wide").verdict == "valid"


# One row is changed ---------------------------------------------------------------------------------------------------

Change = Callable[[list[dict[str, Any]]], None]


def spoil(run: Path, change: Change) -> None:
    """Change rows of the last topic-partition and write the history again, check sums and all."""
    path = run / HISTORY_FILE
    parts = list(History.load(run).parts())
    assert len(parts) == len(layout(path))
    file = HistoryFile(path)
    for number, (topic, partition, rows) in enumerate(parts):
        if number == len(parts) - 1:
            plain = rows.to_pylist()
            change(plain)
            plain.sort(key=lambda row: row["invoked"])
            rows = pa.Table.from_pylist(plain, rows.schema)
        file.add(topic, partition, rows)
    file.finish()


def of_kind(rows: list[dict[str, Any]], f: str, least: int = 0) -> dict[str, Any]:
    """One from the middle, with at least so many records."""
    found = [row for row in rows if row["f"] == FUNCTIONS[f] and len(row["offsets"]) >= least]
    return found[len(found) // 2]


def another_value(rows: list[dict[str, Any]]) -> None:
    poll = of_kind(rows, "poll", 1)
    poll["values"][0] += 1 << 20


def a_record_left_out(rows: list[dict[str, Any]]) -> None:
    poll = of_kind(rows, "poll", 3)
    del poll["offsets"][1], poll["values"][1]


def missing_in_the_end(rows: list[dict[str, Any]]) -> None:
    poll = of_kind(rows, "final_poll", 2)
    del poll["offsets"][0], poll["values"][0]


def read_before_it_was_sent(rows: list[dict[str, Any]]) -> None:
    poll = of_kind(rows, "poll", 1)
    poll |= {"process": 77, "client": 77, "invoked": 10, "completed": 20}


def a_log_end_too_low(rows: list[dict[str, Any]]) -> None:
    asked = [row for row in rows if row["f"] == FUNCTIONS["list_offsets"]]
    asked[-1]["high_watermark"] //= 2


@pytest.mark.parametrize(
    ("change", "anomaly"),
    [
        (another_value, "inconsistent_offset"),
        (a_record_left_out, "int_poll_skip"),
        (missing_in_the_end, "lost_write"),
        (read_before_it_was_sent, "future_read"),
        (a_log_end_too_low, "stale_read"),
    ],
)
def test_with_one_row_changed_it_is_invalid(run: Path, change: Change, anomaly: str) -> None:
    spoil(run, change)
    verdict = judged(run)
    where = f"{topic_name(1)}-{PARTITIONS - 1}"
    assert verdict.verdict == "invalid"
    assert anomaly in {one.name for one in verdict.anomalies}
    assert all(set(one.where) == {where} for one in verdict.anomalies)


def test_an_operation_recorded_twice_proves_nothing(run: Path) -> None:
    def twice(rows: list[dict[str, Any]]) -> None:
        rows[3]["op_id"] = rows[4]["op_id"]

    spoil(run, twice)
    verdict = judged(run)
    assert verdict.verdict == "unknown"
    assert "recorded twice" in verdict.reasons[0]


def test_a_process_with_two_operations_at_once_proves_nothing(run: Path) -> None:
    def endless(rows: list[dict[str, Any]]) -> None:
        of_kind(rows, "poll")["completed"] += 10**15

    spoil(run, endless)
    verdict = judged(run)
    assert verdict.verdict == "unknown"
    assert "two outstanding operations" in verdict.reasons[0]

"""Rows that stay while a worker goes through a small file are those it would have read; damage stays where it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from squall.results.history import parquet_files
from squall.results.history.history import SCHEMA, close_history, layout
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.parquet_files import kept_open, read_columns, read_table, write_sealed
from squall.results.synthetic.forge import forge_run, healthy

COLUMNS = ["invoked", "values"]
Tables = list[pa.Table]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Of three topic-partitions, a row group each."""
    return close_history(forge_run(tmp_path / "run", [one for number in range(3) for one in healthy(1, 80, number)]))


def read(path: Path) -> Tables:
    groups = [one.row_groups for one in layout(path)]
    assert len(groups) == 3
    alone = [read_table(path, SCHEMA.names, one) for one in groups]
    return [*alone, *(read_columns(path, COLUMNS, one) for one in groups), read_table(path, SCHEMA.names, (0, 1))]


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Each reading of row groups from a file, as it happens."""
    seen: list[object] = []

    class Watched(parquet_files.pq.ParquetFile):  # type: ignore[misc]
        def read_row_groups(self, row_groups: object, *rest: object, **more: object) -> pa.Table:
            seen.append(row_groups)
            return super().read_row_groups(row_groups, *rest, **more)

    monkeypatch.setattr(parquet_files.pq, "ParquetFile", Watched)
    return seen


def test_what_stays_is_what_would_have_been_read(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read(history)
    seen = reads_of(monkeypatch)
    with kept_open(rows_as_well=True):
        assert read(history) == expected
        assert read_table(history, SCHEMA.names, (0, 2)).num_rows == expected[0].num_rows + expected[2].num_rows
    assert seen == [[0, 2]], "only what does not follow on each other is read by itself"


def test_a_large_file_is_read_part_by_part(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read(history)
    monkeypatch.setattr(parquet_files, "SMALL_BYTES", 1000)
    seen = reads_of(monkeypatch)
    with kept_open(rows_as_well=True):
        assert read(history) == expected
    assert len(seen) == len(expected)


def test_who_asks_for_a_whole_part_of_a_damaged_file_gets_it(history: Path) -> None:
    """As without anything kept: whose part is damaged hears of it."""
    expected = read(history)
    invoked = parquet_files.pq.ParquetFile(history).metadata.row_group(0).column(SCHEMA.names.index("invoked"))
    content = bytearray(history.read_bytes())
    content[invoked.data_page_offset + invoked.total_compressed_size - 5] ^= 0xFF
    history.write_bytes(content)
    with kept_open(rows_as_well=True):
        assert read_table(history, SCHEMA.names, (1,)) == expected[1]
        with pytest.raises(IllFormedHistory, match="cannot be read as Parquet"):
            read_table(history, SCHEMA.names, (0,))


def test_another_file_takes_the_place_of_the_one_before(history: Path, tmp_path: Path) -> None:
    other = close_history(forge_run(tmp_path / "other", healthy(9, 300)))
    expected, beside = read(history), read_table(other, SCHEMA.names, (0,))
    with kept_open(rows_as_well=True):
        for _ in range(2):
            assert read(history) == expected
            assert read_table(other, SCHEMA.names, (0,)) == beside


def test_a_file_that_is_written_anew_is_opened_anew_though_it_was_kept_open(tmp_path: Path) -> None:
    path = tmp_path / "numbers.parquet"
    with kept_open():
        for number in (1, 2):
            write_sealed(path, pa.table({"number": [number]}))
            assert read_table(path, ["number"])["number"].to_pylist() == [number]

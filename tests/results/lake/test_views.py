"""Spark and the reader without it give equal answers, compacted or not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from squall.results.checkers.engine.spark import SparkEngine
from squall.results.lake.notebook import open_lake
from squall.results.lake.store import Lake, LakeTrouble
from squall.results.lake.views import open_views
from squall.results.synthetic.forge_lake import forge_runs

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_every_table_has_the_same_rows_on_spark(spark: SparkEngine, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.rebuild(forge_runs(180))
    views = open_views(lake, spark.session)
    for name in ("runs", "faults", "throughput", "anomalies", "campaigns"):
        expected = sorted(map(str, lake.table(name).to_pylist()))
        assert sorted(str(one.asDict(recursive=True)) for one in views[name].collect()) == expected, name


def test_findings_have_their_first_and_last_day(spark: SparkEngine, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.rebuild(forge_runs(1_500))
    found = {one["scenario"]: one for one in open_lake(tmp_path).sql("select * from findings", spark.session).collect()}
    assert set(found) == {"kill-leader", "isolate-quorum"}
    runs = [one for one in lake.table("runs").to_pylist() if one["scenario"] == "kill-leader" and one["anomalies"]]
    broken = found["kill-leader"]
    assert (broken["first_seen"], broken["last_seen"]) == (min(r["date"] for r in runs), max(r["date"] for r in runs))
    assert broken["runs"] == len(runs) and broken["witness"].startswith("lost_write")


def test_verdicts_are_counted_by_day_and_scenario(spark: SparkEngine, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.rebuild(forge_runs(180))
    expected = Counter((r["date"], r["scenario"], r["verdict"]) for r in lake.table("runs").to_pylist())
    rows = open_lake(tmp_path).sql("select * from verdicts", spark.session).collect()
    assert {(r["date"], r["scenario"], r["verdict"]): r["runs"] for r in rows} == expected


def test_a_lake_that_cannot_be_compacted_is_read_with_what_arrived(
    spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    lake = Lake(tmp_path, said.append)
    entries = list(forge_runs(70))
    lake.rebuild(entries[:60])
    for entry in entries[50:]:
        lake.add(entry)

    def refused() -> None:
        raise LakeTrouble("v1: cannot be written: Read-only file system")

    monkeypatch.setattr(lake, "compact", refused)
    assert open_views(lake, spark.session)["runs"].count() == 70
    assert "read as they are" in said[0]


def test_a_table_is_a_pandas_frame_without_spark(tmp_path: Path) -> None:
    Lake(tmp_path).rebuild(forge_runs(120))
    opened = open_lake(tmp_path)
    assert len(opened.runs) == 120
    assert len(opened.table("runs", since="2026-11-24")) == 60
    with pytest.raises(AttributeError, match="'cats' is not a table"):
        _ = opened.cats
    with pytest.raises(FileNotFoundError, match="is not a lake"):
        open_lake(tmp_path / "none")

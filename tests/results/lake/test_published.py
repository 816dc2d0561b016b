"""A lake at a URL has the rows of the one that was published; what is there already is not copied again."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from squall.results.checkers.engine.spark import SparkEngine
from squall.results.lake.published import KEPT_SECONDS, Published, PublishedLake, is_url
from squall.results.lake.store import Lake, LakeTrouble
from squall.results.lake.views import open_published_views
from squall.results.synthetic.forge_lake import forge_runs

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def rows(url: str, spark: SparkEngine) -> dict[str, list[str]]:
    views = open_published_views(PublishedLake(url, spark.session), spark.session)
    return {
        name: sorted(str(one.asDict(recursive=True)) for one in views[name].collect()) for name in ("runs", "faults")
    }


def expected(lake: Lake) -> dict[str, list[str]]:
    return {name: sorted(map(str, lake.table(name).to_pylist())) for name in ("runs", "faults")}


def mounted(spark: SparkEngine, folder: Path) -> str:
    """A URL of another of Hadoop's file systems: one that mounts a folder."""
    folder.mkdir()
    configuration = spark.session._jsc.hadoopConfiguration()
    configuration.set("fs.viewfs.mounttable.squall.link./there", folder.as_uri())
    return "viewfs://squall/there/lake"


@pytest.mark.parametrize("file_system", [pytest.param("file", marks=pytest.mark.full), "viewfs"])
def test_a_published_lake_has_the_same_rows_and_takes_what_is_new(
    spark: SparkEngine, tmp_path: Path, file_system: str
) -> None:
    url = mounted(spark, tmp_path / "there") if file_system == "viewfs" else (tmp_path / "there").as_uri()
    lake = Lake(tmp_path / "lake")
    entries = list(forge_runs(120))
    lake.rebuild(entries[:60])
    there = PublishedLake(url, spark.session)
    with pytest.raises(LakeTrouble, match="no lake is published there"):
        there.parts()
    first = there.publish(lake)
    assert (first.copied > 0, first.kept, first.removed) == (True, 0, 0)
    assert rows(url, spark) == expected(lake)
    assert there.publish(lake) == Published(copied=0, kept=first.copied, removed=0)
    lake.rebuild(entries[60:])
    second = there.publish(lake)
    assert second.kept == first.copied and second.copied > 0, "a night adds a night"
    assert rows(url, spark) == expected(lake)


def test_a_publisher_that_dies_leaves_the_lake_before(
    spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, lake = (tmp_path / "there").as_uri(), Lake(tmp_path / "lake")
    entries = list(forge_runs(120))
    lake.rebuild(entries[:60])
    PublishedLake(url, spark.session).publish(lake)
    before = expected(lake)
    lake.rebuild(entries[60:])
    dying = PublishedLake(url, spark.session)
    copied: list[str] = []
    copy = dying._copy

    def copy_twice(source: Path, name: str) -> None:
        copied.append(name)
        if len(copied) > 2:
            raise KeyboardInterrupt
        copy(source, name)

    monkeypatch.setattr(dying, "_copy", copy_twice)
    with pytest.raises(KeyboardInterrupt):
        dying.publish(lake)
    assert rows(url, spark) == before
    assert PublishedLake(url, spark.session).publish(lake).kept >= 2, "what had arrived is not copied again"
    assert rows(url, spark) == expected(lake)


def test_what_no_reader_needs_any_more_is_removed_after_a_day(spark: SparkEngine, tmp_path: Path) -> None:
    url, lake = (tmp_path / "there").as_uri(), Lake(tmp_path / "lake")
    there = PublishedLake(url, spark.session)
    entries = list(forge_runs(60))
    now = datetime.now(UTC)
    for number in range(4):
        lake.rebuild(entries[10 * number : 10 * number + 10])
        assert there.publish(lake, now + timedelta(seconds=number)).removed == 0
    long_ago = time.time() - KEPT_SECONDS - 60
    for path in (tmp_path / "there").rglob("*.*"):
        os.utime(path, (long_ago, long_ago))
    assert there.publish(lake, now + timedelta(seconds=5)).removed > 0
    assert rows(url, spark) == expected(lake)
    assert len(list((tmp_path / "there/v1/runs").rglob("*.parquet"))) == 1


def test_a_manifest_of_a_newer_schema_is_named(spark: SparkEngine, tmp_path: Path) -> None:
    manifests = tmp_path / "v1/manifests"
    manifests.mkdir(parents=True)
    (manifests / "20261125T000000-0.json").write_text('{"schema": 2}')
    with pytest.raises(LakeTrouble, match="has schema 2, this Squall reads 1"):
        PublishedLake(tmp_path.as_uri(), spark.session).parts()


def test_a_file_system_that_spark_does_not_know_is_named(spark: SparkEngine) -> None:
    with pytest.raises(LakeTrouble, match=r"gopher://there: .*gopher.* Spark's configuration says how to reach it"):
        PublishedLake("gopher://there", spark.session)


@pytest.mark.parametrize(
    ("place", "url"), [("s3a://b/lake", True), ("file:///lake", True), ("runs/lake", False), ("/lake", False)]
)
def test_a_url_names_a_file_system(place: str, url: bool) -> None:
    assert is_url(place) == url

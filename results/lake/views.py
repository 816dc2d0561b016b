"""The lake's tables and views in SQL: `squall sql` and `load_lake` answer from them, on Spark.

Each table of `schema.py` is a view of its name. Further views over them:

    verdicts    runs by day, scenario and verdict
    scenarios   a row per scenario: runs, verdicts, the newest run
    findings    a row per fingerprint of an anomaly: first and last day, runs, newest witness

Parquet parts are read by Spark, which reads only the columns and row groups that a query needs. Rows of entries that
are not compacted yet are in no part; `open_views` compacts first, and if the lake can only be read, adds them from
memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from squall.results.lake.published import PublishedLake
from squall.results.lake.schema import TABLES, Table
from squall.results.lake.store import Lake, LakeTrouble

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DERIVED: Final = {
    "verdicts": "select date, scenario, verdict, count(*) as runs from runs group by date, scenario, verdict",
    "scenarios": """
        select scenario, count(*) as runs,
               count_if(verdict = 'valid') as valid, count_if(verdict = 'invalid') as invalid,
               count_if(verdict = 'unknown') as unknown, count_if(not as_expected) as not_as_expected,
               max(started) as newest
        from runs group by scenario""",
    "findings": """
        select a.fingerprint, a.anomaly, r.scenario, min(a.date) as first_seen, max(a.date) as last_seen,
               count(*) as runs, max_by(a.witness, r.started) as witness, max_by(r.directory, r.started) as directory,
               max_by(r.command, r.started) as command, bool_or(not r.as_expected) as unexpected
        from anomalies a join runs r on a.key = r.key
        group by a.fingerprint, a.anomaly, r.scenario""",
}


def open_views(lake: Lake, spark: SparkSession) -> dict[str, DataFrame]:
    """Register every table and view with a session; return them by name. Raises LakeTrouble."""
    try:
        lake.compact()
    except LakeTrouble as trouble:
        lake.say(f"{trouble}; entries that are not compacted are read as they are")
    parts = lake.parts()
    return _registered(
        {name: _frame(lake, spark, table, [str(path) for path in parts[name]]) for name, table in TABLES.items()},
        spark,
    )


def open_published_views(lake: PublishedLake, spark: SparkSession) -> dict[str, DataFrame]:
    """Register every table and view of a lake at a URL; return them by name. Raises LakeTrouble."""
    parts = lake.parts()
    return _registered({name: _read(spark, table, parts[name]) for name, table in TABLES.items()}, spark)


def _registered(views: dict[str, DataFrame], spark: SparkSession) -> dict[str, DataFrame]:
    for name, frame in views.items():
        frame.createOrReplaceTempView(name)
    for name, query in DERIVED.items():
        views[name] = spark.sql(query)
        views[name].createOrReplaceTempView(name)
    return views


def _read(spark: SparkSession, table: Table, paths: list[str]) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(table.schema)
    return spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)


def _frame(lake: Lake, spark: SparkSession, table: Table, paths: list[str]) -> DataFrame:
    frame = _read(spark, table, paths)
    arrived = lake.arrived(table.name)
    if not arrived.num_rows:
        return frame
    added = spark.createDataFrame(arrived.to_pylist(), frame.schema)
    return frame.join(added.select("key").distinct(), "key", "left_anti").select(*table.schema.names).unionByName(added)

"""Compute a second opinion: some rules of logs again, as queries over DataFrames (HX-06).

The kernels (`checkers/kernels/log.py`) work on sorted arrays, topic-partition by topic-partition. This module shares
nothing with them but the columns of the history: rows are records and acknowledgements, rules are joins, groups and
windows, over all topic-partitions of all given runs at once. A mistake in how the kernels sort, index or join is not
likely to be made here as well. It costs many times as much as the kernels, so it is for samples; the results of both
are compared.

    inconsistent_offset       an offset at which two values were read; or acknowledged, if it was never read
    duplicate                 a value of an idempotent producer at two offsets, each beyond the first counted
    lost_write                acknowledged under acks=all, or read, and not in the complete final read, though that goes
                              so far or began afterwards
    int_poll_skip, poll_skip  a record that a poll delivered was left out within a poll, or between two of a session

Without a complete final read there is no opinion on losses: `OPINION_ON_LOSSES` is missing from the topic-partition's
counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlparse

from squall.results.history.rows import ACKS_ALL, FUNCTIONS, TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OPINION_ON_LOSSES: Final = "(complete final read)"
COVERED: Final = ("inconsistent_offset", "duplicate", "lost_write", "int_poll_skip", "poll_skip")
"""The anomalies on which there is an opinion."""
UNREADABLE_VALUE: Final = -1
PART: Final = ("file", "topic", "partition")
Place = tuple[Path, str, int]


@dataclass(frozen=True)
class _History:
    """The tables that the queries use.

    Operations; the records that polls delivered, one row each; the distinct ones; acknowledged appends; and for each
    topic-partition how far its final read goes.
    """

    operations: DataFrame
    records: DataFrame
    read: DataFrame
    acknowledged: DataFrame
    final: DataFrame


def second_opinions(session: SparkSession, histories: Sequence[Path]) -> dict[Place, dict[str, int]]:
    """Count each anomaly in each topic-partition of some `history.parquet`; an anomaly not counted was not found."""
    history = _history(session, histories)
    said = _inconsistent(history)
    for rule in (_duplicates, _lost, _retracted, _skips, _complete):
        said = said.unionByName(rule(history))
    opinions: defaultdict[Place, dict[str, int]] = defaultdict(dict)
    for row in said.groupBy(*PART, "anomaly").sum("count").collect():
        place = (Path(unquote(urlparse(row["file"]).path)), row["topic"], row["partition"])
        opinions[place][row["anomaly"]] = row["sum(count)"]
    history.operations.unpersist()
    return dict(opinions)


def _history(session: SparkSession, histories: Sequence[Path]) -> _History:
    from pyspark.sql import functions as fn

    rows = session.read.parquet(*(f"file://{path.resolve()}" for path in histories))
    rows = rows.withColumn("file", fn.input_file_name()).where("partition >= 0").persist()
    delivered = rows.select(
        *(*PART, "op_id", "f", "client", "invoked", "completed"),
        fn.coalesce("session", fn.lit(0)).alias("session"),
        fn.posexplode(fn.arrays_zip("offsets", "values")).alias("place", "record"),
    )
    offset, value = fn.col("record.offsets").alias("offset"), fn.col("record.values").alias("value")
    records = delivered.select("*", offset, value).drop("record")
    read = records.groupBy(*PART, "offset", "value").agg(fn.min("completed").alias("seen"))
    appended = fn.col("f").isin(FUNCTIONS["send"], FUNCTIONS["marker"])
    acknowledged = rows.where(appended & (fn.col("type") == TYPES["ok"]) & (fn.col("acks") == ACKS_ALL))
    return _History(rows, records, read, acknowledged, _final_reads(rows, records))


def _final_reads(rows: DataFrame, records: DataFrame) -> DataFrame:
    """`start`, `end` and `asked` (when the marker was sent, by any clock) of each complete final read."""
    from pyspark.sql import functions as fn

    facts = rows.groupBy(*PART).agg(
        _start().alias("start"),
        fn.when(fn.countDistinct("clock_id") > 1, fn.max("clock_error")).alias("doubt"),
    )
    markers = rows.where((fn.col("f") == FUNCTIONS["marker"]) & (fn.col("type") == TYPES["ok"])).where("offset >= 0")
    first = markers.groupBy(*PART).agg(
        fn.min(fn.struct("completed", fn.col("offset").alias("marker"), "invoked", "clock_error")).alias("first")
    )
    ends = records.where(fn.col("f") == FUNCTIONS["final_poll"]).groupBy(*PART).agg(fn.max("offset").alias("end"))
    late = fn.when(fn.col("doubt").isNotNull(), fn.col("doubt") + fn.col("first.clock_error")).otherwise(0)
    whole = facts.join(first, [*PART]).join(ends, [*PART]).where("end >= first.marker")
    start = fn.least("start", "first.marker").alias("start")
    return whole.select(*PART, start, "end", (fn.col("first.invoked") - late).alias("asked"))


def _start() -> Column:
    """The highest stated log start offset, 0 if none was stated."""
    from pyspark.sql import functions as fn

    return fn.greatest(fn.coalesce(fn.max("log_start"), fn.lit(0)), fn.lit(0))


def _starts(history: _History) -> DataFrame:
    """The start of each log: not beyond the marker of a complete final read."""
    from pyspark.sql import functions as fn

    said = history.operations.groupBy(*PART).agg(_start().alias("said"))
    limits = history.final.select(*PART, fn.col("start").alias("limit"))
    start = fn.coalesce("limit", "said").alias("start")
    return said.join(limits, [*PART], "left").select(*PART, start)


def _counted(rows: DataFrame, anomaly: str, count: Column | None = None) -> DataFrame:
    from pyspark.sql import functions as fn

    return rows.select(*PART, fn.lit(anomaly).alias("anomaly"), (fn.lit(1) if count is None else count).alias("count"))


def _inconsistent(history: _History) -> DataFrame:
    from pyspark.sql import functions as fn

    place = [*PART, "offset"]
    read = history.read.groupBy(*place).count().where("count > 1").select(*place)
    twice = history.acknowledged.where(fn.col("offset").isNotNull()).groupBy(*place).count().where("count > 1")
    unread = twice.select(*place).join(history.read.select(*place), place, "left_anti")
    wrong = read.unionByName(unread).unionByName(_replaced_below_start(history, read))
    return _counted(wrong, "inconsistent_offset")


def _replaced_below_start(history: _History, read_twice: DataFrame) -> DataFrame:
    """Offsets below the log start at which one value was read and another acknowledged.

    Those that are duplicates are excluded: their value lies elsewhere in spite of idempotence.
    """
    from pyspark.sql import functions as fn

    place = [*PART, "offset"]
    below = history.acknowledged.join(_starts(history), [*PART]).where("offset < start")
    agreed = history.read.join(read_twice, place, "left_anti").select(*place, fn.col("value").alias("found"))
    other = below.join(agreed, place).where("value <> found").select(*place, "value", "idempotent")
    elsewhere = history.read.select(*PART, "value", fn.col("offset").alias("at"))
    seen = other.join(elsewhere, [*PART, "value"], "left").where("not idempotent or at is null")
    return seen.select(*place).distinct()


def _duplicates(history: _History) -> DataFrame:
    from pyspark.sql import functions as fn

    seen = history.read.select(*PART, "offset", "value")
    stated = history.acknowledged.where(fn.col("offset").isNotNull()).select(*PART, "offset", "value")
    where = seen.unionByName(stated).where(fn.col("value") != UNREADABLE_VALUE)
    several = where.groupBy(*PART, "value").agg(fn.countDistinct("offset").alias("offsets")).where("offsets > 1")
    sent = history.operations.where(fn.col("f").isin(FUNCTIONS["send"], FUNCTIONS["marker"]))
    promised = several.join(sent.where("idempotent").select(*PART, "value").distinct(), [*PART, "value"])
    return _counted(promised, "duplicate", fn.col("offsets") - 1)


def _lost_appends(history: _History) -> DataFrame:
    """Acknowledged appends that a complete final read should have but does not, at any offset.

    Those that are duplicates are excluded: they lie elsewhere in spite of idempotence.
    """
    from pyspark.sql import functions as fn

    due = history.acknowledged.select(*PART, "op_id", "offset", "value", "completed", "idempotent")
    due = due.join(history.final, [*PART])
    early = fn.col("completed") < fn.col("asked")
    placed = due.where("offset >= start").where((fn.col("offset") <= fn.col("end")) | early)
    final = history.records.where(fn.col("f") == FUNCTIONS["final_poll"]).select(*PART, "offset", "value")
    gone = placed.join(final, [*PART, "offset", "value"], "left_anti")
    read = history.read.select(*PART, "value", fn.col("offset").alias("found"))
    shown = gone.join(read, [*PART, "value"], "left").groupBy(*PART, "op_id", "value", "idempotent").agg(
        fn.max(fn.coalesce((fn.col("found") == fn.col("offset")).cast("int"), fn.lit(0))).alias("here"),
        fn.max(fn.coalesce((fn.col("found") != fn.col("offset")).cast("int"), fn.lit(0))).alias("elsewhere"),
    )  # fmt: skip
    moved = shown.where("here = 1 or elsewhere = 0 or not idempotent").select(*PART, "op_id", "value")
    nowhere = due.where(fn.col("offset").isNull() & (fn.col("start") == 0) & early)
    nowhere = nowhere.join(final.select(*PART, "value"), [*PART, "value"], "left_anti")
    return moved.unionByName(nowhere.select(*PART, "op_id", "value"))


def _lost(history: _History) -> DataFrame:
    return _counted(_lost_appends(history), "lost_write")


def _retracted(history: _History) -> DataFrame:
    """Records that were read, at offsets where the final read has nothing; lost appends are excluded."""
    from pyspark.sql import functions as fn

    early = fn.col("seen") < fn.col("asked")
    due = history.read.join(history.final, [*PART]).where("offset >= start")
    due = due.where((fn.col("offset") <= fn.col("end")) | early)
    final = history.records.where(fn.col("f") == FUNCTIONS["final_poll"]).select(*PART, "offset")
    gone = due.join(final, [*PART, "offset"], "left_anti")
    return _counted(gone.join(_lost_appends(history), [*PART, "value"], "left_anti"), "lost_write")


def _skips(history: _History) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    session = Window.partitionBy(*PART, "client", "session").orderBy("invoked", "op_id", "place")
    before = fn.lag(fn.struct("op_id", "offset", "completed")).over(session)
    offsets = Window.partitionBy(*PART).orderBy("offset")
    passed = history.read.select(*PART, "offset").distinct().withColumn("passed", fn.lag("offset").over(offsets))
    inside = fn.col("before.op_id") == fn.col("op_id")
    kept = fn.last("kept", ignorenulls=True).over(offsets.rowsBetween(Window.unboundedPreceding, -1))
    passed = passed.join(_kept(history), [*PART, "offset"], "left").withColumn("kept", kept)
    delivered = history.records.withColumn("before", before).join(passed, [*PART, "offset"])
    final = fn.col("f") == FUNCTIONS["final_poll"]
    delivered = delivered.withColumn("passed", fn.when(final, fn.col("kept")).otherwise(fn.col("passed")))
    skipped = delivered.where(
        (inside | (fn.col("before.completed") <= fn.col("invoked")))
        & (fn.col("before.offset") < fn.col("offset"))
        & (fn.col("before.offset") < fn.col("passed"))
    )
    skipped = skipped.join(_starts(history), [*PART]).where(inside | (fn.col("passed") >= fn.col("start")))
    named = fn.when(inside, "int_poll_skip").otherwise("poll_skip")
    return skipped.select(*PART, named.alias("anomaly"), fn.lit(1).alias("count"))


def _kept(history: _History) -> DataFrame:
    """Offsets, as `kept` too, that were read and are not lost if a final poll leaves them out.

    Another poll of the final read delivers them, or they lie below the log start.
    """
    from pyspark.sql import functions as fn

    final = history.records.where(fn.col("f") == FUNCTIONS["final_poll"]).select(*PART, "offset")
    below = history.read.join(_starts(history), [*PART]).where("offset < start").select(*PART, "offset")
    return final.unionByName(below).distinct().withColumn("kept", fn.col("offset"))


def _complete(history: _History) -> DataFrame:
    return _counted(history.final, OPINION_ON_LOSSES)

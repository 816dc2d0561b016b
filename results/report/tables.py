"""Make the series of a run as tables, for its plots and for later comparisons and dashboards (HX-12).

    tables/throughput.parquet     bucket, f, type, operations
    tables/latency.parquet        bucket, sends, p50, p99, p999, max (seconds, from the intended start)
    tables/latency_classes.parquet   latency class, the longest latency in it (ns), sends; over the whole run
    tables/latency_by_time.parquet   bucket, latency class, sends: the heat map, and quantiles of any stretch of time
    tables/errors.parquet         bucket, f, error, operations
    tables/outages.parquet        topic, partition, start, end (seconds)
    tables/partitions.parquet     a row per topic-partition: counts, anomalies, longest outage, lag

The tasks of the engine count and add up (`checkers/common/tally.py`); here quantiles are read off the histograms. A
bucket is given by its start in seconds since the load began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from squall.results.checkers.common.tally import Counts, Tally
from squall.results.checkers.kernels.series import Frame, bucket_and_class, class_nanoseconds, ended_as
from squall.results.checkers.log.result import PartitionResult
from squall.results.history.segments import FUNCTIONS, TYPES

TABLES_FOLDER: Final = "tables"
LATENCY_CLASSES: Final = "latency_classes"
LATENCY_BY_TIME: Final = "latency_by_time"
MOST_BUCKETS: Final = 240
MOST_SECONDS: Final = 1800
BUCKET_SECONDS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 600, 3600)
QUANTILES: Final = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}

_F: Final = {code: name for name, code in FUNCTIONS.items()}
_TYPE: Final = {code: name for name, code in TYPES.items()}


def bucket_width(span_ns: int) -> int:
    """Return the narrowest round width with which a run of this length has at most `MOST_BUCKETS` buckets.

    It may have `MOST_SECONDS` of a second or more: faults last for seconds, in long runs as well.
    """
    for seconds in BUCKET_SECONDS:
        if span_ns <= (MOST_BUCKETS if seconds < 1 else MOST_SECONDS) * seconds * 1e9:
            return int(seconds * 1e9)
    return int(BUCKET_SECONDS[-1] * 1e9)


@dataclass(frozen=True)
class Series:
    """The tables of one run, by name."""

    tables: Mapping[str, pa.Table]

    def __getitem__(self, name: str) -> pa.Table:
        return self.tables[name]

    def save(self, run_dir: Path) -> None:
        folder = run_dir / TABLES_FOLDER
        folder.mkdir(exist_ok=True)
        for name, table in self.tables.items():
            pq.write_table(table, folder / f"{name}.parquet", compression="lz4")

    @classmethod
    def load(cls, run_dir: Path) -> Series:
        return cls({path.stem: pq.read_table(path) for path in sorted((run_dir / TABLES_FOLDER).glob("*.parquet"))})


def series_of(results: Sequence[PartitionResult], counts: Counts, frame: Frame) -> Series:
    """Make the tables from the results of each topic-partition and the counts of all of them."""
    return Series(
        {
            "throughput": _throughput(counts.throughput, frame),
            "latency": _latency(counts.latencies, frame),
            LATENCY_CLASSES: _latency_classes(counts.latencies),
            LATENCY_BY_TIME: _latency_by_time(counts.latencies, frame),
            "errors": _errors(counts.errors, frame),
            "outages": _outages(results, frame),
            "partitions": _partitions(results, frame),
        }
    )


def _second(bucket: int, frame: Frame) -> float:
    return bucket * frame.width / 1e9


def _throughput(ended: Tally, frame: Frame) -> pa.Table:
    keys, counts = ended.arrays
    bucket, f, kind = ended_as(keys)
    columns = {
        "second": bucket * frame.width / 1e9,
        "f": [_F[one] for one in f.tolist()],
        "type": [_TYPE[one] for one in kind.tolist()],
        "operations": counts,
    }
    types = {"second": pa.float64(), "f": pa.string(), "type": pa.string(), "operations": pa.int64()}
    return pa.table(columns, pa.schema(list(types.items())))


def _latency(sent: Tally, frame: Frame) -> pa.Table:
    """Read quantiles per bucket off the running sum of the sends of all topic-partitions, in order of latency."""
    keys, count = sent.arrays
    bucket, latency_class = bucket_and_class(keys)
    until = np.cumsum(count)
    last = np.flatnonzero(np.diff(bucket, append=bucket[-1:] + 1))
    sends = np.diff(until[last], prepend=0)
    columns: dict[str, list[float]] = {
        "second": [_second(one, frame) for one in bucket[last].tolist()],
        "sends": sends.tolist(),
    }
    for name, share in QUANTILES.items():
        reached = np.searchsorted(until, until[last] - sends + np.ceil(share * sends).astype(np.int64))
        columns[name] = [class_nanoseconds(one) / 1e9 for one in latency_class[reached].tolist()]
    types = {"second": pa.float64(), "sends": pa.int64(), **dict.fromkeys(QUANTILES, pa.float64())}
    return pa.table(columns, pa.schema(list(types.items())))


def _latency_classes(sent: Tally) -> pa.Table:
    """Count the sends of the whole run by class of latency: counts of several runs add up, quantiles do not."""
    keys, count = sent.arrays
    classes, place = np.unique(bucket_and_class(keys)[1], return_inverse=True)
    sends = np.bincount(place, weights=count, minlength=len(classes)).astype(np.int64)
    columns = {
        "latency_class": classes.astype(np.int64),
        "longest_ns": [int(class_nanoseconds(one)) for one in classes.tolist()],
        "sends": sends,
    }
    return pa.table(columns, pa.schema([(name, pa.int64()) for name in columns]))


def _latency_by_time(sent: Tally, frame: Frame) -> pa.Table:
    keys, count = sent.arrays
    bucket, classes = bucket_and_class(keys)
    columns = {"second": bucket * frame.width / 1e9, "latency_class": classes.astype(np.int32), "sends": count}
    types = {"second": pa.float64(), "latency_class": pa.int32(), "sends": pa.int64()}
    return pa.table(columns, pa.schema(list(types.items())))


def quantiles(histogram: Mapping[int, int]) -> dict[str, float]:
    """Seconds at each quantile of a histogram of latency classes."""
    ordered = sorted(histogram.items())
    total = sum(histogram.values())
    found = {}
    for name, share in QUANTILES.items():
        below = 0
        for latency_class, count in ordered:
            below += count
            if below >= share * total:
                found[name] = class_nanoseconds(latency_class) / 1e9
                break
    return found


def _errors(errors: Sequence[tuple[int, int, str, int]], frame: Frame) -> pa.Table:
    rows = [
        {"second": _second(bucket, frame), "f": _F[f], "error": error, "operations": count}
        for bucket, f, error, count in errors
    ]
    return _table(rows, {"second": pa.float64(), "f": pa.string(), "error": pa.string(), "operations": pa.int64()})


def _outages(results: Sequence[PartitionResult], frame: Frame) -> pa.Table:
    rows = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "start": (start - frame.start) / 1e9,
            "end": (end - frame.start) / 1e9,
        }
        for one in results
        for start, end in one.outages
    ]
    return _table(rows, {"topic": pa.string(), "partition": pa.int32(), "start": pa.float64(), "end": pa.float64()})


def _partitions(results: Sequence[PartitionResult], frame: Frame) -> pa.Table:
    rows = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "acknowledged": one.acknowledged,
            "records": one.records,
            "anomalies": sum(one.anomalies.values()),
            "final_read_complete": one.final.complete,
            "log_end": one.final.end + 1,
            "longest_outage": one.longest_outage / 1e9,
            "longest_outage_start": (one.longest_outage_start - frame.start) / 1e9,
            "realtime_lag_p99": one.lag_p99 / 1e9,
            "realtime_lag_max": one.lag_max / 1e9,
            "check_ms": one.milliseconds,
        }
        for one in results
    ]
    whole = ("partition", "acknowledged", "records", "anomalies", "log_end")
    types = {"topic": pa.string(), **dict.fromkeys(whole, pa.int64()), "final_read_complete": pa.bool_()}
    types |= dict.fromkeys(("longest_outage", "longest_outage_start"), pa.float64())
    types |= dict.fromkeys(("realtime_lag_p99", "realtime_lag_max", "check_ms"), pa.float64())
    return _table(rows, types)


def _table(rows: list[dict[str, Any]], types: dict[str, pa.DataType]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema(list(types.items())))

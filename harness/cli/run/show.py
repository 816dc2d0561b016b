"""`squall show RUN [ROWS]`: print a run in words, or the rows of its history around some offsets.

squall show runs/latest                           what was run, and the verdict
squall show runs/latest events-3@20410..20425     who sent, acknowledged and read these offsets
squall show runs/latest events-3                  the first rows of that topic-partition
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from squall.harness.errors import UsageError
from squall.results.history.history import FUNCTIONS, TYPES, History
from squall.workloads.core.operation import value_name

MOST_ROWS = 200
TIMES = ("invoked", "completed")
FUNCTION_NAMES = {code: name for name, code in FUNCTIONS.items()}
TYPE_NAMES = {code: name for name, code in TYPES.items()}
FORM = "TOPIC-PARTITION, TOPIC-PARTITION@OFFSET or TOPIC-PARTITION@FIRST..LAST, such as events-3@20410..20425"


@dataclass(frozen=True)
class Rows:
    """Which rows to show: a topic-partition, and an inclusive range of offsets or all of them."""

    topic: str
    partition: int
    first: int = 0
    last: int = 2**63 - 1

    @property
    def all(self) -> bool:
        return self.last == 2**63 - 1


def parse_rows(text: str) -> Rows:
    """Parse `events-3@20410..20425`. Raises UsageError with the required form."""
    match = re.fullmatch(r"(.+)[-/](\d+)(?:@(\d+)(?:\.\.(\d+))?)?", text)
    if match is None:
        raise UsageError(f"{text!r} does not say which rows", remedy=f"write {FORM}")
    topic, partition, first, last = match.groups()
    if first is None:
        return Rows(topic, int(partition))
    return Rows(topic, int(partition), int(first), int(last if last is not None else first))


def shown_rows(history: History, rows: Rows, load_started: int) -> Iterator[str]:
    """Yield the operations that concern these offsets, in order of invocation, one line each."""
    shown = 0
    for row in operations(history, rows):
        if shown == MOST_ROWS:
            yield f"… more than {MOST_ROWS} operations; narrow the range of offsets"
            return
        shown += 1
        yield row_line(row, rows, load_started)
    if shown == 0:
        yield "no operation concerns these offsets"


def row_data(history: History, rows: Rows, load_started: int) -> Iterator[dict[str, Any]]:
    """Yield the operations that concern these offsets for a JSON document, all of them; times in seconds."""
    for row in operations(history, rows):
        times = {name: None if row[name] is None else (row[name] - load_started) / 1e9 for name in TIMES}
        yield {**row, **times, "f": FUNCTION_NAMES.get(row["f"], str(row["f"])), "type": TYPE_NAMES[row["type"]]}


def operations(history: History, rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield the operations that concern these offsets. Raises UsageError for an unknown topic-partition."""
    if (rows.topic, rows.partition) not in history.topic_partitions:
        known = ", ".join(f"{topic}-{partition}" for topic, partition in history.topic_partitions)
        raise UsageError(f"the history has no topic-partition {rows.topic}-{rows.partition}; it has {known}")
    for batch in history.of(rows.topic, rows.partition).to_batches(max_chunksize=10_000):
        yield from _concerning(batch, rows)


def _concerning(batch: pa.RecordBatch, rows: Rows) -> Iterator[dict[str, Any]]:
    for row in batch.to_pylist():
        offset, run = row["offset"], row["offsets"]
        acknowledged = offset is not None and rows.first <= offset <= rows.last
        delivered = bool(run) and run[0] <= rows.last and run[-1] >= rows.first
        if rows.all or acknowledged or delivered:
            yield row


def row_line(row: dict[str, Any], rows: Rows, load_started: int) -> str:
    """Format `12.481 s 12.495 s process 4 send 4·1093 ok offset 20417`."""
    began = f"{(row['invoked'] - load_started) / 1e9:9.3f} s"
    ended = f"{(row['completed'] - load_started) / 1e9:9.3f} s" if row["completed"] is not None else "       open"
    what = FUNCTION_NAMES.get(row["f"], str(row["f"]))
    if row["value"] is not None:
        what += f" {value_name(row['value'])}"
    line = f"{began} {ended}  process {row['process']:<6} {what:<22} {TYPE_NAMES[row['type']]:<4}"
    if row["offset"] is not None:
        line += f"  offset {row['offset']}"
    if row["leader_epoch"] is not None:
        line += f"  leader epoch {row['leader_epoch']}"
    if row["error"]:
        line += f"  {row['error']}"
    return line + delivered(row, rows)


def delivered(row: dict[str, Any], rows: Rows) -> str:
    """Return the part of a poll's records that lies within the range."""
    pairs = [
        f"{offset}: {value_name(value)}"
        for offset, value in zip(row["offsets"], row["values"], strict=True)
        if rows.first <= offset <= rows.last
    ]
    if not pairs:
        return ""
    more = f" … {len(pairs)} records" if len(pairs) > 12 else ""
    return "  [" + ", ".join(pairs[:12]) + more + "]"

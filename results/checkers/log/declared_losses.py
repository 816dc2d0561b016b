"""Remove from a history what an observed unclean election was allowed to lose.

This happens before the rules of a log are applied.

An unclean election makes a leader of a replica that may lack acknowledged records (EL-04). From then on the log
continues in another line: below some offset it is unchanged, from there on it is the new leader's. Records of the old
line are lost, their offsets are used again, and a deposed leader may acknowledge and serve the old line until it learns
about its successor. None of that is an anomaly. A loss that no observed election explains is one: without a
`DeclaredLoss` for the topic-partition nothing is removed, and with one only what belongs to the old line, by leader
epoch and offset.

Only an observer of the whole cluster sees where the lines part, so only simulations declare losses, as rows `unclean`
of `cluster.jsonl`. A run on hosts declares none, and a loss there stays a `lost_write`.

An operation whose response has an offset of the old line, under a leader epoch before the loss, is changed as follows:

send             its outcome is unknown, unless its record is read at that offset in the new line as well
poll             it did not deliver those records
stated log end   dropped if it lies beyond the loss and no epoch says that it is of the new line
deletion         not held against later polls: the new leader's log may begin where it did before
session          polls before and after the loss are of two sessions, since a client may have to go back

A final read is always of the newest line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from squall.results.history.rows import FUNCTIONS, TYPES
from squall.results.history.segments import ClusterObservation

SESSIONS_BITS: Final = 20
"""A client has fewer sessions in one line of a log than 2 to this power."""

_POLLS: Final = (FUNCTIONS["poll"], FUNCTIONS["final_poll"])
_SENDS: Final = (FUNCTIONS["send"], FUNCTIONS["marker"])


class DeclaredLoss(msgspec.Struct, frozen=True):
    """From leader epoch `epoch` on, the records at `offset` and beyond may be different ones."""

    epoch: int
    offset: int


def declared_losses(cluster: Iterable[ClusterObservation]) -> Mapping[tuple[str, int], tuple[DeclaredLoss, ...]]:
    """Return the observed losses by unclean elections, by topic and partition, in order of leader epochs."""
    found: defaultdict[tuple[str, int], list[DeclaredLoss]] = defaultdict(list)
    for one in cluster:
        if one.kind == "unclean" and one.topic is not None and one.partition is not None:
            assert one.epoch is not None and one.offset is not None, "an unclean election names its epoch and offset"
            found[one.topic, one.partition].append(DeclaredLoss(one.epoch, one.offset))
    return {where: tuple(sorted(losses, key=lambda loss: loss.epoch)) for where, losses in found.items()}


def without_lost(table: pa.Table, losses: Sequence[DeclaredLoss]) -> tuple[pa.Table, int]:
    """Remove declared losses from rows of one topic-partition; return the rows and the number of acknowledged sends
    lost.
    """
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        if row["f"] in _POLLS:
            _poll_of_one_line(row, losses)
        _log_end_of_one_line(row, losses)
        if losses and row["f"] == FUNCTIONS["delete_records"]:
            row["node"] = None
    there = {pair for row in rows for pair in zip(row["offsets"], row["values"], strict=True)}
    lost = 0
    for row in rows:
        acknowledged = row["f"] in _SENDS and row["type"] == TYPES["ok"] and row["offset"] is not None
        if acknowledged and _is_old(row, row["offset"], losses) and (row["offset"], row["value"]) not in there:
            row |= {"type": TYPES["info"], "offset": None}
            lost += 1
    return pa.Table.from_pylist(rows, table.schema), lost


def _epoch(row: Mapping[str, Any]) -> int | None:
    """The leader epoch of an operation's response, None if unknown; clients report -1 for an unknown one."""
    epoch: int | None = row["leader_epoch"]
    return None if epoch is None or epoch < 0 else epoch


def _is_old(row: Mapping[str, Any], offset: int, losses: Sequence[DeclaredLoss]) -> bool:
    epoch = _epoch(row)
    return epoch is not None and any(epoch < loss.epoch and offset >= loss.offset for loss in losses)


def _poll_of_one_line(row: dict[str, Any], losses: Sequence[DeclaredLoss]) -> None:
    epoch = _epoch(row)
    if row["f"] == FUNCTIONS["final_poll"] or epoch is None or not row["offsets"]:
        return
    line = sum(loss.epoch <= epoch for loss in losses)
    if line:
        row["session"] = (line << SESSIONS_BITS) + (row["session"] or 0)
    new = [not _is_old(row, offset, losses) for offset in row["offsets"]]
    for name in ("offsets", "values"):
        row[name] = [one for one, is_new in zip(row[name], new, strict=True) if is_new]


def _log_end_of_one_line(row: dict[str, Any], losses: Sequence[DeclaredLoss]) -> None:
    epoch, end = _epoch(row), row["high_watermark"]
    if end is not None and any((epoch is None or epoch < loss.epoch) and end > loss.offset for loss in losses):
        row["high_watermark"] = None

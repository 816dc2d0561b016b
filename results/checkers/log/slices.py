"""Check a huge topic-partition in slices of its log, which many tasks share.

No task holds all of it.

A slice is what concerns the offsets from `low` on and below `high`. Its task reads the row groups that may hold any of
that (`slicing.LogGroup`), leaves out what concerns other offsets, and applies the rules of `checkers/kernels/log.py` to
the rest: nearly everything that a rule compares lies at one offset or at neighbouring ones. A slice returns one of two
results:

    nothing is suspicious here, and this is what my neighbours have to agree with     a `Slice`
    something is, and what                                                            a `Slice` with a `suspicion`

If no slice is suspicious, and all agree (`disagreement`), the log has no anomaly. In every other case the log is judged
as a whole, by the very same rules (`partition.py`), as if there were no slices: slices never accuse, so that counts and
witnesses are those of the whole. They may be too cautious, which costs time, and never too trusting:

conservation    Each row group belongs to one slice, though several may read it. Acknowledged appends, delivered records
                and stated log ends that the slices took in are as many as those of the rows that belong to them: none
                was left out because of a wrong footer.
unique values   The values of each process ascend from append to append, within the rows of a slice and from slice to
                slice. So none was sent twice; and a value that was read where no acknowledgement puts it is not read at
                another such place in another slice. A value acknowledged in another slice has no writer here.
sessions        No poll delivers backwards. A session leaves a slice for the next one only once, with a poll that ended
                before the first one there began, or with one and the same; after the last record that was read here,
                and with the first there. Where records exist that were never read, the offsets must be adjacent.
real time       Of two slices, nothing that shows the upper one ended before something began that only fits the lower
                one (R1): the first end here against the last beginning there is all that is needed.
order of sends  An idempotent client's sequence numbers ascend from slice to slice (S3).
final read      All slices have the closing of the whole: where the log starts, how far the final read came, its marker.
                That, and whether times are by several clocks, is compared with the result of a task that reads all of
                it (`figures.settled`).

Slices are not used, only the whole, for reads that must be linearizable, appends that were acknowledged without an
offset, and histories that are suspicious. A separate task measures availability and lags (`figures.py`), since medians
and gaps of parts are not those of a whole; counts over time add up, and are counted here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from squall.results.checkers.common.tally import Counts
from squall.results.checkers.kernels import loops
from squall.results.checkers.kernels.log import check_log
from squall.results.checkers.kernels.observed import Closing, Observed
from squall.results.checkers.kernels.operations import (
    LIST_OFFSETS,
    NEVER,
    NONE,
    OK,
    UNKNOWN_CODE,
    Flags,
    Ints,
    Operations,
    UnusableRecords,
)
from squall.results.checkers.log.partition import PartOfTask, counted
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.joining import SCHEMA
from squall.results.history.parquet_files import read_columns

ELSEWHERE: Final = {"op_id", "process", "log_start"}
"""Columns that other tasks read of the same rows (`well_formed_task.py`, `figures.py`)."""
COLUMNS: Final = [name for name in SCHEMA.names if name not in ELSEWHERE]
"""All other columns, including those that no rule needs, so that damage in any of them is detected."""
_SESSION: Final = 7
"""The number of integers that a slice returns per session."""


class SliceTask(PartOfTask, frozen=True, tag="slice"):
    """One slice of the log that `whole` would check: its offsets and its row groups.

    `row_groups` are the row groups to read, `rows` the rows of each, `first_rows` how many rows precede each,
    `belonging` those that belong to the slice.
    """

    low: int
    high: int
    row_groups: tuple[int, ...]
    rows: tuple[int, ...]
    first_rows: tuple[int, ...]
    belonging: tuple[int, ...]
    closing: Closing
    several_clocks: bool


class Holdings(NamedTuple):
    """The number of appends with an offset, of delivered records and of stated log ends."""

    appends: int
    records: int
    log_ends: int


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of a slice, and what its neighbours must agree with. Arrays of int64 travel as bytes.

    `suspicion` says why the log must be judged as a whole; then nothing else counts. `read` are the lowest and the
    highest offset that was read. `sends` and `reads` are when the first of them ended and the last of them began; for
    reads, the latter is the last one that states the log's end. Missing times are `NEVER` and `NONE`.
    """

    suspicion: str | None
    milliseconds: float
    took: Holdings = Holdings(0, 0, 0)
    belonging: Holdings = Holdings(0, 0, 0)
    unseen: int = 0
    unplaced_values: bytes = b""
    processes: bytes = b""
    sessions: bytes = b""
    sequences: bytes = b""
    read: tuple[int, int] = (NEVER, NONE)
    sends: tuple[int, int] = (NEVER, NONE)
    reads: tuple[int, int] = (NEVER, NONE)


def check_slice(task: SliceTask) -> tuple[Slice, Counts]:
    """Read the rows of a slice, judge what concerns it, count what belongs to it. Raises IllFormedHistory."""
    return check_slice_of(task, read_columns(Path(task.path), COLUMNS, task.row_groups))


def check_slice_of(task: SliceTask, table: pa.Table) -> tuple[Slice, Counts]:
    """Check and count rows that were read already. Raises IllFormedHistory."""
    belongs = np.repeat(np.isin(task.row_groups, task.belonging), task.rows)
    try:
        operations = replace(Operations.from_table(table), several_clocks=task.several_clocks)
    except UnusableRecords as trouble:
        raise IllFormedHistory(Path(task.path), None, str(trouble)) from trouble
    began = time.perf_counter()
    found = _judged(task, operations, belongs)
    took = (time.perf_counter() - began) * 1000
    return msgspec.structs.replace(found, milliseconds=took), _counted(task, table)


def disagreement(slices: Sequence[Slice]) -> str | None:
    """Why consecutive slices do not prove that their log has no anomaly; None if they do."""
    for one in slices:
        if one.suspicion is not None:
            return one.suspicion
    took = np.array([one.took for one in slices]).sum(axis=0)
    there = np.array([one.belonging for one in slices]).sum(axis=0)
    if (took != there).any():
        return "slices did not take in all that there is"
    if any(one.unseen for one in slices[:-1]):
        return "records that were not read lie between others"
    return (
        _values_disagree(slices) or _sessions_disagree(slices) or _times_disagree(slices) or _sequences_disagree(slices)
    )


# One slice ------------------------------------------------------------------------------------------------------------


def _judged(task: SliceTask, operations: Operations, belongs: Flags) -> Slice:
    suspicion = _suspicious_rows(operations, belongs)
    processes = _values_by_process(operations, belongs)
    if suspicion is not None or processes is None:
        return Slice(suspicion=suspicion or "a process's values do not ascend", milliseconds=0)
    mine = clipped(operations, task.low, task.high)
    observed = Observed.of(mine, task.closing)
    findings = check_log(mine, observed, stated_ends=False)
    noted = {name: count for name, count in findings.noted.items() if count and name != "unseen"}
    if findings.counts or noted:
        return Slice(suspicion=f"a slice shows {', '.join([*findings.counts, *noted])}", milliseconds=0)
    read = observed.slots.offset(np.flatnonzero(observed.read)[[0, -1]]) if observed.read.any() else (NEVER, NONE)
    sends, reads = _times(mine, observed)
    return Slice(
        suspicion=None,
        milliseconds=0,
        took=_holdings(mine),
        belonging=_holdings(operations, belongs),
        unseen=findings.noted["unseen"],
        unplaced_values=observed.unplaced.value.tobytes(),
        processes=processes.tobytes(),
        sessions=_sessions(mine, np.repeat(task.first_rows, task.rows), task).tobytes(),
        sequences=_sequences(mine).tobytes(),
        read=(int(read[0]), int(read[1])),
        sends=sends,
        reads=reads,
    )


def clipped(operations: Operations, low: int, high: int) -> Operations:
    """Return what of these operations concerns the offsets from `low` on and below `high`.

    Appends and stated log ends elsewhere become operations of no known kind; records elsewhere are removed. Appends of
    unknown offset stay: their values may be read anywhere.
    """
    offset, end = operations.offset, operations.high_watermark
    elsewhere = operations.is_send & (offset != NONE) & ((offset < low) | (offset >= high))
    elsewhere |= (operations.f == LIST_OFFSETS) & (end != NONE) & ((end < low) | (end >= high))
    f = np.where(elsewhere, np.int8(UNKNOWN_CODE), operations.f)
    place = operations.table.schema.get_field_index("f")
    table = operations.table.set_column(place, "f", pa.array(f))
    here = (operations.record_offset >= low) & (operations.record_offset < high)
    before = np.concatenate((np.zeros(1, np.int32), np.cumsum(here, dtype=np.int32)))
    return replace(
        operations,
        table=table,
        starts=before[operations.starts],
        record_offset=operations.record_offset[here],
        record_value=operations.record_value[here],
    )


def _suspicious_rows(operations: Operations, belongs: Flags) -> str | None:
    """Why some rows that belong to a slice cannot be judged in slices; None if all can."""
    acknowledged = operations.is_send & (operations.type == OK) & (operations.offset == NONE)
    if (acknowledged & belongs).any():
        return "appends were acknowledged without an offset"
    ascends = np.diff(operations.record_offset) > 0
    begins = operations.starts[1:-1]
    inner = begins[(begins > 0) & (begins < len(operations.record_offset))]
    ascends[inner - 1] = True
    return None if ascends.all() else "a poll delivers backwards"


def _values_by_process(operations: Operations, belongs: Flags) -> Ints | None:
    """Return rows of (process, first value, last value); None unless the values of each process ascend."""
    value = operations.value[operations.is_send & belongs]
    process = value >> loops.PROCESS_BITS
    order = np.argsort(process, kind="stable")
    value, process = value[order], process[order]
    if not ((np.diff(process) != 0) | (np.diff(value) > 0)).all():
        return None
    first, last = _edges_of_runs(process)
    return np.stack((process[first], value[first], value[last]), axis=1)


def _edges_of_runs(keys: Ints) -> tuple[Ints, Ints]:
    """Where each run of equal keys begins, and where it ends."""
    first = np.flatnonzero(np.append(True, np.diff(keys) != 0)[: len(keys)])
    return first, np.append(first, len(keys))[1:] - 1


def _holdings(operations: Operations, chosen: Flags | None = None) -> Holdings:
    chosen = np.ones(len(operations), np.bool_) if chosen is None else chosen
    appends = operations.is_send & (operations.offset != NONE)
    return Holdings(
        int((appends & chosen).sum()),
        int(np.diff(operations.starts)[chosen].sum()),
        int((_states_end(operations) & chosen).sum()),
    )


def _states_end(operations: Operations) -> Flags:
    stated = (operations.f == LIST_OFFSETS) & (operations.type == OK)
    return stated & (operations.high_watermark != NONE) & (operations.completed != NEVER)


def _sessions(operations: Operations, first_row: Ints, task: SliceTask) -> Ints:
    """Return a row for each session with deliveries here.

    It has the key; offset, row and invocation of the first poll; offset, row and completion of the last one.
    """
    polls = np.flatnonzero(np.diff(operations.starts) > 0)
    polls = polls[np.argsort(operations.invoked[polls], kind="stable")]
    key = operations.session_key(polls)
    order = np.argsort(key, kind="stable")
    firsts, lasts = (polls[order[edge]] for edge in _edges_of_runs(key[order]))
    local = np.arange(len(operations)) - np.repeat(np.cumsum(task.rows) - task.rows, task.rows)
    row = first_row + local
    delivered, starts = operations.record_offset, operations.starts
    columns = (
        operations.session_key(firsts),
        delivered[starts[firsts]],
        row[firsts],
        operations.invoked[firsts],
        delivered[starts[lasts + 1] - 1],
        row[lasts],
        operations.completed[lasts],
    )
    return np.stack(columns, axis=1)


def _sequences(operations: Operations) -> Ints:
    """For each idempotent client: (client, lowest, highest sequence number) of what was acknowledged here."""
    counted = operations.is_acked & operations.idempotent & (operations.sequence != NONE) & (operations.offset != NONE)
    client, sequence = operations.client[counted].astype(np.int64), operations.sequence[counted]
    order = np.lexsort((sequence, client))
    client, sequence = client[order], sequence[order]
    first, last = _edges_of_runs(client)
    return np.stack((client[first], sequence[first], sequence[last]), axis=1)


def _times(operations: Operations, observed: Observed) -> tuple[tuple[int, int], tuple[int, int]]:
    """For appends that are in the log here, and for reads: when the first ended, and the last began.

    Only reads that state the log's end must agree with what had ended before, so only these count for the last
    beginning.
    """
    shown = observed.unplaced.writer[observed.unplaced.writer >= 0]
    began = operations.invoked - operations.clock_error
    ended = operations.completed + np.where(operations.completed == NEVER, 0, operations.clock_error)
    stating = np.flatnonzero(_states_end(operations))
    reading = np.concatenate((np.flatnonzero(np.diff(operations.starts) > 0), stating))
    sends = (
        int(ended[observed.acked].min(initial=NEVER)),
        int(began[np.append(observed.acked, shown)].max(initial=NONE)),
    )
    return sends, (int(ended[reading].min(initial=NEVER)), int(began[stating].max(initial=NONE)))


def _counted(task: SliceTask, table: pa.Table) -> Counts:
    """Count the rows that belong to a slice over time."""
    begins = np.cumsum(task.rows) - task.rows
    parts = [
        table.slice(int(begin), rows)
        for begin, rows, group in zip(begins, task.rows, task.row_groups, strict=True)
        if group in task.belonging
    ]
    if not parts:
        return Counts()
    rows = pa.concat_tables(parts)
    none = np.zeros(0, np.int64)
    return counted(task.whole.frame, rows, Operations(rows, np.zeros(rows.num_rows + 1, np.int32), none, none))


# All slices together --------------------------------------------------------------------------------------------------


def _values_disagree(slices: Sequence[Slice]) -> str | None:
    unplaced = np.concatenate([np.frombuffer(one.unplaced_values, np.int64) for one in slices])
    if len(np.unique(unplaced)) < len(unplaced):
        return "a value was read at two offsets"
    if _overlap(np.concatenate([_rows_of(one.processes, 3) for one in slices])):
        return "a process's values do not ascend from slice to slice"
    return None


def _sequences_disagree(slices: Sequence[Slice]) -> str | None:
    if _overlap(np.concatenate([_rows_of(one.sequences, 3) for one in slices])):
        return "a client's sequence numbers do not ascend from slice to slice"
    return None


def _overlap(told: Ints) -> bool:
    """For rows of (key, first, last) in the order of slices: whether a first is not above the last before it."""
    told = told[np.argsort(told[:, 0], kind="stable")]
    same = np.diff(told[:, 0]) == 0
    return bool((same & (told[1:, 1] <= told[:-1, 2])).any())


def _sessions_disagree(slices: Sequence[Slice]) -> str | None:
    told = [_rows_of(one.sessions, _SESSION) for one in slices]
    number = np.repeat(np.arange(len(slices)), [len(one) for one in told])
    rows = np.concatenate(told)
    order = np.argsort(rows[:, 0], kind="stable")
    rows, number = rows[order], number[order]
    goes_on = np.diff(rows[:, 0]) == 0
    here, there = rows[:-1][goes_on], rows[1:][goes_on]
    leaves, enters = number[:-1][goes_on], number[1:][goes_on]
    if not ((here[:, 5] == there[:, 2]) | (here[:, 6] <= there[:, 3])).all():
        return "a session goes to and fro between slices"
    adjacent = there[:, 1] == here[:, 4] + 1
    if slices[-1].unseen:
        return None if adjacent.all() else "a session skips records that were not read"
    lowest, highest = (np.array([one.read[side] for one in slices]) for side in (0, 1))
    nobody = np.concatenate((np.zeros(1, np.int64), np.cumsum(highest != NONE)))
    complete = (here[:, 4] == highest[leaves]) & (there[:, 1] == lowest[enters])
    complete &= nobody[enters] == nobody[leaves + 1]
    return None if (adjacent | complete).all() else "a session skips records that were read"


def _times_disagree(slices: Sequence[Slice]) -> str | None:
    """Why times disagree: what shows an upper slice ended before something began that fits only a lower one."""
    sends_ended = np.minimum.accumulate(np.array([one.sends[0] for one in slices])[::-1])[::-1]
    reads_ended = np.minimum.accumulate(np.array([one.reads[0] for one in slices])[::-1])[::-1]
    above = np.minimum(sends_ended, reads_ended)
    for one, ended in zip(slices, above[1:].tolist(), strict=False):
        if ended < max(one.sends[1], one.reads[1]):
            return "something of a lower slice began after something of an upper one had ended"
    return None


def _rows_of(data: bytes, width: int) -> Ints:
    return np.frombuffer(data, np.int64).reshape(-1, width)

"""Forge healthy logs of any size, in whole columns written straight to `history.parquet`.

`forge.py` makes one object per operation and a segment of JSON lines, some ten thousand operations a second; here a
million operations are arrays, and take a second or two. The history is of the same kind. Sends take effect between
invocation and completion, each client's one after the other; some are of unknown outcome, and their processes are
retired; half of those are appended. Consumers poll at different positions, each record is read by all of them, and
rebalances make new sessions. A process requests the log end offset now and then. Leaders change, and with them the
epoch of polls and log ends. A marker and a final read close every topic-partition.

A history consists of *topics* of at most `TOPIC_OPERATIONS` operations, each with its own workers and segment. A worker
sends to all topic-partitions of its topic at random, so that a process occurs in all of them. Only one topic at a time
is in memory.

Time: a worker's operations follow each other with random pauses, so their times are running sums. A consumer's poll
ends when its last record has taken effect and its previous poll has ended, whichever is later. Such a recurrence is a
running maximum over times from which the work until then is subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from squall.results.checkers.kernels.operations import (
    FAIL,
    FINAL_POLL,
    INFO,
    LIST_OFFSETS,
    MARKER,
    NONE,
    OK,
    POLL,
    SEND,
    Flags,
    Ints,
)
from squall.results.history.history import HISTORY_FILE
from squall.results.history.history_file import HistoryFile, Origin
from squall.results.history.joining import SCHEMA, SEGMENT_BITS
from squall.results.history.manifest import Manifest, TopicFacts
from squall.results.history.rows import ACKS_ALL
from squall.results.synthetic.forge import EPOCH, MILLISECOND, ORIGIN

TOPIC_OPERATIONS: Final = 10_000_000
PARTITIONS: Final = 16
WORKERS: Final = 36
CONSUMERS: Final = 3
OTHERS: Final = CONSUMERS + 3
"""Per topic-partition: its consumers, the sender of its marker, the requester of its log end and the final reader."""
CLIENTS: Final = 1 << 14
"""Client ids per topic; topics share none."""
FIRST_PROCESS: Final = 1_000
LONGEST_POLL: Final = 6
LONGEST_FINAL_POLL: Final = 500
INFO_SHARE: Final = 0.005
FAIL_SHARE: Final = 0.005
LOG_ENDS_SHARE: Final = 0.0005
SESSION_POLLS: Final = 2_000
TERMS: Final = 5
"""The number of successive leaders of a topic-partition."""
BUSY: Final = 0.7
"""The share of its time that a consumer spends in polls whose records are already there."""
ERRORS: Final = ("", "request_timed_out", "not_enough_replicas")

Random = np.random.Generator
Columns = Mapping[str, npt.NDArray[Any] | int]


def forge_wide(
    run_dir: Path, operations: int, *, seed: int = 1, partitions: int = PARTITIONS, most: int = TOPIC_OPERATIONS
) -> int:
    """Write a run of about so many operations, in topics of at most `most`; return how many it has."""
    run_dir.mkdir(parents=True, exist_ok=True)
    sizes = _parts(operations, most)
    file = HistoryFile(run_dir / HISTORY_FILE, origin=Origin(f"forged-{seed}"))
    rows, ended, next_process = 0, 0, FIRST_PROCESS
    for number, size in enumerate(sizes):
        sends = Sends.made(np.random.default_rng((seed, number)), size // 2, partitions, next_process)
        rows += _write_topic(file, number, sends, seed, partitions)
        ended = max(ended, ORIGIN + sends.ended)
        next_process = sends.first_free_process + partitions * OTHERS
    file.finish()
    Manifest(
        run_id=f"forged-{seed}",
        scenario="forged",
        seed=seed,
        topics={topic_name(number): TopicFacts(partitions=partitions) for number in range(len(sizes))},
        load_started=ORIGIN,
        load_ended=ended,
        completed=True,
        fault_free=True,
        min_acknowledged=1,
        final_read="complete",
    ).save(run_dir)
    return rows


def topic_name(number: int) -> str:
    return f"events-{number:04}"


def _parts(operations: int, most: int) -> list[int]:
    count = -(-operations // most)
    return [operations // count + (number < operations % count) for number in range(count)]


def _write_topic(file: HistoryFile, topic: int, sends: Sends, seed: int, partitions: int) -> int:
    """Write the topic-partitions of one topic; return the number of operations."""
    written = 0
    for partition in range(partitions):
        random = np.random.default_rng((seed, topic, partition))
        rows = topic_partition_rows(random, sends, topic, partition, first_id=(topic << SEGMENT_BITS) + written)
        file.add(topic_name(topic), partition, rows)
        written += rows.num_rows
    return written


@dataclass(frozen=True)
class Sends:
    """All sends of a topic, worker after worker. `effect` is when a send takes its place in the log, if it does."""

    worker: Ints
    process: Ints
    sequence: Ints
    invoked: Ints
    effect: Ints
    completed: Ints
    type: Ints
    landed: Flags
    partition: Ints
    first_free_process: int

    @property
    def ended(self) -> int:
        return int(np.maximum(self.completed, self.invoked).max())

    @classmethod
    def made(cls, random: Random, count: int, partitions: int, first_process: int) -> Sends:
        each = max(1, -(-count // WORKERS))
        shape = (WORKERS, each)
        before, after = (random.integers(1, most * MILLISECOND, shape) for most in (8, 6))
        pause = random.integers(1, 2 * MILLISECOND, shape)
        invoked = np.cumsum(before + after + pause, axis=1) - before - after
        fate = random.random(shape)
        kind = np.select([fate < INFO_SHARE, fate < INFO_SHARE + FAIL_SHARE], [INFO, FAIL], OK)
        unknown = kind == INFO
        answered = ~unknown | (random.random(shape) < 0.5)
        retired = np.cumsum(unknown.ravel()) - unknown.ravel()
        worker = np.repeat(np.arange(WORKERS), each)
        process = first_process + worker + retired
        return cls(
            worker=worker,
            process=process,
            sequence=np.tile(np.arange(1, each + 1), WORKERS),
            invoked=invoked.ravel(),
            effect=(invoked + before).ravel(),
            completed=np.where(answered, invoked + before + after, NONE).ravel(),
            type=kind.ravel(),
            landed=((kind == OK) | (unknown & (random.random(shape) < 0.5))).ravel(),
            partition=random.integers(0, partitions, shape, np.int16).ravel(),
            first_free_process=int(process[-1]) + 2,
        )


def topic_partition_rows(random: Random, sends: Sends, topic: int, partition: int, first_id: int) -> pa.Table:
    """Return the rows of one topic-partition, sorted by invocation."""
    mine = np.flatnonzero(sends.partition == partition)
    landed = mine[sends.landed[mine]]
    landed = landed[np.argsort(sends.effect[landed], kind="stable")]
    value = sends.process << 40 | sends.sequence
    closing = sends.ended + 10 * MILLISECOND
    people = _People(sends.first_free_process + partition * OTHERS, topic * CLIENTS + WORKERS + partition * OTHERS)
    log = _Log(
        value=np.append(value[landed], people.process(CONSUMERS) << 40 | 1),
        effect=np.append(sends.effect[landed], closing + MILLISECOND),
        term=max(1, sends.ended // TERMS),
    )
    offset = np.full(len(sends.invoked), NONE)
    offset[landed] = np.arange(len(landed))
    offset[sends.type != OK] = NONE
    kinds = [
        _send_columns(sends, mine, offset, value, topic),
        *(_poll_columns(random, log, number, people) for number in range(CONSUMERS)),
        _marker_columns(log, closing, people),
        _log_end_columns(random, log, len(mine), closing, people),
        _final_columns(random, log, closing + 3 * MILLISECOND, people),
    ]
    return _rows(kinds, log, topic, partition, first_id)


@dataclass(frozen=True)
class _Log:
    """The records of a topic-partition by offset, the marker last: value, and the time from which it can be read."""

    value: Ints
    effect: Ints
    term: int

    def epoch(self, moment: Ints) -> Ints:
        return EPOCH + moment // self.term

    def end(self, moment: Ints) -> Ints:
        return np.searchsorted(self.effect, moment)


@dataclass(frozen=True)
class _People:
    """Processes and clients of a topic-partition other than its workers, by number; the consumers come first."""

    first_process: int
    first_client: int

    def process(self, number: int) -> int:
        return self.first_process + number

    def client(self, number: int) -> int:
        return self.first_client + number


def _send_columns(sends: Sends, mine: Ints, offset: Ints, value: Ints, topic: int) -> Columns:
    kind = sends.type[mine]
    return {
        "f": SEND,
        "type": kind,
        "process": sends.process[mine],
        "client": sends.worker[mine] + topic * CLIENTS,
        "sequence": sends.sequence[mine],
        "invoked": sends.invoked[mine],
        "completed": sends.completed[mine],
        "value": value[mine],
        "offset": offset[mine],
        "error": np.select([(kind == INFO) & (sends.completed[mine] != NONE), kind == FAIL], [1, 2], 0),
    }


def _poll_columns(random: Random, log: _Log, consumer: int, people: _People) -> Columns:
    """Make one consumer's polls of all records but the marker."""
    records = len(log.value) - 1
    length = random.integers(0, LONGEST_POLL + 1, 2 * records // LONGEST_POLL + 100)
    until = np.cumsum(length)
    length = length[: int(np.searchsorted(until, records)) + 1]
    until = np.minimum(until[: len(length)], records)
    first = np.append(0, until[:-1])
    ready = log.effect[np.maximum(until - 1, 0)] if records else np.zeros(len(length), np.int64)
    usual = max(2, int(BUSY * float(log.effect[-1]) / len(length)))
    work = random.integers(usual // 2, usual + usual // 2 + 1, len(length))
    waited = np.cumsum(work)
    completed = np.maximum.accumulate(ready + random.integers(1, usual, len(length)) - waited) + waited
    completed = np.maximum.accumulate(np.maximum(completed, waited))
    return {
        "f": POLL,
        "process": people.process(consumer),
        "client": people.client(consumer),
        "session": np.arange(len(length)) // SESSION_POLLS,
        "invoked": completed - work + 1,
        "completed": completed,
        "position": first,
        "first": first,
        "length": until - first,
        "leader_epoch": np.where(until > first, log.epoch(ready), NONE),
        "high_watermark": log.end(completed),
    }


def _marker_columns(log: _Log, closing: int, people: _People) -> Columns:
    return {
        "f": MARKER,
        "process": people.process(CONSUMERS),
        "client": people.client(CONSUMERS),
        "invoked": np.array([closing]),
        "completed": np.array([closing + 2 * MILLISECOND]),
        "value": log.value[-1:],
        "offset": np.array([len(log.value) - 1]),
    }


def _log_end_columns(random: Random, log: _Log, sends: int, closing: int, people: _People) -> Columns:
    """Make requests for the log end; each returns the log end at some moment before its completion."""
    count = max(1, round(2 * sends * LOG_ENDS_SHARE))
    invoked = np.arange(1, count + 1) * (closing // (count + 1))
    spread = max(2, closing // (count + 1) // 3)
    moment = invoked + random.integers(0, spread, count)
    return {
        "f": LIST_OFFSETS,
        "process": people.process(CONSUMERS + 1),
        "client": people.client(CONSUMERS + 1),
        "invoked": invoked,
        "completed": moment + random.integers(1, spread, count),
        "high_watermark": log.end(moment),
        "leader_epoch": log.epoch(moment),
    }


def _final_columns(random: Random, log: _Log, start: int, people: _People) -> Columns:
    """Make the final read of the whole log, marker included."""
    records = len(log.value)
    until = np.cumsum(random.integers(1, LONGEST_FINAL_POLL + 1, 2 * records // LONGEST_FINAL_POLL + 100))
    until = np.minimum(until[: int(np.searchsorted(until, records)) + 1], records)
    first = np.append(0, until[:-1])
    invoked = start + 2 * MILLISECOND * np.arange(len(until))
    return {
        "f": FINAL_POLL,
        "process": people.process(CONSUMERS + 2),
        "client": people.client(CONSUMERS + 2),
        "session": 0,
        "invoked": invoked,
        "completed": invoked + MILLISECOND,
        "position": first,
        "first": first,
        "length": until - first,
        "leader_epoch": log.epoch(log.effect[until - 1]),
        "high_watermark": records,
    }


# Rows -----------------------------------------------------------------------------------------------------------------


def _rows(kinds: Sequence[Columns], log: _Log, topic: int, partition: int, first_id: int) -> pa.Table:
    """Join the columns of each kind of operation into one table; a column that a kind lacks is null."""
    sizes = [len(np.asarray(one["invoked"])) for one in kinds]
    order = np.argsort(np.concatenate([np.asarray(one["invoked"]) for one in kinds]), kind="stable")
    count = len(order)

    def column(name: str, default: int = NONE) -> Ints:
        stated = [np.broadcast_to(one.get(name, default), size) for one, size in zip(kinds, sizes, strict=True)]
        return np.concatenate(stated).astype(np.int64, copy=False)[order]

    invoked = column("invoked") + ORIGIN
    completed = column("completed")
    columns: dict[str, pa.Array] = {
        "op_id": pa.array(first_id + np.arange(count)),
        "type": pa.array(column("type", OK)),
        "topic": _texts(np.zeros(count, np.int32), [topic_name(topic)]),
        "partition": pa.array(np.full(count, partition)),
        "at": pa.array(invoked),
        "invoked": pa.array(invoked),
        "completed": pa.array(np.where(completed == NONE, NONE, completed + ORIGIN), mask=completed == NONE),
        "acks": pa.array(np.full(count, ACKS_ALL)),
        "idempotent": pa.array(np.ones(count, np.bool_)),
        "error": _texts(column("error", 0).astype(np.int32), ERRORS, nothing=0),
        "clock_id": pa.array(np.zeros(count, np.int16)),
        "clock_error": pa.array(np.zeros(count, np.int64)),
    }
    columns |= _runs(log, column("first", 0), column("length", 0))
    arrays = [columns[field.name] if field.name in columns else _numbers(column(field.name)) for field in SCHEMA]
    return pa.table([one.cast(field.type) for one, field in zip(arrays, SCHEMA, strict=True)], schema=SCHEMA)


def _numbers(column: Ints) -> pa.Array:
    return pa.array(column, mask=column == NONE)


def _texts(codes: npt.NDArray[np.int32], texts: Sequence[str], nothing: int | None = None) -> pa.Array:
    mask = None if nothing is None else codes == nothing
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=mask), pa.array(list(texts), pa.string()))


def _runs(log: _Log, first: Ints, length: Ints) -> dict[str, pa.Array]:
    """Make the delivered records of each poll: `length` records from `first` on."""
    ends = np.append(0, np.cumsum(length))
    offsets = np.repeat(first - ends[:-1], length) + np.arange(ends[-1])
    edges = pa.array(ends.astype(np.int32))
    return {
        "offsets": pa.ListArray.from_arrays(edges, pa.array(offsets)),
        "values": pa.ListArray.from_arrays(edges, pa.array(log.value[offsets])),
    }

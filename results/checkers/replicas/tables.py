"""Convert between the kernels' inputs and the two tables that a run writes about its nodes.

`replicas.parquet` has a row per replica (`row` 0) and a row per batch of it (`row` 1), each replica's rows together:
`base` and `last` of a replica are its log's start and last offset. `control-plane.parquet` has the facts about the
control plane (`control.py`): rows of the kinds `quorum`, `log`, `batch`, `record` and `trace`, in the order of their
sources. In both, a missing number is -1 and a missing name is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from squall.results.checkers.replicas.control import QuorumFacts, TraceEvent
from squall.results.checkers.replicas.metadata import MetadataRecord, RecordFacts
from squall.results.checkers.replicas.replica import BATCH_COLUMNS, Batches, Replica
from squall.results.history.table_schemas import CONTROL_SCHEMA, REPLICA_SCHEMA

REPLICA, BATCH = 0, 1
QUORUM, LOG, LOG_BATCH, RECORD, TRACE = "quorum", "log", "batch", "record", "trace"
NOT_CHANGED: Final = -2
"""A record's leader that does not change; its members are null if the ISR does not change."""

_NAMES: Final = ("topic", "partition", "topic_id", "host", "node")
_FACTS: Final = ("in_sync", "live", "leads", "collected", "required", "removal", "problem")
_FURTHER_BATCH_COLUMNS: Final = ("producer_id", "producer_epoch", "sequence", "flags")
_KIND_OF: Final = {pa.string(): "", pa.bool_(): False}
Columns = Mapping[str, Sequence[int]]


def replica_table(replicas: Iterable[tuple[Replica, Columns]]) -> pa.Table:
    """Make the table of replicas; `Columns` are further columns of a replica's batches, if there are any."""
    listed = list(replicas)
    ones = [one for one, _ in listed]
    names: dict[str, Any] = {"replica": np.arange(len(ones))}
    names |= {name: [getattr(one, name) for one in ones] for name in _NAMES}
    facts = {name: [getattr(one, name) for one in ones] for name in _FACTS}
    files = {"files": ["\n".join(one.files) for one in ones]}
    ends = {"base": [one.start for one in ones], "last": [one.end - 1 for one in ones]}
    headers = _rows(REPLICA_SCHEMA, len(ones), {"row": REPLICA, **names, **facts, **files, **ends})
    lengths = np.array([len(one.batches) for one in ones], np.int64)
    if not lengths.sum():
        return headers
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(one.batches, name) for one in ones]) for name in BATCH_COLUMNS
    }
    for name in _FURTHER_BATCH_COLUMNS:
        columns[name] = np.concatenate(
            [np.asarray(more.get(name, np.full(length, -1))) for (_, more), length in zip(listed, lengths, strict=True)]
        )
    owner = pa.array(np.repeat(np.arange(len(ones)), lengths))
    of_owner = {name: headers[name].combine_chunks().take(owner) for name in names}
    batches = _rows(REPLICA_SCHEMA, int(lengths.sum()), {"row": BATCH, **of_owner, **columns})
    return pa.concat_tables([headers, batches])


def _rows(schema: pa.Schema, count: int, columns: Mapping[str, Any]) -> pa.Table:
    """Make `count` rows; a column that is one value is repeated, and a missing column gets the value for missing."""
    arrays = []
    for field in schema:
        value = columns.get(field.name, _KIND_OF.get(field.type, -1))
        if isinstance(value, pa.Array):
            arrays.append(value)
        elif isinstance(value, np.ndarray | list):
            arrays.append(pa.array(value, field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(value, field.type), count))
    return pa.table(arrays, schema)


def topic_partitions_in(table: pa.Table) -> Iterator[list[Replica]]:
    """Yield the replicas of each topic-partition, by its topic's id."""
    found = sorted(replicas_in(table), key=_log_of)
    for _, together in groupby(found, key=_log_of):
        yield list(together)


def _log_of(one: Replica) -> tuple[str, int, str]:
    return one.topic, one.partition, one.topic_id


def replicas_in(table: pa.Table) -> Iterator[Replica]:
    """Yield every replica in the table, with its batches."""
    numbers = {name: np.asarray(table[name], np.int64) for name in (*BATCH_COLUMNS, "replica", "row")}
    headers = np.flatnonzero(numbers["row"] == REPLICA)
    facts = table.take(pa.array(headers)).to_pylist()
    order = np.flatnonzero(numbers["row"] == BATCH)
    of_replica = numbers["replica"][order]
    order = order[np.argsort(of_replica, kind="stable")]
    owners = numbers["replica"][order]
    for one in facts:
        low, high = np.searchsorted(owners, [one["replica"], one["replica"] + 1])
        rows = order[low:high]
        yield Replica(
            **{name: one[name] for name in (*_NAMES, *_FACTS)},
            start=one["base"],
            end=one["last"] + 1,
            files=_lines(one.get("files")),
            batches=Batches(*(numbers[name][rows] for name in BATCH_COLUMNS)),
        )


def _lines(text: str | None) -> tuple[str, ...]:
    """The lines of a cell; none if the table was written before the column existed."""
    return tuple((text or "").splitlines())


# -- the control plane -----------------------------------------------------------------------------------------


def control_table(
    quorum: QuorumFacts | None,
    logs: Iterable[Replica],
    records: Iterable[MetadataRecord],
    events: Iterable[TraceEvent],
) -> pa.Table:
    """Make the table of the control plane."""
    rows: list[dict[str, Any]] = []
    if quorum is not None:
        known = {"node": quorum.leader, "epoch": quorum.epoch, "offset": quorum.committed}
        rows.append({"kind": QUORUM, **known, "members": list(quorum.voters)})
    batches: list[pa.Table] = []
    for one in logs:
        names = {"host": one.host, "node": one.node}
        facts = {"offset": one.start, "last": one.end - 1, "live": one.live, "problem": one.problem}
        facts |= {"facts": "\n".join(one.files)}
        rows.append({"kind": LOG, **names, **facts, "role": "" if one.collected else "not collected"})
        if len(one.batches):
            columns = {name: getattr(one.batches, name) for name in BATCH_COLUMNS if name != "base"}
            columns["offset"] = one.batches.base
            empty = {"members": [None] * len(one.batches)}
            batches.append(_rows(CONTROL_SCHEMA, len(one.batches), {"kind": LOG_BATCH, **names, **columns, **empty}))
    rows += [_of_record(one) for one in records]
    rows += [
        {"kind": TRACE, **{name: getattr(one, name) for name in TraceEvent.__dataclass_fields__}} for one in events
    ]
    empty_row = {field.name: _KIND_OF.get(field.type, -1) for field in CONTROL_SCHEMA} | {"members": None}
    whole = [
        empty_row | {name: list(value) if isinstance(value, tuple) else value for name, value in one.items()}
        for one in rows
    ]
    return pa.concat_tables([pa.Table.from_pylist(whole, CONTROL_SCHEMA), *batches])


def _of_record(one: MetadataRecord) -> dict[str, Any]:
    row = {name: getattr(one, name) for name in ("topic_id", "partition", "topic", "offset", "partition_epoch")}
    leader = NOT_CHANGED if one.leader is None else one.leader
    return row | {
        "kind": RECORD,
        "event": one.what,
        "epoch": one.leader_epoch,
        "leader": leader,
        "members": one.isr,
        "facts": "" if one.facts is None else msgspec.json.encode(one.facts).decode(),
    }


ControlFacts = tuple[QuorumFacts | None, list[Replica], list[MetadataRecord], list[TraceEvent]]


def control_in(table: pa.Table) -> ControlFacts:
    """Read the facts from a table of the control plane."""
    kinds = np.asarray(table["kind"].to_pylist(), dtype=object)

    def rows(kind: str) -> list[dict[str, Any]]:
        return table.take(pa.array(np.flatnonzero(kinds == kind))).to_pylist()  # type: ignore[no-any-return]

    said = [
        QuorumFacts(leader=one["node"], epoch=one["epoch"], committed=one["offset"], voters=tuple(one["members"]))
        for one in rows(QUORUM)
    ]
    records = [
        MetadataRecord(
            **{name: one[name] for name in ("offset", "topic_id", "partition", "topic", "partition_epoch")},
            what=one["event"],
            leader=None if one["leader"] == NOT_CHANGED else one["leader"],
            isr=None if one["members"] is None else tuple(one["members"]),
            leader_epoch=one["epoch"],
            facts=msgspec.json.decode(one["facts"], type=RecordFacts) if one.get("facts") else None,
        )
        for one in rows(RECORD)
    ]
    events = [
        TraceEvent(
            **{name: one[name] for name in TraceEvent.__dataclass_fields__} | {"members": tuple(one["members"] or ())}
        )
        for one in rows(TRACE)
    ]
    return (said[0] if said else None), _logs_in(table, kinds, rows(LOG)), records, events


def _logs_in(table: pa.Table, kinds: Any, logs: Iterable[Mapping[str, Any]]) -> list[Replica]:
    batches = table.take(pa.array(np.flatnonzero(kinds == LOG_BATCH)))
    columns = {name: np.asarray(batches["offset" if name == "base" else name], np.int64) for name in BATCH_COLUMNS}
    nodes = np.asarray(batches["node"], np.int64)
    return [
        Replica(
            topic="__cluster_metadata",
            partition=0,
            topic_id="",
            host=one["host"],
            node=one["node"],
            in_sync=False,
            live=one["live"],
            collected=not one["role"],
            start=one["offset"],
            end=one["last"] + 1,
            problem=one["problem"],
            files=_lines(one.get("facts")),
            batches=Batches(*(columns[name][nodes == one["node"]] for name in BATCH_COLUMNS)),
        )
        for one in logs
    ]

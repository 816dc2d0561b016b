"""Build the tables that the checks of replicas and control plane read, from what nodes reported about their logs.

Input are the files that `node_records.py` fetched: a digest per host (`nodes/server/digest.py`), a control trace per
host (`nodes/server/trace.py`), and the earlier responses of the cluster: the quorum's leader and committed end, the
high watermarks that brokers had checkpointed, the markers of the final reads. No I/O but reading those files.

The order of these steps ensures that no replica is required to have more than it must:

    quorum (1)  →  high watermarks on disk  →  quorum (2)  →  every log

The committed ISR is that of (2). Every member of it then has all that was below any earlier high watermark, and all
that was acknowledged earlier; logs are read after that. A high watermark counts only for a topic that existed, with the
same id, at (1): the file has names only.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from squall.harness.scenario.suite import Scenario
from squall.nodes.protocol.topic_partition import METADATA_TOPIC, format_id
from squall.results.checkers.replicas.control import (
    LINES_LOST,
    NODE_STARTED,
    TORN_LINE,
    VOTE,
    QuorumFacts,
    TraceEvent,
)
from squall.results.checkers.replicas.metadata import MetadataRecord, RecordFacts, States, replayed
from squall.results.checkers.replicas.replica import BATCH_COLUMNS, Batches, Replica
from squall.results.checkers.replicas.tables import Columns, control_table, replica_table

TRACED: Final = frozenset(
    {NODE_STARTED, LINES_LOST, "state", "high_watermark", "truncate", "leader", "follower", "isr", VOTE}
)
"""The events of a control trace that are checked."""
RETENTION: Final = "retention"
_FURTHER: Final = ("producer_id", "producer_epoch", "sequence", "flags")
TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class DescribedLog:
    """One log of a host."""

    topic: str
    partition: int
    topic_id: str
    start: int
    end: int
    problem: str
    batches: Batches
    further: Columns
    files: tuple[str, ...] = ()
    """Which files beside the log contradict its batches, and how."""


@dataclass(frozen=True)
class Described:
    """What a host reported about its logs, or why it did not."""

    host: str
    node: int
    live: bool
    problem: str = ""
    logs: tuple[DescribedLog, ...] = ()
    records: tuple[dict[str, Any], ...] = ()

    @property
    def metadata(self) -> DescribedLog | None:
        return next((one for one in self.logs if one.topic == METADATA_TOPIC), None)


@dataclass(frozen=True)
class Asked:
    """What the cluster reported before logs were read.

    `quorums`: at (1) and (2) of the module. `watermarks`: by node the content of its checkpoint of high watermarks,
    None where it could not be read. `ends`: by topic-partition the end of what final reads have shown to be
    acknowledged.
    """

    quorums: tuple[QuorumFacts, QuorumFacts]
    watermarks: Mapping[int, Mapping[TopicPartition, int] | None]
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    removal: bool = False
    """Whether records of any topic may be removed from the front of its log."""
    damaged: bool = False
    """Whether a fault may have damaged files: then those beside a log need not agree with it."""
    deleted: Collection[str] = ()
    """Topics whose records others than the load may have deleted."""


class TornDigest(Exception):
    """A digest that is damaged, or not complete."""


# -- reading ---------------------------------------------------------------------------------------------------


def read_digest(path: Path) -> tuple[tuple[DescribedLog, ...], tuple[dict[str, Any], ...]]:
    """Read the logs and metadata records of a host's digest. Raises TornDigest and OSError."""
    logs: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    records: list[dict[str, Any]] = []
    ended = None
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                one = json.loads(line)
                match one["kind"]:
                    case "replica":
                        logs.append((one, []))
                    case "batches":
                        logs[-1][1].append(one)
                    case "record":
                        records.append(one)
                    case "end":
                        ended = one["replicas"]
        described = tuple(_described(facts, parts) for facts, parts in logs)
    except (ValueError, KeyError, TypeError, IndexError, EOFError, zlib.error, gzip.BadGzipFile) as trouble:
        raise TornDigest(f"{path.name}: is damaged: {trouble}") from None
    if ended != len(logs):
        raise TornDigest(f"{path.name}: is not complete")
    return described, tuple(records)


def _described(facts: Mapping[str, Any], parts: list[dict[str, Any]]) -> DescribedLog:
    columns = {
        name: np.array([one for part in parts for one in part[name]], np.int64) for name in (*BATCH_COLUMNS, *_FURTHER)
    }
    return DescribedLog(
        topic=facts["topic"],
        partition=facts["partition"],
        topic_id=facts["topic_id"],
        start=facts["start"],
        end=facts["end"],
        problem=facts["problem"] or "",
        batches=Batches(*(columns[name] for name in BATCH_COLUMNS)),
        further={name: columns[name] for name in _FURTHER},  # type: ignore[misc]
        files=tuple(facts.get("files", ())),  # a system of a package may describe its logs without them
    )


def read_trace(path: Path, host: str, node: int) -> Iterator[TraceEvent]:
    """Yield the events of a host's control trace that are checked.

    The half line of a killed node is a separate event.
    """
    incarnation = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                said = json.loads(line)
                event = said["event"]
            except (ValueError, KeyError, TypeError):
                yield TraceEvent(host=host, node=node, incarnation=incarnation, event=TORN_LINE)
                continue
            incarnation += event == NODE_STARTED
            if event in TRACED:
                yield traced(said, host, node, incarnation)


def traced(said: Mapping[str, Any], host: str, node: int, incarnation: int) -> TraceEvent:
    """Return a line of a control trace as an event; bytes in it are in hexadecimal form."""
    event = said["event"]
    offset = said.get("end" if event == "truncate" and "topic" not in said else "offset", said.get("lines", -1))
    topic_id = said.get("topic_id", "")
    return TraceEvent(
        host=host,
        node=node,
        incarnation=incarnation,
        event=event,
        role=said.get("role", ""),
        topic=said.get("topic", ""),
        topic_id=format_id(bytes.fromhex(topic_id)) if topic_id else "",
        partition=said.get("partition", -1),
        epoch=said.get("leader_epoch" if event == "isr" else "epoch", -1),
        partition_epoch=said.get("partition_epoch", -1),
        offset=offset,
        members=(said["candidate"],) if event == VOTE else tuple(said.get("isr", ())),
    )


def parse_watermarks(text: str) -> dict[TopicPartition, int]:
    """Parse Kafka's checkpoint of high watermarks."""
    found = {}
    for entry in (line.split() for line in text.splitlines()[2:]):
        if len(entry) == 3 and entry[1].isdecimal() and entry[2].isdecimal():
            found[entry[0], int(entry[1])] = int(entry[2])
    return found


def committed_ends(reads: Iterable[Mapping[str, Any]], scenario: Scenario) -> dict[tuple[str, int], int]:
    """Return a lower bound of the committed end by topic-partition: the offset after its marker.

    The marker counts once it was read, because consumers read only what is committed, or once all in-sync replicas
    acknowledged it.
    """
    by_all = scenario.workload.model_dump().get("acks") == "all"
    return {
        (one["topic"], one["partition"]): one["marker_offset"] + 1
        for one in reads
        if one["marker_offset"] is not None and (one["complete"] or by_all)
    }


# -- tables ----------------------------------------------------------------------------------------------------


def tables_of(asked: Asked, described: Iterable[Described], events: Iterable[TraceEvent]) -> tuple[pa.Table, pa.Table]:
    """Return the tables of replicas and of the control plane."""
    hosts = [_without_files(one) for one in described] if asked.damaged else list(described)
    quorum = asked.quorums[1]
    source = next((one for one in hosts if one.node == quorum.leader), None)
    said = () if source is None else source.records
    records = [_record_of(one) for one in said if one["what"] != RETENTION]
    with_retention = {one["topic"] for one in said if one["what"] == RETENTION}
    replicas = list(_replicas(asked, records, with_retention, hosts))
    control = control_table(quorum, [_metadata_log(one) for one in hosts], records, events)
    return replica_table(replicas), control


def _without_files(one: Described) -> Described:
    return replace(one, logs=tuple(replace(log, files=()) for log in one.logs))


def _record_of(said: Mapping[str, Any]) -> MetadataRecord:
    return MetadataRecord(
        offset=said["offset"],
        what=said["what"],
        topic_id=said.get("topic_id", ""),
        partition=said.get("partition", -1),
        topic=said.get("topic", ""),
        leader=said.get("leader"),
        isr=tuple(said["isr"]) if "isr" in said else None,
        leader_epoch=said.get("leader_epoch", -1),
        partition_epoch=said.get("partition_epoch", -1),
        facts=msgspec.convert(said["facts"], RecordFacts) if "facts" in said else None,
    )


def _metadata_log(one: Described) -> Replica:
    log = one.metadata
    problem = one.problem or ("" if log is not None else "has no metadata log")
    return Replica(
        topic=METADATA_TOPIC,
        partition=0,
        topic_id="",
        host=one.host,
        node=one.node,
        in_sync=False,
        live=one.live,
        collected=log is not None,
        start=0 if log is None else log.start,
        end=0 if log is None else log.end,
        problem=problem if log is None else log.problem,
        batches=Batches() if log is None else log.batches,
        files=() if log is None else log.files,
    )


def _replicas(
    asked: Asked, records: list[MetadataRecord], with_retention: set[str], hosts: list[Described]
) -> Iterator[tuple[Replica, Columns]]:
    """Yield every replica that committed metadata names as in sync, and every other log that a host has."""
    before, now = (replayed(records, one.committed) for one in asked.quorums)
    removed = {*with_retention, *asked.deleted}
    logs = {
        (log.topic_id, log.partition, one.node): log for one in hosts for log in one.logs if log.topic != METADATA_TOPIC
    }
    for (topic_id, partition), state in now.now.items():
        required = _required(asked, before, (topic_id, partition), (state.topic, partition), state.isr)
        for one in hosts:
            log = logs.pop((topic_id, partition, one.node), None)
            in_sync = one.node in state.isr
            if log is None and not in_sync:
                continue
            yield (
                Replica(
                    topic=state.topic,
                    partition=partition,
                    topic_id=topic_id,
                    host=one.host,
                    node=one.node,
                    in_sync=in_sync,
                    live=one.live,
                    leads=one.node == state.leader,
                    collected=not one.problem,
                    start=0 if log is None else log.start,
                    end=0 if log is None else log.end,
                    required=required,
                    removal=asked.removal or state.topic in removed,
                    problem=one.problem or ("has no log of it" if log is None else log.problem),
                    batches=Batches() if log is None else log.batches,
                    files=() if log is None else log.files,
                ),
                {} if log is None else log.further,
            )
    names = {one.node: one for one in hosts}
    for (topic_id, partition, node), log in logs.items():
        yield _left_over(names[node], topic_id, partition, log), log.further


def _required(asked: Asked, before: States, key: tuple[str, int], place: TopicPartition, isr: tuple[int, ...]) -> int:
    """Return the offset below which every in-sync replica must have all; -1 if it is unknown."""
    told = [one for node in isr if (one := asked.watermarks.get(node)) is not None]
    ends = [one.get(place, 0) for one in told] if key in before.now else [0] * len(told)
    return max([*ends, asked.ends.get(place, -1)], default=-1)


def _left_over(one: Described, topic_id: str, partition: int, log: DescribedLog) -> Replica:
    """Return a log that committed metadata does not name: its topic is deleted, or not yet deleted on this host."""
    return Replica(
        topic=log.topic,
        partition=partition,
        topic_id=topic_id,
        host=one.host,
        node=one.node,
        in_sync=False,
        live=one.live,
        start=log.start,
        end=log.end,
        problem=log.problem,
        batches=log.batches,
        files=log.files,
    )

"""`python -m squall.nodes.server.digest DIRECTORY OUT`: describe every log in a log directory, batch by batch.

To compare replicas a checker does not need their bytes. It needs the offsets of each batch, the leader epoch in which
it was appended, and a digest of its content (HX-05). This program writes these as gzipped JSON lines:

    {"kind": "replica", "topic", "partition", "topic_id", "start", "end", "high_watermark", "epochs", "problem",
     "files": […]}
    {"kind": "batches", "base": […], "last": […], "epoch": […], "digest": […], …}      columns, of the replica before
    {"kind": "record", "offset", "what", …}       of `__cluster_metadata`: what it says
    {"kind": "end", "replicas": n}                the file is complete

It reads the files of a running or stopped node as they are and changes none. A log of a running node may lose a segment
or its tail meanwhile (retention, truncation): such a log is read again, `ATTEMPTS` times. Bytes that are not a batch
end the log; `problem` in the line of the replica states where and why. `files` states which files beside the log
contradict its batches, and how (`log_files.py`).

The digest is CRC-32 over the part of a batch that its own CRC-32C covers: the standard library computes it at memory
speed on every host. `sound` states whether the batch's stored CRC-32C is right: 1 yes, 0 no, -1 not computed, because
the host lacks the `crc32c` wheel.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from squall.nodes.metadata.records import (
    NO_LEADER_CHANGE,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    decode_record,
)
from squall.nodes.protocol.crc import IMPLEMENTATION
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.records import HEADER_SIZE, BatchHeader, crc_ok
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import METADATA_PARTITION, format_id
from squall.nodes.protocol.value_batches import parse_values
from squall.nodes.protocol.wire import read_uvarint
from squall.nodes.server.log_files import (
    Place,
    Produced,
    epochs_problem,
    offset_index_problem,
    producers_problem,
    time_index_problem,
)
from squall.nodes.storage.producers import advance_sequence

ATTEMPTS = 5
AGAIN_SECONDS = 0.2
WINDOW_BYTES = 8 << 20
BATCHES_PER_LINE = 10_000
COVERED_FROM = 21
"""Where the part of a batch covered by its CRC-32C begins: after base offset, length, epoch, format and the sum."""
TRANSACTIONAL, CONTROL = 1, 2
TOPIC_RESOURCE = 2
TOPIC_RECORDS = frozenset(
    kind.RECORD_ID for kind in (TopicRecord, RemoveTopicRecord, ConfigRecord, PartitionRecord, PartitionChangeRecord)
)
"""Without these it is not known which replicas are in sync."""
DESCRIBED_RECORDS = TOPIC_RECORDS | frozenset(
    kind.RECORD_ID
    for kind in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        BrokerRegistrationChangeRecord,
        FeatureLevelRecord,
        ProducerIdsRecord,
    )
)
NO_BATCH = -1
COLUMNS = (
    *("base", "last", "epoch", "digest", "count", "producer_id", "producer_epoch", "sequence", "flags", "sound"),
)
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 254
Row = tuple[int, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="squall-digest", description="Describe every log below a log directory.")
    parser.add_argument("directory", help="a node's log.dirs")
    parser.add_argument("out", help="the file to write, gzipped JSON lines")
    parser.add_argument(
        "--delayed-starts",
        action="store_true",
        help="the node writes raised log starts down at intervals (Apache Kafka does), not at once",
    )
    options = parser.parse_args(arguments)
    directory, out = Path(options.directory), Path(options.out)
    if not directory.is_dir():
        print(f"squall-digest: {directory}: is not a directory; name the node's log.dirs", file=sys.stderr)
        return EXIT_USAGE
    draft = out.with_name(out.name + ".new")
    try:
        with gzip.open(draft, "wt", compresslevel=1, encoding="utf-8") as file:
            describe(directory, file, delayed_starts=options.delayed_starts)
        draft.replace(out)
    except OSError as trouble:
        print(f"squall-digest: {trouble}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_OK


def describe(directory: Path, out: TextIO, *, delayed_starts: bool = False) -> None:
    """Write the lines of all logs in `directory`. See `main` for `delayed_starts`."""
    offsets = {name: _offsets(directory / name) for name in (HIGH_WATERMARKS, LOG_STARTS)}
    found = 0
    for log in sorted(one for one in directory.iterdir() if one.is_dir()):
        topic, _, number = log.name.rpartition("-")
        if not topic or not number.isdecimal():
            continue
        place = (topic, int(number))
        whole = not delayed_starts and place != METADATA_PARTITION
        facts, batches = _steady(log, offsets[LOG_STARTS].get(place, 0), knows_start=whole)
        if facts is None:
            continue
        found += 1
        facts |= {
            "topic": topic,
            "partition": int(number),
            "topic_id": _properties(log / PARTITION_METADATA).get("topic_id", ""),
            "high_watermark": offsets[HIGH_WATERMARKS].get(place, -1),
        }
        _line(out, kind="replica", **facts)
        for first in range(0, len(batches), BATCHES_PER_LINE):
            columns = zip(*batches[first : first + BATCHES_PER_LINE], strict=True)
            _line(out, kind="batches", **{name: list(column) for name, column in zip(COLUMNS, columns, strict=True)})
        if place == METADATA_PARTITION:
            for record in _metadata(log, facts["start"]):
                _line(out, kind="record", **record)
    _line(out, kind="end", replicas=found)


def _line(out: TextIO, **fields: Any) -> None:
    out.write(json.dumps(fields, separators=(",", ":")) + "\n")


def _steady(log: Path, start: int, *, knows_start: bool) -> tuple[dict[str, Any] | None, list[Row]]:
    """The facts and batches of a log; None if it was removed. Reads again while the log changes."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(AGAIN_SECONDS)
        try:
            facts, batches = _read(log, start, knows_start=knows_start)
        except FileNotFoundError:
            if not log.exists():
                return None, []
            continue
        if (facts["problem"] is None and not facts["files"]) or attempt == ATTEMPTS - 1:
            return facts, batches
    gone = "its segments came and went while they were read"
    return {"start": start, "end": start, "problem": gone, "epochs": [], "files": []}, []


def _read(log: Path, start: int, *, knows_start: bool) -> tuple[dict[str, Any], list[Row]]:
    """The facts and batches of a log. `knows_start`: the log begins at `start`, or with its first segment.

    Raises FileNotFoundError if a segment is removed meanwhile.
    """
    segments = _segments(log)
    epochs = _epochs(log / LEADER_EPOCHS)
    active = segments[-1][0] if segments else start
    batches: list[Row] = []
    files: list[str] = []
    problem = None
    for base, path in segments:
        places: list[Place] = []
        try:
            for header, view in batches_in(path):
                if batches and header.base_offset <= batches[-1][1]:
                    problem = f"{path.name}: a batch begins at {header.base_offset}, not after {batches[-1][1]}"
                    break
                batches.append(_row(header, view))
                position = places[-1].end if places else 0
                places.append(
                    Place(header.base_offset, header.last_offset, position, header.size, header.max_timestamp)
                )
        except ProtocolError as trouble:
            problem = f"{path.name}: {trouble}"
        if problem is not None:
            break
        if base < active:
            files += _index_problems(path, base, places)
    first = segments[0][0] if segments else start
    begins = max(start, first)
    batches = [one for one in batches if one[1] >= begins]
    sealed = [(one[0], one[2]) for one in batches if begins <= one[0] < active]
    wrong = epochs_problem(epochs, sealed, from_the_start=knows_start)
    files += [f"{LEADER_EPOCHS} {wrong}"] if wrong is not None else []
    files += _snapshot_problems(log, batches)
    end = batches[-1][1] + 1 if batches else begins
    return {"start": begins, "end": end, "problem": problem, "epochs": epochs, "files": files}, batches


def _index_problems(segment: Path, base: int, places: Sequence[Place]) -> list[str]:
    """How the indexes of a sealed segment contradict its batches."""
    found = []
    for suffix, problem_of in ((".index", offset_index_problem), (".timeindex", time_index_problem)):
        path = segment.with_suffix(suffix)
        content = _content(path)
        problem = None if content is None else problem_of(content, base, places)
        found += [f"{path.name} {problem}"] if problem is not None else []
    return found


def _snapshot_problems(log: Path, batches: Sequence[Row]) -> list[str]:
    """How the snapshots of producers contradict the batches."""
    found = []
    produced = [_produced(one) for one in batches]
    for path in sorted(log.glob("*.snapshot")):
        content = _content(path)
        problem = None if content is None else producers_problem(content, produced)
        found += [f"{path.name} {problem}"] if problem is not None else []
    return found


def _produced(row: Row) -> Produced:
    base, last, producer, epoch, sequence = row[0], row[1], row[5], row[6], row[7]
    return Produced(last, producer, epoch, -1 if sequence < 0 else advance_sequence(sequence, last - base))


def _segments(log: Path) -> list[tuple[int, Path]]:
    return sorted((int(path.stem), path) for path in log.glob("*.log") if path.stem.isdecimal())


def _row(header: BatchHeader, batch: memoryview) -> Row:
    flags = TRANSACTIONAL * header.is_transactional | CONTROL * header.is_control
    sound = -1 if IMPLEMENTATION == "python" else int(crc_ok(batch))
    return (
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        zlib.crc32(batch[COVERED_FROM:]),
        header.count,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        flags,
        sound,
    )


def batches_in(path: Path) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Header and content of every batch of a file, read by windows.

    Raises ProtocolError where bytes are not a batch.
    """
    with path.open("rb") as file:
        rest, position, at_end = b"", 0, False
        while not at_end:
            more = file.read(max(WINDOW_BYTES, len(rest)))
            at_end = not more
            view = memoryview(rest + more)
            taken = 0
            while len(view) - taken >= HEADER_SIZE:
                header = BatchHeader.read(view, taken)
                if taken + header.size > len(view):
                    break
                yield header, view[taken : taken + header.size]
                taken += header.size
            rest = bytes(view[taken:])
            position += taken
        if rest:
            raise ProtocolError(f"the last {len(rest)} bytes, from {position} on, are an incomplete batch")


# -- metadata --------------------------------------------------------------------------------------------------


def _metadata(log: Path, start: int) -> list[dict[str, Any]]:
    """The metadata records of a log, first those of the snapshot before it. Reads again while files come and go.

    Raises FileNotFoundError if they never stay long enough.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(AGAIN_SECONDS)
        found: list[dict[str, Any]] = []
        try:
            for offset, place, value in _metadata_values(log, start):
                found += _of_record(offset, place, value)
        except FileNotFoundError:
            continue
        except ProtocolError:
            pass  # the replica's line reports it
        return found
    raise FileNotFoundError(f"{log}: its segments and snapshots came and went while they were read")


def _metadata_values(log: Path, start: int) -> Iterator[tuple[int, dict[str, int], bytes]]:
    """Offset, offset and epoch of the batch, and value of every metadata record. Those of a snapshot are in no batch.

    Raises ProtocolError where bytes are not a batch, and FileNotFoundError if a file is removed meanwhile, which
    leaves a gap.
    """
    ends = {int(path.name[:20]): path for path in log.glob("*.checkpoint")}
    end = min((one for one in ends if one >= start), default=0) if start > 0 else 0
    if end > 0:
        for header, batch in batches_in(ends[end]):
            for value in () if header.is_control else parse_values(batch):
                yield end - 1, {"batch": NO_BATCH}, value
    for _, path in _segments(log):
        for header, batch in batches_in(path):
            if header.base_offset > end:
                raise FileNotFoundError(f"{log}: nothing from offset {end} to {header.base_offset - 1}")
            values = () if header.is_control else parse_values(batch)
            place = {"batch": header.base_offset, "epoch": header.leader_epoch}
            for offset, value in enumerate(values, header.base_offset):
                if offset >= end:
                    yield offset, place, value
            end = max(end, header.last_offset + 1)


def _of_record(offset: int, place: dict[str, int], value: bytes) -> Iterator[dict[str, Any]]:
    """What a record says, in the names of `results/checkers/replicas/metadata.py`."""
    kind = _record_id(value)
    if kind not in DESCRIBED_RECORDS:
        return  # of something else; the metadata of Apache Kafka has kinds that our nodes do not
    try:
        record = decode_record(value)
    except ProtocolError:
        if kind in TOPIC_RECORDS:
            raise
        yield {"offset": offset, "what": "unread", "facts": place}
        return
    if isinstance(record, ConfigRecord) and _sets_retention(record):
        yield {"offset": offset, "what": "retention", "topic": record.resource_name}
    said = _of_topic(record) or _of_cluster(record)
    if said is not None:
        yield {"offset": offset} | said | {"facts": place | said.get("facts", {})}


def _sets_retention(record: ConfigRecord) -> bool:
    of_topic = record.resource_type == TOPIC_RESOURCE and record.name.startswith("retention.")
    return of_topic and record.value is not None


def _of_topic(record: Message) -> dict[str, Any] | None:
    """What a record says of a topic or its partitions; None if it concerns something else."""
    if isinstance(record, TopicRecord):
        return {"what": "topic", "topic_id": format_id(record.topic_id), "topic": record.name}
    if isinstance(record, RemoveTopicRecord):
        return {"what": "topic_removed", "topic_id": format_id(record.topic_id)}
    if isinstance(record, PartitionRecord):
        return _of_partition("partition", record) | {
            "leader": record.leader,
            "leader_epoch": record.leader_epoch,
            "partition_epoch": record.partition_epoch,
        }
    if isinstance(record, PartitionChangeRecord):
        named = record.leader != NO_LEADER_CHANGE
        return _of_partition("change", record) | ({"leader": record.leader} if named else {})
    return None


def _of_cluster(record: Message) -> dict[str, Any] | None:
    """What a record says of brokers, settings, features or producer ids."""
    if isinstance(record, RegisterBrokerRecord):
        stopping = record.in_controlled_shutdown
        facts = {"number": record.broker_epoch, "fenced": record.fenced, "stopping": stopping}
        return {"what": "broker", "facts": {"broker": record.broker_id} | facts}
    if isinstance(record, UnregisterBrokerRecord):
        return {"what": "broker_removed", "facts": {"broker": record.broker_id}}
    if isinstance(record, FenceBrokerRecord | UnfenceBrokerRecord):
        fenced = isinstance(record, FenceBrokerRecord)
        return {"what": "broker_changed", "facts": {"broker": record.id, "fenced": fenced}}
    if isinstance(record, BrokerRegistrationChangeRecord):
        changed: dict[str, Any] = {"broker": record.broker_id}
        changed |= {"fenced": record.fenced > 0} if record.fenced else {}
        changed |= {"stopping": True} if record.in_controlled_shutdown > 0 else {}
        return {"what": "broker_changed", "facts": changed}
    if isinstance(record, ConfigRecord):
        resource = [record.resource_type, record.resource_name]
        return {"what": "setting", "facts": {"resource": resource, "name": record.name, "value": record.value}}
    if isinstance(record, FeatureLevelRecord):
        return {"what": "feature", "facts": {"name": record.name, "number": record.feature_level}}
    if isinstance(record, ProducerIdsRecord):
        return {"what": "producer_ids", "facts": {"number": record.next_producer_id}}
    return None


def _record_id(value: bytes) -> int:
    """Which kind of record it is, after the version of its frame; -1 for a cut-off one."""
    try:
        _, position = read_uvarint(memoryview(value), 0)
        return read_uvarint(memoryview(value), position)[0]
    except IndexError:
        return -1


def _of_partition(what: str, record: PartitionRecord | PartitionChangeRecord) -> dict[str, Any]:
    said: dict[str, Any] = {"what": what, "topic_id": format_id(record.topic_id), "partition": record.partition_id}
    if record.isr is not None:
        said["isr"] = list(record.isr)
    if record.leader_recovery_state > 0:
        said["unclean"] = True
    members = {
        "replicas": record.replicas,
        "adding": record.adding_replicas,
        "removing": record.removing_replicas,
        "eligible": record.eligible_leader_replicas,
        "last_known": record.last_known_elr,
    }
    facts: dict[str, Any] = {name: list(stated) for name, stated in members.items() if stated is not None}
    if record.leader_recovery_state >= 0:
        facts["recovery"] = record.leader_recovery_state
    if record.directories is not None:
        facts["directories"] = len(record.directories)
    return said | {"facts": facts}


# -- small files -----------------------------------------------------------------------------------------------


def _content(path: Path) -> bytes | None:
    """The content of a file; None if it is missing or unreadable."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _entries(path: Path) -> list[list[str]]:
    """The entries of a checkpoint file; none if the file is missing or unreadable."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line.split() for line in lines[2:]]


def _offsets(path: Path) -> dict[tuple[str, int], int]:
    found = {}
    for entry in _entries(path):
        if len(entry) == 3 and entry[1].isdecimal() and entry[2].isdecimal():
            found[entry[0], int(entry[1])] = int(entry[2])
    return found


def _epochs(path: Path) -> list[list[int]]:
    return [[int(one) for one in entry] for entry in _entries(path) if all(part.isdecimal() for part in entry)]


def _properties(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    split = (re.split("[=:]", one, maxsplit=1) for one in lines)  # Apache Kafka writes `name: value`
    return {one[0].strip(): one[1].strip() for one in split if len(one) == 2}


if __name__ == "__main__":
    sys.exit(main())

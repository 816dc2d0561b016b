"""`python -m squall.nodes.server.digest DIRECTORY OUT`: describe every log in a log directory, batch by batch.

To compare replicas a checker does not need their bytes. It needs the offsets of each batch, the leader epoch in which
it was appended, and a digest of its content (HX-05). This program writes these as gzipped JSON lines:

    {"kind": "replica", "topic", "partition", "topic_id", "start", "end", "high_watermark", "epochs", "problem"}
    {"kind": "batches", "base": […], "last": […], "epoch": […], "digest": […], …}      columns, of the replica before
    {"kind": "record", "offset", "what", …}       of `__cluster_metadata`: what concerns topics and their partitions
    {"kind": "end", "replicas": n}                the file is complete

It reads the files of a running or stopped node as they are and changes none. A log of a running node may lose a segment
or its tail meanwhile (retention, truncation): such a log is read again, `ATTEMPTS` times. Bytes that are not a batch
end the log; `problem` in the line of the replica states where and why.

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
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_record,
)
from squall.nodes.protocol.crc import IMPLEMENTATION
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.records import HEADER_SIZE, BatchHeader, crc_ok
from squall.nodes.protocol.topic_partition import METADATA_PARTITION, format_id
from squall.nodes.protocol.value_batches import parse_values
from squall.nodes.protocol.wire import read_uvarint

ATTEMPTS = 5
AGAIN_SECONDS = 0.2
WINDOW_BYTES = 8 << 20
BATCHES_PER_LINE = 10_000
COVERED_FROM = 21
"""Where the part of a batch covered by its CRC-32C begins: after base offset, length, epoch, format and the sum."""
TRANSACTIONAL, CONTROL = 1, 2
TOPIC_RESOURCE = 2
DESCRIBED_RECORDS = frozenset(
    kind.RECORD_ID for kind in (TopicRecord, RemoveTopicRecord, ConfigRecord, PartitionRecord, PartitionChangeRecord)
)
COLUMNS = (
    *("base", "last", "epoch", "digest", "count", "producer_id", "producer_epoch", "sequence", "flags", "sound"),
)
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

EXIT_OK, EXIT_USAGE = 0, 254
Row = tuple[int, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="squall-digest", description="Describe every log below a log directory.")
    parser.add_argument("directory", help="a node's log.dirs")
    parser.add_argument("out", help="the file to write, gzipped JSON lines")
    options = parser.parse_args(arguments)
    directory, out = Path(options.directory), Path(options.out)
    if not directory.is_dir():
        print(f"squall-digest: {directory}: is not a directory; name the node's log.dirs", file=sys.stderr)
        return EXIT_USAGE
    draft = out.with_name(out.name + ".new")
    with gzip.open(draft, "wt", compresslevel=1, encoding="utf-8") as file:
        describe(directory, file)
    draft.replace(out)
    return EXIT_OK


def describe(directory: Path, out: TextIO) -> None:
    """Write the lines of all logs in `directory`."""
    offsets = {name: _offsets(directory / name) for name in (HIGH_WATERMARKS, LOG_STARTS)}
    found = 0
    for log in sorted(one for one in directory.iterdir() if one.is_dir()):
        topic, _, number = log.name.rpartition("-")
        if not topic or not number.isdigit():
            continue
        place = (topic, int(number))
        facts, batches = _steady(log, offsets[LOG_STARTS].get(place, 0))
        if facts is None:
            continue
        found += 1
        facts |= {
            "topic": topic,
            "partition": int(number),
            "topic_id": _properties(log / PARTITION_METADATA).get("topic_id", ""),
            "high_watermark": offsets[HIGH_WATERMARKS].get(place, -1),
            "epochs": _epochs(log / LEADER_EPOCHS),
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


def _steady(log: Path, start: int) -> tuple[dict[str, Any] | None, list[Row]]:
    """The facts and batches of a log; None if it was removed. Reads again while the log changes."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(AGAIN_SECONDS)
        try:
            facts, batches = _read(log, start)
        except FileNotFoundError:
            if not log.exists():
                return None, []
            continue
        if facts["problem"] is None or attempt == ATTEMPTS - 1:
            return facts, batches
    return {"start": start, "end": start, "problem": "its segments came and went while they were read"}, []


def _read(log: Path, start: int) -> tuple[dict[str, Any], list[Row]]:
    """Raises FileNotFoundError if a segment is removed meanwhile."""
    segments = _segments(log)
    batches: list[Row] = []
    problem = None
    for _, path in segments:
        try:
            for header, view in batches_in(path):
                if batches and header.base_offset <= batches[-1][1]:
                    problem = f"{path.name}: a batch begins at {header.base_offset}, not after {batches[-1][1]}"
                    break
                batches.append(_row(header, view))
        except ProtocolError as trouble:
            problem = f"{path.name}: {trouble}"
        if problem is not None:
            break
    first = segments[0][0] if segments else start
    begins = max(start, first)
    batches = [one for one in batches if one[1] >= begins]
    return {"start": begins, "end": batches[-1][1] + 1 if batches else begins, "problem": problem}, batches


def _segments(log: Path) -> list[tuple[int, Path]]:
    return sorted((int(path.stem), path) for path in log.glob("*.log") if path.stem.isdigit())


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


def _metadata(log: Path, start: int) -> Iterator[dict[str, Any]]:
    """Metadata records about topics, their partitions and ISRs; first those of the snapshot before the log."""
    snapshot = min(log.glob("*.checkpoint"), default=None)
    end = 0
    if snapshot is not None and start > 0:
        end = int(snapshot.name[:20])
        for header, batch in batches_in(snapshot):
            for value in () if header.is_control else parse_values(batch):
                yield from _of_record(end - 1, value)
    try:
        for _, path in _segments(log):
            for header, batch in batches_in(path):
                for offset, value in enumerate(() if header.is_control else parse_values(batch), header.base_offset):
                    if offset >= end:
                        yield from _of_record(offset, value)
    except (ProtocolError, FileNotFoundError):
        return  # the replica's line reports it, or a newer snapshot has replaced the removed segment


def _of_record(offset: int, value: bytes) -> Iterator[dict[str, Any]]:
    if _record_id(value) not in DESCRIBED_RECORDS:
        return  # of something else; the metadata of Apache Kafka has kinds that our nodes do not
    record = decode_record(value)
    if isinstance(record, TopicRecord):
        yield {"offset": offset, "what": "topic", "topic_id": format_id(record.topic_id), "topic": record.name}
    elif isinstance(record, RemoveTopicRecord):
        yield {"offset": offset, "what": "topic_removed", "topic_id": format_id(record.topic_id)}
    elif isinstance(record, ConfigRecord):
        if record.resource_type == TOPIC_RESOURCE and record.name.startswith("retention.") and record.value is not None:
            yield {"offset": offset, "what": "retention", "topic": record.resource_name}
    elif isinstance(record, PartitionRecord):
        yield _of_partition(offset, "partition", record) | {
            "leader": record.leader,
            "leader_epoch": record.leader_epoch,
            "partition_epoch": record.partition_epoch,
        }
    elif isinstance(record, PartitionChangeRecord):
        named = record.leader != NO_LEADER_CHANGE
        yield _of_partition(offset, "change", record) | ({"leader": record.leader} if named else {})


def _record_id(value: bytes) -> int:
    """Which kind of record it is, after the version of its frame; -1 for a cut-off one."""
    try:
        _, position = read_uvarint(memoryview(value), 0)
        return read_uvarint(memoryview(value), position)[0]
    except IndexError:
        return -1


def _of_partition(offset: int, what: str, record: PartitionRecord | PartitionChangeRecord) -> dict[str, Any]:
    said: dict[str, Any] = {"offset": offset, "what": what, "topic_id": format_id(record.topic_id)}
    said |= {"partition": record.partition_id}
    if record.isr is not None:
        said["isr"] = list(record.isr)
    if record.leader_recovery_state > 0:
        said["unclean"] = True
    return said


# -- small files -----------------------------------------------------------------------------------------------


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
        if len(entry) == 3 and entry[1].isdigit() and entry[2].isdigit():
            found[entry[0], int(entry[1])] = int(entry[2])
    return found


def _epochs(path: Path) -> list[list[int]]:
    return [[int(one) for one in entry] for entry in _entries(path) if all(part.isdigit() for part in entry)]


def _properties(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    split = (re.split("[=:]", one, maxsplit=1) for one in lines)  # Apache Kafka writes `name: value`
    return {one[0].strip(): one[1].strip() for one in split if len(one) == 2}


if __name__ == "__main__":
    sys.exit(main())

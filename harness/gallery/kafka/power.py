"""What a broker of Apache Kafka that has lost power finds on its disk, at worst.

Kafka states in `recovery-point-offset-checkpoint` up to which offset it has fsynced a topic-partition's log; what lies
beyond may be gone after a loss of power. Here it is: the log is cut there, and the indexes, which Kafka rebuilds, are
removed. The metadata log is left as it is, because KRaft fsyncs it before it answers.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CHECKPOINT: Final = "recovery-point-offset-checkpoint"
METADATA: Final = "__cluster_metadata-"
INDEXES: Final = ("*.index", "*.timeindex", "*.snapshot", "*.txnindex")
_BATCH: Final = struct.Struct(">qi")


def recovery_points(data: Path) -> dict[str, int]:
    """The fsynced end of each topic-partition's log, by the name of its directory; empty if none is written yet."""
    path = data / CHECKPOINT
    if not path.exists():
        return {}
    rows = [line.split() for line in path.read_text().splitlines()[2:]]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows}


def drop_unflushed(data: Path) -> int:
    """Cut every topic-partition's log at its recovery point. Returns how many bytes are gone."""
    points = recovery_points(data)
    gone = 0
    for directory in sorted(one for one in data.iterdir() if one.is_dir() and not one.name.startswith(METADATA)):
        segments = sorted(directory.glob("*.log"))
        for segment in segments:
            gone += _cut(segment, points.get(directory.name, 0))
        if segments:
            for pattern in INDEXES:
                for index in directory.glob(pattern):
                    index.unlink()
    return gone


def _cut(segment: Path, point: int) -> int:
    keep = sum(size for offset, size in _batches(segment) if offset < point)
    size = segment.stat().st_size
    os.truncate(segment, min(keep, size))
    return size - min(keep, size)


def _batches(segment: Path) -> Iterator[tuple[int, int]]:
    """Base offset and size of each batch, up to the end or to the zeros of a segment that was preallocated."""
    content = segment.read_bytes()
    position = 0
    while position + _BATCH.size <= len(content):
        offset, length = _BATCH.unpack_from(content, position)
        if length <= 0:
            return
        yield offset, _BATCH.size + length
        position += _BATCH.size + length

"""A log on a real disk, written by our storage and closed cleanly, for other people's tools to read."""

from __future__ import annotations

from pathlib import Path

from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.server.disk import RealDisk
from squall.nodes.storage.log import Log, LogConfig

PRODUCER, EPOCH = 42, 3


def written_log(directory: Path) -> Path:
    """The directory of topic-partition `t-0`: 200 batches of three records, of one producer, in several segments."""
    config = LogConfig(segment_bytes=8192, index_interval_bytes=400)
    log = Log.open(RealDisk(directory), "t-0", config, now_ms=0, trace=NullTrace())
    for number in range(200):
        records = [Record(value=b"v" * 20, timestamp=1_000_000 + number * 10 + at) for at in range(3)]
        batch = build_batch(records, producer_id=PRODUCER, producer_epoch=EPOCH, base_sequence=number * 3)
        log.append_as_leader(batch, 0, 0)
    log.close()
    return directory / "t-0"

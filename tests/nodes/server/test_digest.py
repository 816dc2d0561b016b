"""What a host says of its logs without their bytes (HX-05): every batch, where it stands, and what is damaged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from squall.nodes.metadata.records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
    encode_record,
)
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import BatchHeader, Record, build_batch
from squall.nodes.protocol.topic_partition import format_id
from squall.nodes.protocol.value_batches import build_value_batch
from squall.nodes.server import digest
from squall.nodes.server.disk import RealDisk
from squall.nodes.storage.checkpoints import write_offsets, write_properties
from squall.nodes.storage.log import Log, LogConfig

ID = bytes(range(16))


def log_of(root: Path, name: str, config: LogConfig | None = None) -> Log:
    return Log.open(RealDisk(root), name, config or LogConfig(segment_bytes=1000), now_ms=0, trace=NullTrace())


def filled(root: Path, batches: int = 20) -> Log:
    log = log_of(root, "events-3")
    for number in range(batches):
        log.append_as_leader(build_batch([Record(value=b"%08d" % number)] * 2), 4 + (number >= 10), 0)
    write_properties(RealDisk(root), "events-3/partition.metadata", {"version": "0", "topic_id": format_id(ID)})
    return log


def described(root: Path, out: Path) -> list[dict[str, Any]]:
    assert digest.main([str(root), str(out)]) == digest.EXIT_OK
    with gzip.open(out, "rt") as file:
        return [json.loads(line) for line in file]


def test_every_batch_of_every_segment_is_described(tmp_path: Path) -> None:
    """DP-01: offsets are dense from 0. QC-14: every batch has its leader epoch."""
    log = filled(tmp_path / "data")
    write_offsets(RealDisk(tmp_path / "data"), digest.HIGH_WATERMARKS, {("events", 3): 38})
    log.close()
    replica, batches, end = described(tmp_path / "data", tmp_path / "out.gz")
    assert len(list((tmp_path / "data/events-3").glob("*.log"))) > 1, "the log has several segments"
    assert (replica["topic"], replica["partition"], replica["topic_id"]) == ("events", 3, format_id(ID))
    assert (replica["start"], replica["end"], replica["high_watermark"]) == (0, 40, 38)
    assert replica["epochs"] == [[4, 0], [5, 20]]
    assert replica["problem"] is None
    assert batches["base"] == list(range(0, 40, 2))
    assert batches["last"] == list(range(1, 41, 2))
    assert batches["epoch"] == [4] * 10 + [5] * 10
    assert set(batches["count"]) == {2}
    assert len(set(batches["digest"])) == 20, "each batch has other content"
    assert end == {"kind": "end", "replicas": 1}


def test_a_changed_byte_changes_the_digest_and_is_unsound(tmp_path: Path) -> None:
    filled(tmp_path / "data").close()
    before = described(tmp_path / "data", tmp_path / "before.gz")[1]
    segment = tmp_path / "data/events-3/00000000000000000000.log"
    content = bytearray(segment.read_bytes())
    content[BatchHeader.read(content).size - 3] ^= 1
    segment.write_bytes(content)
    after = described(tmp_path / "data", tmp_path / "after.gz")[1]
    assert after["digest"][0] != before["digest"][0]
    assert after["digest"][1:] == before["digest"][1:]
    assert after["sound"][0] == 0
    assert set(after["sound"][1:]) == {1}


def test_a_log_ends_at_what_is_no_batch_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "AGAIN_SECONDS", 0.0)
    filled(tmp_path / "data", 3).close()
    segment = tmp_path / "data/events-3/00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-5])
    replica, batches, _ = described(tmp_path / "data", tmp_path / "out.gz")
    assert replica["end"] == 4
    assert "incomplete batch" in replica["problem"]
    assert batches["base"] == [0, 2]


def test_what_lies_before_the_log_start_is_left_out(tmp_path: Path) -> None:
    filled(tmp_path / "data").close()
    write_offsets(RealDisk(tmp_path / "data"), digest.LOG_STARTS, {("events", 3): 5})
    replica, batches, _ = described(tmp_path / "data", tmp_path / "out.gz")
    assert replica["start"] == 5
    assert batches["base"][0] == 4, "a batch that reaches over the start is still there"


def test_a_large_batch_is_read_across_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "WINDOW_BYTES", 100)
    filled(tmp_path / "data").close()
    assert described(tmp_path / "data", tmp_path / "out.gz")[1]["base"] == list(range(0, 40, 2))


def test_the_metadata_log_tells_of_topics_and_isrs(tmp_path: Path) -> None:
    """QC-26: it is a log like any other, and read by the same program."""
    log = log_of(tmp_path / "data", "__cluster_metadata-0")
    records = [
        TopicRecord(name="events", topic_id=ID),
        PartitionRecord(
            partition_id=3, topic_id=ID, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=0, partition_epoch=0
        ),
        PartitionChangeRecord(partition_id=3, topic_id=ID, isr=[2], leader=2),
        PartitionChangeRecord(partition_id=3, topic_id=ID, isr=[2, 1]),
        ConfigRecord(resource_type=2, resource_name="events", name="retention.ms", value="1"),
        ConfigRecord(resource_type=2, resource_name="events", name="segment.bytes", value="1000"),
    ]
    log.append_as_leader(build_value_batch([encode_record(one) for one in records], 0), 1, 0)
    log.close()
    told = [one for one in described(tmp_path / "data", tmp_path / "out.gz") if one["kind"] == "record"]
    assert [one["what"] for one in told] == ["topic", "partition", "change", "change", "retention"]
    assert [one["offset"] for one in told] == [0, 1, 2, 3, 4]
    assert {one["topic_id"] for one in told[:4]} == {format_id(ID)}
    assert told[1]["leader_epoch"] == 0
    assert told[2] == told[2] | {"leader": 2, "isr": [2]}
    assert "leader" not in told[3]


def test_no_directory_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert digest.main([str(tmp_path / "none"), str(tmp_path / "out")]) == digest.EXIT_USAGE
    assert "name the node's log.dirs" in capsys.readouterr().err


def test_the_logs_of_apache_kafka_are_described_as_ours(tmp_path: Path) -> None:
    """Its topic ids are written `name: value`, and its metadata has records that our nodes do not know."""
    root = tmp_path / "data"
    filled(root).close()
    (root / "events-3" / "partition.metadata").write_text(f"version: 0\ntopic_id: {format_id(ID)}\n")
    log = log_of(root, "__cluster_metadata-0")
    of_kafka = [bytes([1, 27, 0, 5]), bytes([1, 200, 1, 0]), bytes([0]), b""]
    ours = encode_record(TopicRecord(name="events", topic_id=ID))
    log.append_as_leader(build_value_batch([*of_kafka, ours], 0), 1, 0)
    log.close()
    lines = described(root, tmp_path / "out.gz")
    assert [one["topic_id"] for one in lines if one["kind"] == "replica"] == ["", format_id(ID)]
    assert [(one["what"], one["offset"]) for one in lines if one["kind"] == "record"] == [("topic", 4)]

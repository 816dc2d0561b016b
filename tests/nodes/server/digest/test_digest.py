"""What a host says of its logs without their bytes (HX-05): every batch, where it stands, and what is damaged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from squall.nodes.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
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
    assert [(one["what"], one["offset"]) for one in told] == [
        ("topic", 0),
        ("partition", 1),
        ("change", 2),
        ("change", 3),
        ("retention", 4),
        ("setting", 4),
        ("setting", 5),
    ]
    assert {one["topic_id"] for one in told[:4]} == {format_id(ID)}
    assert told[1]["leader_epoch"] == 0
    assert told[2] == told[2] | {"leader": 2, "isr": [2]}
    assert "leader" not in told[3]
    assert {one["facts"]["batch"] for one in told if "facts" in one} == {0}
    assert told[1]["facts"]["replicas"] == [1, 2]
    assert told[6]["facts"] == {
        "batch": 0,
        "epoch": 1,
        "resource": [2, "events"],
        "name": "segment.bytes",
        "value": "1000",
    }


def test_the_metadata_log_tells_of_brokers_features_and_producer_ids(tmp_path: Path) -> None:
    log = log_of(tmp_path / "data", "__cluster_metadata-0")
    records = [
        RegisterBrokerRecord(broker_id=1, broker_epoch=0),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=-1),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, in_controlled_shutdown=1),
        FenceBrokerRecord(id=1, epoch=0),
        FeatureLevelRecord(name="metadata.version", feature_level=20),
        ProducerIdsRecord(broker_id=1, broker_epoch=0, next_producer_id=1000),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=0),
    ]
    log.append_as_leader(build_value_batch([encode_record(one) for one in records], 0), 1, 0)
    log.close()
    told = [one for one in described(tmp_path / "data", tmp_path / "out.gz") if one["kind"] == "record"]
    assert {one["facts"]["epoch"] for one in told} == {1}
    assert [
        (one["what"], {name: fact for name, fact in one["facts"].items() if name != "epoch"} | {"batch": None})
        for one in told
    ] == [
        ("broker", {"batch": None, "broker": 1, "number": 0, "fenced": True, "stopping": False}),
        ("broker_changed", {"batch": None, "broker": 1, "fenced": False}),
        ("broker_changed", {"batch": None, "broker": 1, "stopping": True}),
        ("broker_changed", {"batch": None, "broker": 1, "fenced": True}),
        ("feature", {"batch": None, "name": "metadata.version", "number": 20}),
        ("producer_ids", {"batch": None, "number": 1000}),
        ("broker_removed", {"batch": None, "broker": 1}),
    ]


def metadata_from_offset_4(root: Path) -> None:
    """A metadata log of six batches, which begins at offset 4 since a snapshot holds what was before."""
    log = log_of(root, "__cluster_metadata-0")
    for level in range(6):
        values = [encode_record(FeatureLevelRecord(name="f", feature_level=level))]
        log.append_as_leader(build_value_batch(values, 0), 1, 0)
    log.advance_start(4)
    log.close()


def test_records_of_a_snapshot_are_in_no_batch_and_stand_before_the_log(tmp_path: Path) -> None:
    """SN-01: they say how things stood, and are no decisions."""
    metadata_from_offset_4(tmp_path / "data")
    write_offsets(RealDisk(tmp_path / "data"), digest.LOG_STARTS, {("__cluster_metadata", 0): 4})
    snapshot = build_value_batch([encode_record(FeatureLevelRecord(name="f", feature_level=3))], 0)
    (tmp_path / "data" / "__cluster_metadata-0" / "00000000000000000004-0000000001.checkpoint").write_bytes(snapshot)
    told = [one for one in described(tmp_path / "data", tmp_path / "out.gz") if one["kind"] == "record"]
    assert [(one["offset"], one["facts"]["batch"], one["facts"]["number"]) for one in told] == [
        (3, -1, 3),
        (4, 4, 4),
        (5, 5, 5),
    ]


def test_a_metadata_log_with_a_gap_is_not_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A segment that was removed while the log was read took records with it: who is in sync is not known."""
    monkeypatch.setattr(digest, "AGAIN_SECONDS", 0)
    metadata_from_offset_4(tmp_path / "data")
    directory = tmp_path / "data" / "__cluster_metadata-0"
    kept = min(directory.glob("*.log"))
    content = [bytes(batch) for header, batch in digest.batches_in(kept) if header.base_offset >= 4]
    kept.unlink()
    (directory / f"{4:020}.log").write_bytes(b"".join(content))
    assert digest.main([str(tmp_path / "data"), str(tmp_path / "out.gz")]) == digest.EXIT_FAILED
    assert "came and went" in capsys.readouterr().err
    assert not (tmp_path / "out.gz").exists()


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

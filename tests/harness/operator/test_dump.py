"""Dumps of files: segments, the metadata log, snapshots; what is printed, and the exit status for damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from squall.harness.cli.main import status_of
from squall.harness.operator.metadata_content import SnapshotFooterRecord, SnapshotHeaderRecord
from squall.nodes.metadata.records import FenceBrokerRecord, TopicRecord, encode_record
from squall.nodes.protocol.compiler import encode_bytes
from squall.nodes.protocol.record import Record
from squall.nodes.protocol.records import build_batch, control_key
from squall.nodes.protocol.topic_partition import parse_id

FIRST = f"{0:020d}.log"
SECOND = f"{3:020d}.log"
Dump = Callable[..., tuple[int, str, str]]


@pytest.fixture
def dump(capsys: pytest.CaptureFixture[str]) -> Dump:
    """Carry out a command; its status, output and complaints."""

    def carry_out(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = status_of(["cluster", *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return carry_out


def json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The directory of a log of two segments, with an epoch checkpoint."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    headers = (("trace", b"\x00\x01"),)
    records = [Record(key=b"k", value="wert ä".encode(), headers=headers), Record(value=None), Record(value=b"\xff")]
    first = build_batch(records, base_offset=0, leader_epoch=1, timestamp=1_000, producer_id=7, producer_epoch=0)
    (directory / FIRST).write_bytes(first)
    second = build_batch([Record(value=b"last")], base_offset=3, leader_epoch=2, timestamp=2_000)
    (directory / SECOND).write_bytes(second)
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n2 3\n")
    return directory


def test_batches_of_all_segments_are_printed(dump: Dump, log: Path) -> None:
    status, out, _ = dump("log", "dump", log)
    assert status == 0
    assert "batch 0..2 epoch 1 count 3 at 0" in out and "batch 3..3 epoch 2" in out and "producer 7/0" in out
    assert out.splitlines()[-1].startswith("2 files, 2 batches, 4 records,") and out.endswith("no problem\n")


def test_records_are_printed_when_asked_for(dump: Dump, log: Path) -> None:
    assert "wert" not in dump("log", "dump", log)[1]
    out = dump("log", "dump", log, "--records")[1]
    assert "0 key 'k' value 'wert ä' headers trace=0x0001" in out
    assert "1 key - value -" in out and "2 key - value 0xff" in out


def test_offsets_choose_what_is_printed_not_what_is_verified(dump: Dump, log: Path) -> None:
    out = dump("log", "dump", log, "--records", "--from", 1, "--to", 2)[1]
    assert "    1 key" in out and "    2 key" in out and "    0 key" not in out and "batch 3..3" not in out
    assert "2 files, 2 batches, 4 records" in out


def test_json_has_an_object_a_line_and_a_summary_at_the_end(dump: Dump, log: Path) -> None:
    lines = json_lines(dump("log", "dump", log, "--records", "--json")[1])
    assert [next(iter(line)) for line in lines] == ["batch", "record", "record", "record", "batch", "record", "summary"]
    assert lines[0]["batch"]["count"] == 3 and lines[1]["record"]["headers"] == {"trace": "0x0001"}
    assert lines[-1]["summary"]["problems"] == []


def test_damage_is_told_with_file_byte_and_offset_and_fails(dump: Dump, log: Path) -> None:
    content = bytearray((log / FIRST).read_bytes())
    content[-1] ^= 1
    (log / FIRST).write_bytes(content)
    status, out, _ = dump("log", "dump", log, "--problems")
    assert status == 1
    assert f"PROBLEM {FIRST} at byte 0, offset 0: the CRC-32C" in out and "batch 3..3" not in out
    assert out.endswith("1 problem\n")
    (problem,) = json_lines(dump("log", "dump", log, "--json")[1])[-1]["summary"]["problems"]
    assert problem["offset"] == 0 and problem["file"].endswith(FIRST)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (FIRST.replace(".log", ".index"), b"\0\0\0\1\0\0\0\7", "byte 7, where no batch begins"),
        ("leader-epoch-checkpoint", b"0\n1\n1 0\n", "lacks epoch 2"),
        (f"{1:020d}.log", b"", "before the end of the last one"),
    ],
)
def test_what_lies_beside_a_segment_is_verified_too(
    dump: Dump, log: Path, name: str, content: bytes, said: str
) -> None:
    (log / name).write_bytes(content)
    status, out, _ = dump("log", "dump", log)
    assert status == 1 and said in out


def test_a_data_directory_is_walked_log_by_log(dump: Dump, log: Path) -> None:
    other = log.parent / "orders-1"
    other.mkdir()
    (other / FIRST).write_bytes(build_batch([Record(value=b"x")], leader_epoch=0))
    status, out, _ = dump("log", "dump", log.parent)
    assert status == 0 and out.startswith(f"{log / FIRST}\n") and "3 files" in out


def test_one_segment_in_the_middle_of_a_log_can_be_looked_at(dump: Dump, log: Path) -> None:
    status, out, _ = dump("log", "dump", log / SECOND)
    assert status == 0 and "1 file, 1 batch, 1 record" in out


@pytest.mark.parametrize("kind", ["log", "metadata", "snapshot"])
def test_what_is_not_there_is_refused(dump: Dump, tmp_path: Path, kind: str) -> None:
    status, _, err = dump(kind, "dump", tmp_path / "nowhere")
    assert status == 254 and "there is no such file or directory" in err
    status, _, err = dump(kind, "dump", tmp_path)
    assert status == 254 and str(tmp_path) in err and "in it or below" in err


def test_a_file_of_another_kind_is_refused(dump: Dump, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    status, _, err = dump("log", "dump", tmp_path / "notes.txt")
    assert status == 254 and "is not the name of a segment" in err


# -- metadata and snapshots ----------------------------------------------------------------------------------------

TOPIC = TopicRecord(name="orders", topic_id=parse_id("AAECAwQFBgcICQoLDA0ODw"))
VALUES = [encode_record(TOPIC), encode_record(FenceBrokerRecord(id=2, epoch=9)), b"\x01\x63\x00??"]


@pytest.fixture
def metadata(log: Path) -> Path:
    """A data directory with the metadata log beside another."""
    directory = log.parent / "__cluster_metadata-0"
    directory.mkdir()
    batch = build_batch([Record(value=value) for value in VALUES], leader_epoch=5)
    (directory / FIRST).write_bytes(batch)
    return log.parent


def snapshot(*, epoch: int = 5, header: bool = True, footer: bool = True) -> bytes:
    """A snapshot as Kafka writes it: a header, records, a footer, each in a batch of its own."""
    head = Record(key=control_key(3), value=encode_bytes(SnapshotHeaderRecord(last_contained_log_timestamp=77), 0))
    foot = Record(key=control_key(4), value=encode_bytes(SnapshotFooterRecord(), 0))
    content, offset = bytearray(), 0
    for records, control in (([head], True), ([Record(value=one) for one in VALUES], False), ([foot], True)):
        if control and not (header if records[0] is head else footer):
            continue
        content += build_batch(records, base_offset=offset, leader_epoch=epoch, control=control)
        offset += len(records)
    return bytes(content)


def test_the_metadata_log_is_shown_by_name_and_field(dump: Dump, metadata: Path) -> None:
    status, out, _ = dump("metadata", "dump", metadata)
    assert status == 0
    assert "0 epoch 5 TopicRecord name=orders topic_id=AAECAwQFBgcICQoLDA0ODw" in out
    assert "1 epoch 5 FenceBrokerRecord id=2 epoch=9" in out and "2 epoch 5 record 99 (" in out
    assert "wert" not in out, "other logs are left out"
    assert "1 record not known here: no problem" in out


def test_records_are_chosen_by_name(dump: Dump, metadata: Path) -> None:
    lines = json_lines(dump("metadata", "dump", metadata, "--type", "FenceBrokerRecord", "--json")[1])
    assert [line["record"]["fields"] for line in lines[:-1]] == [{"id": 2, "epoch": 9}]
    status, _, err = dump("metadata", "dump", metadata, "--type", "FenceBroker")
    assert status == 254 and "did you mean `FenceBrokerRecord`?" in err


def test_a_malformed_metadata_record_is_a_problem(dump: Dump, metadata: Path) -> None:
    file = metadata / "__cluster_metadata-0" / FIRST
    file.write_bytes(build_batch([Record(value=VALUES[0][:-3])], leader_epoch=5))
    for arguments in ((), ("--problems",), ("--type", "FenceBrokerRecord")):
        status, out, _ = dump("metadata", "dump", metadata, *arguments)
        assert status == 1 and "offset 0: TopicRecord: malformed" in out


def test_a_snapshot_is_shown_from_header_to_footer(dump: Dump, tmp_path: Path) -> None:
    file = tmp_path / f"{42:020d}-{5:010d}.checkpoint"
    file.write_bytes(snapshot())
    status, out, _ = dump("snapshot", "dump", tmp_path)
    assert status == 0
    shown = [line.split()[3] for line in out.splitlines()[1:-1]]
    assert shown == ["SnapshotHeader", "TopicRecord", "FenceBrokerRecord", "record", "SnapshotFooter"]
    assert "last_contained_log_timestamp=77" in out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (snapshot(header=False), "begins with a SnapshotHeader"),
        (snapshot(footer=False), "ends with a SnapshotFooter"),
        (b"", "begins with a SnapshotHeader"),
        (snapshot()[:-1], "torn write"),
        (snapshot(epoch=4), "a batch of epoch 4 in a snapshot whose name says epoch 5"),
    ],
)
def test_an_incomplete_snapshot_is_a_problem(dump: Dump, tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / f"{42:020d}-{5:010d}.checkpoint"
    file.write_bytes(content)
    status, out, _ = dump("snapshot", "dump", file)
    assert status == 1 and said in out


def test_every_cut_of_a_snapshot_is_a_problem(dump: Dump, tmp_path: Path) -> None:
    whole = snapshot()
    file = tmp_path / f"{42:020d}-{5:010d}.checkpoint"
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        assert dump("snapshot", "dump", file)[0] == 1, f"{length} of {len(whole)} bytes"
